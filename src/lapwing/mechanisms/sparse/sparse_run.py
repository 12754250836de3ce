"""A running sparse vector mechanism: state that halts, and that cannot be copied.

A run holds the noisy threshold and the number of "above" answers left. A copy could give those answers again without
paying for them, so a run cannot be copied or pickled, and a child process cannot continue its parent's run.
Guarantee:  a run gives at most `answers` aboves in all its threads together; then every call raises Halted.
            With a fresh bar for each above, no bar serves two.
Proof:      `_left` and `_bar` change in one place only, under a lock, before the answer is returned. A signal
            handler that asks in the middle of an answer is refused; an exception in the middle of one ends the run.
Checked by: tests/mechanisms/sparse/test_sparse_run.py
"""

from __future__ import annotations

from threading import RLock
from typing import NoReturn

from lapwing.errors import Halted, Misconfigured
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.sparse.crossing import Crossing
from lapwing.noise.bits import Forks
from lapwing.numbers import Number
from lapwing.privacy.loss import Pure


class _Halting:
    """What both kinds of run share: the noisy bar, and how many answers are left."""

    __slots__ = ("_bar", "_born", "_crossing", "_left", "_lock", "_loss", "_sound")

    def __init__(self, crossing: Crossing, loss: Pure) -> None:
        self._crossing = crossing
        self._loss = loss
        self._left = crossing.answers
        self._lock = RLock()  # a signal handler that asks is refused, not deadlocked
        self._sound = True
        self._born = Forks.count
        self._bar = crossing.draw_bar()

    @property
    def left(self) -> int:
        """How many times it can still say "above"."""
        return self._left

    @property
    def halted(self) -> bool:
        """Whether it has said "above" as often as was paid for."""
        return self._left == 0

    def _ticks_if_above(self, value: object) -> int | None:
        if self._born != Forks.count:  # before the lock, which a thread of the parent may have held
            raise Halted(
                "This run belongs to the process that started it; here it would give its answers twice. "
                f"Start another with start(); it costs {self._loss} again."
            )
        ticks = self._crossing.ticks.read(value)
        with self._lock:
            if not self._sound:
                raise Halted(
                    "This run was interrupted in the middle of an answer, or is giving one; it cannot give another. "
                    f"Start another with start(); it costs {self._loss} again."
                )
            self._sound = False
            above = self._is_above(ticks)
            self._sound = True
        if above is None:
            raise Halted(
                f'This run has halted: it has said "above" {_times(self._crossing.answers)}, as was paid for. '
                f"Start another with start(); it costs {self._loss} again."
            )
        return ticks if above else None

    def _is_above(self, ticks: int) -> bool | None:
        """Whether the value is above, None if the run has halted."""
        if not self._left:
            return None
        if ticks + self._crossing.draw_noise() < self._bar:
            return False
        self._left -= 1
        if self._crossing.refreshed:
            self._bar = self._crossing.draw_bar()
        return True

    def __reduce__(self) -> NoReturn:
        raise Misconfigured(
            "A run cannot be copied or pickled: a copy would give again answers that were paid for once. "
            "Start another with start(), and pay for it."
        )


class Run(_Halting):
    """Says for one value after another whether it is above the threshold, until all paid answers are given."""

    __slots__ = ()

    def above(self, value: Number) -> bool:
        """Whether the value, with noise, reaches the threshold, with noise."""
        return self._ticks_if_above(value) is not None


class NumericRun(_Halting):
    """Gives a noisy value where the value is above the threshold, and None where it is below."""

    __slots__ = ("_noise",)

    def __init__(self, crossing: Crossing, noise: Laplace, loss: Pure) -> None:
        super().__init__(crossing, loss)
        self._noise = noise

    def answer(self, value: Number) -> int | float | None:
        """The value with fresh noise if it is above the threshold, None if it is below."""
        ticks = self._ticks_if_above(value)
        return None if ticks is None else self._crossing.ticks.number(ticks + int(self._noise.draw(1)[0]))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
