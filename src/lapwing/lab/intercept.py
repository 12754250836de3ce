"""Recording what a function asks of Lapwing's mechanisms, and replaying the answers.

While a recording or a replay runs, the methods that draw are replaced on their classes: a function that is audited
needs no decorators. They are put back whatever happens. Nothing outside the lab uses this.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from lapwing import mechanisms
from lapwing.lab.distance import (
    Check,
    check_root,
    check_rows,
    check_scores,
    check_sum,
    check_truths,
    check_value,
)
from lapwing.lab.equality import same
from lapwing.privacy.filter import Filter
from lapwing.privacy.loss import Loss

CHECKS: dict[tuple[type, str], Check] = {
    (mechanisms.Laplace, "__call__"): check_sum,
    (mechanisms.Gaussian, "__call__"): check_root,
    (mechanisms.Exponential, "choose"): check_scores,
    (mechanisms.NoisyMax, "choose"): check_scores,
    (mechanisms.PermuteAndFlip, "choose"): check_scores,
    (mechanisms.TopK, "choose"): check_scores,
    (mechanisms.RandomizedResponse, "respond"): check_truths,
    (mechanisms.Mean, "__call__"): check_rows,
    (mechanisms.Variance, "__call__"): check_rows,
    (mechanisms.PairMoments, "__call__"): check_rows,
    (mechanisms.Quantile, "__call__"): check_rows,
    (mechanisms.Quantiles, "__call__"): check_rows,
    (mechanisms.SmoothMedian, "__call__"): check_rows,
    (mechanisms.ProposedMedian, "__call__"): check_rows,
}
"""What may be called, and how its inputs are compared."""
RUNS = (mechanisms.AboveThreshold, mechanisms.Sparse, mechanisms.NumericSparse)
_DRAWING = ("__call__", "choose", "respond", "keep", "release", "start", "draw")


@dataclass(slots=True)
class Called:
    """One release: by which mechanism, on what, and what came out."""

    name: str
    mechanism: Any
    inputs: tuple[Any, ...]
    output: Any
    left: int = 0
    """Of a sparse-vector run: how many answers are left."""


@dataclass(slots=True)
class Recording:
    """What one run of the function did. With `answers`, releases are compared with them and answered by them."""

    answers: Recording | None = None
    calls: list[Called] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    spent: list[Loss] = field(default_factory=list)
    charging: bool = False
    """Whether a charge was tried."""
    problems: list[str] = field(default_factory=list)
    inside: bool = False
    stopped: bool = False
    """Whether the two runs asked different things, so that there was nothing to replay any more."""
    unknown: str | None = None
    """A mechanism that was used and cannot be replayed."""

    def stop(self, problem: str) -> NoReturn:
        """Ends the run."""
        self.stopped = True
        self.problems.append(problem)
        raise Stopped(problem)

    def release(self, name: str, mechanism: Any, inputs: tuple[Any, ...], check: Check, run: Callable[[], Any]) -> Any:
        """Runs a mechanism; in a replay compares the call and gives the recorded answer instead."""
        self.inside = True
        try:
            output = run()
        except Exception as error:  # noqa: BLE001 (it is part of what the function sees)
            output = error
        finally:
            self.inside = False
        self.calls.append(Called(name, mechanism, copy.deepcopy(inputs), output))
        if self.answers is not None:
            output = self._compare(check, isinstance(output, Exception))
        if isinstance(output, Exception):
            raise output
        return copy.deepcopy(output)

    def _compare(self, check: Check, failed: bool) -> Any:
        """What is wrong with the last call, and the recorded answer to it; the function cannot go on without one."""
        here, place = self.calls[-1], len(self.calls) - 1
        before = self.answers.calls if self.answers is not None else []
        if place >= len(before):
            self.stop(f"call {place + 1}, {here.name}, is made on one of the neighbours only")
        there = before[place]
        if there.name != here.name:
            self.stop(f"call {place + 1} is {there.name} on one neighbour and {here.name} on the other")
        if there.mechanism != here.mechanism:
            self.problems.append(
                f"call {place + 1}, {here.name}: its parameters depend on the data, "
                f"{there.mechanism} and {here.mechanism}"
            )
        elif failed != isinstance(there.output, Exception):
            self.problems.append(f"call {place + 1}, {here.name}: it fails on one of the neighbours only")
        elif (wrong := check(here.mechanism, there.inputs, here.inputs)) is not None:
            self.problems.append(f"call {place + 1}, {here.name}: {wrong}")
        return there.output


class Stopped(BaseException):
    """The function cannot go on. Not an Exception, so that it does not catch this by accident."""


class ReplayedRun:
    """A sparse-vector run whose answers are recorded, or come from a recording."""

    def __init__(self, recording: Recording, mechanism: Any, run: Any) -> None:
        self._recording, self._mechanism, self._run = recording, mechanism, run
        self._left: int = run.left

    @property
    def left(self) -> int:
        return self._left

    @property
    def halted(self) -> bool:
        return not self._left

    def above(self, value: Any) -> Any:
        return self._next("above", value)

    def answer(self, value: Any) -> Any:
        return self._next("answer", value)

    def _next(self, method: str, value: Any) -> Any:
        recording, name = self._recording, f"{type(self._mechanism).__name__}.{method}"
        fresh = recording.answers is None
        run = (lambda: getattr(self._run, method)(value)) if fresh else (lambda: None)
        output = recording.release(name, self._mechanism, (value,), check_value, run)
        if fresh:
            recording.calls[-1].left = self._run.left
        else:
            recording.calls[-1].left = recording.answers.calls[len(recording.calls) - 1].left  # type: ignore[union-attr]
        self._left = recording.calls[-1].left
        return output


@contextmanager
def intercepting(recording: Recording) -> Iterator[None]:
    """While this lasts, every release of Lapwing's mechanisms and every charge goes through the recording."""
    kept = [(owner, name, owner.__dict__[name]) for owner, name in _doors()]
    spend = Filter.__dict__["spend"]
    try:
        for owner, name, original in kept:
            setattr(owner, name, _watched(recording, name, original))
        setattr(Filter, "spend", _charged(recording, spend))  # noqa: B010 (a method cannot be assigned)
        yield
    finally:
        for owner, name, original in kept:
            setattr(owner, name, original)
        setattr(Filter, "spend", spend)  # noqa: B010


