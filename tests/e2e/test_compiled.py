"""Questions with compiled sqlglot, `pip install "sqlglot[c]"`, whose classes are not Python's. `make test` has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMPILED = Path(sys.prefix) / "compiled"

ASK = """
import json
import warnings
import ibis
import pyarrow as pa
import sqlglot.generator
import lapwing as lw
from lapwing.errors import WeakBudget

warnings.simplefilter("ignore", WeakBudget)  # noise would blur the comparison
rows = 600
table = pa.table({
    "pid": [i % 60 for i in range(rows)],
    "sex": ["F" if i % 2 else "M" for i in range(rows)],
    "age": [i % 100 for i in range(rows)],
    "cost": [float(i % 500) for i in range(rows)],
    "town": [f"town {i % 3}" for i in range(rows)],
})
curator = lw.open(
    table, name="visits", unit="pid", rows_per_unit=10, groups_per_unit=5,
    bounds={"age": (0, 100)}, values={"sex": ["F", "M"]},
    budget=lw.Budget(epsilon=100_000, delta=0.01), ledger=":memory:",
)
visits = curator.table("visits")
price = {"epsilon": 2_000}
watch = curator.watch(threshold=300, **price)


def rows_of(release):
    return release.to_arrow().to_pylist()


answers = {
    "count": rows_of(curator.sql("SELECT COUNT(*) AS n FROM visits", **price))[0]["n"],
    "sum": rows_of(curator.sql("SELECT sex, SUM(age) + 1 AS s FROM visits GROUP BY sex", **price))[0]["s"],
    "median": rows_of(curator.sql("SELECT MEDIAN(age) AS m FROM visits", **price))[0]["m"],
    "key": rows_of(curator.sql("SELECT town, COUNT(DISTINCT pid) AS n FROM visits GROUP BY town", **price))[2]["n"],
    "ibis": rows_of(curator.ask(visits.filter(visits.age >= 50).agg(n=ibis._.count()), **price))[0]["n"],
    "batch": rows_of(curator.batch(["SELECT COUNT(*) AS n FROM visits WHERE age < 10"], **price)[0])[0]["n"],
    "found": rows_of(curator.sql("SELECT SUM(cost) AS s FROM visits", bounds="auto", **price))[0]["s"],
    "distribution": float(curator.distribution("age", **price).range(0, 49).value),
    "marginals": float(curator.marginals(["sex"], **price)["sex"].counts[0]),
    "watch": watch.above("SELECT COUNT(*) AS n FROM visits"),
}
print(json.dumps({"build": sqlglot.generator.__file__, **answers}))
"""


@pytest.mark.skipif(not COMPILED.exists(), reason="`make test` installs compiled sqlglot; run it once")
def test_every_way_to_ask_works_with_compiled_sqlglot() -> None:
    """With it every question was once charged and failed."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", ASK],
        env={**os.environ, "PYTHONPATH": str(COMPILED)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    answers = json.loads(run.stdout)
    assert answers["build"].startswith(str(COMPILED))
    assert not answers["build"].endswith(".py")
    exact = {"count": 600, "sum": 15_001, "median": 49.5, "key": 20, "ibis": 300, "batch": 60, "found": 129_700}
    exact |= {"distribution": 300, "marginals": 300, "watch": True}
    assert {name: answers[name] for name in exact} == pytest.approx(exact, rel=0.02)
