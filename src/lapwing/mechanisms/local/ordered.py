"""Records in order on a public grid, and how far a few steps could move their median.

The grid is an axis (quantiles/axis.py): each record is clipped to the bounds and rounded by itself, so neighbours stay
neighbours. From there on everything is an integer: x_1 <= ... <= x_n in 0..last, with x_i = 0 for i <= 0 and
x_i = last for i > n. The median is the lower one, x_m with m = ceil(n / 2); of no records it is x_0 = 0.

Lemma (gap). Let A_k(x) be the largest local sensitivity of the median among all databases within k steps of x.
    Add or remove:  A_k(x) = x_(i+k+1) - x_i, i = floor((n - k) / 2).
    Change one:     A_k(x) = max over i = m-k-1, ..., m of x_(i+k+1) - x_i, for n >= 1. [NRS07, Prop. 3.4]
Both grow with k, up to `last`, and A_k(x) <= A_(k+1)(x') for neighbours x, x'.
Proof, add or remove. First k = 0. With n = 2h records the median is x_h; one more record makes it the (h+1)-th of
2h + 1, anywhere in [x_h, x_(h+1)], and one less leaves x_h or x_(h+1). With n = 2h + 1 it is x_(h+1); one more makes it
the (h+1)-th of 2h + 2, anywhere in [x_h, x_(h+1)], and one less leaves x_h or x_(h+1). So A_0 is the one gap with l
records before it and r behind it for which r - l is 0 or 1.
After k steps such a gap stretches at most from some x_i to x_(i+u+1), where the u records between were removed and
k - u steps are left to bring r - l = n - u - 2i to 0 or 1. They suffice exactly if u - k <= n - u - 2i <= k - u + 1,
that is if i >= (n - k - 1) / 2 and i + u + 1 <= (n + k) / 2 + 1. The least such i is floor((n - k) / 2), the largest
such i + u + 1 lies k + 1 above it, and u = k reaches both at once. For k >= n it is all of 0..last.
Proof, change one. One change moves x_m to x_(m-1) or x_(m+1) at the farthest, so A_0 is the larger of the gaps behind
places j = m - 1 and m. Let the gap behind place j stretch from x_i to x_(i+u+1) after k changes: the u records between
went elsewhere, i records of x lie before it and n - i - u behind it, where j and n - j are wanted. If i > j, the u and
i - j more must go to the right, so i - j <= k - u; if n - i - u > n - j, likewise j - i <= k. So j - k <= i and
i + u + 1 <= j + k + 1, and such a gap lies within one of the windows of the lemma. Each window is attained: its k inner
records go to the left until j are there, and the rest to the right.

[NRS07] Nissim, Raskhodnikova, Smith: Smooth sensitivity and sampling in private data analysis.
Checked by: tests/mechanisms/local/test_ordered.py
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np

from lapwing.arrays import Integers
from lapwing.errors import Misconfigured
from lapwing.mechanisms.mechanism import read_interval
from lapwing.mechanisms.quantiles.axis import PointAxis
from lapwing.numbers import Number, positive
from lapwing.privacy.neighbours import Neighbours

FINEST = 1 << 30
"""Default number of steps between the bounds."""
_MOST = 1 << 40


@dataclass(frozen=True, slots=True, init=False, repr=False)
class BoundedGrid(PointAxis):
    """The public grid low, low + step, ..., high; by default of 2^30 steps."""

    def __init__(self, bounds: tuple[Number, Number], step: Number | None = None) -> None:
        low, high = read_interval(bounds)
        width = (high - low) / FINEST if step is None else positive(step, "step")
        if (high - low) / width > _MOST:
            raise Misconfigured(f"`step` is {step}; at most 2^40 steps fit between the bounds. Pass a larger one.")
        PointAxis.__init__(self, (low, high), width)

    @property
    def last(self) -> int:
        return self.size - 1

    def order(self, values: Any, relation: Neighbours) -> Ordered:
        return Ordered(np.concatenate([[0], np.sort(self.places(values)), [self.last]]), relation)

    def value(self, cell: int) -> float:
        """The number that a cell stands for, cut to the bounds; post-processing."""
        return float(self.point(min(max(cell, 0), self.last)))


@dataclass(frozen=True, slots=True, eq=False)
class Ordered:
    """0, x_1 <= ... <= x_n, last; and the relation that steps are counted in."""

    padded: Integers
    relation: Neighbours

    @property
    def size(self) -> int:
        return self.padded.size - 2

    @property
    def median(self) -> int:
        return int(self.padded[(self.size + 1) // 2])

    def gap(self, steps: int) -> int:
        """A_k for k = steps: the largest local sensitivity of the median within that many steps."""
        match self.relation:
            case Neighbours.ADD_OR_REMOVE:
                starts = np.array([(self.size - steps) // 2])
            case Neighbours.CHANGE_ONE:
                starts = (self.size + 1) // 2 + np.arange(-steps - 1, 1)
            case _:
                assert_never(self.relation)
        return int(self._wide(starts, steps).max())

    def gaps(self, count: int) -> list[int]:
        """A_0, A_1, ..., this many."""
        if self.relation is Neighbours.ADD_OR_REMOVE:  # one window each, so all at once
            steps = np.arange(count)
            return [int(gap) for gap in self._wide((self.size - steps) // 2, steps)]
        return [self.gap(min(steps, self.size + 1)) for steps in range(count)]

    def steps_to_exceed(self, bound: int) -> int:
        """How many steps lead to a database whose local sensitivity lies above the bound, bound < last."""
        return bisect_right(range(self.size + 1), bound, key=self.gap)

    def _wide(self, starts: Integers, steps: int | Integers) -> Integers:
        most = self.size + 1
        return np.asarray(self.padded[np.clip(starts + steps + 1, 0, most)] - self.padded[np.clip(starts, 0, most)])
