"""What may stand in a request: the names and meanings of `curator.sql`, `batch`, `distribution` and `marginals`."""

from __future__ import annotations

from decimal import Decimal
from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from lapwing.curator.automatic import SHARE, read_automatic
from lapwing.curator.batch import BatchRequest, read_batch
from lapwing.curator.pricing import Terms
from lapwing.curator.request import DistributionRequest, MarginalsRequest, QuestionRequest, Request
from lapwing.privacy.budget import Cost

_LONGEST = 100_000  # characters of a question
_DIGITS = 100  # of a number
_MOST = 1000  # questions of a batch, and columns of marginals


def _written(value: Any) -> Any:
    if isinstance(value, bool) or (isinstance(value, str) and len(value) > _DIGITS):
        raise ValueError("a number is needed")
    return value


DecimalNumber = Annotated[Decimal, BeforeValidator(_written), Field(allow_inf_nan=False)]
"""A number, or its decimal text: 0.1 and "0.1" are the same."""
WholeNumber = Annotated[int, Field(strict=True, ge=1, le=10**15)]
ColumnName = Annotated[str, Field(min_length=1, max_length=1000)]
Anyway = Annotated[bool, Field(strict=True, description="Ask it even if the answer would say nothing.")]
Text = Annotated[str, Field(min_length=1, max_length=_LONGEST)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    def request(self, analyst: str, key: str | None = None, at_most: Cost | None = None) -> Request:
        """What is asked of the curator."""
        asked, terms = self._asked(), self._terms()
        refresh, combine, anyway = (getattr(self, name, False) for name in ("refresh", "combine", "anyway"))
        return Request(asked, terms, refresh, combine, analyst, key, at_most=at_most, anyway=anyway)

    def digest(self) -> str:
        """What was written, for comparison."""
        return sha256(f"{type(self).__name__}{self.model_dump_json(exclude_unset=True)}".encode()).hexdigest()

    def text(self) -> str:
        """The question, for a log that its steward asked for."""
        return self.model_dump_json(exclude_unset=True)

    def _asked(self) -> Any:
        raise NotImplementedError

    def _terms(self) -> Terms:
        raise NotImplementedError


class _Priced(_Body):
    epsilon: DecimalNumber | None = Field(None, description="The price to pay.", examples=["0.1"])
    share: DecimalNumber | None = Field(None, description="The part of the whole budget to pay.")
    confidence: DecimalNumber | None = Field(None, description="The confidence of intervals.")
    check: DecimalNumber | None = Field(None, description="The share of the price that tells how much limits cut.")
    refresh: bool = Field(False, strict=True, description="Pay for a new answer even if one is stored.")

    def _terms(self) -> Terms:
        return Terms(epsilon=self.epsilon, share=self.share, confidence=self.confidence, check=self.check)


class AskBody(_Priced):
    """One question, and one of three prices: `within`, `epsilon` or `share`."""

    sql: Text = Field(description="One SELECT.", examples=["SELECT COUNT(*) AS n FROM visits"])
    within: DecimalNumber | dict[ColumnName, DecimalNumber] | None = Field(
        None, description="The largest error of counts and sums, for all or by column."
    )
    delta: DecimalNumber | None = Field(None, description="How much delta private key selection may spend.")
    assume_rows: WholeNumber | None = None
    intervals: bool = Field(True, strict=True)
    bounds: Literal["auto"] | None = None
    limits: Literal["auto"] | None = None
    find_share: DecimalNumber = Decimal(str(float(SHARE)))
    combine: bool = Field(False, strict=True)
    anyway: Anyway = False

    def _asked(self) -> QuestionRequest:
        return QuestionRequest(self.sql)

    def _terms(self) -> Terms:
        automatic = read_automatic(self.bounds, self.limits, self.find_share)
        numbers = (self.within, self.epsilon, self.delta, self.confidence, self.assume_rows)
        return Terms(*numbers, self.intervals, automatic, share=self.share, check=self.check)


class BatchBody(_Priced):
    """Several questions at one price, as a list or by name."""

    questions: (
        Annotated[list[Text], Field(min_length=1, max_length=_MOST)]
        | Annotated[dict[ColumnName, Text], Field(min_length=1, max_length=_MOST)]
    )
    delta: DecimalNumber | None = None
    weights: list[DecimalNumber] | dict[ColumnName, DecimalNumber] | None = None
    anyway: Anyway = False

    def _asked(self) -> BatchRequest:
        return read_batch(self.questions, self.weights)

    def _terms(self) -> Terms:
        numbers = {"epsilon": self.epsilon, "share": self.share, "delta": self.delta}
        return Terms(**numbers, confidence=self.confidence, check=self.check)  # type: ignore[arg-type]


class DistributionBody(_Priced):
    """The distribution of one column."""

    column: ColumnName
    table: ColumnName | None = None
    where: Text | None = Field(None, description="A condition in SQL, without the word WHERE.")
    cells: WholeNumber | None = None

    def _asked(self) -> DistributionRequest:
        return DistributionRequest(self.column, self.table, self.where, self.cells)


class MarginalsBody(_Priced):
    """The counts over every set of up to `ways` of these columns."""

    columns: Annotated[list[ColumnName | list[ColumnName]], Field(min_length=1, max_length=_MOST)]
    table: ColumnName | None = None
    where: Text | None = Field(None, description="A condition in SQL, without the word WHERE.")
    ways: WholeNumber = 2
    cells: WholeNumber | dict[ColumnName, WholeNumber] | None = None

    def _asked(self) -> MarginalsRequest:
        return MarginalsRequest(self.columns, self.table, self.where, self.ways, self.cells)


_BY_FIELD = {"sql": "ask", "questions": "batch", "column": "distribution", "columns": "marginals"}


def _kind(body: Any) -> str | None:
    names = body if isinstance(body, dict) else getattr(body, "model_fields_set", ())
    return next((kind for name, kind in _BY_FIELD.items() if name in names), "ask")


AnyBody = Annotated[
    Annotated[AskBody, Tag("ask")]
    | Annotated[BatchBody, Tag("batch")]
    | Annotated[DistributionBody, Tag("distribution")]
    | Annotated[MarginalsBody, Tag("marginals")],
    Discriminator(_kind),
]
"""Whatever can be asked, told apart by `sql`, `questions`, `column` and `columns`."""
Asking = AskBody | BatchBody | DistributionBody | MarginalsBody


class VerifyBody(BaseModel):
    """A number, and where it is said to stand."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    release: str = Field(pattern="^r[0-9a-f]{32}$", description="The release that is cited.")
    answer: ColumnName | None = Field(None, description="In a batch, the name of the question.")
    row: int = Field(0, strict=True, ge=0, le=10**9, description="The row, from 0.")
    column: ColumnName = Field(description="The column, such as `n` or `n_low`.")
    value: DecimalNumber | str | bool | None = Field(description="What is said to stand there.")
    precision: DecimalNumber | None = Field(
        None, gt=0, description="To what the value was rounded: 10 for 1,990 if 1,992 was released."
    )
