"""Spark on a cluster: two executors, each a process of its own. One suite of the engine runs there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.spark import java_home

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


ALONE = """
import os, sys
import lapwing as lw

curator = lw.open("local[1]", table="data/", name="t", unit=None, budget=lw.Budget(epsilon=1), ledger="kept/ledger.db")
answer = curator.sql("SELECT COUNT(*) FROM t", epsilon=1)
assert len(answer) == 1
"""


@pytest.mark.slow
def test_a_spark_of_our_own_leaves_nothing_behind(tmp_path: Path) -> None:
    """No spark-warehouse, metastore_db or derby.log where it was started, and no folder of temporary files."""
    (tmp_path / "data").mkdir()
    (tmp_path / "kept").mkdir()
    (tmp_path / "temp").mkdir()
    pq.write_table(pa.table({"x": [1, 2, 3]}), tmp_path / "data" / "one.parquet")
    env = {**os.environ, "JAVA_HOME": str(java_home()), "TMPDIR": str(tmp_path / "temp")}
    told = subprocess.run(
        [sys.executable, "-c", ALONE], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr[-3000:]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "kept", "temp"]
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["one.parquet"]
    assert [path.name for path in (tmp_path / "temp").iterdir() if "lapwing" in path.name or "spark" in path.name] == []
