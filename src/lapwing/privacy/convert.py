"""From zCDP to (epsilon, delta)-DP and back, with directed rounding.

Theorem [CKS20, section 2.3; ALCKS20]. If M is rho-zCDP, it is (epsilon, delta)-DP for every a > 1 with
    delta   = exp((a - 1)(a rho - epsilon)) (1 - 1/a)^a / (a - 1),  which is the same as
    epsilon = a rho + ln(1 - 1/a) - (ln delta + ln a) / (a - 1).
Proof. Let L be the privacy loss of an outcome drawn from P. The smallest delta is E[max(0, 1 - e^(epsilon - L))].
For x = e^(L - epsilon) > 0, max(0, 1 - 1/x) <= c x^(a-1) with c = (1 - 1/a)^a / (a - 1): calculus, with equality at
x = a/(a-1). So delta <= c e^(-(a-1) epsilon) E[e^((a-1) L)], and zCDP says E[e^((a-1) L)] <= e^((a-1) a rho).

Every a > 1 is valid, so the best a is searched in floats, and the formula is then evaluated once in balls at that a:
the float decides how tight the answer is, never whether it holds. Results keep 24 significant digits.

Below, u = a - 1 > 0, so that ln a = log1p(u) and ln(1 - 1/a) = -log1p(1/u) stay accurate at both ends.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import exp, log, log1p

from flint import arb

from lapwing.errors import Misconfigured, Refused
from lapwing.numbers import Number, ball, below_one, count, enclose, nonnegative, round_down, round_up

_SIGNIFICANT = 24
_EXTENT = 370.0  # the search looks at a - 1 between e^-370 and e^370, about 1e-160 to 1e160
_LEAST_LOG = -2000  # a delta below e^-2000 is stated as e^-2000


def epsilon_of_rho(rho: Number, delta: Number) -> Fraction:
    """An epsilon, rounded up, such that every rho-zCDP mechanism is (epsilon, delta)-DP."""
    return _epsilon(nonnegative(rho, "rho"), _above_zero(delta))


def delta_of_rho(rho: Number, epsilon: Number) -> Fraction:
    """A delta, rounded up and at most 1, such that every rho-zCDP mechanism is (epsilon, delta)-DP."""
    return _delta(nonnegative(rho, "rho"), nonnegative(epsilon, "epsilon"))


def rho_of_epsilon(epsilon: Number, delta: Number) -> Fraction:
    """The largest rho, rounded down, with epsilon_of_rho(rho, delta) <= epsilon."""
    return _rho(nonnegative(epsilon, "epsilon"), _above_zero(delta))


def group_delta(epsilon: Number, delta: Number, size: int) -> Fraction:
    """The delta, rounded up, of an (epsilon, delta)-DP mechanism for a group of this size.

    Guarantee:  (k epsilon, delta (e^(k epsilon) - 1) / (e^epsilon - 1))-DP for groups of k units.
    Proof:      walk from x to x' through k neighbours: P_0[S] <= e^epsilon P_1[S] + delta <= ..., which gives
                e^(k epsilon) P_k[S] + delta (1 + e^epsilon + ... + e^((k-1) epsilon)).
    """
    return _group(nonnegative(epsilon, "epsilon"), below_one(delta, "delta"), count(size, "size"))


@lru_cache(maxsize=4096)
def _epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    if rho == 0:
        return Fraction(0)
    slope, offset = _near(rho), -_log(delta)  # d epsilon / d a has the sign of rho u^2 + ln a + ln delta, rising in u
    u = _root(lambda x: slope * x * x + log1p(x) - offset)
    _, high = enclose(lambda: (1 + ball(u)) * ball(rho) - _shrink(u) - (ball(delta).log() + ball(u).log1p()) / ball(u))
    return _up(max(high, Fraction(0)))


@lru_cache(maxsize=4096)
def _delta(rho: Fraction, epsilon: Fraction) -> Fraction:
    if rho == 0:
        return Fraction(0)
    slope, offset = _near(rho), _near(epsilon) if epsilon else 0.0  # d ln delta / d a = (2u + 1) rho - epsilon + ...
    u = _root(lambda x: (2 * x + 1) * slope - offset - log1p(1 / x))

    def logarithm() -> arb:
        return ball(u) * ((1 + ball(u)) * ball(rho) - ball(epsilon) - _shrink(u)) - ball(u).log1p()

    _, high = enclose(logarithm)
    if high >= 0:
        return Fraction(1)
    _, high = enclose(lambda: ball(max(high, Fraction(_LEAST_LOG))).exp())
    return min(_up(high), Fraction(1))


@lru_cache(maxsize=4096)
def _rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Where the best a for rho(a) = (ln(1/delta) - ln a) / u^2 meets epsilon; that epsilon falls as a grows."""
    target, offset = (_near(epsilon) if epsilon else 0.0), -_log(delta)
    u = _root(lambda x: target + log1p(1 / x) - (offset - log1p(x)) * ((2 * x + 1) / x / x))
    low, _ = enclose(
        lambda: (ball(epsilon) + _shrink(u) + (ball(delta).log() + ball(u).log1p()) / ball(u)) / (1 + ball(u))
    )
    rho, slack = _down(max(low, Fraction(0))), Fraction(1, 10**24)
    while _epsilon(rho, delta) > epsilon:  # the last digits of two roundings; the contract is checked, not argued
        rho, slack = _down(rho * (1 - min(slack, Fraction(1)))), slack * 10
    return rho


