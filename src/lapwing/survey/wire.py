"""The public description of a survey, and the message that a respondent's browser sends.

The message is JSON with fixed keys in a fixed order, and every part of it has a fixed length, so its length is the same
for every answer to a survey, and for none. Checked by: tests/survey/test_wire.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from lapwing.collect.local import ReportRows
from lapwing.collect.probabilities import WORD
from lapwing.errors import Code, LapwingError, Misconfigured
from lapwing.survey.definition import Survey, decimal_text
from lapwing.survey.program import run

FORMAT = 1
NONCE_BYTES = 16
CODE = re.compile(r"[a-z2-7]{26}")
"""An invitation: 130 bits, as letters that are easy to read aloud."""


class Malformed(LapwingError):
    """A message that no respondent's browser sends. It is refused, and nothing of it is kept."""

    code: Code = "misconfigured"


class OtherSurvey(Malformed):
    """A message to another survey, or to this one before it was changed."""


@dataclass(frozen=True, slots=True)
class ReportMessage:
    """One respondent's reports, as they arrived."""

    nonce: bytes
    """Drawn by the respondent's browser; it tells a second copy from a second respondent."""
    report: bytes
    invitation: str = ""


def public_description(survey: Survey) -> dict[str, Any]:
    """Everything the form needs. `survey` in it names the rest: it changes with every change of the survey."""
    facts: dict[str, Any] = {
        "format": FORMAT,
        "title": survey.title,
        "about": survey.about,
        "run_by": survey.run_by,
        "contact": survey.contact,
        "epsilon": decimal_text(survey.epsilon),
        "invitations": survey.invitations,
        "report_from": survey.report_from,
        "questions": [
            {
                "id": question.id,
                "text": question.text,
                "help": question.help,
                "kind": question.kind,
                "options": list(question.options),
                "epsilon": decimal_text(question.epsilon),
                "number": question.number,
                "program": question.program().to_dict(),
                "odds": question.odds,
            }
            for question in survey.questions
        ],
    }
    where = "reports" if survey.url is None else f"{survey.url}/reports"
    programs = [question["program"] for question in facts["questions"]]
    return {
        "survey": sha256(canonical(facts)).hexdigest()[:32],
        **facts,
        "post": where,
        "report_bytes": sum(program["bytes"] for program in programs),
        "words": sum(program["words"] for program in programs),
    }


def canonical(value: Mapping[str, Any]) -> bytes:
    """JSON with one spelling, so that its hash can be compared."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def randomize(description: Mapping[str, Any], answers: Mapping[str, int | None], words: Sequence[int]) -> bytes:
    """The reports to all questions, as the browser makes them of these answers and these words."""
    if len(words) != description["words"] or not all(0 <= word < 1 << WORD for word in words):
        raise ValueError(f"this survey reads {description['words']} words of {WORD} bits")
    report, rest = b"", list(words)
    for question in description["questions"]:
        program = question["program"]
        own, rest = rest[: program["words"]], rest[program["words"] :]
        report += run(program, answers.get(question["id"]), own).to_bytes(program["bytes"], "little")
    return report


def message_text(description: Mapping[str, Any], nonce: bytes, report: bytes, invitation: str = "") -> str:
    """The body that the browser posts."""
    ids = {"survey": description["survey"], "nonce": nonce.hex()}
    return json.dumps({**ids, "report": report.hex(), "invitation": invitation}, separators=(",", ":"))


def message_length(survey: Survey) -> int:
    """Characters of every message to this survey."""
    sample = {"survey": "0" * 32}
    code = "a" * 26 if survey.invitations else ""
    return len(message_text(sample, bytes(NONCE_BYTES), bytes(survey.report_size), code))


class Reader:
    """Reads messages to one survey."""

    def __init__(self, survey: Survey) -> None:
        self.survey = survey
        self.id = str(public_description(survey)["survey"])
        self.length = message_length(survey)
        code = CODE.pattern if survey.invitations else ""
        pattern = (
            r'\{"survey":"([0-9a-f]{32})","nonce":"([0-9a-f]{32})",'
            rf'"report":"([0-9a-f]{{{2 * survey.report_size}}})","invitation":"({code})"\}}'
        )
        self._pattern = re.compile(pattern)
        programs = [question.program() for question in survey.questions]
        self._limits = [program.reports for program in programs]
        self._ends = [0, *accumulate(program.size for program in programs)]

    def read(self, body: bytes) -> ReportMessage:
        """The message in these bytes; raises Malformed if no browser of a respondent sent them."""
        try:
            match = self._pattern.fullmatch(body.decode("ascii"))
        except UnicodeDecodeError:
            match = None
        if match is None:
            raise Malformed("These are no reports to this survey. Load the form again and send it from there.")
        survey, nonce, digits, invitation = match.groups()
        if survey != self.id:
            raise OtherSurvey("The survey was changed after you loaded the form. Load it again.")
        report = bytes.fromhex(digits)
        if any(number >= most for number, most in zip(self.numbers(report), self._limits, strict=True)):
            raise Malformed("A report is out of its domain. Load the form again and send it from there.")
        return ReportMessage(bytes.fromhex(nonce), report, invitation)

    def numbers(self, report: bytes) -> list[int]:
        """The report to each question as a whole number."""
        return [int.from_bytes(report[a:b], "little") for a, b in pairwise(self._ends)]

    def rows(self, reports: Sequence[bytes]) -> dict[str, ReportRows]:
        """Stored reports, question by question, in the same order of respondents."""
        size = self._ends[-1]
        if any(len(report) != size for report in reports):
            raise Misconfigured(
                "A stored report has another length than this survey's. Use the survey it was made for."
            )
        table = np.frombuffer(b"".join(reports), np.uint8).reshape(len(reports), size)
        columns = zip(self.survey.questions, pairwise(self._ends), strict=True)
        return {question.id: np.ascontiguousarray(table[:, a:b]) for question, (a, b) in columns}
