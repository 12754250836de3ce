"""Privacy losses: what they promise, how they add, and what is refused."""

from __future__ import annotations

import pickle
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from flint import arb

from lapwing.errors import Bug, LapwingError, Misconfigured, Refused
from lapwing.numbers import ball, enclose
from lapwing.privacy import ZCDP, Approximate, BoundedRange, Loss, Pure, epsilon_of_rho, group_delta
from lapwing.privacy.loss import decode_loss

ORDERS = [Fraction(text) for text in ("1.01", "1.5", "2", "4", "16", "64", "1000")]
BAD = [float("nan"), float("inf"), -float("inf"), -1, -1e-320, True, np.True_, "0.1", None, 1j, [0.1], Decimal("sNaN")]
ONE_OF_EACH = [Pure(1), BoundedRange(1), ZCDP(1), Approximate(1, Fraction(1, 100))]


def divergence(order: Fraction, first: list[arb], second: list[arb]) -> arb:
    """The Renyi divergence of two finite laws."""
    moments = (p ** ball(order) * q ** ball(1 - order) for p, q in zip(first, second, strict=True))
    return sum(moments, arb(0)).log() / ball(order - 1)


def law(weights: list[arb]) -> list[arb]:
    whole = sum(weights, arb(0))
    return [weight / whole for weight in weights]


def test_a_float_is_read_as_it_was_written() -> None:
    """ledger:B7."""
    tenth = Fraction(1, 10)
    assert Pure(0.1) == Pure(tenth) == Pure(Decimal("0.1")) == Pure(np.float64(0.1)) == Pure(np.float32(0.1))
    assert Approximate(0.1, 1e-6).delta == Fraction(1, 10**6)
    assert type(Pure(1).epsilon) is Fraction


@pytest.mark.parametrize("bad", BAD, ids=repr)
def test_what_is_no_amount_is_refused_at_every_door(bad: object) -> None:
    """threat:A26."""
    doors = [
        lambda: Pure(bad),
        lambda: BoundedRange(bad),
        lambda: ZCDP(bad),
        lambda: ZCDP(1, bad),
        lambda: Approximate(bad, 1e-6),
        lambda: Approximate(1, bad),
        lambda: Pure(1) * bad,
        lambda: Pure(1).group(bad),
        lambda: Approximate(1, 1e-6).group(bad),
        lambda: Pure(1).to_approximate("0.1" if bad is None else bad),
        lambda: ZCDP(1).to_approximate("0.1" if bad is None else bad),
        lambda: Pure(1) + bad,
    ]
    for door in doors:
        with pytest.raises(LapwingError):
            door()


@pytest.mark.parametrize("delta", [1, 1.0, 2, Fraction(3, 2)])
def test_a_delta_of_one_or_more_is_refused(delta: float) -> None:
    """threat:A26."""
    for door in (lambda: Approximate(1, delta), lambda: ZCDP(1, delta), lambda: Pure(1).to_approximate(delta)):
        with pytest.raises(Misconfigured, match="below 1"):
            door()


def test_a_message_says_the_value_and_the_rule() -> None:
    with pytest.raises(Misconfigured, match=r"`epsilon` is -1; it must be at least 0"):
        Pure(-1)


def test_zero_is_the_neutral_element() -> None:
    assert Pure(0) + Pure(2) == Pure(2)
    assert ZCDP(0) + ZCDP(1, 0.25) == ZCDP(1, 0.25)
    assert Pure(0) + Approximate(1, 1e-6) == Approximate(1, 1e-6)
    assert Pure(0) + BoundedRange(1) == BoundedRange(1).to_pure()


def test_losses_are_frozen_values() -> None:
    loss = Pure(1)
    with pytest.raises(AttributeError):
        loss.epsilon = Fraction(0)  # type: ignore[misc]
    assert {loss, Pure(1.0)} == {loss}
    assert all(pickle.loads(pickle.dumps(each)) == each for each in ONE_OF_EACH)


def test_epsilons_and_deltas_add() -> None:
    """lecture:L30: k runs of (epsilon, delta) are (k epsilon, k delta)."""
    assert (Pure(0.1) + Pure(0.2)).epsilon == Fraction(3, 10)
    assert Approximate(0.5, 1e-6) * 10 == Approximate(5, 1e-5)
    assert 3 * ZCDP(0.1, 1e-9) == ZCDP(0.3, 3e-9)


def test_ten_tenths_are_one() -> None:
    """ledger:B7: no float drifts."""
    ten = sum([Pure(0.1)] * 9, start=Pure(0.1))
    assert ten == Pure(0.1) * 10
    assert ten.epsilon == 1


