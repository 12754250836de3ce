"""Writes Ibis operations as the SQL that sql/reader.py reads. Imports Ibis, so only sql/ibis.py imports it.

Ibis writes for DuckDB. Where DuckDB has no function of the same meaning, Ibis spells it out; here the function of
docs/sql.md is written instead. Nothing is allowed by this: the text is read like any other.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NoReturn

import sqlglot as sg
import sqlglot.expressions as sge
from ibis.backends.sql.compilers.duckdb import DuckDBCompiler
from ibis.expr import operations as ops

from lapwing.expressions.operators.base import IN_UTC
from lapwing.expressions.refusal import refuse

ALLOWED = "Use comparisons, &, |, ~, cases, cast, arithmetic, and functions of numbers, text and dates."


class LapwingCompiler(DuckDBCompiler):  # type: ignore[misc]
    """Ibis' compiler for DuckDB, with the functions of this dialect."""

    __slots__ = ()
    LOWERED_OPS = {ops.Bucket: None}  # noqa: RUF012

    def visit_NonNullLiteral(self, op: Any, *, value: Any, dtype: Any) -> Any:  # noqa: N802
        if dtype.is_timestamp() and dtype.timezone is not None:
            refuse("wrong-argument", "a constant", "a constant has no time zone.", IN_UTC)
        if dtype.is_numeric() and not math.isfinite(value):
            refuse("wrong-argument", f"`{value}`", "it is not a number of ordinary size.", "Use a smaller number.")
        if dtype.is_date() or dtype.is_timestamp():
            return self.cast(value.isoformat(*([] if dtype.is_date() else [" "])), dtype)
        if dtype.is_decimal():
            return sge.convert(value)
        return super().visit_NonNullLiteral(op, value=value, dtype=dtype)

    def visit_Cast(self, op: Any, *, arg: Any, to: Any) -> Any:  # noqa: N802
        if to.is_timestamp() and to.timezone is not None:
            return sge.AtTimeZone(this=self._add_parens(arg), zone=sge.convert(to.timezone))
        return super().visit_Cast(op, arg=arg, to=to)

    def visit_IntervalFromInteger(self, _: Any, *, arg: Any, unit: Any) -> Any:  # noqa: N802
        return sge.Interval(this=arg, unit=self.v[unit.singular])

    def visit_Clip(self, _: Any, *, arg: Any, lower: Any, upper: Any) -> Any:  # noqa: N802
        return self.f.anon.clip(arg, *(sge.Null() if limit is None else limit for limit in (lower, upper)))

    def visit_Round(self, _: Any, *, arg: Any, digits: Any) -> Any:  # noqa: N802
        return self.f.round(arg) if digits is None or digits == sge.convert(0) else self.f.round(arg, digits)

    def visit_Correlation(self, _: Any, *, left: Any, right: Any, where: Any, **_how: Any) -> Any:  # noqa: N802
        return self.agg.corr(left, right, where=where)

    def visit_DayOfWeekName(self, _: Any, *, arg: Any) -> Any:  # noqa: N802
        return self.f.dayname(arg)

    def visit_Strip(self, _: Any, *, arg: Any) -> Any:  # noqa: N802
        return self.f.trim(arg)

    def visit_LStrip(self, _: Any, *, arg: Any) -> Any:  # noqa: N802
        return self.f.ltrim(arg)

    def visit_RStrip(self, _: Any, *, arg: Any) -> Any:  # noqa: N802
        return self.f.rtrim(arg)

    def visit_Substring(self, op: Any, *, arg: Any, start: Any, length: Any) -> Any:  # noqa: N802
        """Ibis counts from 0."""
        first = sge.convert(op.start.value + 1) if isinstance(op.start, ops.Literal) else start
        return self.f.substring(arg, first, *([] if length is None else [length]))

    def visit_ArrayIndex(self, op: Any, *, arg: Any, **_: Any) -> Any:  # noqa: N802
        """text.split("-")[0]; there is no other list."""
        place = op.index.value if isinstance(op.index, ops.Literal) else -1
        if not isinstance(op.arg, ops.StringSplit) or place < 0:
            refuse("unsupported-function", _part(op), "only a split text has parts.", "Write text.split('-')[0].")
        return self.f.anon.split_part(*arg.args.values(), place + 1)

    def visit_StringSplit(self, _: Any, *, arg: Any, delimiter: Any) -> Any:  # noqa: N802
        return sge.Split(this=arg, expression=delimiter)

    def visit_Bucket(self, op: Any, *, arg: Any, buckets: Any, closed: str, close_extreme: bool, **_: Any) -> Any:  # noqa: N802
        """The bucket, numbered as in Ibis: 0 is the first one requested, and rows in none of them are NULL."""
        if any(low >= high for low, high in pairwise(buckets)):
            refuse("wrong-argument", _part(op), "its edges are not in ascending order.", "Write bucket([0, 18, 65]).")
        edges, ends = [sge.convert(edge) for edge in buckets], close_extreme and len(buckets) > 1
        if op.include_under and op.include_over and closed == "left" and not ends:
            return self.f.anon.width_bucket(arg, self.f.array(*edges))
        low, high = (sge.GT, sge.LTE) if closed == "right" else (sge.GTE, sge.LT)
        conditions = [self.binop(sge.LT if ends else high, arg, edges[0])] if op.include_under else []
        for place, (bottom, top) in enumerate(pairwise(edges)):
            above = self.binop(sge.GTE if ends and place == 0 else low, arg, bottom)
            below = self.binop(sge.LTE if ends and place == len(edges) - 2 else high, arg, top)
            conditions.append(sg.and_(above, below))
        conditions += [self.binop(sge.GT if ends else low, arg, edges[-1])] if op.include_over else []
        return sge.Case(ifs=[self.if_(condition, place) for place, condition in enumerate(conditions)])

    def visit_Undefined(self, op: Any, **_: Any) -> NoReturn:  # noqa: N802
        refuse("unsupported-function", _part(op), "this operation is not supported.", ALLOWED)

    visit_Unsupported = visit_Undefined  # noqa: N815


def _part(op: Any) -> str:
    return f"`{type(op).__name__}`"
