"""A survey: its questions, what they cost a respondent together, and who runs it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from typing import Literal
from urllib.parse import urlsplit

from lapwing.errors import Misconfigured
from lapwing.survey.survey_question import SurveyQuestion

ResultsFor = Literal["link", "public"]
"""Who may read the results: holders of the link that `lapwing survey serve` prints, or everyone."""

MOST_QUESTIONS = 50
_MOST_DIGITS = 15_000  # an epsilon that ends has fewer
_ID = re.compile(r"[a-z][a-z0-9_]{0,39}")
_ADDRESS = re.compile(r"https?://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A survey.

    Guarantee:  all that a respondent sends is one report a question, so it is pure DP with `epsilon`, the exact sum of
                the questions' epsilons, for a change of all answers together.
    Proof:      reports to different questions are randomized by different words, so their losses add up; a second
                report of the same respondent is not made: the device keeps the first, and sends it again.
    Again:      the same questions in another survey cost epsilon again, for the answers to both together. Whether
                somebody answers again is visible: respondents who do so only after a change show the change.
    """

    title: str
    run_by: str
    contact: str
    questions: tuple[SurveyQuestion, ...]
    epsilon: Fraction
    """What all questions cost one respondent together."""
    report_from: int
    """The least number of reports from which results are shown."""
    about: str = ""
    invitations: bool = False
    results: ResultsFor = "link"
    confidence: Fraction = Fraction(95, 100)
    url: str | None = None
    """Where the server is, for a form that is hosted elsewhere."""
    origins: tuple[str, ...] = ()
    """Other places that may host the form."""
    per_minute: int = 600
    """Requests a minute from one network address."""

    def __post_init__(self) -> None:
        ids = [question.id for question in self.questions]
        if not 1 <= len(ids) <= MOST_QUESTIONS:
            raise Misconfigured(
                f"A survey has 1 to {MOST_QUESTIONS} questions. Write a [[questions]] section for each."
            )
        for name in ids:
            if not _ID.fullmatch(name):
                raise Misconfigured(
                    f"`id` is {name!r}; it must be a short name of small letters, digits and _, such as smokes."
                )
            if ids.count(name) > 1:
                raise Misconfigured(f"Two questions have the id {name!r}. Give each its own.")
        total = sum((question.epsilon for question in self.questions), Fraction(0))
        if self.epsilon != total:
            raise Misconfigured(
                f"`epsilon` is {decimal_text(self.epsilon)}, but the questions add up to {decimal_text(total)}. "
                "State what one respondent loses in all, or change the epsilon of a question."
            )
        if self.url is not None and not is_address(self.url):
            raise Misconfigured(
                "`url` must be where the server is, as browsers write it: small letters and digits, without a name or "
                "password, such as https://survey.example.org or http://192.0.2.7:8640."
            )
        for origin in self.origins:
            if origin != "null" and (not is_address(origin) or urlsplit(origin).path):
                raise Misconfigured(
                    "`origins` must list where the form is hosted, without a path and as browsers write it, in small "
                    "letters and without :80 or :443, such as https://forms.example.org."
                )

    @property
    def report_size(self) -> int:
        """Bytes of the reports to all questions."""
        return sum(question.program().size for question in self.questions)

    def question(self, name: str) -> SurveyQuestion:
        """The question with this id."""
        for question in self.questions:
            if question.id == name:
                return question
        ids = ", ".join(question.id for question in self.questions)
        raise Misconfigured(f"There is no question {name!r}. The survey has {ids}.")


def is_address(text: str) -> bool:
    """Whether browsers write it so: then it can stand in a policy, and be compared with what they send."""
    try:
        parts = urlsplit(text)
        usual = {"http": 80, "https": 443}[parts.scheme]
        return bool(_ADDRESS.fullmatch(text)) and bool(parts.hostname) and parts.port not in (0, usual)
    except (ValueError, KeyError):
        return False


def decimal_text(number: Fraction) -> str:
    """An epsilon as text: all of its digits if they end, else enough of them."""
    context = Context(prec=_MOST_DIGITS)
    decimal = context.divide(Decimal(number.numerator), Decimal(number.denominator))
    return f"{float(number):.12g}" if context.flags[Inexact] else f"{decimal.normalize(context):f}"