def test_a_sum_of_pure_losses_remembers_its_smaller_rho() -> None:
    """Ten questions at 0.1 are epsilon = 1 and rho = 0.05; one question at 1 has rho = 0.5."""
    assert (Pure(0.1) * 10).to_zcdp() == ZCDP(0.05)
    assert Pure(1).to_zcdp() == ZCDP(0.5)
    assert (BoundedRange(1) * 2).to_zcdp() == ZCDP(0.25)


def test_a_smaller_rho_may_be_claimed_and_a_larger_is_refused() -> None:
    assert Pure(1, rho=0.3).to_zcdp() == ZCDP(0.3)
    with pytest.raises(Misconfigured, match="already proves"):
        Pure(1, rho=0.6)


def test_the_table_of_sums_is_total() -> None:
    """Every pair of losses has a rule or is refused with the way out."""
    kinds = {
        frozenset({Pure}): Pure,
        frozenset({BoundedRange}): Pure,
        frozenset({Pure, BoundedRange}): Pure,
        frozenset({ZCDP}): ZCDP,
        frozenset({Pure, ZCDP}): ZCDP,
        frozenset({BoundedRange, ZCDP}): ZCDP,
        frozenset({Approximate}): Approximate,
        frozenset({Pure, Approximate}): Approximate,
        frozenset({BoundedRange, Approximate}): Approximate,
    }
    for first, second in product(ONE_OF_EACH, repeat=2):
        expected = kinds.get(frozenset({type(first), type(second)}))
        if expected:
            assert type(first + second) is expected
        else:
            with pytest.raises(Refused, match=r"to_zcdp\(\), or zcdp\.to_approximate"):
                first + second


def test_mixed_sums_have_the_proved_values() -> None:
    assert Pure(1) + BoundedRange(2) == Pure(3, rho=1)
    assert Pure(1) + ZCDP(0.1, 1e-6) == ZCDP(0.6, 1e-6)
    assert BoundedRange(1) + Approximate(1, 1e-6) == Approximate(2, 1e-6)
    assert Approximate(1, 1e-6).to_zcdp() + ZCDP(0.1) == ZCDP(0.6, 1e-6)


def test_something_that_is_no_loss_cannot_be_added() -> None:
    with pytest.raises(Misconfigured, match="not a privacy loss"):
        Pure(1) + 0.5


def test_deltas_that_reach_one_are_refused() -> None:
    for door in (lambda: ZCDP(0, 0.5) + ZCDP(0, 0.5), lambda: Approximate(0, 0.25) * 4):
        with pytest.raises(Refused, match="add up to 1"):
            door()


def test_group_privacy_multiplies_epsilon() -> None:
    """lecture:L33: epsilon for one is k epsilon for groups of k; rho grows with the square."""
    assert Pure(0.5).group(4) == Pure(2)
    assert BoundedRange(0.5).group(4) == BoundedRange(2)
    assert ZCDP(0.1).group(3) == ZCDP(0.9)
    assert Approximate(1, 1e-6).group(3) == Approximate(3, group_delta(1, 1e-6, 3))


def test_group_privacy_of_a_sum_keeps_rho() -> None:
    """lecture:L33."""
    assert (Pure(0.1) * 10).group(3) == Pure(3, rho=0.45)


def test_group_privacy_of_approximate_zcdp_is_refused() -> None:
    loss = ZCDP(0.1, 1e-6)
    assert loss.group(1) == loss
    with pytest.raises(Refused, match="No group rule"):
        loss.group(2)


@pytest.mark.parametrize("size", [0, -1, 1.5])
def test_a_group_has_a_whole_positive_size(size: float) -> None:
    for loss in ONE_OF_EACH:
        with pytest.raises(Misconfigured, match="whole number"):
            loss.group(size)  # type: ignore[arg-type]


def test_approximate_losses_are_only_weakened() -> None:
    loss = Approximate(1, 1e-6)
    assert loss.to_approximate(1e-5) == Approximate(1, 1e-5)
    with pytest.raises(Refused, match="larger delta"):
        loss.to_approximate(1e-7)
    with pytest.raises(Refused, match="no epsilon without"):
        loss.to_pure()
    assert Approximate(1, 0).to_pure() == Pure(1)


def test_zcdp_converts_only_above_its_own_delta() -> None:
    loss = ZCDP(0.1, 1e-6)
    for delta in (0, 1e-7, 1e-6):
        with pytest.raises(Refused, match="above its own"):
            loss.to_approximate(delta)
    with pytest.raises(Refused, match="Laplace"):
        loss.to_pure()


