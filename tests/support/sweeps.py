"""Sweeps over random seeds: `make test` runs the first few, `make test-all` all of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from typing import Any

import pytest


def sweep(values: Iterable[Any], quick: int) -> list[Any]:
    """Parameters of a test, all but the first `quick` of them slow."""
    left = iter(values)
    return list(chain(islice(left, quick), (pytest.param(value, marks=pytest.mark.slow) for value in left)))
