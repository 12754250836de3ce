"""lapwing.lab.replay: code that is built on sound mechanisms, and where it breaks them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import lapwing as lw
from lapwing.errors import Misconfigured
from lapwing.lab import replay
from lapwing.lab.outputs import same
from lapwing.lab.zoo import FAULTS, sound_mean
from lapwing.mechanisms import Mean, PermuteAndFlip, Quantile, Ranges, Sparse, TopK

ROWS = [3, 8, 40, 90]
PAIR = (ROWS, ROWS[:-1])

EXPECTED = {
    "private mean": "the result depends on the data beyond the released numbers",
    "inferred domain": "call 1, Laplace: the number of values depends on the data: (4,) and (3,)",
    "double spending": "the mechanisms lose epsilon = 2, and only 1 is charged",
    "NaN injection": "call 1, Laplace: it fails on one of the neighbours only",
    "noise miscalibrated": "the mechanisms lose epsilon = 2, and epsilon = 1 is claimed",
    "sensitivity miscalibrated": "call 1, Laplace: the value moves by 100 in l1, and the sensitivity is 1",
}


@pytest.mark.parametrize("name", FAULTS)
def test_replay_catches_the_faults_of_real_libraries_in_one_pair(name: str) -> None:
    """threat:A35 threat:A5 threat:A20 threat:A30 whatever is drawn: no stream is fixed here."""
    function, pair = FAULTS[name]
    assert EXPECTED[name] in replay(function, pair, epsilon=1).problems


@pytest.mark.parametrize("pair", [PAIR, PAIR[::-1], ([], [5]), ([float("nan"), 3.0], [3.0]), ([1e9], [])])
def test_replay_accepts_a_sound_mean(pair: Any) -> None:
    found = replay(sound_mean, pair, epsilon=1)
    assert found.problems == ()
    assert (found.releases, found.loss) == (2, "epsilon = 1 (rho = 0.25)")


def biggest(rows: list[int]) -> Any:
    return lw.NoisyMax(epsilon=1, monotone=True).choose(["low", "high"], [sum(r < 50 for r in rows), len(rows)])


def watched(rows: list[int]) -> list[bool]:
    run = lw.AboveThreshold(threshold=2, epsilon=1).start()
    seen = []
    for limit in (10, 50, 100):
        if run.halted:
            break
        seen.append(run.above(sum(r < limit for r in rows)))
    return seen


def loop_until_large(rows: list[int]) -> list[int]:
    """How often it goes round follows from released numbers alone."""
    seen = [0]
    while seen[-1] < 5 and len(seen) < 4:
        seen.append(lw.Laplace(epsilon=0.1)(len(rows)))
    return seen


SOUND: dict[str, Callable[[list[int]], Any]] = {
    "noisy max": biggest,
    "sparse vector": watched,
    "a loop over released numbers": loop_until_large,
    "sparse": lambda rows: [Sparse(threshold=2, epsilon=1, answers=2).start().above(len(rows))],
    "permute and flip": lambda rows: PermuteAndFlip(epsilon=1).choose([1, 2], [len(rows), 3]),
    "top k": lambda rows: TopK(epsilon=1, k=2, monotone=True).choose("abc", [len(rows), 3, 1]),
    "exponential": lambda rows: lw.Exponential(epsilon=1).choose([1, 2], [len(rows), 3]),
    "mean": lambda rows: Mean(epsilon=1, bounds=(0, 100))(rows).mean,
    "median": lambda rows: Quantile(epsilon=1, at=0.5, bounds=(0, 100))(rows),
    "gaussian vector": lambda rows: lw.Gaussian(rho=0.5, size=2)(np.array([len(rows), 7])),
    "nothing released": lambda rows: "constant",
}


@pytest.mark.parametrize("name", SOUND)
def test_replay_accepts_sound_code(name: str) -> None:
    for _ in range(5):
        assert replay(SOUND[name], PAIR).problems == ()


BROKEN: dict[str, tuple[Callable[[list[int]], Any], str]] = {
    "scale from the data": (lambda rows: lw.Laplace(epsilon=1, sensitivity=max(rows))(sum(rows)), "parameters depend"),
    "branch on the data": (lambda rows: lw.Laplace(epsilon=1)(len(rows)) if len(rows) > 3 else 0, "on one neighbour"),
    "loop over the data": (lambda rows: [lw.Laplace(epsilon=1)(r) for r in rows], "on one|one neighbour"),
    "other mechanism": (
        lambda rows: (lw.Laplace(epsilon=1) if len(rows) > 3 else lw.Gaussian(rho=1))(len(rows)),
        "is Laplace on one neighbour and Gaussian on the other|is Gaussian on one",
    ),
    "type of a value": (lambda rows: lw.Laplace(epsilon=1)(3 if len(rows) > 3 else 3.0), "type of the value"),
    "order of the result": (
        lambda rows: dict.fromkeys("ab" if len(rows) > 3 else "ba", lw.Laplace(epsilon=1)(len(rows))),
        "the result depends",
    ),
    "raw rows": (lambda rows: (lw.Laplace(epsilon=1)(len(rows)), rows[-1]), "the result depends"),
    "an error": (lambda rows: 1 / (len(rows) - 3), "raises ZeroDivisionError on one"),
    "candidates": (lambda rows: lw.Exponential(epsilon=1).choose(rows, [0] * len(rows)), "candidates depend"),
    "not monotone": (
        lambda rows: lw.NoisyMax(epsilon=1, monotone=True).choose([0, 1], [len(rows), -len(rows)]),
        "move both ways",
    ),
    "score": (lambda rows: lw.Exponential(epsilon=1).choose([0, 1], [sum(rows), 0]), "a score moves by 90"),
    "l2": (lambda rows: lw.Gaussian(rho=1, size=2)([len(rows), len(rows)]), "moves by 1.41421 in l2"),
    "threshold": (lambda rows: lw.AboveThreshold(threshold=2, epsilon=1).start().above(sum(rows)), "moves by 90"),
    "rows twice": (lambda rows: Mean(epsilon=1, bounds=(0, 100))(rows + rows).mean, "2 rows differ"),
    "charge": (
        lambda rows: lw.Filter(lw.Budget(epsilon=9)).spend(lw.Laplace(epsilon=len(rows)).loss) and None,
        "charge 1 depends on the data",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_replay_names_what_is_wrong(name: str) -> None:
    function, words = BROKEN[name]
    found = replay(function, PAIR)
    assert any(part in problem for problem in found.problems for part in words.split("|")), found.problems


def test_a_charge_that_was_refused_pays_for_nothing() -> None:
    def brazen(rows: list[int]) -> int:
        noisy = lw.Laplace(epsilon=2)
        with suppress(lw.BudgetExceeded):
            lw.Filter(lw.Budget(epsilon=1)).spend(noisy.loss)
        return noisy(len(rows))

    assert replay(brazen, PAIR).problems == ("the mechanisms lose epsilon = 2, and only 0 is charged",)


@pytest.mark.parametrize(
    ("times", "problems"), [(1, ()), (2, ("the mechanisms lose rho = 0.2, and only 0.1 is charged",))]
)
def test_charges_in_rho_are_compared_too(times: int, problems: tuple[str, ...]) -> None:
    def released(rows: list[int]) -> list[int]:
        budget, noisy = lw.Filter(lw.Budget(epsilon=4, delta=1e-6)), lw.Gaussian(rho=0.1)
        budget.spend(noisy.loss)
        return [noisy(len(rows)) for _ in range(times)]

    found = replay(released, PAIR)
    assert (found.releases, found.problems) == (times, problems)


def test_replay_is_not_fooled_by_code_that_catches_everything() -> None:
    def careful(rows: list[int]) -> int:
        try:
            return lw.Laplace(epsilon=1)(len(rows)) + sum(lw.Laplace(epsilon=1)(r) for r in rows)
        except Exception:  # noqa: BLE001
            return 0

    assert replay(careful, PAIR).rejected


def test_replay_refuses_other_randomness() -> None:
    import random

    with pytest.raises(Misconfigured, match="Take all randomness from Lapwing"):
        replay(lambda rows: lw.Laplace(epsilon=1)(len(rows)) + random.random(), PAIR)


@pytest.mark.parametrize(
    "function",
    [lambda rows: lw.Laplace(epsilon=1).draw(1), lambda rows: Ranges(epsilon=1, size=2).release([len(rows), 0])],
)
def test_replay_refuses_what_it_cannot_compare(function: Any) -> None:
    with pytest.raises(Misconfigured, match="cannot be replayed"):
        replay(function, PAIR)


def test_mechanisms_are_whole_again_after_a_replay() -> None:
    before = lw.Laplace.__call__, lw.Filter.spend, lw.AboveThreshold.start
    replay(sound_mean, PAIR)
    with pytest.raises(KeyboardInterrupt):
        replay(_interrupted, PAIR)
    assert (lw.Laplace.__call__, lw.Filter.spend, lw.AboveThreshold.start) == before
    assert isinstance(lw.Laplace(epsilon=1)(3), int)


def _interrupted(rows: list[int]) -> None:
    raise KeyboardInterrupt


def test_replay_needs_a_pair() -> None:
    with pytest.raises(Misconfigured, match="pair"):
        replay(sound_mean, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (1, 1, True),
        (1, True, False),
        (1, 1.0, False),
        (float("nan"), float("nan"), True),
        (0.0, -0.0, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
        ([1, (2, 3)], [1, (2, 3)], True),
        ([1], (1,), False),
        (np.array([1, 2]), np.array([1, 2]), True),
        (np.array([1, 2]), np.array([1.0, 2.0]), False),
        (ValueError("a"), ValueError("b"), False),
        (ValueError("a"), ValueError("a"), True),
    ],
)
def test_results_are_the_same_only_if_nobody_can_tell(left: Any, right: Any, equal: bool) -> None:
    assert same(left, right) is equal


def test_a_replay_of_nothing_is_not_reported_as_unrefuted() -> None:
    with pytest.raises(Misconfigured, match="the function returned None"):
        replay(lambda _: None, PAIR, epsilon=1)
    with pytest.raises(Misconfigured, match="the function raised ZeroDivisionError: division by zero"):
        replay(lambda rows: len(rows) / 0, PAIR, epsilon=1)
    assert str(replay(lambda _: 42, PAIR, epsilon=1)).startswith("Nothing to replay: the function uses no mechanism")


def test_a_result_is_kept_as_it_was_returned() -> None:
    buffer = np.zeros(1)

    def leak(rows: list[int]) -> Any:
        buffer[0] = len(rows)
        return buffer

    assert replay(leak, PAIR).problems == ("the result depends on the data beyond the released numbers",)


def test_a_release_may_be_changed_in_place() -> None:
    def doubled(rows: list[int]) -> Any:
        noisy = lw.Laplace(epsilon=1)(np.array([len(rows), 0]))
        noisy *= 2
        return noisy

    assert replay(doubled, PAIR, epsilon=1).problems == ()
