"""Counts over cells of one or several columns, answered by one mechanism instead of question by question.

What is counted is a question, SELECT COUNT(*) ... GROUP BY all axes, with the limits of every question: a unit counts
in at most `groups` cells of the full table and with at most `rows` rows in each, the engine sees to both (bounding.py).
So a unit adds at most groups * rows to the counts, in one cell or in several, also to sums of cells: this is the
`cells_per_unit` that the mechanism is made for. The full table stays in the engine, which sums it to the tables that
the mechanism reads.
Checked by: tests/workloads/test_strategy.py
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from lapwing.catalog.identity import Identity
from lapwing.catalog.table import Catalog, Table
from lapwing.cells.bounding import queries
from lapwing.cells.groups import Public
from lapwing.cells.release import Answer, Mechanism, Tables, release_tables
from lapwing.errors import Bug, Misconfigured, Refused
from lapwing.language.forms import ExactSum, GroupingId, Wide
from lapwing.language.refusal import refuse
from lapwing.language.types import Type
from lapwing.measures.kind import Measure
from lapwing.mechanisms.fitting import mechanisms_for
from lapwing.mechanisms.ranges.components import MarginalRelease, Set, coverings, sum_over
from lapwing.mechanisms.ranges.ranges import PrefixSums, RangeRelease, Ranges
from lapwing.planning.payload import read_payload, write_payload
from lapwing.planning.plan import Outline, Plan, Prices, make_outline
from lapwing.planning.question import Question
from lapwing.privacy.budget import Cost
from lapwing.privacy.loss import Loss, decode_loss
from lapwing.reading.sql import read_sql
from lapwing.reading.sql.refused import DIALECT
from lapwing.workloads.axes import Axis

_SET, _MOST = "lw_set", 1 << 62
_FORM = 1  # of the mechanisms; another one makes answers that are no longer what is stored
_MODERATE = 1 << 16  # cells of a table that is counted for the tables it holds


@dataclass(frozen=True, slots=True)
class Counted:
    """What is counted: the rows of one table under the cells of some axes. `sets` are the tables that are asked for."""

    outline: Outline
    axes: tuple[Axis, ...]
    sets: tuple[Set, ...] | None
    """None asks for the distribution along the one axis."""

    @property
    def table(self) -> Table:
        return self.outline.table

    @property
    def notes(self) -> tuple[str, ...]:
        """What is said with every answer of these counts."""
        return self.outline.limit_notes("cell")

    @property
    def cells_per_unit(self) -> int:
        """The most that one unit adds to the counts in all."""
        return self.outline.groups_per_unit * self.outline.kinds[0].sensitivity(Fraction(1))

    @property
    def identity(self) -> Identity:
        """Everything but the price that an answer is made by, the order of the axes included."""
        axes = tuple((axis.name, tuple(map(str, axis.edges))) for axis in self.axes)
        return Identity("strategy", (_FORM, self.outline.identity.facts, axes, self.sets))


@dataclass(frozen=True, slots=True)
class Strategy:
    """Counts, and the mechanism that releases them."""

    counted: Counted
    mechanism: Mechanism

    @property
    def loss(self) -> Loss:
        return self.mechanism.loss

    @property
    def price(self) -> Fraction:
        """The rho or epsilon that it was made for."""
        return self.loss.amount

    @property
    def measured(self) -> tuple[Set, ...]:
        """The tables that the mechanism reads."""
        return ((0,),) if isinstance(self.mechanism, PrefixSums | Ranges) else self.mechanism.measured


@dataclass(frozen=True, slots=True, eq=False)
class Bought:
    """A released answer, its price and its entry in the ledger."""

    strategy: Strategy
    released: Answer = field(repr=False)
    cost: Cost
    """What it cost now; 0 if it was stored."""
    entry: int


def make_counted(
    catalog: Catalog,
    table: Table,
    where: str | None,
    axes: Sequence[Axis],
    sets: tuple[Set, ...] | None = None,
) -> Counted:
    """What is counted; raises Refused if it cannot be."""
    question = _question(catalog, table, where)
    outline = make_outline(question)
    groups, limit = _groups(table, math.prod(axis.size for axis in axes))
    keys, domain = tuple(axis.key for axis in axes), tuple(axis.domain for axis in axes)
    whole = replace(
        outline, question=replace(question, keys=keys), groups_per_unit=groups, limit_groups=limit, domain=domain
    )
    return Counted(whole, tuple(axes), sets)


def find_table(catalog: Catalog, name: str | None) -> Table:
    """The table of this name, or the only private one; raises Refused if there is none."""
    if not isinstance(name, str | None):
        raise Misconfigured('`table` must be the name of a table, for example table="visits". Nothing was charged.')
    if name is not None:
        return catalog.table(name)
    private = [table for table in catalog.tables if not table.public]
    if len(private) != 1:
        refuse("ambiguous", "`table`", f"there are {len(private)} private tables.", 'Say which one: table="...".')
    return private[0]


def make_strategy(counted: Counted, price: Loss) -> Strategy:
    """The mechanism for this price; raises Refused if its noise cannot be drawn."""
    strategy = Strategy(counted, _mechanism(counted, price))
    try:
        strategy.mechanism.check()
    except Misconfigured:
        refuse(
            "price-out-of-range",
            "`epsilon`",
            f"noise for {price} cannot be drawn: it is too large or too small.",
            "Choose another one.",
        )
    return strategy


def _mechanism(counted: Counted, price: Loss) -> Mechanism:
    family, sizes, unit = mechanisms_for(price), tuple(axis.size for axis in counted.axes), counted.cells_per_unit
    if counted.sets is None:
        return family.ranges(size=sizes[0], cells_per_unit=unit)
    return family.marginals(sizes=sizes, sets=counted.sets, cells_per_unit=unit)


def _question(catalog: Catalog, table: Table, where: str | None) -> Question:
    """COUNT(*) of the rows where the condition holds."""
    if not isinstance(where, str | None):
        raise Misconfigured('`where` must be a condition in SQL, for example where="age >= 18". Nothing was charged.')
    if where is not None and not str(where).strip():
        _refuse_where("it is empty.")
    name = exp.to_identifier(table.name, quoted=True).sql(dialect=DIALECT)
    condition = "" if where is None else f" WHERE ({where}\n)"
    try:
        found = read_sql(f"SELECT COUNT(*) AS n FROM {name}{condition}", catalog)
    except Refused as error:
        if error.code in ("syntax", "not-one-select", "unsupported-union"):
            _refuse_where()  # the analyst wrote no SELECT
        raise
    plain = Question(table, found.where, (), found.aggregates, found.outputs)
    if found != plain or len(found.outputs) != 1 or len(found.aggregates) != 1:
        _refuse_where()
    return found


def _refuse_where(why: str = "it must be one condition on the rows of the table.") -> NoReturn:
    refuse("wrong-argument", "`where`", why, 'Write the condition alone: where="year = 1".')


def _groups(table: Table, cells: int) -> tuple[int, bool]:
    """In how many cells one unit may count, and whether that must be enforced."""
    if table.by_row:
        return 1, False
    if table.groups_per_unit is None:
        refuse(
            "unbounded-groups",
            f"`{table.name}`",
            "one unit could count in every cell.",
            "Have the steward declare groups_per_unit, for example groups_per_unit = 1.",
        )
    return min(cells, table.groups_per_unit), table.groups_per_unit < cells


def tables_query(strategy: Strategy) -> exp.Select:
    """One query for a few larger tables that hold all that the mechanism reads."""
    return _tables_query(strategy.counted, _larger(strategy))


def exact_tables(strategy: Strategy, rows: pa.Table) -> Tables:
    """The exact counts that the mechanism reads, from the rows of its query."""
    axes, larger = strategy.counted.axes, _larger(strategy)
    found = np.array(rows.column(_SET).to_pylist(), np.int64)
    places = [
        Public(axis.domain, axis.key.type or Type.TEXT).places(rows.column(f"k{i}")) for i, axis in enumerate(axes)
    ]
    counts = np.array([max(-_MOST, min(_MOST, int(value))) for value in rows.column("c0").to_pylist()], np.int64)
    tables: dict[Set, npt.NDArray[np.int64]] = {}
    for one in larger:
        mine = np.flatnonzero(found == _mask(one, len(axes)))
        index = tuple(places[i][mine] for i in one)
        if any((place < 0).any() for place in index):
            raise Bug("the engine gave a group that was not asked for")
        tables[one] = np.zeros([axes[i].size for i in one], np.int64)
        tables[one][index] = counts[mine]
    return {one: _summed(tables, one) for one in strategy.measured}


def _larger(strategy: Strategy) -> tuple[Set, ...]:
    """The fewest tables of moderate size that hold all that are measured: the engine takes its time for each."""
    sizes = tuple(axis.size for axis in strategy.counted.axes)
    return min(coverings(sizes, strategy.measured, _MODERATE), key=len)


def _summed(tables: Tables, one: Set) -> npt.NDArray[np.int64]:
    whole = next(known for known in tables if set(one) <= set(known))
    table: npt.NDArray[np.int64] = sum_over(tables[whole], whole, one)
    return table


def _tables_query(counted: Counted, sets: tuple[Set, ...]) -> exp.Select:
    """The cells of the full table, each unit within its limits, summed to each of these tables."""
    outline = counted.outline
    plan = Plan(outline, Prices(()), (Measure(outline.kinds[0], Fraction(1), None),), None)
    inner = queries(plan).cells
    if not isinstance(inner, exp.Select):
        raise Bug("counts have no query")
    keys = [exp.column(f"k{i}", quoted=True) for i in range(len(counted.axes))]
    grouped = [exp.Tuple(expressions=[keys[i].copy() for i in one]) for one in sets]
    number = GroupingId(expressions=[key.copy() for key in keys])
    total = Wide(this=ExactSum(this=exp.column("c0", quoted=True)))
    columns = [_named(number, _SET), *keys, _named(total, "c0")]
    query = exp.Select(expressions=columns).from_(inner.subquery("lw_cells", copy=False), copy=False)
    query.set("group", exp.Group(grouping_sets=[exp.GroupingSets(expressions=grouped)]))
    return query


def _named(node: exp.Expression, name: str) -> exp.Alias:
    return exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))


def _mask(one: Set, many: int) -> int:
    """GROUPING_ID of a set: one bit for each key that is summed over, the first key's highest."""
    return sum(1 << (many - 1 - i) for i in range(many) if i not in one)


