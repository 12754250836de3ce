"""The zoo: mechanisms and code that are not as private as they claim, and sound ones beside them.

Negative and positive controls of the auditor and of the replay. All claim epsilon = 1 unless they say otherwise, and
each specimen names the runs on either side that are enough to refute it at alpha = 0.001.

Sparse vector. SVT-3 to SVT-6 are the published variants that Lyu, Su and Li refute, by the numbers of their figure 1,
where only 1 and 2 are private; beside them two faults of code. Values move by at most 1 and are compared with 0. Noise
is whole, so that ties happen, and each outcome is coded as one number.

Code. Six faults found in real libraries that build on sound mechanisms, each a function of a list of numbers, with a
sound twin. [Cebere and others: Re:cord-play, PETS 2026]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from lapwing.arrays import Array
from lapwing.lab.audit import audit_outputs
from lapwing.lab.outputs import Outputs
from lapwing.lab.random_people import draw_float_laplace, draw_normals, draw_uniforms, draw_whole_laplace
from lapwing.lab.report import Audit, Claim
from lapwing.mechanisms import Laplace
from lapwing.privacy.budget import Budget
from lapwing.privacy.filter import Filter

BELOW, ABOVE, NOT_ASKED = 0, 1, 2
_LARGEST_VALUE = 40
MOST = 100
"""The values that faulty code adds up are meant to lie between 0 and this."""

Sampler = Callable[[Any, int], Outputs]
"""From data and a number of runs to as many releases."""


@dataclass(frozen=True, slots=True)
class Specimen:
    """A mechanism, two neighbouring inputs, its claim, what is wrong with it, and the runs that show it."""

    name: str
    wrong: str
    """Empty if the mechanism is sound."""
    mechanism: Sampler
    left: Any
    right: Any
    runs: int
    epsilon: float = 1.0
    delta: float = 0.0

    @property
    def sound(self) -> bool:
        return not self.wrong

    def audit(self, runs: int | None = None, *, alpha: float = 1e-3) -> Audit:
        n = runs or self.runs
        claim = Claim.dp(self.epsilon, self.delta)
        return audit_outputs(self.mechanism(self.left, n), self.mechanism(self.right, n), claim, alpha=alpha)


def needed_runs(specimen: Specimen, *, trials: int = 40, share: float = 0.95) -> int | None:
    """The least of 100, 300, 1,000, ... runs at which this share of audits rejects; None beyond a million."""
    for runs in (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000):
        missed, allowed = 0, trials - int(np.ceil(share * trials))
        for _ in range(trials):
            missed += not specimen.audit(runs).rejected
            if missed > allowed:
                break
        else:
            return runs
    return None


def add_noise(scale: float) -> Sampler:
    """Discrete Laplace noise on every coordinate."""

    def run(value: Any, n: int) -> Array:
        centre = np.asarray(value, dtype=np.int64)
        return np.asarray(centre + draw_whole_laplace(Fraction(str(scale)), n, *centre.shape))

    return run


def add_float_laplace(value: float, n: int) -> Array:
    return value + draw_float_laplace(1.0, n)


def add_box_muller(value: float, n: int) -> Array:
    """With the classic sigma for (1, 1e-5)."""
    return np.asarray(value + np.sqrt(2 * np.log(1.25e5)) * draw_normals(n))


def add_narrow_gaussian(value: int, n: int) -> Array:
    """sigma = sensitivity / epsilon, as if it were Laplace. Rounded, so that only the width is wrong."""
    return np.asarray(value + np.rint(draw_normals(n)).astype(np.int64))


def noisy_max(scale: float) -> Sampler:
    """The index of the largest noisy score; for general scores only scale 2 / epsilon is sound."""

    def run(scores: Any, n: int) -> Array:
        return np.asarray(np.argmax(np.asarray(scores) + draw_float_laplace(scale, n, len(scores)), axis=1))

    return run


def noisy_max_value(scores: Any, n: int) -> Array:
    noisy = np.asarray(scores, np.int64) + draw_whole_laplace(2, n, len(scores))
    return np.asarray(noisy.max(axis=1))


def exponential(factor: float) -> Sampler:
    """An index with P proportional to exp(factor * score); for general scores only epsilon / 2 is sound."""

    def run(scores: Any, n: int) -> Array:
        steps = np.cumsum(np.exp(factor * np.asarray(scores, np.float64)))
        return np.asarray(np.searchsorted(steps, draw_uniforms(n) * steps[-1], side="right"))

    return run


def mean_by_local_sensitivity(rows: list[float], n: int) -> Array:
    """Noise on the grid of hundredths, scaled to 100 / len(rows): the number of rows is private."""
    scale = Fraction(100 * 100, max(len(rows), 1))
    return np.asarray(round(100 * sum(rows) / max(len(rows), 1)) + draw_whole_laplace(scale, n))


def sum_over_true_size(rows: list[float], n: int) -> Array:
    """A private mean: the sum is noisy, the number of rows it is divided by is not."""
    return np.asarray((sum(rows) + draw_whole_laplace(1, n)) / max(len(rows), 1))


def two_counts_one_noise(counts: tuple[int, int], n: int) -> Array:
    noise = draw_whole_laplace(2, n)
    return np.stack([counts[0] + noise, counts[1] + noise], axis=1)


def keys_with_noisy_counts(counts: dict[str, int], n: int) -> list[Any]:
    """Every key of the data with a noisy count: the keys were read from the data."""
    noise = draw_whole_laplace(1, n, len(counts)).tolist()
    return [dict(zip(counts, map(sum, zip(counts.values(), row, strict=True)), strict=True)) for row in noise]


def key_above_one(count: int, n: int) -> Array:
    """Whether a key is shown: if its noisy count is at least 1. An absent key is never shown."""
    return (count + draw_whole_laplace(1, n) >= 1) & (count > 0)


def clipped_sum(rows: list[float], n: int) -> Array:
    """Clipped to [0, 1], but min and max let NaN through."""
    total = float(np.sum(np.clip(rows, 0, 1)))
    return np.asarray(total + draw_whole_laplace(1, n))


def sparse(bar: int | Fraction, query: int | Fraction, cutoff: int | None) -> Sampler:
    """Tells "above" or "below" with these noise scales, one bar, and a halt after `cutoff` aboves or none at all."""

    def run(values: Any, n: int) -> Array:
        noisy = np.asarray(values, dtype=np.int64) + draw_whole_laplace(query, n, len(values))
        above = noisy >= draw_whole_laplace(bar, n, 1)
        answers = np.where(above, ABOVE, BELOW)
        if cutoff is not None:
            answers[np.cumsum(above, axis=1) - above >= cutoff] = NOT_ASKED
        return np.asarray(answers @ 3 ** np.arange(answers.shape[1], dtype=np.int64))

    return run


def compared_value_released(values: Any, n: int) -> Array:
    """SVT-3: gives q + N of the first "above", the very number that was compared."""
    noisy = np.asarray(values, dtype=np.int64) + draw_whole_laplace(2, n, len(values))
    above = noisy >= draw_whole_laplace(2, n, 1)
    first = np.argmax(above, axis=1)
    released = np.clip(noisy[np.arange(n), first], -_LARGEST_VALUE, _LARGEST_VALUE)
    return np.where(above.any(axis=1), 1000 * (first + 1) + released, 0)


def both_ways(belows: int, aboves: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Values that rise to the threshold, to be answered "below", then values that fall from it, to be "above"."""
    return (*(-1,) * belows, *(0,) * aboves), (*(0,) * belows, *(-1,) * aboves)


