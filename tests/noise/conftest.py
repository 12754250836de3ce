"""Fixtures for the tests of the samplers."""

from __future__ import annotations

import pytest

from lapwing.noise.bernoulli import LazyUniform


@pytest.fixture(params=[1, 2], ids="step={}".format)
def step(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Lazy uniforms draw one or two digits at a time, so that enumeration reaches every decision they make."""
    monkeypatch.setattr(LazyUniform, "STEP", request.param)
    return int(request.param)


@pytest.fixture
def one_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lazy uniforms draw one digit at a time."""
    monkeypatch.setattr(LazyUniform, "STEP", 1)
