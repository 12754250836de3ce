"""lapwing.mechanisms.additive.gaussian."""

from __future__ import annotations

from lapwing.mechanisms.additive.gaussian import Gaussian, laplace_or_gaussian
from lapwing.mechanisms.additive.laplace import Laplace


def test_laplace_wins_for_few_values_and_gaussian_for_many() -> None:
    """lecture:L16 by the 95 % half-width the two cross between 7 and 8 values at (1, 1e-6)."""
    best = [type(laplace_or_gaussian(values=k, epsilon=1, delta=1e-6).best) for k in (1, 4, 7, 8, 16, 64)]
    assert best == [Laplace, Laplace, Laplace, Gaussian, Gaussian, Gaussian]


def test_what_counts_is_how_many_values_one_unit_changes() -> None:
    """lecture:L13 a histogram: 10,000 cells of which a unit changes one."""
    histogram = laplace_or_gaussian(values=10_000, changed=1, epsilon=1, delta=1e-6)
    assert isinstance(histogram.best, Laplace)
    assert histogram.laplace.sensitivity == 1


def test_both_mechanisms_state_the_same_guarantee() -> None:
    compared = laplace_or_gaussian(values=16, by=2, epsilon=1, delta=1e-6)
    assert compared.laplace.sensitivity == 32
    assert compared.gaussian.sensitivity == 8
    assert compared.gaussian.loss.epsilon == compared.laplace.epsilon


def test_explanation_names_the_winner_and_both_errors() -> None:
    compared = laplace_or_gaussian(values=64, epsilon=1, delta=1e-6)
    assert str(compared).startswith("Gaussian noise is better here")
    assert f"{compared.laplace_error:,}" in str(compared)
    assert f"{compared.gaussian_error:,}" in str(compared)