def encode_strategy(strategy: Strategy, released: Answer) -> bytes:
    """The answer as JSON, with its price. Floats are read back as they were."""
    if isinstance(released, RangeRelease):
        numbers = [released.sums.tolist()]
    else:
        numbers = [released.tables[one].ravel().tolist() for one in strategy.counted.sets or ()]
    return write_payload("strategy", accounting=strategy.loss.kind, price=str(strategy.price), numbers=numbers)


def rehearse_tables(strategy: Strategy) -> None:
    """Makes the answer of no rows and throws it away; raises whatever would go wrong after the charge."""
    axes = strategy.counted.axes
    zeros = {one: np.zeros([axes[i].size for i in one], np.int64) for one in strategy.measured}
    encode_strategy(strategy, release_tables(strategy.mechanism, zeros))


def decode_strategy(counted: Counted, payload: bytes) -> tuple[Strategy, Answer]:
    """The answer, and the strategy that it was made by."""
    read = read_payload("strategy", payload)
    strategy = Strategy(counted, _mechanism(counted, decode_loss((read["accounting"], read["price"]))))
    numbers = [_kept(np.array(flat, np.float64)) for flat in read["numbers"]]
    if isinstance(strategy.mechanism, PrefixSums | Ranges):
        return strategy, RangeRelease(numbers[0], strategy.mechanism)
    pairs = zip(counted.sets or (), numbers, strict=True)
    tables = {one: flat.reshape([counted.axes[i].size for i in one]) for one, flat in pairs}
    return strategy, MarginalRelease(tables, strategy.mechanism)


def _kept(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    numbers.flags.writeable = False
    return numbers
