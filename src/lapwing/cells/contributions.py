"""What one row and one unit add to the cells: small integers, exact whatever the rows hold (shapes.py).

Every row adds one integer to each total of its unit, and the unit's cells are a clipped function of its totals.
Missing values: NaN becomes NULL and NULL is left out *before* clipping, since LEAST and GREATEST skip NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor

from sqlglot import exp

from lapwing.errors import Bug
from lapwing.language.emission import between, cut, real, value
from lapwing.language.expression import Column, Expression, Key, Slot
from lapwing.language.forms import ExactSum, Least, Minus, RoundTo, Times, WholeQuotient, Wide, WideProduct
from lapwing.language.operators.base import let
from lapwing.language.operators.table import bounds_of, cast, number
from lapwing.language.types import Interval, Type
from lapwing.measures.measure import Measure
from lapwing.measures.shapes import Distinct, Grid, Pair, Soft, Total
from lapwing.mechanisms.moments.values import GRID
from lapwing.planning.plan import Plan

ROWS = "lw_rows"
"""Every column is read through this name, so that no alias can be taken for a column."""

_MOST_STEPS = Fraction(1 << 62)  # of one row: a wider value is cut here, so that no cast to BIGINT can fail


@dataclass(frozen=True, slots=True)
class Argument:
    """What a measure reads of each row: the value, its place between bounds in so many steps, or its cell of a grid."""

    expression: Expression
    clipped: bool = False
    """Whether its columns are clipped first: where it is added up."""
    bounds: Interval | None = None
    steps: int = 0
    floored: bool = False


def arguments(plan: Plan) -> list[Argument]:
    """The columns of `rows` that the measures read, each once."""
    return list(_places(_Held(plan.measures)))


class _Held:
    """Measures that are equal if they are one object: to compare them by value takes as long as to read them."""

    def __init__(self, measures: tuple[Measure, ...]) -> None:
        self.measures = measures

    def __hash__(self) -> int:
        return id(self.measures)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and other.measures is self.measures


@lru_cache(maxsize=8)
def _places(held: _Held) -> dict[Argument, int]:
    """The columns that the measures read and their places. Asked for each measure, so made once for a plan."""
    columns = dict.fromkeys(column for measure in held.measures for column in _columns(measure))
    return {column: place for place, column in enumerate(columns)}


def _columns(measure: Measure) -> list[Argument]:
    match measure.shape:
        case Total(argument=None):
            return []
        case Total(argument=argument, summed=summed) if argument is not None:
            return [Argument(argument, summed and not _is_whole_column(measure))]
        case Soft(argument=argument, bounds=bounds):
            return [Argument(argument, True, bounds, GRID)]
        case Pair(x=x, y=y, x_bounds=x_bounds, y_bounds=y_bounds):
            return [Argument(x, True, x_bounds, GRID), Argument(y, True, y_bounds, GRID)]
        case Grid(argument=argument, bounds=bounds, bins=bins, points=points):
            return [Argument(argument, True, bounds, bins - 1 if points else bins, not points)]
        case Distinct(argument=argument):
            return [Argument(argument)]
        case _:
            raise Bug("a shape without columns")


def computed(column: Argument) -> exp.Expression:
    """The column of `rows`; NULL where the value is missing or not a number."""
    node = value(column.expression, source, clipped=column.clipped)
    if column.bounds is None:
        return node
    width = column.bounds.high - column.bounds.low

    def placed(one: Callable[[], exp.Expression]) -> exp.Expression:
        moved = exp.Paren(
            this=Minus(this=number(one()), expression=real(column.bounds.low if column.bounds else Fraction(0)))
        )
        scaled = Times(this=moved, expression=real(column.steps / width))
        most = Fraction(column.steps - 1 if column.floored else column.steps)
        whole_ = exp.Floor(this=scaled) if column.floored else RoundTo(this=scaled)
        return _where_present(one(), cast(between(whole_, Fraction(0), most), exp.DType.BIGINT))

    return let(node, placed)


def _is_whole_column(measure: Measure) -> bool:
    """An integer column in steps of 1 is clipped as an integer, so that nothing is lost beyond 2^53."""
    shape = measure.shape
    if not isinstance(shape, Total) or measure.step != 1:
        return False
    return isinstance(shape.argument, Column) and shape.argument.type is Type.INTEGER


def read(plan: Plan, measure: Measure, place: int = 0) -> exp.Expression:
    """The column of `rows` that holds the measure's argument."""
    return named(f"a{_places(_Held(plan.measures))[_columns(measure)[place]]}")


def summed_measures(plan: Plan) -> list[Measure]:
    """The measures whose cells are sums over units."""
    return [measure for measure in plan.measures if isinstance(measure.shape, Total | Soft | Pair)]