def _doors() -> list[tuple[type, str]]:
    """Every method that draws, on the class that defines it."""
    made = [getattr(mechanisms, name) for name in mechanisms.__all__]
    classes = {base for cls in made if isinstance(cls, type) and hasattr(cls, "loss") for base in cls.__mro__[:-1]}
    return [(cls, name) for cls in classes for name in _DRAWING if name in cls.__dict__]


def _watched(recording: Recording, method: str, original: Any) -> Callable[..., Any]:
    def call(self: Any, *inputs: Any, **named: Any) -> Any:
        if recording.inside:  # a mechanism that uses another one
            return original(self, *inputs, **named)
        name = type(self).__name__
        if method == "start" and isinstance(self, RUNS):
            recording.losses.append(self.loss)
            return ReplayedRun(recording, self, original(self))
        check = CHECKS.get((type(self), method))
        if check is None:
            recording.unknown = name if method == "__call__" else f"{name}.{method}"
            raise Stopped(recording.unknown)
        recording.losses.append(self.loss)
        shown = name if method == "__call__" else f"{name}.{method}"
        return recording.release(
            shown, self, (*inputs, *named.values()), check, lambda: original(self, *inputs, **named)
        )

    return call


def _charged(recording: Recording, original: Any) -> Callable[..., Any]:
    def spend(self: Filter, loss: Loss) -> Any:
        recording.charging = True
        cost = original(self, loss)  # a charge that does not fit is none
        recording.spent.append(loss)
        if recording.answers is not None:
            place = len(recording.spent) - 1
            before = recording.answers.spent
            if place >= len(before) or not same(before[place].encode(), loss.encode()):
                recording.problems.append(f"charge {place + 1} depends on the data")
        return cost

    return spend
