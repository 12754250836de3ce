"""Builds the steps of one SELECT above the release, whatever it reads: rows that it aggregates, or released tables.

    from -> [attach scalars] -> keep (WHERE) -> fold (GROUP BY) -> keep (HAVING) -> over (windows) -> keep (QUALIFY)
         -> compute (SELECT) -> fold (DISTINCT) -> sort (ORDER BY) -> slice (LIMIT, OFFSET)

Window functions and sub-queries become columns of their own: in an expression stands a `Slot` for each, which no
aggregate has. What is left is read as any expression is, node by node from the same allow lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from lapwing.expressions.expression import Column, Expression, Key, Literal, Slot
from lapwing.expressions.operators.base import call
from lapwing.expressions.operators.logic import CASE
from lapwing.expressions.refusal import refuse
from lapwing.expressions.types import Type
from lapwing.plan.postprocessed import Attach, Compute, FoldCall, KeepRows, Over, TableStep, WindowCall, WindowFrame
from lapwing.plan.question import Output
from lapwing.sql.nodes import NULL, SqlNode, SqlReader, is_whole
from lapwing.sql.refusals import check_modifiers, part_of
from lapwing.sql.relation import Meanings

ONE = Literal(1, Type.INTEGER)

FUNCTIONS: dict[type[SqlNode], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.Median: "median",
    exp.PercentileCont: "quantile_cont",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.ArgMax: "arg_max",
    exp.ArgMin: "arg_min",
    exp.AnyValue: "any_value",
}
"""Aggregates over released numbers."""
WINDOW_FUNCTIONS: dict[type[SqlNode], str] = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
    exp.PercentRank: "percent_rank",
    exp.CumeDist: "cume_dist",
    exp.Ntile: "ntile",
    exp.Lag: "lag",
    exp.Lead: "lead",
    exp.FirstValue: "first_value",
    exp.LastValue: "last_value",
    exp.NthValue: "nth_value",
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
}
"""Window functions over released numbers."""
_WHOLE = frozenset({"row_number", "rank", "dense_rank", "ntile", "count", "count_rows"})
_SHARES = frozenset({"percent_rank", "cume_dist"})
_NUMBERED = frozenset({"lag", "lead", "ntile", "nth_value"})
MOST_ROWS_AWAY = 1_000_000

NewName = Callable[[], str]


class Builder:
    """Steps one after another, and the columns that the last one has."""

    def __init__(self, step: TableStep, types: dict[str, Type], fresh: NewName) -> None:
        self.step, self.types, self.fresh = step, dict(types), fresh

    def named(self, expressions: Sequence[Expression]) -> list[str]:
        """Names of columns with these values; what is no column yet is computed."""
        made = {e: self.fresh() for e in expressions if not isinstance(e, Column)}
        if made:
            kept = [Output(name, Column(name, kind)) for name, kind in self.types.items()]
            self.step = Compute(self.step, (*kept, *(Output(name, e) for e, name in made.items())))
            self.types |= {name: e.type or Type.TEXT for e, name in made.items()}
        return [e.name if isinstance(e, Column) else made[e] for e in expressions]

    def only(self, conditions: Iterable[Expression], what: str) -> None:
        """Only the rows for which all conditions hold."""
        for condition in conditions:
            if condition.type not in (Type.BOOLEAN, None):
                refuse("wrong-type", what, "it is not a condition.", "Use a comparison, such as `n > 40`.")
            (name,) = self.named([condition])
            self.step = KeepRows(self.step, name)

    def attach(self, scalar: TableStep, column: str, kind: Type, name: str) -> None:
        self.step = Attach(self.step, scalar, column, name)
        self.types[name] = kind


@dataclass(frozen=True, slots=True)
class PendingWindow:
    """A window function, and the expressions that are to become the columns it reads."""

    call: WindowCall
    arguments: tuple[Expression, ...]
    partition: tuple[Expression, ...]
    order: tuple[tuple[Expression, bool], ...]


def put_windows(builder: Builder, pending: Sequence[PendingWindow], there: Callable[[Expression], Expression]) -> None:
    """The columns of these window functions. `there` gives an expression over the columns that the builder has."""
    if not pending:
        return
    needed = [e for window in pending for e in (*window.arguments, *window.partition, *(by for by, _ in window.order))]
    names = dict(zip(needed, builder.named(list(map(there, needed))), strict=True))
    calls = [
        replace(
            window.call,
            arguments=tuple([names[e] for e in window.arguments]),
            partition=tuple([names[e] for e in window.partition]),
            order=tuple([(names[e], descending) for e, descending in window.order]),
        )
        for window in pending
    ]
    builder.step = Over(builder.step, tuple(calls))
    builder.types |= {call.name: call.type for call in calls}


def read_window(node: exp.Window, named: dict[str, exp.Window], read: SqlReader, name: str) -> PendingWindow:
    """A window function over released numbers; what is not in the table is refused."""
    node = _resolved(node, named)
    inner, condition = node.this, None
    if isinstance(inner, exp.Filter):
        check_modifiers(inner.expression)
        condition, inner = read(inner.expression.this), inner.this
    function = WINDOW_FUNCTIONS.get(type(inner))
    if function is None or isinstance(inner.args.get("this"), exp.Distinct):
        refuse(
            "unsupported-function",
            part_of(node),
            "this window function is not supported over released numbers.",
            "Use SUM, AVG, COUNT, MIN, MAX, ROW_NUMBER, RANK, DENSE_RANK, NTILE, LAG, LEAD, FIRST_VALUE or LAST_VALUE.",
        )
    arguments, number = _arguments(inner, function, node)
    if function == "count" and not arguments:
        function = "count_rows"
    values = tuple(map(read, arguments))
    if condition is not None:
        values = tuple(_where(value, condition, node) for value in values or (ONE,))
        function = "count" if function == "count_rows" else function
    if function in ("sum", "avg"):
        require_number(values[0], node)
    order = node.args.get("order")
    if order is not None:
        check_modifiers(order)
    by = tuple((read(term.this), bool(term.args.get("desc"))) for term in _terms(order))
    partition = tuple(read(part) for part in node.args.get("partition_by") or [])
    kind = _window_type(function, values)
    window = WindowCall(name, function, (), kind, frame=_frame(node, by, function), number=number)
    return PendingWindow(window, values, partition, by)


def _terms(order: SqlNode | None) -> list[SqlNode]:
    terms = [] if order is None else list(order.expressions)
    for term in terms:
        check_modifiers(term)
    return terms


def _resolved(node: exp.Window, named: dict[str, exp.Window]) -> exp.Window:
    """The window with what a WINDOW clause says under its name."""
    allowed = {"this", "partition_by", "order", "spec", "over", "alias"}
    if {part for part, value in node.args.items() if value} - allowed:
        refuse("unsupported-clause", part_of(node), "this form of OVER is not supported.", "Write OVER (ORDER BY x).")
    alias = node.args.get("alias")
    if alias is None:
        return node
    known = named.get(alias.name.lower())
    if known is None or node.args.get("partition_by") or node.args.get("order") or node.args.get("spec"):
        refuse("unsupported-clause", part_of(node), "there is no such window.", "Write the window itself: OVER (...).")
    parts = {part: known.args.get(part) for part in ("partition_by", "order", "spec")}
    return exp.Window(this=node.this, **parts)


def _arguments(inner: SqlNode, function: str, node: SqlNode) -> tuple[list[SqlNode], int | None]:
    """The columns that a window function reads, and its constant."""
    if function == "ntile":
        return [], _constant(inner.this, node)
    if inner.args.get("default") is not None:
        refuse(
            "wrong-argument",
            part_of(node),
            "a default is not supported.",
            f"Write COALESCE({function.upper()}(x) OVER (...), 0).",
        )
    if function in _WHOLE | _SHARES and function != "count":
        return [], None
    argument = inner.this
    number = None
    if function in _NUMBERED:
        offset = inner.args.get("offset")
        number = 1 if offset is None else _constant(offset, node)
    check_modifiers(inner) if function not in _NUMBERED else None
    if (
        argument is None
        or isinstance(argument, exp.Star)
        or (function == "count" and isinstance(argument, exp.Literal))
    ):
        return [], number
    return [argument], number


def _constant(node: SqlNode | None, whole: SqlNode) -> int:
    if node is None or not is_whole(node) or not 1 <= int(node.name) <= MOST_ROWS_AWAY:
        refuse("wrong-argument", part_of(whole), "it takes a constant from 1 on.", "For example: LAG(n, 1), NTILE(4).")
    return int(node.name)


def _window_type(function: str, values: tuple[Expression, ...]) -> Type:
    if function in _WHOLE:
        return Type.INTEGER
    if function in _SHARES or function == "avg":
        return Type.REAL
    return values[0].type or Type.TEXT


def _frame(node: exp.Window, by: tuple[object, ...], function: str) -> WindowFrame | None:
    spec = node.args.get("spec")
    if spec is None:
        return None
    if function in _WHOLE | _SHARES | {"lag", "lead"} and function not in ("count", "count_rows"):
        return None  # they see the whole group, whatever the frame says
    kind = str(spec.args.get("kind") or "").upper()
    ends = [_end(spec, side, node) for side in ("start", "end")]
    if spec.args.get("exclude") or (ends[0] is not None and ends[1] is not None and ends[0] > ends[1]):
        refuse("unsupported-clause", part_of(node), "this frame is not supported.", _ROWS)
    if kind == "RANGE" and ends == [None, 0] and by:
        return None
    if kind != "ROWS" and ends != [None, None]:
        refuse("unsupported-clause", part_of(node), "only frames of ROWS are supported.", _ROWS)
    return WindowFrame(ends[0], ends[1])


_ROWS = "Write ROWS BETWEEN 2 PRECEDING AND CURRENT ROW."


def _end(spec: SqlNode, side: str, node: SqlNode) -> int | None:
    """Rows from the current one; None for unbounded on its own side."""
    at, where = spec.args.get(side), str(spec.args.get(f"{side}_side") or "").upper()
    if at is None and side == "end":
        return 0
    if isinstance(at, str):
        word = at.upper()
        if word == "CURRENT ROW":
            return 0
        if word == "UNBOUNDED" and where == ("PRECEDING" if side == "start" else "FOLLOWING"):
            return None
    if isinstance(at, exp.Literal) and is_whole(at) and int(at.name) <= MOST_ROWS_AWAY:
        return -int(at.name) if where == "PRECEDING" else int(at.name)
    refuse("unsupported-clause", part_of(node), "this frame is not supported.", _ROWS)


def read_fold(node: SqlNode, read: SqlReader, name: str) -> tuple[FoldCall, tuple[Expression, ...]]:
    """An aggregate over released numbers, and its arguments, which are to become columns."""
    whole, condition = node, None
    if isinstance(node, exp.Filter):
        check_modifiers(node.expression)
        condition, node = read(node.expression.this), node.this
    if isinstance(node, exp.CountIf):
        met = read(node.this)
        node, condition = exp.Count(this=exp.Star()), met if condition is None else _where(met, condition, whole)
    function, level = FUNCTIONS.get(type(node), ""), None
    inner = node.this
    if isinstance(node, exp.WithinGroup) and isinstance(inner, exp.PercentileCont):
        check_modifiers(node.expression)
        function, level, inner = "quantile_cont", _share(inner.this, whole), node.expression.expressions[0].this
    elif function == "quantile_cont":
        level = _share(node.expression, whole)
    if not function or (condition is not None and function in ("arg_max", "arg_min", "any_value")):
        refuse(
            "unsupported-function",
            part_of(whole),
            "this aggregate is not supported over released numbers.",
            "Use COUNT, SUM, AVG, MIN, MAX, MEDIAN, STDDEV, VARIANCE, ARG_MAX or ARG_MIN.",
        )
    nodes = [inner, node.expression] if function in ("arg_max", "arg_min") else [inner]
    if function == "count":
        check_modifiers(node)
        if isinstance(inner, exp.Distinct) and len(inner.expressions) == 1:
            function, nodes = "count_distinct", list(inner.expressions)
        elif inner is None or isinstance(inner, exp.Star | exp.Literal):
            function, nodes = "count_rows", []
    if any(isinstance(one, exp.Distinct) for one in nodes):
        refuse("unsupported-function", part_of(whole), "DISTINCT is only supported inside COUNT.", "Leave it out.")
    values = tuple(map(read, nodes))
    if condition is not None:
        function = "count" if function == "count_rows" else function
        values = tuple(_where(value, condition, whole) for value in values or (ONE,))
    if function not in ("count", "count_distinct", "count_rows", "min", "max", "any_value", "arg_max", "arg_min"):
        require_number(values[0], whole)
    return FoldCall(name, function, (), _fold_type(function, values), level), values


def _share(node: SqlNode | None, whole: SqlNode) -> float:
    try:
        level = float(node.name) if isinstance(node, exp.Literal) else -1.0
    except ValueError:
        level = -1.0
    if not 0 <= level <= 1:
        refuse("wrong-argument", part_of(whole), "its level must be a constant from 0 to 1.", "QUANTILE_CONT(n, 0.9).")
    return level


def _fold_type(function: str, values: tuple[Expression, ...]) -> Type:
    if function.startswith("count"):
        return Type.INTEGER
    if function in ("sum", "min", "max", "any_value", "arg_max", "arg_min"):
        return values[0].type or Type.TEXT
    return Type.REAL


def _where(value: Expression, condition: Expression, node: SqlNode) -> Expression:
    return call(CASE, condition, value, NULL, part=lambda: part_of(node))


def require_number(value: Expression, node: SqlNode) -> None:
    if value.type is None or not value.type.is_number:
        refuse("wrong-type", part_of(node), "it only takes numbers.", "Use a numeric column.")


def columns_for(keys: Sequence[str], slots: Sequence[str], types: Mapping[str, Type]) -> Meanings:
    """The columns that keys and aggregates are in, by what they are above the aggregation."""
    meanings: Meanings = {Key(i, types[name]): Column(name, types[name]) for i, name in enumerate(keys)}
    return {**meanings, **{Slot(i, types[name]): Column(name, types[name]) for i, name in enumerate(slots)}}