def count_totals(plan: Plan) -> int:
    """How many totals a unit has in a group."""
    return sum(len(unit_totals(plan, measure)) for measure in summed_measures(plan))


def unit_totals(plan: Plan, measure: Measure) -> list[exp.Expression]:
    """What the rows of one unit add up to within one group."""
    match measure.shape:
        case Total(argument=None):
            return [exp.Count(this=exp.Star())]
        case Total(summed=False):
            return [exp.Count(this=read(plan, measure))]
        case Total():
            return [ExactSum(this=_amount(plan, measure))]
        case _:
            parts = _soft_parts(plan, measure)
            return [*(_added(ExactSum(this=part)) for part in parts[:-1]), exp.Count(this=parts[0].copy())]


def row_parts(plan: Plan, measure: Measure) -> list[exp.Expression]:
    """The same totals where every row is a unit: of one row."""
    match measure.shape:
        case Total(argument=None):
            return [exp.Literal.number(1)]
        case Total(summed=False):
            return [_one_if_present(read(plan, measure))]
        case Total():
            return [_amount(plan, measure)]
        case _:
            parts = _soft_parts(plan, measure)
            return [*map(_added, parts[:-1]), _one_if_present(exp.Paren(this=parts[0].copy()))]


def _soft_parts(plan: Plan, measure: Measure) -> list[exp.Expression]:
    """What one row adds to the totals of soft cells, NULL where a value is missing; the last, 1, stands for the row."""
    match measure.shape:
        case Soft(squares=squares):
            a = read(plan, measure)
            return [a, *([_halved(a.copy(), a.copy())] if squares else []), exp.Literal.number(1)]
        case Pair():
            a, b = read(plan, measure), read(plan, measure, 1)
            there = exp.Not(this=exp.Is(this=b, expression=exp.Null()))
            first = exp.Case(ifs=[exp.If(this=there, true=a)])
            square = exp.Case(ifs=[exp.If(this=there.copy(), true=_halved(a.copy(), a.copy()))])
            (b0, _, b2), sides = _thirds(b), _thirds(a)
            products = [_halved(side.copy(), end.copy()) for side in sides for end in (b0, b2)]
            return [first, square, *products, exp.Literal.number(1)]
        case _:
            raise Bug("these are not soft cells")


def _thirds(a: exp.Expression) -> tuple[exp.Expression, exp.Expression, exp.Expression]:
    """A row's shares of three cells, from its place a in 0..M: M - 2a + s, 2(a - s), s with s = a * a >> 30."""
    square, two = _halved(a.copy(), a.copy()), exp.Literal.number(2)
    double = exp.Mul(this=two, expression=a.copy())
    first = exp.Add(this=exp.Sub(this=exp.Literal.number(GRID), expression=double), expression=square)
    middle = exp.Mul(this=two.copy(), expression=exp.Paren(this=exp.Sub(this=a.copy(), expression=square.copy())))
    return exp.Paren(this=first), exp.Paren(this=middle), square.copy()


def _halved(a: exp.Expression, b: exp.Expression) -> exp.Expression:
    """a * b >> 30 for integers up to 2^30, so within 2^60."""
    product = exp.Paren(this=exp.Mul(this=a, expression=b))
    return exp.Paren(this=exp.BitwiseRightShift(this=product, expression=exp.Literal.number(30)))


def cells_of(plan: Plan, totals: list[exp.Expression]) -> list[exp.Expression]:
    """The cells of each measure, summed over units."""
    cells: list[exp.Expression] = []
    for measure in summed_measures(plan):
        mine = [totals.pop(0) for _ in unit_totals(plan, measure)]
        match measure.shape:
            case Total(summed=is_sum):
                low, high = map(exp.Literal.number, measure.shape.steps(measure.step))
                cells.append(_zero_if_missing(mine[0], low, high) if is_sum else cut(mine[0], low, high))
            case Soft(rows=rows, squares=False):
                first, held = mine
                cells += _weighed([first, _left(held, [first])], held, rows, rest=1)
            case Soft(rows=rows):
                first, square, held = mine
                cells += _weighed(list(_sides(first, square, held)), held, rows, rest=1)
            case Pair(rows=rows):
                first, square, *products, held = mine
                cells += _weighed(_tensor(_sides(first, square, held), products), held, rows, rest=4)
    return [summed(cell, f"c{i}") for i, cell in enumerate(cells)]


def _sides(first: exp.Expression, square: exp.Expression, held: exp.Expression) -> tuple[exp.Expression, ...]:
    """The three cells of a unit from its totals of a and s: n M - 2 A + S, 2 (A - S), S."""
    two = exp.Literal.number(2)
    lowest = exp.Add(this=_left(held, [exp.Mul(this=two, expression=first.copy())]), expression=square.copy())
    middle = exp.Mul(this=two.copy(), expression=exp.Paren(this=exp.Sub(this=first.copy(), expression=square.copy())))
    return exp.Paren(this=lowest), exp.Paren(this=middle), square.copy()


