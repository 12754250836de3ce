"""Tests that need a server or a browser are skipped without it, except in continuous integration."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(what: str, package: str) -> NoReturn:
    """Skips the test, or fails it where everything must run (LAPWING_TEST_EVERYTHING, set by .ci/run)."""
    reason = f"needs {what}: sudo apt-get install --no-install-recommends {package}"
    if os.environ.get("LAPWING_TEST_EVERYTHING"):
        pytest.fail(reason)
    pytest.skip(reason)