def test_zcdp_conversion_leaves_its_delta_out() -> None:
    """delta + (1 - delta) d is the stated total, d is what the conversion may use."""
    stated = ZCDP(2, Fraction(1, 4)).to_approximate(Fraction(1, 2))
    assert stated == Approximate(epsilon_of_rho(2, Fraction(1, 3)), Fraction(1, 2))
    assert stated.epsilon > epsilon_of_rho(2, Fraction(1, 2)) > 0


def test_pure_takes_the_smaller_of_two_epsilons() -> None:
    assert Pure(1).to_approximate(1e-6) == Approximate(1, 1e-6)
    assert (Pure(0.01) * 10_000).to_approximate(1e-6).epsilon < 10
    assert Pure(1).to_approximate() == Approximate(1, 0)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(5)], ids=str)
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_a_coin_flip_stays_within_the_rho_of_pure_loss(epsilon: Fraction, order: Fraction) -> None:
    """Randomized response is the worst case of pure DP."""

    def excess() -> arb:
        yes = 1 / (1 + (-ball(epsilon)).exp())
        return divergence(order, [yes, 1 - yes], [1 - yes, yes]) - ball(order * Pure(epsilon).to_zcdp().rho)

    assert enclose(excess)[1] <= 0


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(5)], ids=str)
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_the_exponential_mechanism_stays_within_the_rho_of_bounded_range(epsilon: Fraction, order: Fraction) -> None:
    """All pairs of utility vectors in {0, 1, 2}^3 that differ by at most 1 everywhere."""
    vectors = list(product(range(3), repeat=3))
    rho = BoundedRange(epsilon).to_zcdp().rho
    pairs = [(u, v) for u in vectors for v in vectors if max(abs(a - b) for a, b in zip(u, v, strict=True)) <= 1]
    weight = [enclose(lambda k=k: (k * ball(epsilon) / 2).exp()) for k in range(3)]

    def worst() -> arb:
        weights = [(ball(low) + ball(high)) / 2 for low, high in weight]
        laws = {u: law([weights[k] for k in u]) for u in vectors}
        found = [divergence(order, laws[u], laws[v]).upper() for u, v in pairs]
        return max(found) - ball(order * rho)

    assert enclose(worst)[1] <= 0


def test_a_coin_flip_exceeds_the_rho_of_bounded_range() -> None:
    """threat:A32: epsilon^2/8 is not for every selection mechanism; a pure one may need epsilon^2/2."""

    def margin() -> arb:
        yes = 1 / (1 + (-ball(1)).exp())
        order = Fraction(101, 100)
        return divergence(order, [yes, 1 - yes], [1 - yes, yes]) - ball(order * BoundedRange(1).to_zcdp().rho)

    assert enclose(margin)[0] > Fraction(1, 4)


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (Pure(0.1), "epsilon = 0.1"),
        (Pure(0.1) * 10, "epsilon = 1 (rho = 0.05)"),
        (BoundedRange(2), "epsilon = 2 (bounded range)"),
        (ZCDP(0.005), "rho = 0.005"),
        (ZCDP(0.005, 1e-9), "rho = 0.005, delta = 1e-9"),
        (Approximate(1, 1e-6), "epsilon = 1, delta = 1e-6"),
        (Pure(Fraction(1, 3)), "epsilon = 0.3334"),
        (Pure(Fraction(10**3000)), "epsilon = 1e3000"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_loss_reads_in_plain_words(loss: object, text: str) -> None:
    assert str(loss) == text


@pytest.mark.parametrize(
    ("loss", "texts"),
    [
        (Pure(Fraction(1, 3)), ("pure", "1/3", "1/18")),
        (Pure(1, Fraction(1, 8)), ("pure", "1", "1/8")),
        (BoundedRange(2), ("bounded range", "2")),
        (ZCDP(Fraction(1, 3)), ("zcdp", "1/3", "0")),
        (ZCDP(1, Fraction(1, 10**30)), ("zcdp", "1", f"1/{10**30}")),
        (Approximate(1, Fraction(1, 3)), ("approximate", "1", "1/3")),
    ],
    ids=str,
)
def test_a_loss_is_written_exactly_and_comes_back(loss: Loss, texts: tuple[str, ...]) -> None:
    assert loss.encode() == texts
    assert decode_loss(list(texts)) == loss


def test_an_unknown_kind_is_a_bug() -> None:
    with pytest.raises(Bug, match="no loss is of kind renyi"):
        decode_loss(["renyi", "1"])
