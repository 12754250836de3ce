"""Recording what a function asks of Lapwing's mechanisms, replaying the answers, and comparing the inputs of two runs.

While a recording or a replay runs, the methods that draw are replaced on their classes: a function that is audited
needs no decorators. They are put back whatever happens. Nothing outside the lab uses this. For each mechanism a check
finds how far its inputs in two runs are apart, and how far it allows: a sentence about what is wrong, or None.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from lapwing import mechanisms
from lapwing.lab.outputs import same
from lapwing.privacy.filter import Filter
from lapwing.privacy.loss import Loss
from lapwing.privacy.neighbours import Neighbours

Check = Callable[[Any, tuple[Any, ...], tuple[Any, ...]], str | None]


def check_scores(mechanism: Any, left: tuple[Any, ...], right: tuple[Any, ...]) -> str | None:
    """The largest change of a score, and its sign if all must move the same way."""
    if not same(_listed(left[0]), _listed(right[0])):
        return "the candidates depend on the data"
    gaps = _gaps(left[1], right[1])
    if gaps is None:
        return "the number or the type of the scores depends on the data, or a score is not finite"
    most = max(map(abs, gaps), default=Fraction(0))
    if most > mechanism.sensitivity:
        return f"a score moves by {float(most):.6g}, and the sensitivity is {float(mechanism.sensitivity):.6g}"
    if mechanism.monotone and min(gaps, default=0) < 0 < max(gaps, default=0):
        return "scores move both ways, and `monotone` is claimed"
    return None


def check_rows(mechanism: Any, left: tuple[Any, ...], right: tuple[Any, ...]) -> str | None:
    """How many rows are added or removed, for mechanisms that clip rows themselves."""
    most = getattr(mechanism, "rows_per_unit", 1)
    if getattr(mechanism, "neighbours", Neighbours.ADD_OR_REMOVE) is Neighbours.CHANGE_ONE:
        most *= 2
    rows = [Counter(map(repr, zip(*map(_listed, inputs), strict=True))) for inputs in (left, right)]
    moved = (rows[0] - rows[1]).total() + (rows[1] - rows[0]).total()
    return f"{moved} rows differ, and one unit has at most {most}" if moved > most else None


def check_truths(_: Any, left: tuple[Any, ...], right: tuple[Any, ...]) -> str | None:
    """At most one person's answer may differ, in whatever way."""
    if not isinstance(left[0], list | np.ndarray):
        return None
    a, b = _listed(left[0]), _listed(right[0])
    if len(a) != len(b):
        return "the number of answers depends on the data"
    moved = sum(x != y for x, y in zip(a, b, strict=True))
    return f"the truths of {moved} people differ" if moved > 1 else None


def _additive(norm: Callable[[Sequence[Fraction]], Fraction], name: str, power: int = 1) -> Check:
    """For additive noise: the distance of the values in this norm, to the power."""

    def check(mechanism: Any, lefts: tuple[Any, ...], rights: tuple[Any, ...]) -> str | None:
        left, right, most = lefts[0], rights[0], mechanism.sensitivity
        if type(left) is not type(right) or np.asarray(left).dtype.kind != np.asarray(right).dtype.kind:
            return "the type of the value depends on the data"
        if np.shape(left) != np.shape(right):
            return f"the number of values depends on the data: {np.shape(left)} and {np.shape(right)}"
        gaps = _gaps(left, right)
        if gaps is None:
            return "a value is not a finite number"
        moved = norm(gaps)
        if moved <= most**power:
            return None
        distance = float(moved) ** (1 / power)
        return f"the value moves by {distance:.6g} in {name}, and the sensitivity is {float(most):.6g}"

    return check


check_sum = _additive(lambda gaps: sum(map(abs, gaps), Fraction(0)), "l1")
check_root = _additive(lambda gaps: sum((g * g for g in gaps), Fraction(0)), "l2", power=2)
check_value = _additive(lambda gaps: abs(gaps[0]), "value")


def _gaps(left: Any, right: Any) -> list[Fraction] | None:
    """Exact differences; None if they have no common length or are not finite."""
    a, b = (np.ravel(np.asarray(value, dtype=object)).tolist() for value in (left, right))
    try:
        return [Fraction(x) - Fraction(y) for x, y in zip(a, b, strict=True)]
    except (ValueError, OverflowError, TypeError):
        return None


def _listed(values: Any) -> list[Any]:
    if isinstance(values, np.ndarray):
        return list(values.tolist())
    return list(values.to_pylist()) if hasattr(values, "to_pylist") else list(values)


_OF_SCORES = (mechanisms.Exponential, mechanisms.NoisyMax, mechanisms.PermuteAndFlip, mechanisms.TopK)
_OF_ROWS = (
    *(mechanisms.Mean, mechanisms.Variance, mechanisms.PairMoments, mechanisms.Quantile, mechanisms.Quantiles),
    *(mechanisms.SmoothMedian, mechanisms.ProposedMedian),
)
CHECKS: dict[tuple[type, str], Check] = {
    (mechanisms.Laplace, "__call__"): check_sum,
    (mechanisms.Gaussian, "__call__"): check_root,
    (mechanisms.RandomizedResponse, "respond"): check_truths,
    **{(kind, "choose"): check_scores for kind in _OF_SCORES},
    **{(kind, "__call__"): check_rows for kind in _OF_ROWS},
}
"""The methods that may be called, and the comparison of their inputs."""
RUNS = (mechanisms.AboveThreshold, mechanisms.Sparse, mechanisms.NumericSparse)
_DRAWING = ("__call__", "choose", "respond", "keep", "release", "start", "draw")


