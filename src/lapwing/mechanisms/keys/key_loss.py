"""The cost of showing keys whose noisy number passes a threshold, with proofs.

Setting.  Every key is decided by itself. A key without units is never shown. A key that someone holds has a whole
number x (its count of units, or the sum of their weights) and noise Z of its own; it is shown if x + Z > threshold, or
with probability `edge` if x + Z = threshold; with x + Z or without. What is seen of a key is so made of x + Z and of a
coin that knows no data. A unit holds w <= kappa keys and adds c to each. It shares some of them with others; t of them
are *new*, held by no other unit. With or without the unit, the keys that it does not hold have the same law and are
independent of the rest, so only its w keys matter. Let a be the chance that a key with x = c is shown, and
a <= 1 - (1 - delta)^(1/w) for every w.

Theorem.  Whatever w and t are, the release is
    (epsilon, delta)-DP                if the shared keys alone are epsilon-DP (pure),
    delta-approximate rho-zCDP         if the shared keys alone are rho-zCDP,
    (epsilon, delta)-DP                if the shared keys alone are (epsilon, (1 - t/w) delta)-DP.
Proof.    Without the unit all new keys are hidden; call this certain outcome H. With it they are hidden with
probability (1 - a)^t >= (1 - delta)^(t/w) = h. So the law of the new keys is h H + (1 - h) (something) with the unit,
and h H + (1 - h) H without it. Shared keys are independent of new ones. So the first two claims follow: with weight
h >= 1 - delta both sides are (law of the shared keys) x H, which is what lemma (mixture) and the class ZCDP of
privacy/loss.py ask for. For the third, lemma (mixture) splits the shared keys too: what remains has the weight
(1 - (1 - s) delta) (1 - delta)^s with s = t/w, and that is at least 1 - delta, because (1 - delta)^(1 - s) is convex
in s and lies below its chord 1 - (1 - s) delta. So delta is not split between noise and threshold: a key is either
shared or new, never both.

Lemma (convex).  Let d(u) be the delta at epsilon of continuous Gaussian noise with (shift / sigma)^2 = u. If
u + u^2/4 <= epsilon^2, then d(y u) <= y d(u) for 0 <= y <= 1: delta falls at least in proportion to the shared keys.
Proof.    With m = sqrt u, d = Phi(m/2 - epsilon/m) - e^epsilon Phi(-m/2 - epsilon/m) [BW18] has the derivative
phi(m/2 - epsilon/m) in m, so d'(u) = phi(m/2 - epsilon/m) / (2 m). The logarithm of this has the derivative
epsilon^2/m^3 - m/4 - 1/m in m, which is not negative while m^2 + m^4/4 <= epsilon^2. So d is convex on [0, u], and
d(0) = 0. The bound `smoothed_delta` of calibration.py is a constant times such a d, so it inherits the lemma.

Lemma (tail). For discrete Gaussian noise and m >= 1, P[Z >= m] <= W(m) / max(sqrt(2 pi) sigma, 1 + 2 W_1) with W(m) the
sum of W_z = exp(-z^2 / (2 sigma^2)) over z >= m. And if m >= sigma + 1/2, P[Z >= m] <= P[N >= m - 1/2], N normal.
Proof.    The sum of W_z over all integers is at least its three largest terms, and by Poisson summation at least
sqrt(2 pi) sigma. Beyond sigma the density is convex, so each term is at most its mean over [z - 1/2, z + 1/2].

Lemma (edge). If P[Z >= m] <= U(m) <= share < U(m - 1) and P[Z >= m - 1] <= U(m - 1), then a key with x = 1 and the
threshold m is shown with probability share at most for edge = (share - U(m)) / (U(m - 1) - U(m)).
Proof.    It is shown with probability P[Z >= m] + edge P[Z = m - 1] = (1 - edge) P[Z >= m] + edge P[Z >= m - 1], which
is at most (1 - edge) U(m) + edge U(m - 1) = share; 0 <= edge < 1.
Checked by: tests/mechanisms/keys/test_key_loss.py
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb

from lapwing.arrays import Floats, Integers
from lapwing.errors import Misconfigured
from lapwing.mechanisms.additive.calibration import SMOOTHING, smoothed_delta
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import laplace_tail
from lapwing.mechanisms.mechanism import read_delta, read_epsilon
from lapwing.mechanisms.scores import least_whole
from lapwing.noise.noise_table import NoiseLaw, require_supported
from lapwing.numbers import Number, ball, count, enclose, ordinary, positive, round_up, shown
from lapwing.privacy.loss import ZCDP, Approximate

MOST_KEYS = 10**9
NO_DELTA = "private keys need a delta above 0. Pass one, or list the keys."
TAIL_SHARE = 1e-5
"""The relative error of the float64 tails below."""

_EDGES = 1 << 20
_SUMMED = 64  # up to this sigma the tail is summed; beyond, the normal law is at most 0.5 % too careful
_TABLED = 4096


def read_counts(values: object, name: str = "counts") -> Integers:
    """Whole numbers of at least 0, one a key. They are data, so no message shows one."""
    array = np.asarray(values)
    if array.ndim == 1 and not array.size:
        return np.zeros(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise Misconfigured(f"`{name}` must hold one whole number for each key. Pass a list or an integer array.")
    if array.dtype == np.uint64:
        array = np.minimum(array, np.uint64(np.iinfo(np.int64).max))
    if array.min() < 0:
        raise Misconfigured(f"`{name}` holds a negative number; units are counted from 0. Pass counts of units.")
    return array.astype(np.int64, copy=False)


def read_keys(keys: object) -> int:
    most = count(keys, "keys_per_unit")
    if most > MOST_KEYS:
        raise Misconfigured(f"`keys_per_unit` is {shown(most)}; at most {MOST_KEYS:,} are supported. Sample them down.")
    return most


def share_of_key(delta: Fraction, keys: int) -> Fraction:
    """1 - (1 - delta)^(1/keys), rounded down: the chance with which each of this many new keys may be shown."""
    if keys == 1:
        return delta
    return enclose(lambda: -((-ball(delta)).log1p() / keys).expm1())[0]


def laplace_margin(scale: Fraction, share: Fraction) -> int:
    """The least m >= 1 with P[Z >= m] <= share."""
    return least_whole(lambda m: laplace_tail_up(scale, m) <= share)


def laplace_tail_up(scale: Fraction, m: int) -> Fraction:
    """P[Z >= m], rounded up."""
    return enclose(lambda: laplace_tail(scale, m))[1]


def edge_of(tail: Callable[[int], Fraction], margin: int, share: Fraction) -> Fraction:
    """How often a noisy count at the threshold `margin` may be shown, by lemma (edge); rounded down to 2^-20."""
    if margin == 1:
        return Fraction(0)
    low, high = tail(margin), tail(margin - 1)
    return Fraction(math.floor((share - low) / (high - low) * _EDGES), _EDGES)


def gaussian_margin(variance: Fraction, share: Fraction) -> int:
    """The least m >= 1 for which lemma (tail) proves P[Z >= m] <= share."""
    return least_whole(lambda m: gaussian_tail(variance, m) <= share)


def gaussian_tail(variance: Fraction, m: int) -> Fraction:
    """An upper bound of P[Z >= m], m >= 1, by lemma (tail)."""
    if variance <= _SUMMED**2:
        return enclose(lambda: _tail_ball(variance, m))[1]
    if m <= 1 or (m - Fraction(1, 2)) ** 2 < variance:
        return Fraction(1, 2)  # P[Z >= 1] <= 1/2 by symmetry
    return enclose(lambda: (ball(m - Fraction(1, 2)) / ball(2 * variance).sqrt()).erfc() / 2)[1]


def gaussian_loss(
    epsilon: Number | None, delta: Number, rho: Number | None, distance: Fraction, squared: Fraction, size: int
) -> tuple[Approximate | ZCDP, Fraction]:
    """The loss of a Gaussian threshold and the variance it needs.

    A unit moves `size` whole numbers at most, by an l2 norm of at most sqrt(squared) <= distance.
    """
    exact_delta = read_delta(delta, NO_DELTA)
    if rho is not None and epsilon is None:
        price = ordinary(positive(rho, "rho"), "rho")
        variance = squared / (2 * price)
        require_supported(NoiseLaw(1 / (2 * variance), 2))
        return ZCDP(price, exact_delta), variance
    if epsilon is None or rho is not None:
        raise Misconfigured("pass either `epsilon` or `rho`, together with `delta`.")
    value = read_epsilon(epsilon)
    return Approximate(value, exact_delta), _proportional_variance(value, exact_delta, distance, size)


@lru_cache(maxsize=256)
def _proportional_variance(epsilon: Fraction, delta: Fraction, distance: Fraction, size: int) -> Fraction:
    """A variance for which y of the squared distance costs at most (epsilon, y delta), for y = j/size or any y."""
    variance = Gaussian(epsilon=epsilon, delta=delta, sensitivity=distance, size=size).variance
    if size == 1:  # then y is 0 or 1, and nothing is left to prove
        return variance
    convex = enclose(lambda: ball((distance / epsilon) ** 2) * ((1 + ball(epsilon) ** 2).sqrt() + 1) / 2)[1]
    variance = max(variance, round_up(convex, digits=9))
    while not _is_proportional(variance, epsilon, delta, distance, size):
        variance = round_up(variance * Fraction(257, 256), digits=9)
    return variance


def _is_proportional(variance: Fraction, epsilon: Fraction, delta: Fraction, distance: Fraction, size: int) -> bool:
    """Whether some smoothing proves (epsilon, delta) at the full distance, and lemma (convex) holds for it.

    smoothed_delta takes 6 size eta off epsilon, eta <= 3 exp(-2 pi^2 s^2) <= 3 2^(-28 s^2).
    """
    for smoothing in SMOOTHING:
        kept = epsilon - Fraction(18 * size, 1 << math.floor(28 * smoothing))
        if variance > smoothing and kept > 0:
            u = distance**2 / (variance - smoothing)
            if u + u * u / 4 <= kept**2 and smoothed_delta(variance, epsilon, distance, size, smoothing) <= delta:
                return True
    return False


def laplace_tails(scale: Fraction, m: Integers) -> Floats:
    """P[Z >= m] in float64."""
    width = float(scale)
    beyond = np.exp(-np.where(m > 0, m, 1 - m) / width) / (1 + math.exp(-1 / width))
    return np.where(m > 0, beyond, 1 - beyond)


def gaussian_tails(variance: Fraction, m: Integers) -> Floats:
    """P[Z >= m] in float64: summed, or one normal integral a cell.

    A cell's integral differs from its midpoint by a share below (2 + (m/sigma)^2) / (12 variance), which is TAIL_SHARE
    or less where it is used (float64 knows nothing beyond 39 sigma).
    """
    side = np.where(m > 0, m, 1 - m)
    if variance <= _TABLED**2:
        table = _tail_table(variance)
        beyond = table[np.minimum(side, table.size - 1)]
    else:
        from scipy.special import ndtr  # slow import

        beyond = ndtr((0.5 - side) / math.sqrt(variance))
    return np.where(m > 0, beyond, 1 - beyond)


@lru_cache(maxsize=16)
def _tail_table(variance: Fraction) -> Floats:
    """P[Z >= m] for m = 0, 1, 2, ... until it vanishes in float64."""
    z = np.arange(math.ceil(39 * math.sqrt(variance)) + 2, dtype=np.float64)
    tails: Floats = np.cumsum(np.exp(-z * z / (2 * float(variance)))[::-1])[::-1]
    tails /= 2 * tails[0] - 1
    return tails


def _tail_ball(variance: Fraction, m: int) -> arb:
    """Lemma (tail), with terms of W(m) down to e^-90 of the first; a geometric series covers the rest."""

    def weight(z: int) -> arb:
        return (-ball(Fraction(z * z) / (2 * variance))).exp()

    weights, z = arb(0), m
    while z * z - m * m <= 180 * variance:
        weights += weight(z)
        z += 1
    rest = weight(z) / (1 - (-ball(Fraction(z) / variance)).exp())
    return (weights + rest) / (2 * arb.pi() * ball(variance)).sqrt().max(1 + 2 * weight(1))
