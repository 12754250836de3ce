"""Which keys may be shown when a key itself could expose a unit: the optimal rule for counts, and which rule to use.

Keys that are public are never selected: give every one of them noise and show them all, empty ones too.
[DVGM22] Desfontaines, Voss, Gipson, Mandayam: Differentially private partition selection.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from lapwing.arrays import Flags
from lapwing.errors import Bug, Misconfigured
from lapwing.mechanisms.keys.key_loss import NO_DELTA, read_counts, read_keys
from lapwing.mechanisms.keys.threshold import WeightedGaussian
from lapwing.mechanisms.mechanism import FrozenValue, read_delta, read_epsilon
from lapwing.noise import sample_bernoulli
from lapwing.numbers import Number, ball, count, enclose, inside_unit
from lapwing.privacy.loss import Approximate

_BITS = 64
_MOST_STEPS = 200_000


@dataclass(frozen=True, slots=True, init=False, repr=False)
class TruncatedGeometric(FrozenValue):
    """Shows a key with a probability that grows with the number of units that hold it, as fast as privacy allows.

    The caller promises: `counts` holds, for each key that occurs, how many *distinct units* hold it, and no unit holds
    more than keys_per_unit of them. Keys are returned in the order given, which must not depend on the data: sort them.

    Use:        a unit holds one or two keys and you need only the keys; WeightedGaussian for more keys per unit,
                LaplaceThreshold if you also need the counts.
    Law:        n units: shown with probability pi(n), independently; pi(0) = 0, and with E = epsilon / keys_per_unit,
                D = delta / keys_per_unit,
                pi(n) = min(e^E pi(n - 1) + D, 1 - e^-E (1 - pi(n - 1) - D), 1), each step rounded down to the grid
                2^-64 (finer if D < 2^-32).
    Guarantee:  (epsilon, delta)-DP for adding or removing one unit with at most keys_per_unit keys.
    Error:      pi(n) is a fraction, `probability`; `error` inverts it. If a unit holds one key, no rule shows a key of
                n units more often, for any n, but for the rounding.
    Proof:      a unit moves the count of a key by 1. For p = pi(n - 1) <= q = pi(n), the four sets of outcomes ask for
                q <= e^E p + D, 1 - p <= e^E (1 - q) + D, and two more that p <= q implies. The first two say that q is
                at most the minimum above; rounding q down, and e^E down, keeps both, and each step of the table is
                checked as integers. Keys are independent and only keys_per_unit of them move: their losses add.
                Optimal: the right side grows with pi(n - 1), so by induction no sequence lies above. [DVGM22]
    Figure:     `TruncatedGeometric(epsilon=1, delta=1e-5).half()` = 12
    Checked by: tests/mechanisms/keys/test_selection.py
    """

    epsilon: Fraction
    delta: Fraction
    keys_per_unit: int

    def __init__(self, *, epsilon: Number, delta: Number, keys_per_unit: int = 1) -> None:
        self._set(epsilon=read_epsilon(epsilon), delta=read_delta(delta, NO_DELTA))
        self._set(keys_per_unit=read_keys(keys_per_unit))
        self._table()  # refuses a table that would be too long

    @property
    def loss(self) -> Approximate:
        return Approximate(self.epsilon, self.delta)

    def keep(self, counts: object) -> Flags:
        """Which keys are shown: one exact coin per key, drawn together for keys of the same count."""
        table, bits = self._table()
        held = np.minimum(read_counts(counts), len(table) - 1)
        order = np.argsort(held.astype(np.uint16) if len(table) <= 1 << 16 else held, kind="stable")
        keep = np.empty(held.size, np.bool_)
        values, starts = np.unique(held[order], return_index=True)
        for value, part in zip(values.tolist(), np.split(order, starts[1:]), strict=False):
            keep[part] = sample_bernoulli(Fraction(table[value], 1 << bits), part.size)
        return keep

    def probability(self, units: int) -> Fraction:
        """The chance that a key held by this many units is shown, exactly."""
        table, bits = self._table()
        return Fraction(table[min(count(units, "units", least=0), len(table) - 1)], 1 << bits)

    def half(self) -> int:
        return self.error(Fraction(1, 2))

    def error(self, confidence: Number = 0.95) -> int:
        """A key held by at least this many units is shown with this probability."""
        table, bits = self._table()
        return bisect_left(table, inside_unit(confidence, "confidence") * (1 << bits))

    def _table(self) -> tuple[tuple[int, ...], int]:
        return _probabilities(self.epsilon / self.keys_per_unit, self.delta / self.keys_per_unit)


@dataclass(frozen=True, slots=True, repr=False)
class KeyChoice(FrozenValue):
    """The rule to take for the keys, the units that each rule needs for an even chance, and why.

    `geometric_half` is None where the table of TruncatedGeometric would be too long.
    """

    best: TruncatedGeometric | WeightedGaussian
    geometric_half: int | None
    weighted_half: int
    explanation: str

    def __str__(self) -> str:
        return self.explanation


def best_selection(*, epsilon: Number, delta: Number, keys_per_unit: int = 1) -> KeyChoice:
    """The rule that shows a key of the fewest units half of the time, if every unit holds as many keys as it may.

    That is the worst case of WeightedGaussian, and all cases are alike to TruncatedGeometric; so WeightedGaussian has
    a tie. With one key per unit TruncatedGeometric is optimal, at usual deltas the other is better from three on.
    """
    kappa = read_keys(keys_per_unit)
    weighted = WeightedGaussian(epsilon=epsilon, delta=delta, keys_per_unit=kappa)
    worst, least = weighted.half(keys=kappa), weighted.half()
    try:
        geometric = TruncatedGeometric(epsilon=epsilon, delta=delta, keys_per_unit=kappa)
    except Misconfigured:  # its table; the parameters have been read above
        return KeyChoice(weighted, None, worst, "WeightedGaussian: the table of TruncatedGeometric would be too long.")
    half = geometric.half()
    best = geometric if half < worst or kappa == 1 else weighted
    return KeyChoice(
        best,
        half,
        worst,
        f"{type(best).__name__} is better here. To show a key half of the time, TruncatedGeometric needs {half:,} "
        f"units; WeightedGaussian needs {worst:,} if each of them holds as many keys as it may ({kappa:,}), "
        f"and {least:,} if each holds one.",
    )


@lru_cache(maxsize=16)
def _probabilities(epsilon: Fraction, delta: Fraction) -> tuple[tuple[int, ...], int]:
    """pi(0), pi(1), ... up to the first that is 1, in units of 2^-bits; and bits.

    All in integers: `grown` / 2^more is at most e^epsilon, `shrunk` / 2^more at least its inverse.
    Each step grows by `scaled_delta`, the delta, at least, so the table ends.
    """
    bits = max(_BITS, 32 + (delta.denominator // delta.numerator).bit_length())
    more, one = bits + 64, 1 << bits
    grown = int(enclose(lambda: ball(epsilon).exp(), bits=more + 1200)[0] * (1 << more))
    shrunk = -(-(1 << 2 * more) // grown)
    scaled_delta = int(delta * one)
    table = [0]
    while (last := table[-1]) < one:
        if len(table) > _MOST_STEPS:
            raise Misconfigured(
                f"epsilon / keys_per_unit is too small: a key would need over {_MOST_STEPS:,} units to be certain. "
                "Use WeightedGaussian, or a larger epsilon."
            )
        step = min((grown * last >> more) + scaled_delta, one + (-shrunk * (one - last - scaled_delta) >> more), one)
        _check(last, step, grown, scaled_delta << more, one, more)
        table.append(step)
    return tuple(table), bits


def _check(p: int, q: int, grown: int, scaled_delta: int, one: int, more: int) -> None:
    """The inequalities of the proof, for one step from p to q."""
    if not (p < q and q << more <= grown * p + scaled_delta and one - p << more <= grown * (one - q) + scaled_delta):
        raise Bug("a step of the truncated geometric rule breaks its guarantee")