@lru_cache(maxsize=4096)
def _group(epsilon: Fraction, delta: Fraction, size: int) -> Fraction:
    if size == 1 or delta == 0:
        return delta
    if epsilon == 0:
        return _below_one(delta * size, size)
    if (size - 1) * epsilon + Fraction(_log(delta)) > 1:  # then delta e^((k-1) epsilon) alone is far above 1
        return _below_one(Fraction(1), size)
    _, high = enclose(lambda: ball(delta) * (size * ball(epsilon)).expm1() / ball(epsilon).expm1())
    return _below_one(_up(high), size)


def _below_one(delta: Fraction, size: int) -> Fraction:
    if delta >= 1:
        raise Refused(
            "no-such-guarantee",
            f"group of {size}",
            "the delta of this guarantee reaches 1, which promises nothing.",
            "Ask about a smaller group, or use a smaller epsilon or delta.",
        )
    return delta


def _above_zero(delta: Number) -> Fraction:
    number = below_one(delta, "delta")
    if number == 0:
        raise Misconfigured("`delta` is 0; zCDP bounds epsilon only at a delta above 0. Pass for example 1e-6.")
    return number


def _root(rising: Callable[[float], float]) -> Fraction:
    """A u near the sign change of a rising function, by bisection of ln u. Any result is valid, the best is tight."""
    low, high = -_EXTENT, _EXTENT
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(exp(middle)) < 0 else (low, middle)
    return Fraction(exp(high))


def _shrink(u: Fraction) -> arb:
    """-ln(1 - 1/a) as a ball."""
    return (1 / ball(u)).log1p()


def _log(value: Fraction) -> float:
    """The natural logarithm of a fraction of any size, in floats."""
    return log(value.numerator) - log(value.denominator)


def _near(value: Fraction) -> float:
    """A positive float near the value, for the search only; beyond 1e-300 and 1e300 the end of that range."""
    return exp(min(max(_log(value), -690.0), 690.0))


def _digits(value: Fraction) -> int:
    """How many decimals keep the significant digits of a value."""
    magnitude = (value.numerator.bit_length() - value.denominator.bit_length()) * 0.30103
    return max(0, _SIGNIFICANT - int(magnitude))


def _up(value: Fraction) -> Fraction:
    return round_up(value, digits=_digits(value))


def _down(value: Fraction) -> Fraction:
    return round_down(value, digits=_digits(value))
