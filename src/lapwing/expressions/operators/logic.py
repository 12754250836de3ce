"""Comparisons, logic, and operators that pick one of their arguments. They take values of any type."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from lapwing.expressions import bounds
from lapwing.expressions.expression import Expression, Literal, Operator
from lapwing.expressions.forms import Form, Greatest, Least
from lapwing.expressions.operators.base import (
    Node,
    Types,
    common,
    comparison,
    is_maybe_nan,
    let,
    maybe_nan,
    null_if_nan,
    only,
    paren,
)
from lapwing.expressions.types import Type

TWO_ALIKE = "two values of the same type; CAST(d AS TIMESTAMP) turns a date into a timestamp"
TRUTH = "conditions, such as `age > 40`"


def _pair(types: Types) -> Type | None:
    return comparison(types) if len(types) == 2 else None


def _cases(types: Types) -> Type | None:
    conditions, values = types[:-1:2], (*types[1:-1:2], types[-1])
    if len(types) < 3 or len(types) % 2 == 0 or not all(kind in (Type.BOOLEAN, None) for kind in conditions):
        return None
    return common(values)


def _compared(node: type[exp.Binary]) -> Callable[[Node, Node], Node]:
    return lambda a, b: paren(node(this=null_if_nan(a), expression=null_if_nan(b)))


def _constants(_: Expression, *values: Expression) -> str | None:
    return None if values and all(isinstance(value, Literal) for value in values) else "Write IN ('a', 'b')."


def _case(*arguments: Node) -> Node:
    pairs = zip(arguments[:-1:2], arguments[1:-1:2], strict=True)
    node = exp.Case(ifs=[exp.If(this=condition, true=value) for condition, value in pairs], default=arguments[-1])
    return maybe_nan(node) if any(map(is_maybe_nan, arguments)) else node


def _coalesce(*arguments: Node) -> Node:
    first, *others = map(null_if_nan, arguments)
    return exp.Coalesce(this=first, expressions=others)


def _nullif(a: Node, b: Node) -> Node:
    other = null_if_nan(b)

    def body(value: Callable[[], Node]) -> Node:
        equal = exp.If(this=exp.EQ(this=value(), expression=other), true=exp.Null())
        return exp.Case(ifs=[equal], default=value())

    return let(null_if_nan(a), body)


def _comparison(name: str, node: type[exp.Binary], meaning: str) -> Operator:
    sql, meaning = f"x {name} y", f"{meaning} NULL if either is NULL."
    return Operator(name, _pair, _compared(node), TWO_ALIKE, compares=True, sql=sql, meaning=meaning)


def _connective(name: str, node: type[exp.Binary], meaning: str) -> Operator:
    def emit(a: Node, b: Node) -> Node:
        return paren(node(this=a, expression=b))

    truths = only(Type.BOOLEAN, gives=Type.BOOLEAN, least=2, most=2)
    return Operator(name, truths, emit, TRUTH, height=1, sql=f"c {name.upper()} x > 1", meaning=meaning)


def _choice(
    name: str, emit: Callable[..., Node], interval: Callable[..., bounds.Extent], sql: str, meaning: str
) -> Operator:
    return Operator(name, common, emit, "values of the same type", interval, sql=sql, meaning=meaning)


def _extreme(form: Form) -> Callable[..., Node]:
    return lambda *arguments: form(expressions=list(map(null_if_nan, arguments)))


EQUAL = _comparison("=", exp.EQ, "True if they are equal.")
UNEQUAL = _comparison("<>", exp.NEQ, "True if they differ.")
LESS = _comparison("<", exp.LT, "True if x is less; text is compared character by character.")
AT_MOST = _comparison("<=", exp.LTE, "True if x is less or equal.")
GREATER = _comparison(">", exp.GT, "True if x is greater.")
AT_LEAST = _comparison(">=", exp.GTE, "True if x is greater or equal. BETWEEN is `>=` and `<=`.")
AND = _connective("and", exp.And, "True if both are true; false AND NULL is false.")
OR = _connective("or", exp.Or, "True if either is true; true OR NULL is true.")
NOT = Operator(
    "not",
    only(Type.BOOLEAN, gives=Type.BOOLEAN),
    lambda a: paren(exp.Not(this=a)),
    TRUTH,
    height=1,
    sql="NOT c",
    meaning="The opposite; NULL stays NULL.",
)
IS_NULL = Operator(
    "is null",
    only(*Type, gives=Type.BOOLEAN),
    lambda a: paren(exp.Is(this=null_if_nan(a), expression=exp.Null())),
    "one value",
    sql="x IS NULL",
    meaning="True if x is NULL or NaN. Never NULL. IS NOT NULL is the opposite.",
)
DISTINCT = Operator(
    "is distinct from",
    _pair,
    _compared(exp.NullSafeNEQ),
    TWO_ALIKE,
    sql="x IS DISTINCT FROM y",
    meaning="True if they differ, where NULL equals NULL. Never NULL. IS TRUE and IS FALSE work the same way.",
)
IN = Operator(
    "in",
    lambda types: comparison(types) if len(types) > 1 else None,
    lambda needle, *values: paren(exp.In(this=null_if_nan(needle), expressions=list(values))),
    "a column and a list of values of the same type",
    admit=_constants,
    compares=True,
    sql="x IN (1, 2)",
    meaning="True if x is one of the constants; NULL if x is NULL. NOT IN is the opposite.",
)
CASE = Operator(
    "case",
    _cases,
    _case,
    "conditions after WHEN, and values of the same type, not all NULL, after THEN and ELSE",
    bounds.case,
    height=1,
    sql="CASE WHEN c THEN x ELSE y END",
    meaning="The value after the first true condition, else the ELSE value, else NULL. IF(c, x, y) is the same.",
)
COALESCE = _choice(
    "coalesce",
    _coalesce,
    bounds.first,
    "COALESCE(x, 0)",
    "The first value that is neither NULL nor NaN. IFNULL(x, 0) is the same.",
)
NULLIF = Operator(
    "nullif",
    lambda types: common(types) if len(types) == 2 else None,
    _nullif,
    TWO_ALIKE,
    lambda value, _: bounds.Extent(value.low, value.high),
    height=4,
    sql="NULLIF(x, 0)",
    meaning="x, or NULL if both are equal.",
)
LEAST = _choice("least", _extreme(Least), bounds.least, "LEAST(x, y)", "The smallest non-NULL value.")
GREATEST = _choice("greatest", _extreme(Greatest), bounds.greatest, "GREATEST(x, y)", "The largest non-NULL value.")

LOGIC = (
    EQUAL, UNEQUAL, LESS, AT_MOST, GREATER, AT_LEAST, AND, OR, NOT, IS_NULL, DISTINCT, IN,
    CASE, COALESCE, NULLIF, LEAST, GREATEST,
)  # fmt: skip
