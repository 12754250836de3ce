"""Record and replay: two runs on two neighbours with the same released numbers, compared step by step.

A function that is built on Lapwing's mechanisms runs on one neighbour while its releases are recorded, then on the
other while the recorded numbers are given back. Then everything but the inputs of the mechanisms must be the same.

Guarantee:  if the function is deterministic but for its mechanisms, and the replay finds nothing for any pair of
            neighbours, whatever numbers the mechanisms release, then it is as private as the sum of their losses.
Proof:      with the same released numbers both runs make the same calls, with the same parameters and inputs within the
            sensitivity, so each release is as private as its mechanism says, given the ones before: adaptive
            composition. The result is the same function of the released numbers: post-processing.
One pair and one draw are one case of many: nothing found is no proof. It takes two runs each way and no statistics.
Checked by: tests/lab/test_replay.py
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add, methodcaller
from typing import Any

from lapwing.errors import LapwingError, Misconfigured
from lapwing.lab.intercept import Recording, Stopped, intercepting
from lapwing.lab.outputs import keep, read_pair, same
from lapwing.numbers import Number, below_one, nonnegative
from lapwing.privacy.loss import Loss


@dataclass(frozen=True, slots=True)
class Replay:
    """The result for one pair."""

    problems: tuple[str, ...]
    releases: int
    loss: str
    """The loss of all mechanisms together, in words."""

    @property
    def rejected(self) -> bool:
        return bool(self.problems)

    def to_dict(self) -> dict[str, Any]:
        facts = {"problems": list(self.problems), "releases": self.releases, "loss": self.loss}
        return {"rejected": self.rejected, **facts, "message": str(self)}

    def __str__(self) -> str:
        if not self.problems and not self.releases:
            return "Nothing to replay: the function uses no mechanism, and its result is the same on both neighbours."
        lost = f"{self.releases} release{'s' if self.releases != 1 else ''}, {self.loss} in all"
        if not self.problems:
            advice = "One pair is not all pairs: try small and extreme ones too."
            return f"No violation found in this pair: {lost}.\n{advice}"
        return "\n".join([f"Rejected ({lost}):", *(f"- {problem}" for problem in self.problems)])


def replay(
    function: Callable[[Any], Any], neighbours: tuple[Any, Any], *, epsilon: Number | None = None, delta: Number = 0
) -> Replay:
    """Runs a function on two neighbours with the same released numbers, both ways, and compares what it does.

    With `epsilon` the mechanisms together must not lose more, and never more than the function charges a `Filter`.
    """
    left, right = read_pair(neighbours)
    below_one(delta, "delta")
    problems: list[str] = []
    recorded, result = _run(function, left, None)
    repeated, again = _run(function, left, recorded)
    if repeated.stopped or not same(result, again):
        raise Misconfigured(
            "the function gives another result for the same data and the same released numbers. "
            "Take all randomness from Lapwing's mechanisms, or audit it by sampling."
        )
    for data, other in ((left, right), (right, left)):
        first, seen = _run(function, data, None)
        second, other_seen = _run(function, other, first)
        problems += second.problems
        if not second.stopped:
            problems += _compare(first, seen, second, other_seen)
    problems += _overspent(recorded, epsilon, delta)
    if not problems and (result is None or isinstance(result, Exception)):
        did = "returned None" if result is None else f"raised {type(result).__qualname__}: {result}"
        raise Misconfigured(f"the function {did}, so there is no result to compare. Fix it, or the neighbours.")
    total = _total(recorded.losses)
    return Replay(tuple(dict.fromkeys(problems)), len(recorded.calls), "nothing lost" if total is None else str(total))


def _run(function: Callable[[Any], Any], data: Any, answers: Recording | None) -> tuple[Recording, Any]:
    recording = Recording(answers)
    with intercepting(recording):
        try:
            result = function(copy.deepcopy(data))
        except (Stopped, Exception) as error:  # noqa: BLE001 (whether it fails is part of the result)
            result = error
    if recording.unknown is not None:
        raise Misconfigured(f"{recording.unknown} cannot be replayed. Sample it: `lapwing audit module:function`.")
    return recording, keep(result)


def _compare(first: Recording, seen: Any, second: Recording, other: Any) -> list[str]:
    calls, others = len(first.calls), len(second.calls)
    if others < calls or len(second.spent) < len(first.spent):
        charges, other_charges = len(first.spent), len(second.spent)
        return [f"{calls} releases and {charges} charges on one neighbour, {others} and {other_charges} on the other"]
    if isinstance(seen, Exception) != isinstance(other, Exception):
        error = seen if isinstance(seen, Exception) else other
        return [f"the function raises {type(error).__name__} on one of the neighbours only"]
    return [] if same(seen, other) else ["the result depends on the data beyond the released numbers"]


def _overspent(recorded: Recording, epsilon: Number | None, delta: Number) -> list[str]:
    total, paid = _total(recorded.losses), _total(recorded.spent)
    if total is None:
        return []
    problems = []
    if epsilon is not None:
        most, lost = nonnegative(epsilon, "epsilon"), _epsilon(total, delta)
        if lost is None or lost > most:
            shown = f"epsilon = {float(lost):.6g}" if lost is not None else str(total)
            problems.append(f"the mechanisms lose {shown}, and epsilon = {float(most):.6g} is claimed")
    if recorded.charging and (short := _short(total, paid)) is not None:
        problems.append(short)
    return problems


def _short(total: Loss, paid: Loss | None) -> str | None:
    """By how much the charges fall short of what is lost, in the first currency that both have."""
    for name, converted in (("epsilon", methodcaller("to_pure")), ("rho", methodcaller("to_zcdp"))):
        try:
            lost, charged = (0 if loss is None else getattr(converted(loss), name) for loss in (total, paid))
        except LapwingError:
            continue
        if lost <= charged:
            return None
        return f"the mechanisms lose {name} = {float(lost):.6g}, and only {float(charged):.6g} is charged"
    return None


def _epsilon(loss: Loss, delta: Number) -> Any:
    try:
        return loss.to_approximate(delta).epsilon if below_one(delta, "delta") else loss.to_pure().epsilon
    except LapwingError:
        return None


def _total(losses: list[Loss]) -> Loss | None:
    return reduce(add, losses) if losses else None
