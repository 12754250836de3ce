"""What a curator says of itself: tables, columns, declared facts, limits and the budget. It reads no data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lapwing.answers.formats import label
from lapwing.answers.preview import Sheet, budget_lines, html_text, text_lines
from lapwing.expressions.phrases import shorten
from lapwing.expressions.table import Catalog, Field, Limit, Table
from lapwing.expressions.types import Value
from lapwing.privacy.filter import Statement

_LISTED = 8  # values that are shown of a column
_LONGEST = 40  # characters of one of them


@dataclass(frozen=True, slots=True, repr=False)
class Description:
    """Everything that was declared, and what is left of the budget."""

    catalog: Catalog
    budget: Statement | str
    """The budget, or why it cannot be read."""

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        budget = {"closed": self.budget} if isinstance(self.budget, str) else self.budget.to_dict()
        return {"tables": {table.name: _facts(table) for table in self.catalog.tables}, "budget": budget}

    def __str__(self) -> str:
        return "\n".join([*text_lines(self._sheets()), *self._budget()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_text(self._sheets(), self._budget())

    def _sheets(self) -> list[Sheet]:
        return [Sheet(label(table.name), tuple(_about(table)), tuple(_rows(table))) for table in self.catalog.tables]

    def _budget(self) -> list[str]:
        return [f"Budget: {self.budget}"] if isinstance(self.budget, str) else budget_lines(self.budget)


def _about(table: Table) -> Iterator[str]:
    """Who is protected, and what one of them adds."""
    if table.dummy:
        yield "dummy: its rows are made up"
    if table.public:
        yield "public, to join with"
        if table.keys:
            yield f"key {' or '.join(', '.join(key) for key in table.keys)}"
    elif table.by_row:
        yield "protects every row by itself"
    else:
        yield f"protects all rows of one `{label(table.unit)}`"
        rows, groups = table.rows_per_unit, table.groups_per_unit
        counts = "row of a unit counts" if rows == 1 else "rows of a unit count"
        yield _limit(table, Limit.ROWS, rows, f"{counts} in a group", "COUNT(*) and SUM need it")
        each = f"group{'' if groups == 1 else 's'} for each unit"
        yield _limit(table, Limit.GROUPS, groups, each, "a unit counts in every group")
        for name, most in (("rows", table.most_rows), ("groups", table.most_groups)):
            yield from [] if most is None else [f"for {name}, up to {most:,} may be chosen"]


def _limit(table: Table, limit: Limit, declared: int | None, what: str, without: str) -> str:
    if limit in table.auto:
        return f"{limit.value} is found privately when a question needs it"
    return f"no {limit.value}: {without}" if declared is None else f"at most {declared:,} {what}"


def _rows(table: Table) -> Iterator[tuple[str, str, str]]:
    """Name, type and declared facts of each column."""
    for field in table.fields:
        unit = ["the unit"] if field.name == table.unit else []
        yield label(field.name), field.type.value, "; ".join([*unit, *_declared(field)])


def _declared(field: Field) -> Iterator[str]:
    if field.auto:
        yield "bounds are found privately"
    if field.bounds or field.span:
        yield f"bounds {field.bounds or field.span}"
    if field.widest is not None:
        yield f"up to {field.widest} may be chosen"
    if field.unit_bounds is not None:
        yield f"unit_bounds {field.unit_bounds}"
    if field.zone is not None:
        yield f"in {field.zone}"
    for name, values in (("values", field.values), ("edges", field.edges)):
        if values:
            yield f"{name} {_listed(values)}"


def _listed(values: Sequence[Value]) -> str:
    shown = ", ".join(shorten(label(value), _LONGEST) for value in values[:_LISTED])
    return shown if len(values) <= _LISTED else f"{shown}, ... ({len(values):,})"


def _facts(table: Table) -> dict[str, Any]:
    columns = {name: {"type": kind, "declared": declared} for name, kind, declared in _rows(table)}
    limits = {"rows_per_unit": table.rows_per_unit, "groups_per_unit": table.groups_per_unit}
    ceilings = {"most_rows": table.most_rows, "most_groups": table.most_groups}
    limits |= {name: most for name, most in ceilings.items() if most is not None}
    who = {"public": True} if table.public else {"unit": table.unit or "one row", **limits}
    return {**who, "version": table.version, "about": [*_about(table)], "columns": columns}
