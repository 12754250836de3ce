"""Float64 arithmetic on PostgreSQL, where overflow and underflow are errors.

Guarantee:  no text here fails, whatever its operands are: overflow gives infinity, underflow gives 0, NULL stays NULL.
            Sums, differences, products and quotients are those of IEEE 754 to the last bit.
Proof:      operands of ordinary size go straight to the operator: below 2^1022 a sum stays below 2^1023; between 2^-500
            and 2^500 a product or a quotient lies between 2^-1000 and 2^1000. The others are decided first. A scaled
            copy of the result, with both operands multiplied by powers of two, which is exact, lies far from both ends,
            so it is rounded as the result would be without ends: it overflows if and only if the copy reaches the
            scaled 2^1024, and is 0 only if the copy does not exceed the scaled 2^-1075. The exponents of each scale
            stand beside it. NaN and infinity never overflow: PostgreSQL lets them pass.
            A text is a CASE whose conditions name only its operands. So a constant operand is folded in the order of
            the branches, and no branch that would fail is ever folded or run.
Powers and EXP: a result below 2^-1022 is 0, and one within 1e-12 of 2^1024 is infinite: their libraries may disagree.
Names:      an operand that is long is computed once, by a sub-select. OFFSET 0 keeps the planner from copying it.
Checked by: tests/engines/test_postgres_arithmetic.py, tests/engines/test_dialect.py
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from sqlglot import exp

from lapwing.engines.dialect import Write, Writer
from lapwing.errors import Bug

_SHORT = 60  # characters of an operand that is written several times
_CONSTANT = re.compile(r"(?:CAST\()?\(?(?:FLOAT8 '([0-9.e+-]+)'|([0-9]+))\)?(?: AS DOUBLE PRECISION\))?")
_INFINITY, _NAN = "FLOAT8 'Infinity'", "FLOAT8 'NaN'"


def float8(value: float) -> str:
    return f"FLOAT8 '{value!r}'"


def _power(exponent: int) -> str:
    return float8(math.ldexp(1.0, exponent))


def constant_of(text: str) -> float | None:
    """The number that a text is, if it is a constant."""
    found = _CONSTANT.fullmatch(text)
    return None if found is None else float(found[1] or found[2])


def named(texts: list[str], body: Callable[..., str]) -> str:
    """The body, with the texts in several places: as they are if they are short, else computed once."""
    if all(len(text) <= _SHORT for text in texts):
        return body(*texts)
    return computed_once(texts, body)


def computed_once(texts: list[str], body: Callable[..., str]) -> str:
    """The body over texts that are computed once, and only if the body is."""
    names = [f"lw_x{place}" for place in range(len(texts))]
    columns = ", ".join(f"{text} AS {name}" for text, name in zip(texts, names, strict=True))
    return f"(SELECT {body(*names)} FROM (SELECT {columns} OFFSET 0) AS lw_held)"


def _guarded(
    odd: tuple[Callable[[str], str], Callable[[str], str]],
    is_odd: Callable[[float], bool],
    plain: str,
    slow: Callable[..., str],
) -> Write:
    """The operator where no operand is odd, else the long way, which is computed for such rows alone."""

    def write(writer: Writer, form: exp.Expression) -> str:
        operands = [f"({writer.sql(form.this)})", f"({writer.sql(form.expression)})"]

        def body(a: str, b: str) -> str:
            constants = {text: constant_of(text.removeprefix("(").removesuffix(")")) for text in operands}
            known = (constants[text] for text in operands)
            tests = zip(odd, (a, b), known, strict=True)
            odds = [test(name) for test, name, value in tests if value is None or is_odd(value)]
            if not odds:
                return f"{a} {plain} {b}"
            return f"CASE WHEN {' OR '.join(odds)} THEN {computed_once([a, b], slow)} ELSE {a} {plain} {b} END"

        return f"({named(operands, body)})"

    return write


def _large(x: str) -> str:
    return f"ABS({x}) >= {_power(1022)}"


def _extreme(x: str) -> str:
    return f"ABS({x}) >= {_power(500)} OR (ABS({x}) <= {_power(-500)} AND {x} <> 0)"


def _extreme_or_zero(x: str) -> str:
    return f"ABS({x}) >= {_power(500)} OR ABS({x}) <= {_power(-500)}"


def _is_extreme(value: float) -> bool:
    return not 2.0**-500 < abs(value) < 2.0**500 and value != 0


def _endless(*names: str) -> str:
    """Whether one is infinite or NaN, which is greater than all numbers."""
    return " OR ".join(f"ABS({x}) >= {_INFINITY}" for x in names)


def _sum(sign: str) -> Callable[[str, str], str]:
    """At least one operand is 2^1022 or more: halves of both are exact, or one is so small that it changes nothing."""
    return lambda x, y: (
        f"CASE WHEN {x} IS NULL OR {y} IS NULL THEN NULL "
        f"WHEN {_endless(x, y)} OR ABS({x}) < {_power(800)} OR ABS({y}) < {_power(800)} THEN {x} {sign} {y} "
        f"WHEN ABS({x} / 2 {sign} {y} / 2) < {_power(1023)} THEN {x} {sign} {y} "
        f"ELSE SIGN({x}) * {_INFINITY} END"
    )


def _product(x: str, y: str) -> str:
    """Both from 1 on: the copy is 2^-1024 of it, between 2^-1024 and 2^1024. Both below 1 and one below 2^-500: it is
    2^1074 of it, between 2^-1074 and 2^574."""
    return (
        f"CASE WHEN {x} IS NULL OR {y} IS NULL THEN NULL "
        f"WHEN {x} = 0 OR {y} = 0 OR {_endless(x, y)} THEN {x} * {y} "
        f"WHEN ABS({x}) >= 1 AND ABS({y}) >= 1 THEN CASE "
        f"WHEN ABS(({x} * {_power(-512)}) * ({y} * {_power(-512)})) < 1 THEN {x} * {y} ELSE {_signed(x, y)} END "
        f"WHEN ABS({x}) >= 1 OR ABS({y}) >= 1 THEN {x} * {y} "
        f"WHEN ABS({x}) >= {_power(-500)} AND ABS({y}) >= {_power(-500)} THEN {x} * {y} "
        f"WHEN ABS(({x} * {_power(537)}) * ({y} * {_power(537)})) > 0.5 THEN {x} * {y} ELSE 0 END"
    )


def _quotient(x: str, y: str) -> str:
    """|y| from 1 on and |x| below 2^-40: the copy is 2^1030 of it, between 2^-1068 and 2^990. |x| from 1 on, |y| below:
    2^-1074 of it, between 2^-1074 and 2^1024. Both below 1 and |y| below 2^-1000: 2^-100 of it, up to 2^974."""
    return (
        f"CASE WHEN {x} IS NULL OR {y} IS NULL OR {y} = 0 THEN NULL "
        f"WHEN {x} = 0 OR {_endless(x, y)} THEN {x} / {y} "
        f"WHEN ABS({y}) >= 1 THEN CASE WHEN ABS({x}) >= {_power(-40)} THEN {x} / {y} "
        f"WHEN ABS(({x} * {_power(530)}) / ({y} * {_power(-500)})) > {_power(-45)} THEN {x} / {y} ELSE 0 END "
        f"WHEN ABS({x}) >= 1 THEN CASE "
        f"WHEN ABS(({x} * {_power(-512)}) / ({y} * {_power(562)})) < {_power(-50)} THEN {x} / {y} "
        f"ELSE {_signed(x, y)} END "
        f"WHEN ABS({y}) >= {_power(-1000)} THEN {x} / {y} "
        f"WHEN ABS({x} / ({y} * {_power(100)})) < {_power(924)} THEN {x} / {y} ELSE {_signed(x, y)} END"
    )


def _signed(x: str, y: str) -> str:
    return f"SIGN({x}) * SIGN({y}) * {_INFINITY}"


PLUS = _guarded((_large, _large), lambda value: abs(value) >= 2.0**1022, "+", _sum("+"))
MINUS = _guarded((_large, _large), lambda value: abs(value) >= 2.0**1022, "-", _sum("-"))
TIMES = _guarded((_extreme, _extreme), _is_extreme, "*", _product)
QUOTIENT = _guarded((_extreme, _extreme_or_zero), lambda value: _is_extreme(value) or value == 0, "/", _quotient)

_FIXED = 1 << 62  # parts of one, in which remainders of reals are computed


def modulo(writer: Writer, form: exp.Expression) -> str:
    """The remainder, exactly: of whole numbers as bigint, of others in whole multiples of 2^-62, which every float64
    from 2^-9 on is. NULL where neither works: the dividend reaches 2^116, or a divisor it reaches is below 2^-9."""

    def body(x: str, y: str) -> str:
        whole = " AND ".join(f"{z} = TRUNC({z}) AND ABS({z}) < {_power(53)}" for z in (x, y))
        rest = f"MOD({_in_parts('lw_x0')}, {_in_parts('lw_x1')})"
        in_parts = f"CAST({rest} AS FLOAT8) * {_power(-62)}"  # a remainder of two float64 is one: nothing is rounded
        return (
            f"CASE WHEN {x} IS NULL OR {y} IS NULL OR {y} = 0 THEN NULL "
            f"WHEN {whole} THEN CAST(MOD(CAST({x} AS BIGINT), CAST({y} AS BIGINT)) AS FLOAT8) "
            f"WHEN ABS({x}) >= {_INFINITY} OR ABS({y}) > {_INFINITY} THEN {_NAN} "
            f"WHEN ABS({x}) < ABS({y}) THEN {x} "
            f"WHEN ABS({x}) < {_power(116)} AND ABS({y}) >= {_power(-9)} THEN ({in_parts}) END"
        )

    operands = [f"({writer.sql(form.this)})", f"({writer.sql(form.expression)})"]
    return computed_once(operands, body)


def _in_parts(x: str) -> str:
    """A number below 2^116 in parts, exactly: its bits from 2^53 on, those below, and those behind the point."""
    upper = f"TRUNC({x} * {_power(-53)})"
    lower = f"({x} - {upper} * {_power(53)})"
    fraction = f"CAST(({lower} - TRUNC({lower})) * {_power(62)} AS BIGINT)"
    whole = f"(CAST(CAST({upper} AS BIGINT) AS NUMERIC) * {1 << 53} + CAST(TRUNC({lower}) AS BIGINT))"
    return f"({whole} * {_FIXED} + {fraction})"


def power(writer: Writer, form: exp.Expression) -> str:
    """A constant whole power from 0 on."""
    known = constant_of(writer.sql(form.expression))
    if known is None or known != int(known) or not 0 <= known <= 1000:
        raise Bug("a power is not a small whole number")
    exponent, base = int(known), f"({writer.sql(form.this)})"
    if exponent == 0:
        return named([base], lambda x: f"CASE WHEN {x} IS NULL THEN NULL ELSE FLOAT8 '1' END")
    if exponent == 1:
        return base
    most, least = 2.0 ** (1024 / exponent) * (1 - 1e-12), 2.0 ** (-1022 / exponent) * (1 + 1e-12)
    sign = "SIGN({x}) * " if exponent % 2 else ""

    def body(x: str) -> str:
        return (
            f"CASE WHEN ABS({x}) > {_INFINITY} THEN {x} "
            f"WHEN ABS({x}) >= {float8(most)} THEN {sign.format(x=x)}{_INFINITY} "
            f"WHEN ABS({x}) <= {float8(least)} THEN 0 ELSE POWER({x}, {exponent}) END"
        )

    return named([base], body)


def exponential(writer: Writer, form: exp.Expression) -> str:
    """709.782712893384 is the largest float64 whose power is finite."""
    return named(
        [f"({writer.sql(form.this)})"],
        lambda x: (
            f"CASE WHEN {x} > FLOAT8 '709.782712893384' AND {x} <= {_INFINITY} THEN {_INFINITY} "
            f"WHEN {x} < FLOAT8 '-708.396418532264' THEN 0 ELSE EXP({x}) END"
        ),
    )


def log2(writer: Writer, form: exp.Expression) -> str:
    """Exact for powers of two; NULL at 0 and below."""

    def body(x: str) -> str:
        quotient = f"LN({x}) / {float8(math.log(2))}"
        near = f"LEAST(1023, GREATEST(-1022, ROUND({quotient})))"
        return (
            f"CASE WHEN {x} >= {_INFINITY} THEN {x} "
            f"WHEN {x} > 0 THEN CASE WHEN POWER(FLOAT8 '2', {near}) = {x} THEN {near} ELSE {quotient} END END"
        )

    return named([f"({writer.sql(form.this)})"], body)


def log10(writer: Writer, form: exp.Expression) -> str:
    return named([f"({writer.sql(form.this)})"], lambda x: f"CASE WHEN {x} > 0 THEN LOG({x}) END")


def round_to(writer: Writer, form: exp.Expression) -> str:
    """Halves away from 0. PostgreSQL rounds float64 halves to even numbers."""
    digits = form.args.get("digits")
    text = f"({writer.sql(form.this)})"
    if digits is None:
        written = named([text], rounded)
        writer.rounded[written] = text
        return written
    places = int(writer.sql(digits))
    step = float8(10.0 ** abs(places))

    def decimals(x: str) -> str:
        scaled = computed_once([f"{x} * {step}"], rounded)
        return f"CASE WHEN ABS({x}) < FLOAT8 '1e290' THEN {scaled} / {step} ELSE {x} END"

    def multiples(x: str) -> str:
        scaled = computed_once([f"{x} / {step}"], rounded)
        return (
            f"CASE WHEN ABS({x}) < {float8(10.0 ** abs(places) * 0.4)} THEN 0 "
            f"WHEN ABS({x}) < {float8(2.0**53 * 10.0 ** abs(places))} THEN {scaled} * {step} ELSE {x} END"
        )

    return named([text], decimals if places >= 0 else multiples)


def rounded(x: str) -> str:
    return f"(TRUNC({x}) + CASE WHEN ABS({x} - TRUNC({x})) >= 0.5 THEN SIGN({x}) ELSE 0 END)"
