"""What may stand in a request: the names and meanings of `curator.sql`, `batch`, `distribution` and `marginals`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from hashlib import sha256
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, create_model

from lapwing.curator.batch import BatchRequest, read_batch
from lapwing.curator.request import (
    DistributionRequest,
    MarginalsRequest,
    QuestionRequest,
    Request,
    cells_of,
    make_request,
)
from lapwing.numbers import Number
from lapwing.privacy.budget import Cost
from lapwing.terms import (
    TERMS,
    BatchTerms,
    ColumnBounds,
    DistributionTerms,
    MarginalsTerms,
    Params,
    QuestionTerms,
    Within,
    types_of,
)

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
Constant = bool | int | float | str | None
Text = Annotated[str, Field(min_length=1, max_length=_LONGEST)]


_BOUNDS = dict[ColumnName, tuple[DecimalNumber, DecimalNumber]]
_TYPES: dict[Any, Any] = {
    ColumnBounds | None: _BOUNDS | None,
    Literal["auto"] | ColumnBounds | None: Literal["auto"] | _BOUNDS | None,
    Number | None: DecimalNumber | None,
    Number: DecimalNumber,
    Within | None: DecimalNumber | dict[ColumnName, DecimalNumber] | None,
    Sequence[Number] | Mapping[str, Number] | None: list[DecimalNumber] | dict[ColumnName, DecimalNumber] | None,
    int | None: WholeNumber | None,
    int: WholeNumber,
    int | Mapping[str, int] | None: WholeNumber | dict[ColumnName, WholeNumber] | None,
    bool: Annotated[bool, Field(strict=True)],
    str | None: Text | None,
    Params | None: dict[ColumnName, Constant] | list[Constant] | None,
}
"""How a term of this type is written in JSON; other types are written as they are."""
_B = TypeVar("_B", bound="_Body")


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    refresh: bool = Field(False, strict=True, description=TERMS["refresh"].help)

    def request(self, analyst: str, key: str | None = None, at_most: Cost | None = None) -> Request:
        """What is asked of the curator."""
        terms = {name: getattr(self, name) for name in self.model_fields_set if name in TERMS}
        asked = self._asked(terms)
        return make_request(asked, {**terms, "analyst": analyst, "key": key}, at_most=at_most)

    def digest(self) -> str:
        """What was written, for comparison."""
        return sha256(f"{type(self).__name__}{self.text()}".encode()).hexdigest()

    def text(self) -> str:
        """The question, for a log that its steward asked for."""
        return self.model_dump_json(exclude_unset=True)

    def _asked(self, terms: dict[str, Any]) -> Any:
        raise NotImplementedError


def _with_terms(kind: Any) -> Callable[[type[_B]], type[_B]]:
    """Adds the terms of a kind to a body."""

    def add(body: type[_B]) -> type[_B]:
        fields: dict[str, Any] = {
            name: (_TYPES.get(written, written), Field(TERMS[name].default, description=TERMS[name].help))
            for name, written in types_of(kind).items()
            if name not in body.model_fields
        }
        return create_model(body.__name__, __base__=body, __doc__=body.__doc__, __module__=__name__, **fields)

    return add


@_with_terms(QuestionTerms)
class AskBody(_Body):
    """One question, and one of three prices: `within`, `epsilon` or `share`."""

    sql: Text = Field(description="One SELECT.", examples=["SELECT COUNT(*) AS n FROM visits"])

    def _asked(self, _: dict[str, Any]) -> QuestionRequest:
        return QuestionRequest(self.sql)


@_with_terms(BatchTerms)
class BatchBody(_Body):
    """Several questions at one price, as a list or by name."""

    questions: (
        Annotated[list[Text], Field(min_length=1, max_length=_MOST)]
        | Annotated[dict[ColumnName, Text], Field(min_length=1, max_length=_MOST)]
    )

    def _asked(self, terms: dict[str, Any]) -> BatchRequest:
        return read_batch(self.questions, terms.get("weights"))


@_with_terms(DistributionTerms)
class DistributionBody(_Body):
    """The distribution of one column."""

    column: ColumnName

    def _asked(self, terms: dict[str, Any]) -> DistributionRequest:
        return DistributionRequest(self.column, **cells_of(terms))


@_with_terms(MarginalsTerms)
class MarginalsBody(_Body):
    """The counts over every set of up to `ways` of these columns."""

    columns: Annotated[list[ColumnName | list[ColumnName]], Field(min_length=1, max_length=_MOST)]

    def _asked(self, terms: dict[str, Any]) -> MarginalsRequest:
        return MarginalsRequest(self.columns, **cells_of(terms))


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
