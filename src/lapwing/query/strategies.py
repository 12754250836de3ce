"""What a curator answers by one strategy instead of question by question: a distribution, many tables of counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction

from lapwing.query.catalog import Catalog
from lapwing.query.charging import Books, Bought, Buyer
from lapwing.query.distribution import Distribution, ask_distribution
from lapwing.query.marginals import Cells, MarginalTables, ask_marginals
from lapwing.query.strategy import Counted, make_strategy
from lapwing.query.strategy_preview import StrategyPreview, preview_of
from lapwing.query.verdict import Stop, raised
from lapwing.rational import Number


class Strategies(ABC):
    """The questions that a strategy answers. A curator says how they are paid."""

    @property
    @abstractmethod
    def catalog(self) -> Catalog:
        """What the steward declared."""

    @property
    @abstractmethod
    def ledger(self) -> Books:
        """What was spent."""

    @abstractmethod
    def _buy(
        self, counted: Counted, words: str, *, epsilon: Number, confidence: Number | None, buyer: Buyer
    ) -> tuple[Bought, Fraction]:
        """The paid answer and the confidence that its intervals are stated at."""

    def distribution(
        self,
        column: str,
        *,
        epsilon: Number,
        table: str | None = None,
        where: str | None = None,
        cells: int | None = None,
        confidence: Number | None = None,
        refresh: bool = False,
        analyst: str | None = None,
        key: str | None = None,
    ) -> Distribution:
        """How many rows lie in every range of a column, its distribution function and its quantiles, for one price.

        The column has declared values, in their order, or bounds: whole numbers count one by one and reals in `cells`
        of one width; numbers beyond the bounds count at the ends. A unit counts in at most groups_per_unit cells.
        `where` is a condition in SQL. Asked again, it costs nothing; `refresh` and `key` are those of `sql`.
        """

        def counted() -> Counted:
            return ask_distribution(self.catalog, column, table=table, where=where, cells=cells)

        return Distribution(*self._by_strategy(counted, epsilon, confidence, Buyer(analyst, key, refresh), where))

    def marginals(
        self,
        columns: Sequence[str | Sequence[str]],
        *,
        epsilon: Number,
        ways: int = 2,
        table: str | None = None,
        where: str | None = None,
        cells: Cells = None,
        confidence: Number | None = None,
        refresh: bool = False,
        analyst: str | None = None,
        key: str | None = None,
    ) -> MarginalTables:
        """The counts over every set of up to `ways` of these columns, consistent with each other, for one price.

        `columns` may also list the tables: [("sex", "site"), ("age",)]. Columns have declared values or bounds, as for
        `distribution`; `cells` is one number, or one for each column. A unit counts in at most groups_per_unit cells
        of all columns together, and with at most rows_per_unit rows in each.
        """

        def counted() -> Counted:
            return ask_marginals(self.catalog, columns, table=table, where=where, ways=ways, cells=cells)

        return MarginalTables(*self._by_strategy(counted, epsilon, confidence, Buyer(analyst, key, refresh), where))

    def preview_distribution(
        self,
        column: str,
        *,
        epsilon: Number,
        table: str | None = None,
        where: str | None = None,
        cells: int | None = None,
        confidence: Number | None = None,
    ) -> StrategyPreview:
        """Price and error of a distribution. Free; reads no data."""
        return self._previewed(
            lambda: ask_distribution(self.catalog, column, table=table, where=where, cells=cells), epsilon, confidence
        )

    def preview_marginals(
        self,
        columns: Sequence[str | Sequence[str]],
        *,
        epsilon: Number,
        ways: int = 2,
        table: str | None = None,
        where: str | None = None,
        cells: Cells = None,
        confidence: Number | None = None,
    ) -> StrategyPreview:
        """Price and error of marginals. Free; reads no data."""
        return self._previewed(
            lambda: ask_marginals(self.catalog, columns, table=table, where=where, ways=ways, cells=cells),
            epsilon,
            confidence,
        )

    def _previewed(self, make: Callable[[], Counted], epsilon: Number, confidence: Number | None) -> StrategyPreview:
        try:
            strategy = make_strategy(make(), self.ledger.budget.price(epsilon=epsilon))
        except Stop as stop:
            refusal = stop.refusal
        else:
            return preview_of(strategy, self.ledger, confidence)
        raise raised(refusal)

    def _by_strategy(
        self,
        make: Callable[[], Counted],
        epsilon: Number,
        confidence: Number | None,
        buyer: Buyer,
        where: str | None,
    ) -> tuple[Bought, Fraction]:
        """Refusals reach the analyst as errors, before anything is charged."""
        try:
            counted = make()
            return self._buy(counted, _words(counted, where), epsilon=epsilon, confidence=confidence, buyer=buyer)
        except Stop as stop:
            refusal = stop.refusal
        raise raised(refusal)


def _words(counted: Counted, where: str | None) -> str:
    """What was asked, for the reader of the ledger."""
    names = ", ".join(axis.name for axis in counted.axes)
    kind = "distribution" if counted.sets is None else f"{len(counted.sets)} marginals"
    return f"{kind} of {names} in {counted.table.name}{'' if where is None else f' where {where}'}"
