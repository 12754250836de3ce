"""Mechanisms, losses and budgets print as people write them; the exact fraction is a field away."""

from __future__ import annotations

from dataclasses import is_dataclass
from fractions import Fraction

import pytest

import lapwing as lw
from lapwing import mechanisms
from lapwing.privacy import ZCDP, Approximate, BoundedRange, PrivacyLoss, Pure
from lapwing.privacy.phrases import short_repr, short_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (lw.Laplace(epsilon=0.1), "Laplace(epsilon=0.1)"),
        (lw.Laplace(epsilon=0.1, sensitivity=2.5, size=3), "Laplace(epsilon=0.1, sensitivity=2.5, size=3)"),
        (lw.RandomizedResponse(epsilon=1), "RandomizedResponse(epsilon=1)"),
        (lw.NoisyMax(epsilon=Fraction(1, 3), monotone=True), "NoisyMax(epsilon=0.33333333..., monotone=True)"),
        (Pure(0.1), "Pure(epsilon=0.1)"),
        (Pure(0.1, 0.001), "Pure(epsilon=0.1, rho=0.001)"),
        (BoundedRange(1), "BoundedRange(epsilon=1)"),
        (ZCDP(0.005), "ZCDP(rho=0.005)"),
        (Approximate(1, 1e-6), "Approximate(epsilon=1, delta=1e-6)"),
        (lw.Budget(epsilon=2), "Budget(epsilon=2, accounting='pure')"),
        (lw.Budget(epsilon=2, delta=1e-6), "Budget(epsilon=2, delta=1e-6, accounting='zcdp')"),
        (lw.Budget(epsilon=1).capacity, "Cost(accounting='pure', amount=1)"),
        (PrivacyLoss.laplace(scale=10), "<PrivacyLoss of 2 outcomes>"),
    ],
)
def test_values_print_as_people_write_them(value: object, text: str) -> None:
    assert repr(value) == text


def test_a_belief_prints_as_percentages() -> None:
    said = "A belief of 50% becomes 26.89% to 73.11%, whatever the answer."
    assert repr(lw.posterior(0.5, 1)) == said
    assert lw.posterior(0.5, 1).low < Fraction(269, 1000)


def test_exact_fractions_are_on_demand() -> None:
    assert lw.NoisyMax(epsilon=Fraction(1, 3)).epsilon == Fraction(1, 3)
    assert lw.Budget(epsilon=2, delta=1e-6).capacity.amount.denominator > 10**20
    assert short_text(Fraction(1, 10**18)) == "1e-18"
    assert short_text(Fraction(10**18 + 1, 10**18)) == "1..."


def test_every_public_mechanism_prints_short() -> None:
    for name in mechanisms.__all__:
        kind = getattr(mechanisms, name)
        if isinstance(kind, type) and is_dataclass(kind) and kind.__module__.startswith("lapwing.mechanisms"):
            assert kind.__repr__ is short_repr, name
