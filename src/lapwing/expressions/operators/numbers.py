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

NUMBERS = "numbers"
MOST_DIGITS = 15
MOST_EXPONENT = 16
_NUMBER = (Type.INTEGER, Type.REAL)


def _arithmetic(types: Types) -> Type | None:
    if len(types) != 2 or not all(kind is None or kind.is_number for kind in types):
        return None
    return Type.REAL if Type.REAL in types else Type.INTEGER


def _same(types: Types) -> Type | None:
    """For functions of one number that map integers to integers."""
    return _arithmetic((*types, None)) if len(types) == 1 else None


def _round_result(types: Types) -> Type | None:
    if len(types) == 2:
        return Type.REAL if _arithmetic(types) else None
    return Type.INTEGER if _same(types) else None


def _power_result(types: Types) -> Type | None:
    return _arithmetic(types)


def _on_numbers(node: forms.Form) -> Callable[[Node, Node], Node]:
    return lambda a, b: maybe_nan(paren(node(this=number(a), expression=number(b))))


def _not_zero(node: Node) -> Node:
    return let(number(node), lambda value: where(exp.NEQ(this=value(), expression=zero()), value()))


def _division(node: forms.Form) -> Callable[[Node, Node], Node]:
    return lambda a, b: maybe_nan(paren(node(this=number(a), expression=_not_zero(b))))


def _plain(node: Callable[..., Node]) -> Callable[[Node], Node]:
    """A function defined for all numbers."""
    return lambda a: maybe_nan(node(this=number(a)))


def _positive(node: Callable[..., Node], comparison: type[exp.Binary]) -> Callable[[Node], Node]:
    """A function defined above 0, or from 0 on."""

    def emit(a: Node) -> Node:
        return maybe_nan(
            let(number(a), lambda value: where(comparison(this=value(), expression=zero()), node(this=value())))
        )

    return emit


def _round(a: Node, digits: Node | None = None) -> Node:
    return maybe_nan(forms.RoundTo(this=number(a), digits=digits))


def _clip(value: Node, low: Node, high: Node) -> Node:
    limits = [limit for limit in (low, high) if not isinstance(limit, exp.Null)]

    def cut(current: Callable[[], Node]) -> Node:
        result = current()
        if not isinstance(high, exp.Null):
            result = forms.Least(expressions=[result, number(high)])
        if not isinstance(low, exp.Null):
            result = forms.Greatest(expressions=[number(low), result])
        return where(exp.Not(this=exp.Is(this=current(), expression=exp.Null())), result)

    return let(null_if_nan(value), cut) if limits else value


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
    crossed = low.value is not None and high.value is not None and Extent(_end(low), _end(high)).is_empty
    return "Write the lower limit first: CLIP(x, 0, 100)." if crossed else None


def _end(literal: Literal) -> bounds.End:
    return bounds.point(literal.value).low


def _clip_result(types: Types) -> Type | None:
    fits = len(types) == 3 and all(kind is None or kind.is_number for kind in types)
    return None if not fits else Type.REAL if Type.REAL in types else Type.INTEGER


def _real(name: str, emit: Callable[[Node], Node], interval: Callable[[Extent], Extent], meaning: str) -> Operator:
    return Operator(
        name, only(*_NUMBER, gives=Type.REAL), emit, "a number", interval, sql=f"{name.upper()}(x)", meaning=meaning
    )


def _step(name: str, node: Callable[..., Node], meaning: str, rule: Callable[..., bounds.Extent]) -> Operator:
    kind = only(*_NUMBER, gives=Type.INTEGER)
    sql = f"{name.upper()}(x)"
    return Operator(name, kind, _plain(node), "a number", rule, height=1, sql=sql, meaning=meaning)


ADD = Operator(
    "+",
    _arithmetic,
    _on_numbers(forms.Plus),
    NUMBERS,
    bounds.add,
    height=1,
    sql="x + y",
    meaning="The sum; NULL if either is NULL.",
)
SUBTRACT = Operator(
    "-",
    _arithmetic,
    _on_numbers(forms.Minus),
    NUMBERS,
    bounds.subtract,
    height=1,
    sql="x - y",
    meaning="The difference; NULL if either is NULL. -x is 0 - x.",
)
MULTIPLY = Operator(
    "*",
    _arithmetic,
    _on_numbers(forms.Times),
    NUMBERS,
    bounds.multiply,
    height=1,
    sql="x * y",
    meaning="The product; NULL if either is NULL.",
)
DIVIDE = Operator(
    "/",
    only(*_NUMBER, gives=Type.REAL, least=2, most=2),
    _division(forms.Quotient),
    NUMBERS,
    bounds.divide,
    sql="x / y",
    meaning="The quotient; NULL if y is 0. Bounded if the bounds of y exclude 0. x // y drops the fraction, "
    "even for reals, where DuckDB divides like /.",
)
REMAINDER = Operator(
    "%",
    _arithmetic,
    _division(forms.Modulo),
    NUMBERS,
    bounds.remainder,
    sql="x % y",
    meaning="The remainder, with the sign of x; NULL if y is 0. MOD(x, y) is the same.",
)
FLOOR = _step("floor", exp.Floor, "Rounded down to an integer.", bounds.floor)
CEIL = _step("ceil", exp.Ceil, "Rounded up to an integer.", bounds.ceil)
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
ABS = Operator(
    "abs",
    _same,
    _plain(exp.Abs),
    "a number",
    bounds.absolute,
    height=1,
    sql="ABS(x)",
    meaning="The absolute value.",
)
SIGN = Operator(
    "sign",
    only(*_NUMBER, gives=Type.INTEGER),
    lambda a: exp.Sign(this=number(null_if_nan(a))),
    "a number",
    bounds.sign,
    sql="SIGN(x)",
    meaning="-1, 0 or 1.",
)
LN = _real("ln", _positive(exp.Ln, exp.GT), bounds.logarithm(0), "The natural logarithm; NULL at 0 and below.")
LOG10 = _real(
    "log10", _positive(forms.Log10, exp.GT), bounds.logarithm(10), "The base-10 logarithm; NULL at 0 and below."
)
LOG2 = _real("log2", _positive(forms.Log2, exp.GT), bounds.logarithm(2), "The base-2 logarithm; NULL at 0 and below.")
EXP = _real("exp", _plain(forms.Exponential), bounds.exponential, "e raised to the power x.")
SQRT = _real("sqrt", _positive(exp.Sqrt, exp.GTE), bounds.root, "The square root; NULL below 0.")
POWER = Operator(
    "power",
    _power_result,
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
    _clip_result,
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
