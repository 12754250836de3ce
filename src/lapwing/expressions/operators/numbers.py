"""Arithmetic and numeric functions, all in float64. A result that is undefined, such as x / 0 or LN(-1), is NULL."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from lapwing.expressions import bounds, forms
from lapwing.expressions.bounds import Extent
from lapwing.expressions.expression import Expression, Literal, Operator
from lapwing.expressions.operators.base import (
    Node,
    Types,
    is_whole,
    let,
    maybe_nan,
    null_if_nan,
    number,
    only,
    paren,
    where,
    zero,
)
from lapwing.expressions.types import Type

MOST_DIGITS = 15
MOST_EXPONENT = 16
_NUMBER = (Type.INTEGER, Type.REAL)
_TO_INTEGER, _TO_REAL = only(*_NUMBER, gives=Type.INTEGER), only(*_NUMBER, gives=Type.REAL)


def _widest(count: int) -> Callable[[Types], Type | None]:
    """For this many numbers: real if one of them is."""

    def result(types: Types) -> Type | None:
        if len(types) != count or not all(kind is None or kind.is_number for kind in types):
            return None
        return Type.REAL if Type.REAL in types else Type.INTEGER

    return result


def _round_result(types: Types) -> Type | None:
    return only(*_NUMBER, gives=Type.REAL, least=2, most=2)(types) or _TO_INTEGER(types)


def _of_number(node: Callable[..., Node]) -> Callable[[Node], Node]:
    """A function defined for all numbers."""
    return lambda a: maybe_nan(node(this=number(a)))


def _where(node: Callable[..., Node], comparison: type[exp.Binary]) -> Callable[[Node], Node]:
    """A function defined where the number compares with 0 in this way."""

    def body(value: Callable[[], Node]) -> Node:
        return where(comparison(this=value(), expression=zero()), node(this=value()))

    return lambda a: maybe_nan(let(number(a), body))


def _round(a: Node, digits: Node | None = None) -> Node:
    return maybe_nan(forms.RoundTo(this=number(a), digits=digits))


def _clip(value: Node, low: Node, high: Node) -> Node:
    is_open = [isinstance(limit, exp.Null) for limit in (low, high)]

    def cut(current: Callable[[], Node]) -> Node:
        result = current()
        if not is_open[1]:
            result = forms.Least(expressions=[result, number(high)])
        if not is_open[0]:
            result = forms.Greatest(expressions=[number(low), result])
        return where(exp.Not(this=exp.Is(this=current(), expression=exp.Null())), result)

    return value if all(is_open) else let(null_if_nan(value), cut)


def _digits(_: Expression, digits: Expression | None = None) -> str | None:
    if digits is None or is_whole(digits, -MOST_DIGITS, MOST_DIGITS):
        return None
    return f"Use ROUND(x, 2), with at most {MOST_DIGITS} digits."


def _exponent(_: Expression, exponent: Expression) -> str | None:
    if is_whole(exponent, 0, MOST_EXPONENT):
        return None
    return f"Use POWER(x, 2), with an integer exponent of at most {MOST_EXPONENT}, or EXP(y * LN(x))."


def _limits(_: Expression, low: Expression, high: Expression) -> str | None:
    if not isinstance(low, Literal) or not isinstance(high, Literal):
        return "Write CLIP(x, 0, 100)."
    ends = [bounds.point(limit.value).low for limit in (low, high) if limit.value is not None]
    crossed = len(ends) == 2 and ends[0] > ends[1]
    return "Write the lower limit first: CLIP(x, 0, 100)." if crossed else None


def _arithmetic(name: str, form: forms.Form, interval: Callable[..., Extent], meaning: str) -> Operator:
    def emit(a: Node, b: Node) -> Node:
        return maybe_nan(paren(form(this=number(a), expression=number(b))))

    return Operator(name, _widest(2), emit, "numbers", interval, height=1, sql=f"x {name} y", meaning=meaning)


def _division(
    name: str, form: forms.Form, result: Callable[[Types], Type | None], interval: Callable[..., Extent], meaning: str
) -> Operator:
    def divisor(value: Callable[[], Node]) -> Node:
        return where(exp.NEQ(this=value(), expression=zero()), value())

    def emit(a: Node, b: Node) -> Node:
        return maybe_nan(paren(form(this=number(a), expression=let(number(b), divisor))))

    return Operator(name, result, emit, "numbers", interval, sql=f"x {name} y", meaning=meaning)


def _function(
    name: str,
    result: Callable[[Types], Type | None],
    emit: Callable[[Node], Node],
    interval: Callable[..., Extent],
    meaning: str,
    height: int = 3,
) -> Operator:
    sql = f"{name.upper()}(x)"
    return Operator(name, result, emit, "a number", interval, height=height, sql=sql, meaning=meaning)


def _logarithm(name: str, node: Callable[..., Node], base: int, words: str) -> Operator:
    meaning = f"The {words} logarithm; NULL at 0 and below."
    return _function(name, _TO_REAL, _where(node, exp.GT), bounds.logarithm(base), meaning)


ADD = _arithmetic("+", forms.Plus, bounds.add, "The sum; NULL if either is NULL.")
SUBTRACT = _arithmetic("-", forms.Minus, bounds.subtract, "The difference; NULL if either is NULL. -x is 0 - x.")
MULTIPLY = _arithmetic("*", forms.Times, bounds.multiply, "The product; NULL if either is NULL.")
DIVIDE = _division(
    "/",
    forms.Quotient,
    only(*_NUMBER, gives=Type.REAL, least=2, most=2),
    bounds.divide,
    "The quotient; NULL if y is 0. Bounded if the bounds of y exclude 0. x // y drops the fraction, even for reals, "
    "where DuckDB divides like /.",
)
REMAINDER = _division(
    "%",
    forms.Modulo,
    _widest(2),
    bounds.remainder,
    "The remainder, with the sign of x; NULL if y is 0. MOD(x, y) is the same.",
)
FLOOR = _function("floor", _TO_INTEGER, _of_number(exp.Floor), bounds.floor, "Rounded down to an integer.", 1)
CEIL = _function("ceil", _TO_INTEGER, _of_number(exp.Ceil), bounds.ceil, "Rounded up to an integer.", 1)
ROUND = Operator(
    "round",
    _round_result,
    _round,
    "a number and a constant number of digits",
    bounds.round_to,
    _digits,
    height=1,
    sql="ROUND(x, 2)",
    meaning=f"Rounded to that many decimals, at most {MOST_DIGITS}, halves away from 0; ROUND(x) is an integer.",
)
ABS = _function("abs", _widest(1), _of_number(exp.Abs), bounds.absolute, "The absolute value.", 1)
SIGN = _function("sign", _TO_INTEGER, lambda a: exp.Sign(this=number(null_if_nan(a))), bounds.sign, "-1, 0 or 1.")
LN = _logarithm("ln", exp.Ln, 0, "natural")
LOG10 = _logarithm("log10", forms.Log10, 10, "base-10")
LOG2 = _logarithm("log2", forms.Log2, 2, "base-2")
EXP = _function("exp", _TO_REAL, _of_number(forms.Exponential), bounds.exponential, "e raised to the power x.")
SQRT = _function("sqrt", _TO_REAL, _where(exp.Sqrt, exp.GTE), bounds.root, "The square root; NULL below 0.")
POWER = Operator(
    "power",
    _widest(2),
    lambda a, b: maybe_nan(forms.Power(this=number(a), expression=number(b))),
    "a number and a constant exponent",
    bounds.power,
    _exponent,
    height=1,
    sql="POWER(x, 2)",
    meaning=f"x raised to a constant integer power from 0 to {MOST_EXPONENT}. x ** 2 is the same.",
)
CLIP = Operator(
    "clip",
    _widest(3),
    _clip,
    "a number and two constants",
    bounds.clip,
    _limits,
    height=4,
    sql="CLIP(x, 0, 100)",
    meaning="x, or the nearer limit if x is outside; NULL stays NULL. A NULL limit leaves that side open.",
)

NUMERIC = (
    ADD, SUBTRACT, MULTIPLY, DIVIDE, REMAINDER, FLOOR, CEIL, ROUND, ABS, SIGN, LN, LOG10, LOG2, EXP, SQRT, POWER, CLIP,
)  # fmt: skip
