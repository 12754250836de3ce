"""From stored reports to results: shares with intervals, or that there are too few reports."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from lapwing.answers.formats import guarded
from lapwing.collect.local import Reports
from lapwing.collect.protocol import JointTable, estimate_joint
from lapwing.errors import Misconfigured
from lapwing.numbers import count
from lapwing.privacy.phrases import percent
from lapwing.survey.definition import Survey, decimal_text
from lapwing.survey.survey_question import Estimated
from lapwing.survey.wire import Reader


@dataclass(frozen=True, slots=True)
class SurveyResults:
    """The estimates of a survey, question by question. Empty below the declared number of reports."""

    survey: Survey
    id: str
    n: int
    estimated: dict[str, Estimated]

    @property
    def enough(self) -> bool:
        return self.n >= self.survey.report_from

    @property
    def message(self) -> str:
        """How far the results can be used, in one or two sentences."""
        reports = f"{self.n:,} report{'' if self.n == 1 else 's'}"
        if self.enough:
            return f"{reports}. Intervals hold at {percent(self.survey.confidence)} for those who took part."
        wide = self.half_width(max(self.survey.questions, key=lambda question: question.variance()).id)
        error = "" if wide is None else f" At n = {self.n} an interval reaches about {wide:.2f} to each side."
        return f"{reports} of the {self.survey.report_from:,} needed.{error} Do not report results yet."

    def half_width(self, question: str) -> float | None:
        """About how far an interval of a share reaches to each side, known before any answer: at most 1."""
        if not self.n:
            return None
        quantile = -NormalDist().inv_cdf(float(1 - self.survey.confidence) / 2)
        return min(1.0, quantile * math.sqrt(self.survey.question(question).variance() / self.n))

    def moved_by(self, question: str, hostile: int) -> float:
        """The most that this many respondents who send what they like can move a share of this question."""
        self.survey.question(question)
        if question not in self.estimated:
            raise Misconfigured(f"There are no results below {self.survey.report_from} reports. Wait for more.")
        return min(1.0, count(hostile, "hostile", least=0) * self.estimated[question].moved_by_one)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "survey": self.id,
            "title": self.survey.title,
            "n": self.n,
            "report_from": self.survey.report_from,
            "enough": self.enough,
            "confidence": float(self.survey.confidence),
            "level": percent(self.survey.confidence),
            "epsilon": decimal_text(self.survey.epsilon),
            "message": self.message,
            "questions": [self._question(question.id) for question in self.survey.questions],
        }

    def _question(self, name: str) -> dict[str, Any]:
        question, estimate = self.survey.question(name), self.estimated.get(name)
        return {
            "id": name,
            "text": question.text,
            "kind": question.kind,
            "epsilon": decimal_text(question.epsilon),
            "points": question.number is not None,
            "values": [asdict(value) for value in estimate.values] if estimate else [],
            "mean": asdict(estimate.mean) if estimate and estimate.mean else None,
            "moved_by_one": estimate.moved_by_one if estimate else None,
            "half_width": self.half_width(name),
            "note": estimate.note if estimate else "",
        }

    def to_csv(self) -> str:
        """A line for each share and each mean."""
        rows: list[list[object]] = [["question", "value", "estimate", "low", "high", "reports"]]
        for name, estimate in self.estimated.items():
            rows += [
                [name, guarded(value.label), value.share, value.low, value.high, value.n] for value in estimate.values
            ]
            if mean := estimate.mean:
                rows.append([name, "(mean)", mean.mean, mean.low, mean.high, self.n])
        return _csv(rows)

    def __str__(self) -> str:
        lines = [self.survey.title, self.message]
        for question in self.survey.questions:
            estimate = self.estimated.get(question.id)
            lines += ["", f"{question.text}  (epsilon = {decimal_text(question.epsilon)})"]
            if estimate is None:
                lines.append("  do not report yet")
                continue
            width = max(len(value.label) for value in estimate.values)
            for value in estimate.values:
                lines.append(f"  {value.label:{width}}  {value.share:7.1%}   {value.low:6.1%} to {value.high:6.1%}")
            if mean := estimate.mean:
                unit = f" {mean.unit}" if mean.unit else ""
                lines.append(f"  mean of who answered  {mean.mean:.4g}{unit}, {mean.low:.4g} to {mean.high:.4g}")
            lines += [f"  {estimate.note}"] if estimate.note else []
            lines.append(f"  One hostile respondent can move a share by {estimate.moved_by_one:.2g}.")
        return "\n".join(lines)


def joint_csv(table: JointTable) -> str:
    """A line for each pair of values."""
    first, second, share = table.table().columns
    labels = ([guarded(str(value)) for value in column.values] for column in (first, second))
    numbers = (np.asarray(values).tolist() for values in (share.values, share.low, share.high))
    return _csv([["first", "second", "share", "share_low", "share_high"], *zip(*labels, *numbers, strict=True)])


def _csv(rows: Iterable[Iterable[object]]) -> str:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    return written.getvalue()


def results(survey: Survey, reports: Sequence[bytes]) -> SurveyResults:
    """The results of these reports. Below `report_from` nothing is estimated."""
    reader = Reader(survey)
    if len(reports) < survey.report_from:
        return SurveyResults(survey, reader.id, len(reports), {})
    rows = reader.rows(reports)
    estimated = {question.id: question.estimate(rows[question.id], survey.confidence) for question in survey.questions}
    return SurveyResults(survey, reader.id, len(reports), estimated)


def joint_results(survey: Survey, reports: Sequence[bytes], first: str, second: str) -> JointTable:
    """The joint table of two questions, with intervals. Their epsilons were spent anyway: it costs nothing more."""
    if first == second:
        raise Misconfigured("A joint table is of two questions. Name another one.")
    protocols = [survey.question(name).protocol for name in (first, second)]
    if len(reports) < survey.report_from:
        raise Misconfigured(
            f"There are {len(reports)} of the {survey.report_from} reports that this survey needs. "
            "Do not report results yet."
        )
    rows = Reader(survey).rows(reports)
    pairs = [(own, Reports(own.name, rows[name])) for own, name in zip(protocols, (first, second), strict=True)]
    return estimate_joint(pairs[0], pairs[1], confidence=survey.confidence)
