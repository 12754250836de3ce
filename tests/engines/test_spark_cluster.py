"""Spark on a cluster: two executors, each a process of its own. One suite of the engine runs there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["test_spark.py", "test_dialect.py", "test_traps.py"])
def test_a_suite_passes_on_two_executors(suite: str) -> None:
    """A process has one Spark, so this one is asked for by the environment (support/spark.py)."""
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "spark", f"tests/engines/{suite}"],
        cwd=ROOT,
        env={**os.environ, "LAPWING_SPARK_MASTER": "local-cluster[2,1,1024]"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stdout[-5000:]
    assert " passed" in told.stdout
