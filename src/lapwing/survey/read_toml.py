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
Section = Mapping[str, Any]

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
"""The keys that a survey and its questions must have, and what to write."""


def read_survey(path: Path | str) -> Survey:
    """The survey that a file describes."""
    return parse_survey(read_toml_text(Path(path), f"lapwing survey new {path}"), str(path))


def parse_survey(text: str, name: str = "survey.toml") -> Survey:
    """The survey that a text describes; `name` is that of the file in errors."""
    return _SurveyFile(name).survey(parse_toml(text, name))


class _SurveyFile:
    def __init__(self, name: str) -> None:
        self.name = name

    def survey(self, section: Section) -> Survey:
        self._check_keys(section, {"questions", *_TOP}, "")
        sections = self._required(section, "questions", "")
        if not isinstance(sections, list) or not all(isinstance(question, Mapping) for question in sections):
            self._fail("questions", "must be a list of sections", _WHY["questions"])
        questions = tuple(self._question(question, i) for i, question in enumerate(sections, 1))
        settings = {key: self._read(section, key) for key in _TOP if key in section or key in _WHY}
        return self._locate("", lambda: Survey(questions=questions, **settings))

    def _question(self, section: Section, number: int) -> SurveyQuestion:
        name = self._read(section, "id", f"questions[{number}].")
        at = f"questions.{name}."
        kind = self._required(section, "kind", at)
        if not isinstance(kind, str) or kind not in _KINDS:
            self._fail(f"{at}kind", f"is {kind!r}", _WHY["kind"])
        self._check_keys(section, _EVERY | _KINDS[kind], at, f' A question of the kind "{kind}" has no such key.')
        fields = {"id": name, "text": self._read(section, "text", at), "help": self._read(section, "help", at, "")}
        fields["epsilon"] = self._read(section, "epsilon", at, LN_3 if kind == "two-coins" else None)
        if kind == "two-coins" and fields["epsilon"] != LN_3:
            rule = f"is {fields['epsilon']}; two coins cost ln 3, which is 1.09862"
            self._fail(f"{at}epsilon", rule, 'Leave it out, or ask "yes-no".')
        if "options" in _KINDS[kind]:
            fields["options"] = self._read(section, "options", at)
        if kind == "number":
            fields["low"], fields["high"] = self._read(section, "range", at)
            fields |= {key: self._read(section, key, at) for key in ("step", "unit") if key in section}
            fields["declared_points"] = self._read(section, "points", at) if "points" in section else None
        make = {"yes-no": YesNo, "two-coins": Coins, "choice": OneOf, "several": Several, "number": Numeric}[kind]
        question: SurveyQuestion = self._locate(at.rstrip("."), lambda: make(**fields))
        return question

    def _read(self, section: Section, key: str, at: str = "", default: Any = None) -> Any:
        if default is not None and key not in section:
            return default
        value = self._required(section, key, at)
        return self._locate(f"{at}{key}", lambda: {**_TOP, **_OF_QUESTIONS}[key](value, key))

    def _required(self, section: Section, key: str, at: str) -> Any:
        if key not in section:
            self._fail(f"{at}{key}", "is missing", _WHY[key])
        return section[key]

    def _check_keys(self, section: Section, names: set[str], at: str, more: str = "") -> None:
        for key in section:
            if key not in names:
                near = difflib.get_close_matches(key, names, 1)
                fix = f"Did you mean `{near[0]}`?" if near else f"Use {', '.join(sorted(names))}."
                if at and (key in _TOP or key == "questions"):
                    fix = "It is about the whole survey: move it above the first [[questions]]."
                self._fail(f"{at}{key}", "is not a known key", fix + more)

    def _locate(self, key: str, read: Callable[[], T]) -> T:
        """What `read` returns; its errors name the file and the key."""
        try:
            return read()
        except LapwingError as error:
            where = f"{self.name}: {key}" if key else self.name
            raise Misconfigured(f"{where}: {error}", located=True) from None

    def _fail(self, key: str, rule: str, fix: str) -> NoReturn:
        raise Misconfigured(f"{self.name}: `{key}` {rule}. {fix}", located=True)


def _read_text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Misconfigured(f"`{name}` must be text. Put it in quotes.")
    if len(value) > _LONGEST or "\0" in value:
        raise Misconfigured(f"`{name}` must be text of at most {_LONGEST:,} ordinary characters.")
    return value.strip()


def _read_texts(value: object, name: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise Misconfigured(f"`{name}` must be a list of texts. Put it in brackets.")
    return tuple(_read_text(text, name) for text in value)


def _read_flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise Misconfigured(f"`{name}` must be true or false, without quotes.")
    return value


def _read_audience(value: object, name: str) -> str:
    if value not in ("link", "public"):
        raise Misconfigured(f'`{name}` must be "link" or "public".')
    return str(value)


def _read_range(value: object, name: str) -> tuple[Fraction, ...]:
    if not isinstance(value, list) or len(value) != 2:
        raise Misconfigured(f"`{name}` must be two numbers. {_WHY[name]}")
    return tuple(exact(end, name) for end in value)


_TOP: dict[str, Callable[[Any, str], Any]] = {
    "title": _read_text,
    "run_by": _read_text,
    "contact": _read_text,
    "epsilon": positive,
    "report_from": count,
    "about": _read_text,
    "invitations": _read_flag,
    "results": _read_audience,
    "confidence": inside_unit,
    "url": lambda value, name: _read_text(value, name).rstrip("/"),
    "origins": _read_texts,
    "per_minute": count,
}
_OF_QUESTIONS: dict[str, Callable[[Any, str], Any]] = {
    "id": _read_text,
    "text": _read_text,
    "help": _read_text,
    "options": _read_texts,
    "range": _read_range,
    "step": positive,
    "unit": _read_text,
    "points": count,
}
