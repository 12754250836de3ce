"""How well declared facts fit the rows: exact counts for the steward, never an answer and never served.

Guarantee:  none. What is returned is private. A look is recorded in the ledger before a row is read: who and when,
            never what was seen.
Checked by: tests/curator/test_fit.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from lapwing.curator.settings import Settings
from lapwing.engines.backends import open_engine
from lapwing.engines.csv_rows import dropped_rows
from lapwing.engines.engine import Engine
from lapwing.engines.source import Csv, LocalSource, Source
from lapwing.expressions.expression import Column
from lapwing.expressions.forms import Listed
from lapwing.expressions.table import UNIT_ID, Field, Table
from lapwing.expressions.to_sqlglot import literal, value
from lapwing.expressions.types import Type
from lapwing.ledger import Ledger
from lapwing.ledger.entry import EntryKind
from lapwing.noise import SYSTEM
from lapwing.plan.row_values import ROWS, aliased, from_node, named, select, source


@dataclass(frozen=True, slots=True)
class Fact:
    """One declared fact of a table, and how many rows, units or values it does not fit."""

    table: str
    column: str | None
    fact: str
    """What was declared, such as `bounds`."""
    misfits: int
    of: int
    counted: str
    """What is counted: rows, units, values, or lines of a CSV file."""
    advice: str = ""
    """What to declare, in words that say nothing about the rows."""

    def to_dict(self) -> dict[str, object]:
        shown = {"table": self.table, "column": self.column, "fact": self.fact, "misfits": self.misfits}
        return {**shown, "of": self.of, "counted": self.counted, "advice": self.advice or None}

    def __str__(self) -> str:
        where = self.table if self.column is None else f"{self.table}.{self.column}"
        share = f" ({_percent(self.misfits, self.of)} %)" if self.misfits else ""
        advice = f" {self.advice}" if self.misfits and self.advice else ""
        return f"{where}: {self.misfits:,} of {self.of:,} {self.counted}{share} {self.fact}.{advice}"


def _percent(part: int, whole: int) -> str:
    """Two digits, and 100 only for all."""
    share = 100 * part / whole
    return f"{min(share, 99 + (part == whole)):.0f}" if share >= 99 else f"{share:.2g}"


def record_look(ledger: Ledger, who: str) -> None:
    """Records that somebody looked at exact facts, before anything is read."""
    ledger.record(EntryKind.LOOK, f"look:{SYSTEM.integer(64):016x}", {}, analyst=who)


def facts_of(settings: Settings) -> list[Fact]:
    """How well every declared fact of the private tables fits. Reads all rows."""
    engine = open_engine([*settings.tables, *settings.public], salt=0, memory=settings.memory)
    try:
        facts = [fact for table, _ in settings.tables for fact in _Table(engine, table, settings.public).facts()]
    finally:
        engine.close()
    facts += [_lines(table, data) for table, data in settings.tables if isinstance(data, Csv)]
    return facts + [fact for table, data in settings.tables for fact in _types(table, data, settings.memory)]


def _lines(table: Table, source: Csv) -> Fact:
    """Lines of a CSV file that are no rows."""
    dropped, lines = dropped_rows(source)
    what = f"are dropped: they are not in {source.encoding}, or have too many fields or a broken quotation"
    advice = 'Declare another encoding, such as csv = { encoding = "windows-1252" }, or save the table as Parquet.'
    return Fact(table.name, None, what, dropped, lines, "lines", advice)


class _Table:
    """The rows of one table, counted exactly."""

    def __init__(self, engine: Engine, table: Table, public: Sequence[tuple[Table, LocalSource]]) -> None:
        self._engine, self._table, self._public = engine, table, [other for other, _ in public]

    def facts(self) -> Iterator[Fact]:
        table = self._table
        wanted = list(self._conditions())
        counts = self._fetch(
            select(_count(None, "rows"), *(_count(condition, f"c{i}") for i, (_, condition) in enumerate(wanted)))
        )
        for i, (fact, _) in enumerate(wanted):
            yield replace(fact, misfits=counts[f"c{i}"], of=counts["rows"])
        for field in table.fields:
            if field.values:
                yield self._empty(field)
        if not table.by_row:
            yield from self._limits()

    def _conditions(self) -> Iterator[tuple[Fact, exp.Expression]]:
        """What is counted in one pass over the rows."""
        table = self._table
        if table.unit is not None:
            unit = exp.column(UNIT_ID, table=ROWS, quoted=True)
            yield self._fact(table.unit, "have no unit and never count"), _is_null(unit)
        for field in table.fields:
            column = _value(field)
            if field.name != table.unit:
                yield self._fact(field.name, "are NULL, NaN or not of the declared type"), _is_null(column)
            if (ends := field.bounds or field.span) is not None:
                advice = f"Wider bounds {'cut fewer values and add noise' if field.bounds else 'leave out fewer rows'}."
                for side, is_beyond, end in (("below", exp.LT, ends.low), ("above", exp.GT, ends.high)):
                    beyond = is_beyond(this=column, expression=literal(end))
                    yield self._fact(field.name, f"lie {side} {end}", advice), beyond
            if field.values:
                listed = Listed(this=column.copy(), values=field.values, kind=field.type, place=len(field.name))
                outside = exp.And(this=_present(column), expression=exp.Not(this=exp.Paren(this=listed)))
                advice = "For a text, other = true counts them as OTHER; or declare those that are public."
                yield self._fact(field.name, "are not among `values` and are left out as keys", advice), outside
            yield from self._unknown_keys(field, column)

    def _unknown_keys(self, field: Field, column: exp.Expression) -> Iterator[tuple[Fact, exp.Expression]]:
        """Values that a public table of the same key does not have."""
        for other in self._public:
            for key in other.keys:
                same = [
                    known for known in other.fields if (known.name,) == key and known.name.lower() == field.name.lower()
                ]
                if same and other.rows is not None and key[0] in other.rows and same[0].type is field.type:
                    listed = Listed(this=column.copy(), values=other.rows[key[0]], kind=field.type, place=0)
                    outside = exp.And(this=_present(column), expression=exp.Not(this=exp.Paren(this=listed)))
                    yield self._fact(field.name, f"have no partner in `{other.name}`"), outside

    def _empty(self, field: Field) -> Fact:
        """Declared values that no row has."""
        rows = select(aliased(_value(field), "v")).from_(from_node(self._table, ROWS), copy=False)
        listed = Listed(this=named("v"), values=field.values, kind=field.type, place=0)
        inner = select(named("v")).from_(rows.subquery("r", copy=False), copy=False).where(listed, copy=False)
        groups = inner.group_by(named("v"), copy=False).subquery("g", copy=False)
        (found,) = self._fetch(select(_count(None, "n")).from_(groups, copy=False), whole=True).values()
        fact = self._fact(field.name, "are declared and occur in no row", counted="values")
        return replace(fact, misfits=len(field.values) - found, of=len(field.values))

    def _limits(self) -> Iterator[Fact]:
        table = self._table
        if table.rows_per_unit is not None:
            rows = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(table.rows_per_unit))
            what = f"have more than rows_per_unit = {table.rows_per_unit} rows in all"
            yield self._per_unit(None, rows, what)
        for field in table.fields:
            if table.groups_per_unit is not None and field.values and field.name != table.unit:
                groups = exp.Count(this=exp.Distinct(expressions=[_value(field)]))
                more = exp.GT(this=groups, expression=exp.Literal.number(table.groups_per_unit))
                what = f"have more than groups_per_unit = {table.groups_per_unit} values"
                yield self._per_unit(field.name, more, what)

    def _per_unit(self, column: str | None, condition: exp.Expression, what: str) -> Fact:
        unit = exp.column(UNIT_ID, table=ROWS, quoted=True)
        flag = exp.Case(ifs=[exp.If(this=condition, true=exp.Literal.number(1))], default=exp.Literal.number(0))
        each = select(aliased(flag, "over")).from_(from_node(self._table, ROWS), copy=False)
        each = each.where(_present(unit), copy=False).group_by(unit.copy(), copy=False)
        total = aliased(exp.Coalesce(this=exp.Sum(this=named("over")), expressions=[exp.Literal.number(0)]), "over")
        query = select(_count(None, "n"), total).from_(each.subquery("u", copy=False), copy=False)
        found = self._fetch(query, whole=True)
        advice = "A higher limit cuts less and adds noise in proportion."
        return replace(self._fact(column, what, advice, counted="units"), misfits=found["over"], of=found["n"])

    def _fact(self, column: str | None, fact: str, advice: str = "", counted: str = "rows") -> Fact:
        return Fact(self._table.name, column, fact, 0, 0, counted, advice)

    def _fetch(self, query: exp.Select, *, whole: bool = False) -> dict[str, int]:
        """The one row of a query."""
        query = query if whole else query.from_(from_node(self._table, ROWS), copy=False)
        return _numbers(self._engine, query)


def _types(table: Table, data: Source, memory: str | None) -> Iterator[Fact]:
    """Values that are stored but cannot be read as the declared type, which makes them NULL."""
    fields = [field for field in table.fields if field.type is not Type.TEXT]
    if not fields:
        return
    plain = replace(table, fields=tuple(Field(field.name, Type.TEXT) for field in table.fields), auto=frozenset())
    counts = []
    for seen in (table, plain):
        columns = [_count(_present(_value(seen.field(field.name))), f"c{i}") for i, field in enumerate(fields)]
        query = select(_count(None, "rows"), *columns).from_(from_node(seen, ROWS), copy=False)
        engine = open_engine([(seen, data)], salt=0, memory=memory)
        try:
            counts.append(_numbers(engine, query))
        finally:
            engine.close()
    for i, field in enumerate(fields):
        misfits = max(counts[1][f"c{i}"] - counts[0][f"c{i}"], 0)
        what = f"are stored but cannot be read as {field.type.value}"
        yield Fact(table.name, field.name, what, misfits, counts[0]["rows"], "rows", "They count as NULL.")


def _numbers(engine: Engine, query: exp.Select) -> dict[str, int]:
    """The one row of a query, by column."""
    (row,) = engine.fetch(engine.prepare(query)).to_pylist()
    return {name: int(number) for name, number in row.items()}


def _value(field: Field) -> exp.Expression:
    return value(Column(field.name, field.type), source)


def _is_null(node: exp.Expression) -> exp.Expression:
    return exp.Is(this=node.copy(), expression=exp.Null())


def _present(node: exp.Expression) -> exp.Expression:
    return exp.Not(this=_is_null(node))


def _count(condition: exp.Expression | None, name: str) -> exp.Alias:
    """How many rows meet a condition; all of them without one."""
    if condition is None:
        return aliased(exp.Count(this=exp.Star()), name)
    one = exp.Case(ifs=[exp.If(this=condition, true=exp.Literal.number(1))])
    return aliased(exp.Count(this=one), name)