_SVT_4 = Fraction(4, 3)

SPARSE_BROKEN = (
    Specimen("SVT-3", "releases the value it compared", compared_value_released, *both_ways(6, 1), 100_000),
    Specimen("SVT-4, one answer", "noise not scaled: 1.75 epsilon", sparse(4, _SVT_4, 1), *both_ways(6, 1), 100_000),
    Specimen("SVT-4, four answers", "noise not scaled: 6.25 epsilon", sparse(4, _SVT_4, 4), *both_ways(4, 4), 10_000),
    Specimen("SVT-5", "no noise on the questions", sparse(2, 0, None), (0, 1), (1, 0), 1_000),
    Specimen("SVT-6", "never halts", sparse(2, 2, None), *both_ways(4, 4), 10_000),
    Specimen("sparse vector, one above too many", "halts too late", sparse(2, 4, 2), *both_ways(5, 2), 500_000),
    Specimen("sparse vector, half the noise", "1.5 epsilon", sparse(2, 2, 1), *both_ways(5, 1), 100_000),
)

SPARSE_SOUND = (
    Specimen("sparse vector, one answer", "", sparse(2, 4, 1), *both_ways(5, 1), 100_000),
    Specimen("sparse vector, two answers", "", sparse(2, 8, 2), *both_ways(5, 2), 100_000),
    Specimen("sparse vector, four answers", "", sparse(2, 16, 4), *both_ways(4, 4), 100_000),
)

# One unit moves every score by 1, the last one's up and the others' down: the worst case of a selection.
_LAST_LOW, _LAST_HIGH = (*(3,) * 9, 2), (*(2,) * 9, 3)
_KEYS = {"Emma": 5, "Noah": 3}