def _tensor(sides: tuple[exp.Expression, ...], products: list[exp.Expression]) -> list[exp.Expression]:
    """Nine cells: of each side the two products at the ends, and between them what is left of the side."""
    cells = []
    for side, (low, high) in zip(sides, zip(products[::2], products[1::2], strict=True), strict=True):
        middle = exp.Sub(this=exp.Sub(this=side.copy(), expression=low.copy()), expression=high.copy())
        cells += [low.copy(), exp.Paren(this=middle), high.copy()]
    return cells


def _left(held: exp.Expression, taken: list[exp.Expression]) -> exp.Expression:
    """What is left of M for each of the values."""
    node: exp.Expression = exp.Mul(this=held.copy(), expression=exp.Literal.number(GRID))
    for part in taken:
        node = exp.Sub(this=node, expression=part.copy())
    return exp.Paren(this=node)


def _weighed(cells: list[exp.Expression], held: exp.Expression, rows: int, *, rest: int) -> list[exp.Expression]:
    """Whole numbers of at least 0 that sum to min(held, rows) M exactly, whatever the rows hold.

    A unit with more values is scaled down: every cell but one becomes floor(cell rows / held), in exact integers. The
    floors sum to at most rows M, since the cells sum to held M; the last cell takes what is left.
    """
    limit = exp.Literal.number(rows)
    weight = Least(expressions=[held.copy(), limit])
    scaled: list[exp.Expression] = []
    for cell in cells:
        fits = exp.LTE(this=held.copy(), expression=limit.copy())
        much = exp.Paren(this=WideProduct(this=cell.copy(), expression=limit.copy()))
        floor_ = WholeQuotient(this=much, expression=exp.Nullif(this=held.copy(), expression=exp.Literal.number(0)))
        scaled.append(exp.Case(ifs=[exp.If(this=fits, true=cell.copy())], default=floor_))
    scaled[rest] = _left(weight, [cell for i, cell in enumerate(scaled) if i != rest])
    return scaled


def _zero_if_missing(total: exp.Expression, low: exp.Expression, high: exp.Expression) -> exp.Expression:
    """The total cut to [low, high]; a unit without any value adds nothing."""
    gone = exp.Is(this=total, expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=gone, true=exp.Literal.number(0))], default=cut(total.copy(), low, high))


def _amount(plan: Plan, measure: Measure) -> exp.Expression:
    """What one row adds to a sum, in whole steps, clipped; NULL where it is missing."""
    column = read(plan, measure)
    argument = measure.shape.argument if isinstance(measure.shape, Total) else None
    bounds = None if argument is None else bounds_of(argument)
    if bounds is None:
        raise Bug("a sum without bounds was planned")
    if _is_whole_column(measure):
        sides = exp.Literal.number(floor(bounds.low)), exp.Literal.number(ceil(bounds.high))
        return _where_present(column, cut(column.copy(), *sides))
    scaled = Times(this=number(column.copy()), expression=real(1 / measure.step))
    if isinstance(argument, Column) and bounds.magnitude <= _MOST_STEPS * measure.step:
        return cast(RoundTo(this=scaled), exp.DType.BIGINT)  # clipped already, to bounds that fit; NULL stays NULL
    low, high = (max(-_MOST_STEPS, min(_MOST_STEPS, side / measure.step)) for side in (bounds.low, bounds.high))
    return _where_present(column, cast(RoundTo(this=between(scaled, low, high)), exp.DType.BIGINT))


def _where_present(column: exp.Expression, result: exp.Expression) -> exp.Expression:
    """The result where the column has a value, else NULL."""
    gone = exp.Is(this=column, expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=gone, true=exp.Null())], default=result)


def _one_if_present(column: exp.Expression) -> exp.Expression:
    gone = exp.Is(this=column, expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=gone, true=exp.Literal.number(0))], default=exp.Literal.number(1))


def _added(node: exp.Expression) -> exp.Expression:
    return exp.Coalesce(this=node, expressions=[exp.Literal.number(0)])


def source(leaf: Column | Key | Slot) -> exp.Expression:
    """A column of the private table."""
    if not isinstance(leaf, Column):
        raise Bug("the result of an aggregate stands below the aggregation")
    return exp.column(leaf.name, table=ROWS, quoted=True)


def named(name: str) -> exp.Expression:
    """A column of the query inside."""
    return exp.column(name, quoted=True)


def aliased(node: exp.Expression, name: str) -> exp.Alias:
    """The node under a name."""
    return exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))


def summed(node: exp.Expression, name: str) -> exp.Alias:
    """A sum over units as an integer of 38 digits: no engine wraps or rounds it."""
    return aliased(Wide(this=_added(ExactSum(this=node))), name)
