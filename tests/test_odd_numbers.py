"""Numbers as no user means them: every public constructor answers with a value or with one sentence."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lapwing as lw
from lapwing.curator.settings import read_settings
from lapwing.numbers import exact, ordinary, shown

BAD: dict[str, Any] = {
    "1e308": 1e308,
    "-1e308": -1e308,
    "1e-308": 1e-308,
    "an int of 5,001 digits": 10**5000,
    "nan": float("nan"),
    "inf": float("inf"),
    "a truth value": True,
    "None": None,
    "text": "1",
    "a list": [1, 2],
    "no list": [],
    "a mapping": {},
    "an object": object(),
    "an array of no dimension": np.array(1.0),
    "an integer array of no dimension": np.array(3),
    "an array": np.array([1.0, 2.0]),
    "an array of two lines": np.eye(2),
    "a series": pd.Series([1.0]),
    "numpy's nan": np.float64("nan"),
    "numpy's truth value": np.bool_(True),
    "a signalling nan": Decimal("sNaN"),
    "1e400": Decimal("1e400"),
    "1e999999": Decimal("1e999999"),
    "a Decimal of 5,000 digits": Decimal("1." + "3" * 5000),
    "a huge Fraction": Fraction(10**5000, 3),
    "a tiny Fraction": Fraction(1, 10**5000),
    "a complex number": 1j,
    "1e18": 10**18,
    "-1": -1,
}

Case = tuple[Callable[..., Any], dict[str, Any]]
CASES: dict[str, Case] = {
    "ZCDP": (lw.privacy.ZCDP, {"rho": 1, "delta": 0}),
    "AboveThreshold": (lw.AboveThreshold, {"threshold": 10, "epsilon": 1, "sensitivity": 1}),
    "AboveThreshold reals": (
        lambda **k: lw.AboveThreshold(**k, reals=True),
        {"threshold": 10, "epsilon": 1, "sensitivity": 1},
    ),
    "Approximate": (lw.privacy.Approximate, {"epsilon": 1, "delta": 1e-6}),
    "AutoBounds": (lw.mechanisms.AutoBounds, {"epsilon": 1, "first": 0, "last": 10, "values_per_unit": 1}),
    "AutoBounds rho": (lw.mechanisms.AutoBounds, {"rho": 1, "first": 0, "last": 10}),
    "BinaryCounter": (lw.mechanisms.BinaryCounter, {"epsilon": 1, "horizon": 8, "steps_per_unit": 1}),
    "ToeplitzCounter": (lw.mechanisms.ToeplitzCounter, {"rho": 1, "horizon": 8, "steps_per_unit": 1}),
    "BoundedRange": (lw.privacy.BoundedRange, {"epsilon": 1}),
    "Budget": (lw.Budget, {"epsilon": 1, "delta": 1e-6, "accounting": None}),
    "Budget basic": (lambda **k: lw.Budget(**k, accounting="basic"), {"epsilon": 1, "delta": 1e-6}),
    "Cost": (lambda **k: lw.privacy.Cost("pure", **k), {"amount": 1, "delta": 0}),
    "Exponential": (lw.Exponential, {"epsilon": 1, "sensitivity": 1, "monotone": False}),
    "Gaussian": (lw.Gaussian, {"epsilon": 1, "delta": 1e-6, "sensitivity": 1, "size": 1}),
    "Gaussian rho": (lw.Gaussian, {"rho": 1, "sensitivity": 1, "size": 1}),
    "Gaussian.classic": (lw.Gaussian.classic, {"epsilon": 0.5, "delta": 1e-6, "sensitivity": 1, "size": 1}),
    "GaussianThreshold": (lw.mechanisms.GaussianThreshold, {"epsilon": 1, "delta": 1e-6, "keys_per_unit": 2}),
    "GaussianThreshold rho": (lw.mechanisms.GaussianThreshold, {"rho": 1, "delta": 1e-6, "keys_per_unit": 2}),
    "GeometricSparse": (
        lw.mechanisms.GeometricSparse,
        {"threshold": 1, "epsilon": 1, "answers": 2, "queries": 10, "sensitivity": 1},
    ),
    "GeometricSparse reals": (
        lambda **k: lw.mechanisms.GeometricSparse(**k, reals=True),
        {"threshold": 1, "epsilon": 1, "answers": 2, "queries": 10, "sensitivity": 1},
    ),
    "GeometricSparse ratio": (
        lw.mechanisms.GeometricSparse,
        {"threshold": 1, "epsilon": 1, "queries": 10, "ratio": 1, "shift": 1},
    ),
    "GridQuantiles": (
        lw.mechanisms.GridQuantiles,
        {
            "bounds": (0, 120),
            "cells": 120,
            "at": [0.5],
            "epsilon": 1,
            "rows_per_unit": 1,
            "confidence": 0.95,
            "share": 0.5,
        },
    ),
    "GridQuantiles rho": (lw.mechanisms.GridQuantiles, {"bounds": (0, 120), "cells": 120, "at": [0.5], "rho": 1}),
    "Laplace": (lw.Laplace, {"epsilon": 1, "sensitivity": 1, "size": 1}),
    "LaplaceMarginals": (
        lw.mechanisms.LaplaceMarginals,
        {"sizes": (2, 3), "ways": 2, "epsilon": 1, "cells_per_unit": 1},
    ),
    "Marginals": (lw.mechanisms.Marginals, {"sizes": (2, 3), "ways": 2, "rho": 1, "cells_per_unit": 1}),
    "LaplaceThreshold": (lw.mechanisms.LaplaceThreshold, {"epsilon": 1, "delta": 1e-6, "keys_per_unit": 2}),
    "NoisyMax": (lw.NoisyMax, {"epsilon": 1, "sensitivity": 1, "monotone": False}),
    "NoisyMax reals": (lambda **k: lw.NoisyMax(**k, reals=True), {"epsilon": 1, "sensitivity": 1}),
    "NumericSparse": (
        lw.mechanisms.NumericSparse,
        {"threshold": 1, "epsilon": 1, "answers": 2, "sensitivity": 1, "share": 0.2},
    ),
    "NumericSparse reals": (
        lambda **k: lw.mechanisms.NumericSparse(**k, reals=True),
        {"threshold": 1, "epsilon": 1, "answers": 2, "sensitivity": 1},
    ),
    "PermuteAndFlip": (lw.mechanisms.PermuteAndFlip, {"epsilon": 1, "sensitivity": 1}),
    "PrefixSums": (lw.mechanisms.PrefixSums, {"size": 8, "rho": 1, "cells_per_unit": 1}),
    "PrivacyLoss.laplace": (lw.privacy.PrivacyLoss.laplace, {"scale": 1, "shift": 1}),
    "PrivacyLoss.gaussian": (lw.privacy.PrivacyLoss.gaussian, {"variance": 1, "shift": 1}),
    "PrivacyLoss.worst": (lw.privacy.PrivacyLoss.worst, {"epsilon": 1, "delta": 0}),
    "PrivacyLoss": (lw.privacy.PrivacyLoss, {"p": [0.5, 0.5], "q": [0.4, 0.6]}),
    "ProposeTestRelease": (lw.mechanisms.ProposeTestRelease, {"proposed": 1, "epsilon": 1, "delta": 1e-6}),
    "ProposedMedian": (
        lw.mechanisms.ProposedMedian,
        {"proposed": 1, "epsilon": 1, "delta": 1e-6, "bounds": (0, 100), "step": 1},
    ),
    "Pure": (lw.privacy.Pure, {"epsilon": 1, "rho": None}),
    "Quantile": (lw.mechanisms.Quantile, {"epsilon": 1, "at": 0.5, "bounds": (0, 100), "step": 1, "rows_per_unit": 1}),
    "Quantiles": (
        lw.mechanisms.Quantiles,
        {"epsilon": 1, "at": [0.5], "bounds": (0, 100), "step": 1, "rows_per_unit": 1},
    ),
    "RandomizedResponse": (lw.RandomizedResponse, {"epsilon": 1, "answers": (0, 1)}),
    "Ranges": (lw.mechanisms.Ranges, {"size": 8, "epsilon": 1, "cells_per_unit": 1, "fanout": 2}),
    "SmoothMedian": (lw.mechanisms.SmoothMedian, {"epsilon": 1, "bounds": (0, 100), "delta": 0, "step": 1}),
    "SmoothMedian delta": (lw.mechanisms.SmoothMedian, {"epsilon": 1, "bounds": (0, 100), "delta": 1e-6, "step": 1}),
    "SmoothSensitivity": (lw.mechanisms.SmoothSensitivity, {"epsilon": 1, "cap": 10, "delta": 0, "step": 1}),
    "SmoothSensitivity delta": (lw.mechanisms.SmoothSensitivity, {"epsilon": 1, "cap": 10, "delta": 1e-6, "step": 1}),
    "Mean": (lw.mechanisms.Mean, {"bounds": (0, 1), "epsilon": 1, "rows_per_unit": 1}),
    "Mean rho": (lw.mechanisms.Mean, {"bounds": (0, 1), "rho": 1}),
    "PairMoments": (
        lw.mechanisms.PairMoments,
        {"x_bounds": (0, 1), "y_bounds": (0, 1), "epsilon": 1, "rows_per_unit": 1},
    ),
    "Variance": (lw.mechanisms.Variance, {"bounds": (0, 1), "epsilon": 1, "rows_per_unit": 1}),
    "Sparse": (lw.mechanisms.Sparse, {"threshold": 1, "epsilon": 1, "answers": 2, "sensitivity": 1}),
    "StableMode": (lw.mechanisms.StableMode, {"epsilon": 1, "delta": 1e-6}),
    "TopK": (lw.mechanisms.TopK, {"k": 2, "epsilon": 1, "sensitivity": 1}),
    "TruncatedGeometric": (lw.mechanisms.TruncatedGeometric, {"epsilon": 1, "delta": 1e-6, "keys_per_unit": 2}),
    "WeightedGaussian": (lw.mechanisms.WeightedGaussian, {"epsilon": 1, "delta": 1e-6, "keys_per_unit": 2}),
    "WeightedGaussian rho": (lw.mechanisms.WeightedGaussian, {"rho": 1, "delta": 1e-6, "keys_per_unit": 2}),
    "posterior": (lw.posterior, {"prior": 0.5, "epsilon": 1, "delta": 1e-6, "slack": 0.1}),
    "best_selection": (lw.mechanisms.best_selection, {"epsilon": 1, "delta": 1e-6, "keys_per_unit": 2}),
    "laplace_or_gaussian": (
        lw.mechanisms.laplace_or_gaussian,
        {"values": 10, "epsilon": 1, "delta": 1e-6, "by": 1, "confidence": 0.95},
    ),
    "tightest_delta": (lambda **k: lw.privacy.tightest_delta([0.5, 0.5], [0.4, 0.6], **k), {"epsilon": 1}),
    "tightest_epsilon": (lambda **k: lw.privacy.tightest_epsilon([0.5, 0.5], [0.4, 0.6], **k), {"delta": 0}),
    "compose_fixed": (
        lambda **k: lw.privacy.compose_fixed([lw.privacy.PrivacyLoss.laplace(scale=1)], **k),
        {"step": 0.5},
    ),
    "Laplace.error": (lw.Laplace(epsilon=1).error, {"confidence": 0.9, "simultaneous": 1}),
    "Laplace.real_error": (lw.Laplace(epsilon=1).real_error, {"confidence": 0.9, "simultaneous": 1}),
    "Laplace.textbook_error": (lw.Laplace(epsilon=1).textbook_error, {"confidence": 0.9, "simultaneous": 1}),
    "Laplace.beyond": (lw.Laplace(epsilon=1).beyond, {"t": 3, "simultaneous": 1}),
    "Gaussian.error": (lw.Gaussian(rho=1).error, {"confidence": 0.9, "simultaneous": 1}),
    "Gaussian.real_error": (lw.Gaussian(rho=1).real_error, {"confidence": 0.9, "simultaneous": 1}),
    "Budget.price": (lw.Budget(1, 1e-6).price, {"epsilon": 1, "delta": 0}),
    "Pure.group": (lw.privacy.Pure(1).group, {"size": 2}),
    "PrivacyLoss.delta": (lw.privacy.PrivacyLoss.laplace(scale=1).delta, {"epsilon": 1}),
    "PrivacyLoss.epsilon": (lw.privacy.PrivacyLoss.laplace(scale=1).epsilon, {"delta": 0.1}),
    "PrivacyLoss.renyi": (lw.privacy.PrivacyLoss.laplace(scale=1).renyi, {"order": 2}),
    "PrivacyLoss.tail": (lw.privacy.PrivacyLoss.laplace(scale=1).tail, {"epsilon": 1}),
}


USES: tuple[Callable[[Any], object], ...] = (
    lambda made: made.error(),
    lambda made: made.real_error(),
    lambda made: made.textbook_error(),
    lambda made: made.draw(2),
    lambda made: made.start(),
    lambda made: made.half(),
    lambda made: made.variance,
    lambda made: made.capacity,
    lambda made: made.to_zcdp(),
    lambda made: made.to_approximate(),
    str,
)


def tried(act: Callable[[], object]) -> object:
    """What it gives, or the sentence that it refuses with; whatever else it raises fails the test."""
    found: object
    try:
        found = act()
    except lw.LapwingError as refusal:
        found = refusal
    if isinstance(found, lw.LapwingError):
        assert not isinstance(found, lw.Bug)
        assert 10 < len(str(found)) < 400
        assert "\n" not in str(found)
    return found


def used(use: Callable[[Any], object], made: object) -> str:
    try:
        tried(lambda: use(made))
    except (AttributeError, TypeError) as error:
        absent = any(word in str(error) for word in ("attribute", "missing", "callable"))
        return "it has no such thing" if absent else str(error)
    return "as it should be"


@pytest.mark.parametrize("name", CASES)
def test_odd_numbers_are_refused_with_one_sentence_or_served(name: str) -> None:
    """threat:A26 in each parameter by itself; what is served can be used, or says why not."""
    make, good = CASES[name]
    assert not isinstance(tried(lambda: make(**good)), lw.LapwingError)
    for parameter in good:
        refused = 0
        for bad in BAD.values():
            made = tried(lambda: make(**{**good, parameter: bad}))  # noqa: B023
            refused += isinstance(made, lw.LapwingError)
            for use in USES:
                assert used(use, made) in ("as it should be", "it has no such thing")
        assert refused > 5


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_odd_values_are_shown_shortly(bad: object) -> None:
    assert len(shown(bad)) < 80
    assert "\n" not in shown(bad)


def test_limits_of_numbers_are_served_themselves() -> None:
    assert exact(10**3900, "x") == 10**3900
    assert ordinary(Fraction(10**40), "x") == 10**40
    assert ordinary(Fraction(1, 10**40), "x") == Fraction(1, 10**40)
    for read, bad in ((exact, 10**4000), (ordinary, Fraction(10**40 + 1)), (ordinary, Fraction(1, 10**41))):
        with pytest.raises(lw.Misconfigured, match="Pass an ordinary number"):
            read(bad, "x")  # type: ignore[operator]


@pytest.mark.parametrize(
    "line", ["epsilon = 1e5000", "epsilon = [1]", "epsilon = nan", "epsilon = true", "epsilon = {}"]
)
@pytest.mark.parametrize("more", ["", "delta = [0.1]", "delta = -1e308", "delta = 1e-5000"])
def test_odd_numbers_in_the_file_of_a_steward_are_told_with_their_place(line: str, more: str, tmp_path: Path) -> None:
    file = tmp_path / "lapwing.toml"
    columns = '[tables.t]\nsource = "t.csv"\nunit = "row"\n[tables.t.columns]\nx = { type = "real" }\n'
    file.write_text(f"[budget]\n{line}\n{more}\n{columns}")
    with pytest.raises(lw.Misconfigured, match=r"lapwing\.toml: budget: `(epsilon|delta)`"):
        read_settings(file)


def test_an_int_of_thousands_of_digits_in_the_file_is_told(tmp_path: Path) -> None:
    file = tmp_path / "lapwing.toml"
    file.write_text(f"[budget]\nepsilon = {'9' * 5000}\n")
    with pytest.raises(lw.Misconfigured, match=r"lapwing\.toml: not valid TOML"):
        read_settings(file)