@dataclass(slots=True)
class Called:
    name: str
    mechanism: Any
    inputs: tuple[Any, ...]
    output: Any
    left: int = 0
    """Of a sparse-vector run: how many answers are left."""


@dataclass(slots=True)
class Recording:
    """The record of one run of the function. With `answers`, releases are compared with them and answered by them."""

    answers: Recording | None = None
    calls: list[Called] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    spent: list[Loss] = field(default_factory=list)
    charging: bool = False
    problems: list[str] = field(default_factory=list)
    inside: bool = False
    stopped: bool = False
    """Whether the two runs asked different things, so that there was nothing to replay any more."""
    unknown: str | None = None
    """A mechanism that was used and cannot be replayed."""

    def stop(self, problem: str) -> NoReturn:
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
        """Notes what is wrong with the last call, and returns its recorded answer; stops the run if there is none."""
        here, number = self.calls[-1], len(self.calls)
        before = self.answers.calls if self.answers is not None else []
        if number > len(before):
            self.stop(f"call {number}, {here.name}, is made on one of the neighbours only")
        there = before[number - 1]
        if there.name != here.name:
            self.stop(f"call {number} is {there.name} on one neighbour and {here.name} on the other")
        if there.mechanism != here.mechanism:
            problem = f"its parameters depend on the data, {there.mechanism} and {here.mechanism}"
        elif failed != isinstance(there.output, Exception):
            problem = "it fails on one of the neighbours only"
        else:
            problem = check(here.mechanism, there.inputs, here.inputs) or ""
        if problem:
            self.problems.append(f"call {number}, {here.name}: {problem}")
        return there.output


class Stopped(BaseException):
    """The function cannot go on. Not an Exception, so that it does not catch this by accident."""


class ReplayedRun:
    """A sparse-vector run whose answers are recorded, or come from a recording."""

    def __init__(self, recording: Recording, mechanism: Any, run: Any) -> None:
        self._recording, self._mechanism, self._run = recording, mechanism, run
        self.left: int = run.left

    @property
    def halted(self) -> bool:
        return not self.left

    def above(self, value: Any) -> Any:
        return self._next("above", value)

    def answer(self, value: Any) -> Any:
        return self._next("answer", value)

    def _next(self, method: str, value: Any) -> Any:
        recording, name = self._recording, f"{type(self._mechanism).__name__}.{method}"
        answers = recording.answers
        run = (lambda: getattr(self._run, method)(value)) if answers is None else (lambda: None)
        output = recording.release(name, self._mechanism, (value,), check_value, run)
        self.left = self._run.left if answers is None else answers.calls[len(recording.calls) - 1].left
        recording.calls[-1].left = self.left
        return output


@contextmanager
def intercepting(recording: Recording) -> Iterator[None]:
    """While this lasts, every release of Lapwing's mechanisms and every charge goes through the recording."""
    spend = Filter.spend
    originals = [(owner, name, owner.__dict__[name]) for owner, name in _doors()]
    try:
        for owner, name, original in originals:
            setattr(owner, name, _watched(recording, name, original))
        setattr(Filter, "spend", _charged(recording, spend))  # noqa: B010 (a method cannot be assigned)
        yield
    finally:
        for owner, name, original in [*originals, (Filter, "spend", spend)]:
            setattr(owner, name, original)


def _doors() -> list[tuple[type, str]]:
    """Every method that draws, on the class that defines it."""
    public = [getattr(mechanisms, name) for name in mechanisms.__all__]
    classes = {base for cls in public if isinstance(cls, type) and hasattr(cls, "loss") for base in cls.__mro__[:-1]}
    return [(cls, name) for cls in classes for name in _DRAWING if name in cls.__dict__]


def _watched(recording: Recording, method: str, original: Any) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **named: Any) -> Any:
        if recording.inside:  # a mechanism that uses another one
            return original(self, *args, **named)
        name = type(self).__name__
        if method == "start" and isinstance(self, RUNS):
            recording.losses.append(self.loss)
            return ReplayedRun(recording, self, original(self))
        if method != "__call__":
            name += f".{method}"
        check = CHECKS.get((type(self), method))
        if check is None:
            recording.unknown = name
            raise Stopped(name)
        recording.losses.append(self.loss)
        return recording.release(name, self, (*args, *named.values()), check, lambda: original(self, *args, **named))

    return call


def _charged(recording: Recording, original: Any) -> Callable[..., Any]:
    def spend(self: Filter, loss: Loss) -> Any:
        recording.charging = True
        cost = original(self, loss)  # a charge that does not fit is none
        recording.spent.append(loss)
        if recording.answers is not None:
            number, before = len(recording.spent), recording.answers.spent
            if number > len(before) or not same(before[number - 1].encode(), loss.encode()):
                recording.problems.append(f"charge {number} depends on the data")
        return cost

    return spend