BROKEN = (
    Specimen("float Laplace", "the low bits reveal the value (A1, A3)", add_float_laplace, 0.0, 1.0, 20_000),
    Specimen("Box-Muller Gaussian", "the low bits reveal the value (A2)", add_box_muller, 0.0, 1.0, 20_000, delta=1e-5),
    Specimen("Gaussian with sigma = 1 / epsilon", "no Laplace noise", add_narrow_gaussian, 0, 1, 10_000, delta=1e-5),
    Specimen("half the noise", "noise miscalibrated: 2 epsilon", add_noise(0.5), 0, 1, 10_000),
    Specimen("three rows, sensitivity one", "sensitivity miscalibrated: 3 epsilon", add_noise(1), 0, 3, 1_000),
    Specimen("two counts, budget not split", "spent twice: 2 epsilon", add_noise(1), (0, 0), (1, 1), 10_000),
    Specimen("one noise for two counts", "their difference is exact", two_counts_one_noise, (0, 0), (1, 0), 1_000),
    Specimen("add-or-remove noise, one changed", "2 epsilon", add_noise(1), (1, 0), (0, 1), 10_000),
    Specimen("noisy max, scale 1 / epsilon", "2 epsilon", noisy_max(1.0), _LAST_LOW, _LAST_HIGH, 10_000),
    Specimen("noisy max with its value", "2.5 epsilon", noisy_max_value, (0,) * 5, (1,) * 5, 10_000),
    Specimen("exponential without the 2", "2 epsilon", exponential(1.0), _LAST_LOW, _LAST_HIGH, 10_000),
    Specimen("mean, local sensitivity", "the scale is private", mean_by_local_sensitivity, [0.0], [0.0, 100.0], 10_000),
    Specimen("mean over the true size", "the size is private", sum_over_true_size, [1.0] * 3, [1.0] * 4, 1_000),
    Specimen("keys from the data", "a key shows its person", keys_with_noisy_counts, _KEYS, _KEYS | {"Zoe": 1}, 1_000),
    Specimen("key with a noisy count above 0", "delta = 1/2, none claimed", key_above_one, 0, 1, 1_000),
    Specimen("NaN through the clipping", "the sum is NaN", clipped_sum, [0.5], [0.5, float("nan")], 1_000),
    *SPARSE_BROKEN,
)

SOUND = (
    Specimen("Laplace", "", add_noise(1), 0, 1, 100_000),
    Specimen("two counts, budget split", "", add_noise(2), (0, 0), (1, 1), 100_000),
    Specimen("replace-one noise", "", add_noise(2), (1, 0), (0, 1), 100_000),
    Specimen("noisy max", "", noisy_max(2.0), _LAST_LOW, _LAST_HIGH, 100_000),
    Specimen("exponential", "", exponential(0.5), _LAST_LOW, _LAST_HIGH, 100_000),
    *SPARSE_SOUND,
)


def sound_mean(rows: list[float]) -> float:
    """The sum and the count with noise, half of epsilon each."""
    total = Laplace(epsilon=0.5, sensitivity=MOST)(_clipped_total(x for x in rows if x == x))
    count = Laplace(epsilon=0.5)(sum(x == x for x in rows))
    return float(total / max(count, 1))


def private_mean(rows: list[float]) -> float:
    """Divides by the true number of rows."""
    return float(Laplace(epsilon=1, sensitivity=MOST)(_clipped_total(rows)) / max(len(rows), 1))


def inferred_domain(rows: list[float]) -> dict[float, int]:
    """Counts the values that it finds."""
    values = sorted(set(rows))
    return dict(zip(values, Laplace(epsilon=1)([rows.count(value) for value in values]), strict=True))


def double_spending(rows: list[float]) -> list[int]:
    """Charges once and releases twice."""
    budget, noisy = Filter(Budget(epsilon=1)), Laplace(epsilon=1)
    budget.spend(noisy.loss)
    return [noisy(len(rows)), noisy(sum(x > 50 for x in rows))]


def nan_injection(rows: list[float]) -> float:
    """Clips by sorting, which lets a NaN through."""
    total = float(sum(sorted((0.0, x, float(MOST)))[1] for x in rows))
    return float(Laplace(epsilon=1, sensitivity=MOST)(total))


def noise_miscalibrated(rows: list[float]) -> int:
    """Noise for epsilon = 2 is called epsilon = 1."""
    return int(Laplace(epsilon=2)(len(rows)))


def sensitivity_miscalibrated(rows: list[float]) -> float:
    """A sum of values up to 100 with a sensitivity of 1."""
    return float(Laplace(epsilon=1)(_clipped_total(x for x in rows if x == x)))


def _clipped_total(rows: Iterable[float]) -> float:
    return float(sum(min(max(x, 0.0), MOST) for x in rows))


_WITH, _WITHOUT = [20.0, 50.0, 90.0, 100.0], [20.0, 50.0, 90.0]

FAULTS: dict[str, tuple[Callable[[list[float]], Any], tuple[list[float], list[float]]]] = {
    "private mean": (private_mean, (_WITH, _WITHOUT)),
    "inferred domain": (inferred_domain, (_WITH, _WITHOUT)),
    "double spending": (double_spending, (_WITH, _WITHOUT)),
    "NaN injection": (nan_injection, ([*_WITHOUT, float("nan")], _WITHOUT)),
    "noise miscalibrated": (noise_miscalibrated, (_WITH, _WITHOUT)),
    "sensitivity miscalibrated": (sensitivity_miscalibrated, (_WITH, _WITHOUT)),
}
"""Each fault with two neighbours that show it."""
