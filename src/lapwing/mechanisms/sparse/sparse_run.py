"""Runs: mechanisms with a state that halts and that cannot be copied.

A sparse vector run holds the noisy threshold and the number of "above" answers left, a counter its noisy sums. A copy
could give answers again that were paid for once, so a run cannot be copied, pickled or continued in a child process.
Guarantee:  a run answers as often as was paid for in all its threads together; then every call raises Halted. Of a
            sparse vector run with a fresh bar for each above, no bar serves two.
Proof:      the state changes in `_next` only, under a lock, before the answer is returned. A signal handler that asks
            in the middle of an answer is refused; an exception in the middle of one ends the run.
Checked by: tests/mechanisms/sparse/test_sparse_run.py
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from threading import RLock
from typing import Generic, NoReturn, TypeVar

from lapwing.errors import Halted, Misconfigured
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.mechanism import PureMechanism
from lapwing.mechanisms.sparse.crossing import AboveAnswers, Crossing
from lapwing.noise.bits import Forks
from lapwing.numbers import Enclosure, Number, count, exact, flag, positive
from lapwing.privacy.loss import Loss, Pure

T = TypeVar("T")


class PaidRun(ABC, Generic[T]):
    """A state that is used by one process, one call at a time, as often as was paid for."""

    __slots__ = ("_born", "_lock", "_loss", "_sound")

    def __init__(self, loss: Loss) -> None:
        self._loss = loss
        self._lock = RLock()  # a signal handler that asks is refused, not deadlocked
        self._sound = True
        self._born = Forks.count

    @abstractmethod
    def _next(self, number: int) -> T | None:
        """Changes the state and answers; None if the run has halted."""

    @property
    @abstractmethod
    def _halt(self) -> str:
        """What a halted run has done."""

    def _answer(self, number: int) -> T:
        if self._born != Forks.count:  # before the lock, which a thread of the parent may have held
            raise self._over("This run belongs to the process that started it; here it would give its answers twice.")
        with self._lock:
            if not self._sound:
                raise self._over("This run was interrupted in the middle of an answer, or is giving one; it is over.")
            self._sound = False
            answer = self._next(number)
            self._sound = True
        if answer is None:
            raise self._over(f"This run has halted{self._halt}, as was paid for.")
        return answer

    def _over(self, reason: str) -> Halted:
        return Halted(f"{reason} Start another with start(); it costs {self._loss} again.")

    def __reduce__(self) -> NoReturn:
        raise Misconfigured(
            "A run cannot be copied or pickled: a copy would give again answers that were paid for once. "
            "Start another with start(), and pay for it."
        )


class Run(PaidRun[bool]):
    """Says for one value after another whether it is above the threshold, until all paid answers are given."""

    __slots__ = ("_bar", "_crossing", "_left")

    def __init__(self, crossing: Crossing, loss: Pure) -> None:
        super().__init__(loss)
        self._crossing = crossing
        self._left = crossing.answers
        self._bar = crossing.draw_bar()

    @property
    def left(self) -> int:
        """How many times it can still say "above"."""
        return self._left

    @property
    def halted(self) -> bool:
        """Whether it has said "above" as often as was paid for."""
        return self._left == 0

    def above(self, value: Number) -> bool:
        """Whether the value, with noise, reaches the threshold, with noise."""
        return self._answer(self._crossing.ticks.read(value))

    def _next(self, number: int) -> bool | None:
        if not self._left:
            return None
        if number + self._crossing.draw_noise() < self._bar:
            return False
        self._left -= 1
        if self._crossing.refreshed:
            self._bar = self._crossing.draw_bar()
        return True

    @property
    def _halt(self) -> str:
        answers = self._crossing.answers
        return f': it has said "above" {"once" if answers == 1 else f"{answers} times"}'


class NumericRun(Run):
    """Gives a noisy value where the value is above the threshold, and None where it is below."""

    __slots__ = ("_noise",)

    def __init__(self, crossing: Crossing, noise: Laplace, loss: Pure) -> None:
        super().__init__(crossing, loss)
        self._noise = noise

    def answer(self, value: Number) -> int | float | None:
        """The value with fresh noise if it is above the threshold, None if it is below."""
        ticks = self._crossing.ticks
        number = ticks.read(value)
        return ticks.number(number + int(self._noise.draw(1)[0])) if self._answer(number) else None


@dataclass(frozen=True, slots=True, init=False, repr=False)
class SparseVector(PureMechanism, ABC):
    """What sparse vector mechanisms share: the parameters of a comparison, and its runs."""

    threshold: Fraction
    epsilon: Fraction
    answers: int
    sensitivity: Fraction
    reals: bool
    crossing: Crossing = field(repr=False, compare=False)
    """The comparison in whole numbers, with its noise."""

    def start(self) -> Run:
        """A run: ask it `above(value)` for one value after another. Every start costs `loss`."""
        return Run(self.crossing, self.loss)

    def law(self, values: Sequence[Number]) -> dict[AboveAnswers, Enclosure]:
        """Proven bounds of the probability of every list of answers to these values."""
        return self.crossing.law(values)

    @abstractmethod
    def _crossing(self) -> Crossing: ...

    def _read(self, threshold: Number, epsilon: Number, answers: int, sensitivity: Number, reals: bool) -> None:
        self._set(threshold=exact(threshold, "threshold"), epsilon=positive(epsilon, "epsilon"))
        self._set(answers=count(answers, "answers"), sensitivity=positive(sensitivity, "sensitivity"))
        self._set(reals=flag(reals, "reals"))
