"""The pictures of the course show what they say."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lapwing.lab.course import slides


def curves(figure: Any) -> dict[str, tuple[Any, Any]]:
    """The lines that the legend names."""
    lines = [line for axes in figure.axes for line in axes.get_lines() if not line.get_label().startswith("_")]
    return {line.get_label(): (np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in lines}


@pytest.mark.parametrize("epsilon", [0.5, 1, 2])
def test_two_laws_differ_by_epsilon_at_most(epsilon: float, tmp_path: Path) -> None:
    """lecture:L3"""
    drawn = curves(slides.draw_two_laws(epsilon, tmp_path / "laws.png"))
    first, second = (drawn[f"the truth is {count}"][1] for count in (50, 51))
    assert np.abs(np.log(first / second)).max() == pytest.approx(epsilon)
    assert (tmp_path / "laws.png").stat().st_size > 10_000


def test_laplace_loss_ends_at_epsilon_and_gaussian_loss_does_not() -> None:
    """lecture:L4"""
    drawn = curves(slides.draw_loss(1))
    beyond = {name: chances[at > 1.0001].max() for name, (at, chances) in drawn.items()}
    assert beyond["Laplace"] == 0
    assert beyond["Gaussian of the same variance"] > 0.1


def test_beliefs_end_where_the_odds_say() -> None:
    """lecture:L7"""
    lines = slides.draw_beliefs(1).axes[0].get_lines()
    highest = max(float(line.get_ydata()[50]) for line in lines)  # of a belief of 50 %
    assert highest == pytest.approx(math.e / (1 + math.e), abs=0.001)  # Belief rounds outwards


def test_errors_of_the_slides_are_those_of_the_mechanisms() -> None:
    """lecture:L16 lecture:L18 lecture:L21 lecture:L34"""
    central = curves(slides.draw_local_or_central(1))
    assert central["local: everyone randomizes"][1][-1] == pytest.approx(1881, abs=0.5)
    assert set(central["central: a trusted curator adds noise"][1]) == {3}
    both = curves(slides.draw_laplace_or_gaussian(1, 1e-6))
    larger = both["Laplace"][1] > both["Gaussian"][1]
    assert not larger[0]
    assert larger[-1]
    assert curves(slides.draw_error())["sensitivity 1"][1][0] == 60
    prices, chances = curves(slides.draw_auction())["epsilon = 10"]
    assert prices[np.argmax(chances)] == 4.1
