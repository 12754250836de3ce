"""lapwing.lab.audit: valid, strong, and honest about what it did not see."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import lapwing as lw
from lapwing.errors import Misconfigured
from lapwing.lab import Claim, audit, audit_outputs
from lapwing.lab.random_people import draw_normals
from lapwing.lab.zoo import BROKEN, SOUND, Specimen, add_noise
from support.audit import assert_caught, assert_private, audit_profile

pytestmark = pytest.mark.usefixtures("seeded")

ONE = Claim.dp(1)


def noisy(value: int, n: int) -> Any:
    return add_noise(1)(value, n)


@pytest.mark.parametrize("specimen", BROKEN, ids=lambda specimen: specimen.name)
def test_auditor_rejects_every_broken_mechanism_of_the_zoo(specimen: Specimen) -> None:
    """threat:A1 threat:A2 threat:A3 threat:A5 threat:A15 threat:A20 threat:A30 at the listed number of runs"""
    assert specimen.audit().rejected


@pytest.mark.parametrize("specimen", SOUND, ids=lambda specimen: specimen.name)
def test_auditor_rejects_no_sound_mechanism_of_the_zoo(specimen: Specimen) -> None:
    assert not specimen.audit().rejected


@pytest.mark.parametrize("name", ["float Laplace", "Box-Muller Gaussian"])
def test_auditor_sees_float_noise_only_by_its_lowest_bit(name: str) -> None:
    """threat:A1 threat:A2 threat:A3 the law is private, the doubles are not."""
    specimen = next(specimen for specimen in BROKEN if specimen.name == name)
    assert "lowest bit" in specimen.audit().event
    coarse = [np.round(specimen.mechanism(v, 20_000) * 2**10).astype(np.int64) for v in (0.0, 1.0)]
    assert_private(coarse[0], coarse[1], specimen.epsilon, specimen.delta)


def test_auditor_seldom_rejects_a_mechanism_at_its_boundary() -> None:
    runs, alpha = 400, 0.05
    alarms = sum(audit_outputs(noisy(0, 2_000), noisy(1, 2_000), ONE, alpha=alpha).rejected for _ in range(runs))
    assert alarms <= alpha * runs


def test_auditor_seldom_rejects_equal_float_rows_at_epsilon_zero() -> None:
    runs, alpha, zero = 100, 0.05, Claim.dp(0)
    pairs = (draw_normals(2, 1_000, 3) for _ in range(runs))
    assert sum(audit_outputs(left, right, zero, alpha=alpha).rejected for left, right in pairs) <= alpha * runs


def test_auditor_seldom_rejects_outputs_of_many_kinds_at_their_boundary() -> None:
    """Dictionaries, texts and floats by turns: a function of one noisy count."""

    def told(value: int) -> list[Any]:
        counts = noisy(value, 150).tolist()
        return [{"n": n} if n % 3 else str(n) if n % 2 else n / 4 for n in counts]

    runs, alpha = 40, 0.05
    assert sum(audit_outputs(told(0), told(1), ONE, alpha=alpha).rejected for _ in range(runs)) <= 7


@pytest.mark.slow
@pytest.mark.parametrize(("true", "runs"), [("1.2", 30_000), ("1.1", 100_000)])
def test_auditor_has_the_power_that_is_promised(true: str, runs: int) -> None:
    """At alpha = 1e-3 with N fixed beforehand, at least 95 % of audits reject."""
    less = add_noise(float(1 / Fraction(true)))
    assert sum(audit_outputs(less(0, runs), less(1, runs), ONE).rejected for _ in range(100)) >= 95


def test_auditor_finds_nearly_all_of_the_loss() -> None:
    found = audit_outputs(noisy(0, 100_000), noisy(2, 100_000), ONE)
    assert 1.9 < found.epsilon_lower < 2.0


def test_auditor_rejects_twenty_percent_too_little_noise() -> None:
    less = add_noise(1 / 1.2)
    assert_caught(less(0, 30_000), less(1, 30_000), epsilon=1.0)


def test_auditor_subtracts_delta() -> None:
    shown, hidden = np.arange(1_000) % 10 == 0, np.zeros(1_000, dtype=np.bool_)
    assert_caught(shown, hidden, 1.0, delta=0.01)
    assert_private(shown, hidden, 1.0, delta=0.1)


def test_auditor_needs_the_profile_to_see_a_gaussian_of_double_epsilon() -> None:
    """Noise for (2, 1e-5), sold as noise for (1, 1e-5): one point misses it, the curve of mu does not."""
    sold, given = 3.73, 1.99
    left, right = (value + np.rint(given * draw_normals(30_000)).astype(np.int64) for value in (0, 1))
    assert_private(left, right, 1.0, delta=1e-5)
    assert audit_outputs(left, right, Claim.gaussian(1 / sold)).rejected
    assert not audit_outputs(left, right, Claim.gaussian(1.05 / given)).rejected


def test_a_claim_of_zcdp_is_audited_along_its_curve() -> None:
    given = lw.Gaussian(rho=0.5)
    left, right = given.draw(30_000), 1 + given.draw(30_000)
    assert len(Claim.zcdp(0.5).points) == 4
    assert not audit_outputs(left, right, Claim.zcdp(0.5)).rejected
    assert audit_outputs(left, right, Claim.zcdp(0.2)).rejected


@pytest.mark.parametrize("mu", [0.3, 1, 3])
def test_the_curve_of_mu_is_that_of_two_normals(mu: float) -> None:
    """By the sum over the events {x > t}: the largest P[X > t] - e^e P[Y > t], with X = Y + mu."""
    from scipy.stats import norm

    t = np.linspace(-10, 15, 100_001)
    for epsilon, delta in Claim.gaussian(mu).points:
        assert delta == pytest.approx(float(np.max(norm.sf(t - mu) - math.exp(epsilon) * norm.sf(t))), abs=1e-6)


def test_a_mechanism_of_lapwing_makes_its_own_claim() -> None:
    count = lw.Laplace(epsilon=0.5)
    assert not audit(count, (10, 11), claim=count, runs=2_000).rejected
    assert audit(count, (10, 15), claim=count, runs=2_000).rejected
    assert Claim.zcdp(0.5) == audit(lw.Gaussian(rho=0.5), (0, 1), claim=lw.Gaussian(rho=0.5), runs=100).claim


@pytest.mark.parametrize("sign", [1, -1])
def test_auditor_looks_in_both_directions(sign: int) -> None:
    left, right = (noisy(0, 2_000), noisy(3, 2_000))[::sign]
    assert_caught(left, right, 1.0)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_auditor_sees_special_floats(odd: float) -> None:
    left = noisy(0, 2_000).astype(np.float64)
    right = left.copy()
    right[::20] = odd
    assert_caught(left, right, 1.0)


@pytest.mark.parametrize("odd", [ValueError("x"), "refused", None, 3.0, (1, 2)])
def test_auditor_sees_odd_outcomes_among_integers(odd: object) -> None:
    left = noisy(0, 2_000).tolist()
    right = [odd if i % 20 == 0 else value for i, value in enumerate(left)]
    assert_caught(left, right, 1.0)


@pytest.mark.parametrize(
    ("mechanism", "event"),
    [
        (lambda x: 1 / x, "raised ZeroDivisionError"),
        (lambda x: {"a": 1} if x else {"a": 1, "b": 2}, "keys"),
        (lambda x: {"a": 1, "b": 2} if x else {"b": 2, "a": 1}, "keys in order"),
        (lambda x: [1] * (x + 1), "length"),
        (lambda x: 1.0 if x else 1, "type"),
        (lambda x: 0.5 if x else 0.25, "value"),
    ],
)
def test_auditor_names_the_structure_that_leaks(mechanism: Any, event: str) -> None:
    """threat:A12 threat:A14 threat:A15"""
    found = audit(mechanism, (0, 1), epsilon=1, runs=500)
    assert found.rejected
    assert event in found.event


def test_auditor_accepts_equal_categories() -> None:
    answers = np.array(["yes", "no", "perhaps"])[np.random.default_rng(16).integers(3, size=4_000)].tolist()
    assert_private(answers[:2_000], answers[2_000:], 0.1)


def test_auditor_sees_noise_used_twice() -> None:
    noise = noisy(0, 1_000)
    assert_caught(np.stack([noise, noise], axis=1), np.stack([noise, noise + 1], axis=1), 2.0)


def test_auditor_does_not_count_training_runs() -> None:
    """The first 30 % differ completely and choose the event; the others are alike and must decide."""
    rest = np.arange(700) % 2
    left, right = np.concatenate([np.zeros(300), rest]), np.concatenate([np.ones(300), rest])
    assert_private(left.astype(np.int64), right.astype(np.int64), 0.0)


def test_samples_of_different_types_are_told_apart() -> None:
    assert_caught(np.zeros(1_000), np.zeros(1_000, dtype=np.int64), 1.0)


def test_a_report_says_what_was_found_and_never_that_a_mechanism_is_private() -> None:
    passed, failed = (
        audit_outputs(noisy(0, 2_000), noisy(1, 2_000), ONE),
        audit_outputs(noisy(0, 2_000), noisy(3, 2_000), ONE),
    )
    assert "No violation of epsilon = 1 found at N = 2,000" in str(passed)
    assert "does not show that the claim is true" in str(passed)
    assert "is private" not in str(passed)
    assert str(failed).startswith("Rejected: epsilon = 1 is not true. Epsilon is at least 2.")
    assert "alpha = 0.001" in str(failed)
    facts = failed.to_dict()
    assert (facts["rejected"], facts["runs"], facts["delta"]) == (True, 2_000, 0.0)
    assert facts["epsilon_lower"] == failed.epsilon_lower


def test_a_report_is_drawn(tmp_path: Any) -> None:
    for early in (False, True):
        found = audit(noisy, (0, 3), epsilon=1, runs=2_000, many=True, early=early)
        found.plot(tmp_path / "audit.png")
        assert (tmp_path / "audit.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "make one claim"),
        ({"epsilon": 1, "rho": 1}, "make one claim"),
        ({"epsilon": -1}, "epsilon"),
        ({"claim": "private"}, "cannot|not one that can"),
        ({"epsilon": 1, "runs": 3}, "runs"),
        ({"epsilon": 1, "alpha": 2}, "alpha"),
    ],
)
def test_a_claim_that_cannot_be_audited_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(Misconfigured, match=message):
        audit(lambda x: x, (0, 1), **arguments)


def test_neighbours_are_a_pair() -> None:
    with pytest.raises(Misconfigured, match="pair"):
        audit(lambda x: x, 3, epsilon=1)  # type: ignore[arg-type]


def test_runs_take_turns_and_are_counted() -> None:
    seen: list[int] = []
    calls: list[int] = []
    with pytest.raises(Misconfigured, match="every run returned None"):
        audit(lambda x: calls.append(x), (0, 1), epsilon=1, runs=2_500, step=seen.append)
    assert seen == [1_000, 2_000, 2_500]
    assert calls[:1_000] == [0] * 1_000
    assert calls[1_000:2_000] == [1] * 1_000


def test_profile_points_share_alpha() -> None:
    left, right = noisy(0, 5_000), noisy(1, 5_000)
    alone, many = audit_profile(left, right, [(1.0, 0.0)]), audit_profile(left, right, [(1.0, 0.0)] * 20)
    assert many.epsilon_lower < alone.epsilon_lower


@pytest.mark.parametrize("early", [False, True])
def test_a_function_that_always_fails_is_not_reported_as_unrefuted(early: bool) -> None:
    def broken(people: list[int]) -> int:
        raise TypeError("it takes a number")

    with pytest.raises(Misconfigured, match="every run raised TypeError: it takes a number"):
        audit(broken, ([1, 2], [1]), epsilon=1, runs=200, early=early)
    with pytest.raises(Misconfigured, match="cannot be called"):
        audit(5, ([1, 2], [1]), epsilon=1, runs=200)  # type: ignore[arg-type]


def test_a_failure_that_tells_the_neighbours_apart_is_a_rejection() -> None:
    def telling(people: list[int]) -> int:
        raise ValueError(f"{len(people)} people are too few")

    assert audit(telling, ([1, 2], [1]), epsilon=1, runs=200).rejected


@pytest.mark.parametrize("early", [False, True])
def test_a_function_that_returns_nothing_is_not_reported_as_unrefuted(early: bool) -> None:
    with pytest.raises(Misconfigured, match="every run returned None"):
        audit(lambda _: None, ([1, 2], [1]), epsilon=1, runs=300, early=early)


@pytest.mark.parametrize("constant", [42, "", [], {"n": 1.0}, np.zeros(3), float("nan"), True])
@pytest.mark.parametrize("early", [False, True])
def test_outputs_of_one_kind_only_are_said(constant: Any, early: bool) -> None:
    found = audit(lambda _: constant, ([1, 2], [1]), epsilon=1, runs=300, early=early)
    assert not found.rejected
    assert str(found).startswith("Nothing to audit: all 300 runs on each side gave the same output, ")
    assert "No violation" not in str(found)
    assert found.to_dict()["only_output"] == found.only


def test_outputs_that_differ_once_are_audited() -> None:
    one = iter([1] + [0] * 599)
    found = audit(lambda _: next(one), ([1, 2], [1]), epsilon=1, runs=300)
    assert (found.only, str(found).split(" of ")[0]) == (None, "No violation")


class Prepared(Exception):
    """One error that is raised again and again with another message."""


def reused(container: Any) -> Any:
    """A function that leaks everything and returns the same object each time."""

    def leak(value: int) -> Any:
        if isinstance(container, Prepared):
            container.args = (value,)
            raise container
        container[0] = value
        return container

    return leak


@pytest.mark.parametrize("container", [np.zeros(1), [0], {0: 0}, [[0]], Prepared()], ids=repr)
@pytest.mark.parametrize("early", [False, True])
def test_outputs_are_kept_as_they_were_returned(container: Any, early: bool) -> None:
    assert audit(reused(container), (0, 1), epsilon=1, runs=500, early=early).rejected


@pytest.mark.parametrize("early", [False, True])
def test_many_outputs_are_kept_as_they_were_returned(early: bool) -> None:
    buffer = np.zeros(5_000)

    def leak(value: int, n: int) -> Any:
        buffer[:n] = value
        return buffer[:n]

    rows = [[0] for _ in range(5_000)]

    def leak_rows(value: int, n: int) -> Any:
        for row in rows[:n]:
            row[0] = value
        return rows[:n]

    for function in (leak, leak_rows):
        assert audit(function, (0, 1), epsilon=1, runs=2_000, many=True, early=early).rejected


def test_an_output_that_cannot_be_copied_is_refused() -> None:
    with pytest.raises(Misconfigured, match="returned a generator, which cannot be copied"):
        audit(lambda rows: (row for row in rows), ([1], [2]), epsilon=1, runs=20)


def test_an_error_that_cannot_be_copied_keeps_its_words() -> None:
    class Odd(Exception):
        def __init__(self, value: int, unit: str) -> None:
            super().__init__(f"{value} {unit}")

    class Longer(Exception):
        def __init__(self, value: object) -> None:
            super().__init__(f"not {value}")

    def fail(error: Exception) -> Any:
        raise error

    for error, words in ((Odd(3, "people"), "Odd: 3 people\\."), (Longer(1), "Longer: not 1\\.")):
        with pytest.raises(Misconfigured, match=words):
            audit(lambda _, error=error: fail(error), (0, 1), epsilon=1, runs=20)


@pytest.mark.parametrize(
    ("function", "returned"),
    [
        (lambda _, n: np.zeros(n // 2), "125 outputs|500 outputs"),
        (lambda _, n: np.zeros(3 * n), "750 outputs|3000 outputs"),
        (lambda value, n: np.zeros(n if value else n // 4), "62 outputs|250 outputs"),
        (lambda value, n: np.zeros(n) if value else [], "0 outputs"),
        (lambda _, n: [], "0 outputs"),
        (lambda _, n: None, "None"),
        (lambda _, n: 1.5, "1.5"),
        (lambda _, n: np.array(1.5), "array"),
        (lambda _, n: (0 for _ in range(n)), "generator"),
        (lambda _, n: "a" * n, "'aaa"),
        (lambda _, n: dict.fromkeys(range(n)), "{0: None"),
        (lambda _, n: set(range(n)), "{0, 1"),
    ],
)
@pytest.mark.parametrize("early", [False, True])
def test_many_outputs_are_as_many_as_asked(function: Any, returned: str, early: bool) -> None:
    with pytest.raises(Misconfigured, match=f"must return a list or an array of .*It returned .*({returned})"):
        audit(function, (0, 1), epsilon=1, runs=2_000, many=True, early=early)


@pytest.mark.parametrize("container", [list, tuple, np.array])
def test_many_outputs_in_any_list_are_audited(container: Any) -> None:
    assert audit(lambda value, n: container([value] * n), (0, 1), epsilon=1, runs=500, many=True).rejected


@pytest.mark.parametrize("early", [False, True])
def test_an_array_without_dimensions_is_a_number(early: bool) -> None:
    draw = add_noise(1)
    near, far = (
        audit(lambda x: np.array(draw(x, 1)[0] / 2), pair, epsilon=1, runs=2_000, early=early)
        for pair in ((0, 1), (0, 5))
    )
    assert (near.rejected, far.rejected) == (False, True)
    assert "value" in far.event
    assert audit(lambda _: np.array(3.0), (0, 1), epsilon=1, runs=100, early=early).only == "array(3.)"
    assert audit(lambda x: np.array(3.0) if x else np.float64(3), (0, 1), epsilon=1, runs=500, early=early).rejected


def test_runs_that_fail_in_several_ways_are_all_told() -> None:
    turns = iter(range(10**6))

    def fail(_: int) -> None:
        if next(turns) % 2:
            raise ValueError("odd")

    with pytest.raises(Misconfigured, match="a value; one returned None, another raised ValueError: odd"):
        audit(fail, (0, 1), epsilon=1, runs=500)
