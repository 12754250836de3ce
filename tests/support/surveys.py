"""Surveys that tests share."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from lapwing.survey import Survey, parse_survey
from lapwing.survey.program import run
from lapwing.survey.survey_question import SurveyQuestion
from support.tape import SeededBits

QUESTIONS = {
    "overtime": 'kind = "yes-no"\nepsilon = 1',
    "coins": 'kind = "two-coins"',
    "mood": 'kind = "choice"\noptions = ["good", "fair", "poor"]\nepsilon = 1',
    "month": 'kind = "choice"\noptions = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]\nepsilon = 1',
    "trouble": 'kind = "several"\noptions = ["conflict", "sleep", "leaving"]\nepsilon = 1',
    "hours": 'kind = "number"\nrange = [0, 80]\nunit = "hours"\nepsilon = 1',
}
TOTALS = {"coins": "1.09862"}


def survey_text(*names: str, **settings: Any) -> str:
    """A survey.toml with these questions, or one of each kind."""
    chosen = names or tuple(QUESTIONS)
    total = float(sum((Fraction(TOTALS.get(name, "1")) for name in chosen), Fraction(0)))
    head = {"title": '"How we work"', "run_by": '"Us"', "contact": '"us@example.org"', "epsilon": f"{total:.10g}"}
    more = {name: str(one).lower() if isinstance(one, bool) else repr(one) for name, one in settings.items()}
    head |= {"report_from": "50"} | more
    parts = ["\n".join(f"{name} = {value}" for name, value in head.items())]
    parts += [f'[[questions]]\nid = "{name}"\ntext = "{name}?"\n{QUESTIONS[name]}' for name in chosen]
    return "\n\n".join(parts)


def simulated(question: SurveyQuestion, answers: Sequence[int | None], bits: SeededBits) -> Any:
    """The reports of respondents with these answers, as rows of bytes."""
    program = question.program()
    facts = program.to_dict()
    words = bits.words(len(answers) * program.words, 64).reshape(len(answers), -1).tolist()
    made = b"".join(run(facts, one, w).to_bytes(program.size, "little") for one, w in zip(answers, words, strict=True))
    return np.frombuffer(made, np.uint8).reshape(len(answers), program.size)


def survey(*names: str, **settings: Any) -> Survey:
    return parse_survey(survey_text(*names, **settings))
