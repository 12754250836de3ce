"""survey.toml: from the file to a survey. Every error names the file, the key and what to write."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from lapwing.curator.settings import parse_toml, read_toml_text
from lapwing.errors import LapwingError, Misconfigured
from lapwing.numbers import count, exact, inside_unit, positive
from lapwing.survey.definition import Survey
from lapwing.survey.multiple_choice import Several
from lapwing.survey.numeric import Numeric
from lapwing.survey.survey_question import LN_3, Coins, OneOf, SurveyQuestion, YesNo

T = TypeVar("T")

_TOP = {
    *("title", "about", "run_by", "contact", "epsilon", "report_from", "invitations", "results", "confidence", "url"),
    *("origins", "per_minute", "questions"),
}
_EVERY = {"id", "text", "help", "kind", "epsilon"}
_KINDS: dict[str, set[str]] = {
    "yes-no": set(),
    "two-coins": set(),
    "choice": {"options"},
    "several": {"options"},
    "number": {"range", "step", "unit", "points"},
}
_LONGEST = 2_000
_WHY = {
    "title": 'Write what respondents read first, such as title = "How we work".',
    "run_by": 'Say who runs the survey, such as run_by = "Statistics group".',
    "contact": 'Say where respondents can ask, such as contact = "survey@example.org".',
    "epsilon": "Say what one respondent loses: in all, above the first [[questions]], and in each. Write epsilon = 1.",
    "report_from": "Say from how many reports on results are shown, such as report_from = 100.",
    "questions": "Write a [[questions]] section for each question.",
    "id": 'Give the question a short name, such as id = "smokes".',
    "text": "Write what is asked.",
    "kind": f"Write one of {', '.join(_KINDS)}.",
    "options": 'List what can be chosen, such as options = ["one", "another"].',
    "range": "Write the least and the largest number, such as range = [0, 80].",
}


def read_survey(path: Path | str) -> Survey:
    """The survey that a file describes."""
    return parse_survey(read_toml_text(Path(path), f"lapwing survey new {path}"), str(path))


def parse_survey(text: str, name: str = "survey.toml") -> Survey:
    """The survey that a text describes; `name` stands in its errors."""
    return _SurveyFile(name).survey(parse_toml(text, name))


class _SurveyFile:
    def __init__(self, name: str) -> None:
        self.name = name

    def survey(self, found: Mapping[str, Any]) -> Survey:
        self._known(found, _TOP, "")
        listed = self._required(found, "questions", "")
        if not isinstance(listed, list) or not all(isinstance(one, Mapping) for one in listed):
            self._fail("questions", "must be a list of sections", _WHY["questions"])
        questions = tuple(self._question(one, i) for i, one in enumerate(listed, 1))
        read: dict[str, Any] = {
            "title": self._text(self._required(found, "title", ""), "title"),
            "run_by": self._text(self._required(found, "run_by", ""), "run_by"),
            "contact": self._text(self._required(found, "contact", ""), "contact"),
            "epsilon": self._at("epsilon", lambda: positive(self._required(found, "epsilon", ""), "epsilon")),
            "report_from": self._at(
                "report_from", lambda: count(self._required(found, "report_from", ""), "report_from")
            ),
        }
        for key, reader in _OPTIONAL.items():
            if key in found:
                read[key] = self._at(key, lambda reader=reader, key=key: reader(found[key], key))  # type: ignore[misc]
        return self._at("", lambda: Survey(questions=questions, **read))

    def _question(self, found: Mapping[str, Any], number: int) -> SurveyQuestion:
        at = f"questions[{number}]"
        name = self._text(self._required(found, "id", f"{at}."), f"{at}.id")
        at = f"questions.{name}"
        kind = self._required(found, "kind", f"{at}.")
        if not isinstance(kind, str) or kind not in _KINDS:
            self._fail(f"{at}.kind", f"is {kind!r}", _WHY["kind"])
        self._known(found, _EVERY | _KINDS[kind], f"{at}.", f' A question of the kind "{kind}" has no such key.')
        shared: dict[str, Any] = {
            "id": name,
            "text": self._text(self._required(found, "text", f"{at}."), f"{at}.text"),
            "help": self._text(found["help"], f"{at}.help") if "help" in found else "",
            "epsilon": self._epsilon(found, kind, at),
        }
        return self._at(at, lambda: self._made(found, kind, at, shared))

    def _made(self, found: Mapping[str, Any], kind: str, at: str, shared: dict[str, Any]) -> SurveyQuestion:
        match kind:
            case "yes-no":
                return YesNo(**shared)
            case "two-coins":
                return Coins(**shared)
            case "choice" | "several":
                options = _texts(self._required(found, "options", f"{at}."), "options")
                return OneOf(**shared, listed=options) if kind == "choice" else Several(**shared, listed=options)
            case _:
                ends = self._required(found, "range", f"{at}.")
                if not isinstance(ends, list) or len(ends) != 2:
                    self._fail(f"{at}.range", "must be two numbers", _WHY["range"])
                low, high = (exact(end, "range") for end in ends)
                return Numeric(
                    **shared,
                    low=low,
                    high=high,
                    step=positive(found.get("step", 1), "step"),
                    unit=self._text(found["unit"], f"{at}.unit") if "unit" in found else "",
                    declared_points=count(found["points"], "points") if "points" in found else None,
                )

    def _epsilon(self, found: Mapping[str, Any], kind: str, at: str) -> Fraction:
        if kind != "two-coins":
            return self._at(f"{at}.epsilon", lambda: positive(self._required(found, "epsilon", f"{at}."), "epsilon"))
        given = self._at(f"{at}.epsilon", lambda: positive(found.get("epsilon", LN_3), "epsilon"))
        if given != LN_3:
            self._fail(
                f"{at}.epsilon", f"is {given}; two coins cost ln 3, which is 1.09862", 'Leave it out, or ask "yes-no".'
            )
        return given

    def _required(self, found: Mapping[str, Any], key: str, at: str) -> Any:
        if key not in found:
            self._fail(f"{at}{key}", "is missing", _WHY[key])
        return found[key]

    def _text(self, value: Any, key: str) -> str:
        return self._at(key, lambda: _read_text(value, key))

    def _known(self, found: Mapping[str, Any], names: set[str], at: str, more: str = "") -> None:
        for key in found:
            if key not in names:
                near = difflib.get_close_matches(key, names, 1)
                fix = f"Did you mean `{near[0]}`?" if near else f"Use {', '.join(sorted(names))}."
                if at and key in _TOP:
                    fix = "It is about the whole survey: move it above the first [[questions]]."
                self._fail(f"{at}{key}", "is not a known key", fix + more)

    def _at(self, key: str, read: Callable[[], T]) -> T:
        try:
            return read()
        except LapwingError as error:
            if isinstance(error, Misconfigured) and error.located:
                raise
            where = f"{self.name}: {key}" if key else self.name
            raise Misconfigured(f"{where}: {error}", located=True) from None

    def _fail(self, key: str, rule: str, fix: str) -> NoReturn:
        raise Misconfigured(f"{self.name}: `{key}` {rule}. {fix}", located=True)


def _read_text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Misconfigured(f"`{name.rsplit('.', 1)[-1]}` must be text. Put it in quotes.")
    if len(value) > _LONGEST or "\0" in value:
        raise Misconfigured(f"`{name.rsplit('.', 1)[-1]}` must be text of at most {_LONGEST:,} ordinary characters.")
    return value.strip()


def _texts(value: object, name: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise Misconfigured(f"`{name}` must be a list of texts. Put it in brackets.")
    return tuple(_read_text(one, name) for one in value)


def _flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise Misconfigured(f"`{name}` must be true or false, without quotes.")
    return value


def _who(value: object, name: str) -> str:
    if value not in ("link", "public"):
        raise Misconfigured(f'`{name}` must be "link" or "public".')
    return str(value)


_OPTIONAL: dict[str, Callable[[Any, str], Any]] = {
    "about": _read_text,
    "invitations": _flag,
    "results": _who,
    "confidence": inside_unit,
    "url": lambda value, name: _read_text(value, name).rstrip("/"),
    "origins": _texts,
    "per_minute": count,
}
