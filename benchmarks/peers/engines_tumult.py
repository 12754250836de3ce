"""Tumult Analytics on the same work and the same master: `python engines_tumult.py FILE ROUNDS W2 W3` prints a line of
JSON for each work: versions, median seconds after one round that does not count, and the most megabytes of its JVM.

W3 is two questions at half the price each, since one has one aggregate. W4 finds its keys first and counts then.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

warnings.simplefilter("ignore")
os.environ.update(PYSPARK_PYTHON=sys.executable, PYARROW_IGNORE_TIMEZONE="1", SPARK_LOCAL_IP="127.0.0.1")

from pyspark.sql import SparkSession  # noqa: E402
from tmlt.analytics import (  # noqa: E402
    AddOneRow,
    AddRowsWithID,
    ApproxDPBudget,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    MaxRowsPerID,
    PureDPBudget,
    QueryBuilder,
    Session,
)

CATEGORIES = KeySet.from_dict({"category": list(range(50))})
KEYS = ["day", "category"]
DELTA = 1e-6


def start(folder: str, settings: dict[str, str]) -> Any:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    places = {"spark.local.dir": folder, "spark.sql.warehouse.dir": f"{folder}/warehouse"}
    more = {"spark.ui.showConsoleProgress": "false", "spark.sql.execution.arrow.pyspark.enabled": "true"}
    for name, value in {**places, **more, **settings}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def asked(work: str, data: Any) -> Callable[[], object]:
    """One answer, over rows that the session knows."""
    unit, budget = (AddOneRow(), PureDPBudget(10**6)) if work == "W2" else (AddRowsWithID("uid"), PureDPBudget(10**6))
    if work == "W4":
        budget = ApproxDPBudget(10**4, 0.5)
    session = Session.from_dataframe(privacy_budget=budget, source_id="events", dataframe=data, protected_change=unit)
    rows = QueryBuilder("events")
    if work == "W2":
        return lambda: session.evaluate(rows.groupby(CATEGORIES).count(), PureDPBudget(1)).collect()
    if work == "W3":
        bounded = rows.enforce(MaxGroupsPerID("category", 5)).enforce(MaxRowsPerGroupPerID("category", 5))
        groups = bounded.groupby(CATEGORIES)
        both = groups.count(), groups.sum("amount", 0, 100)
        return lambda: [session.evaluate(one, PureDPBudget(0.5)).collect() for one in both]

    def found_and_counted() -> object:
        bounded = rows.enforce(MaxRowsPerID(10))
        keys = session.evaluate(bounded.get_groups(KEYS), ApproxDPBudget(0.5, DELTA)).cache()
        keys.count()
        counts = bounded.groupby(KeySet.from_dataframe(keys)).count()
        return session.evaluate(counts, ApproxDPBudget(0.5, 0)).collect()

    return found_and_counted


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def main() -> None:
    file, rounds, folder, settings, *works = sys.argv[1:]
    spark = start(folder, json.loads(settings))
    status = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/status")
    for work in works:
        answer = asked(work, spark.read.parquet(file))
        found = [seconds(answer) for _ in range(1 + int(rounds))][1:]
        peak = float(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
        told = {"version": version("tmlt.analytics"), "spark": spark.version, "work": work}
        print(json.dumps({**told, "seconds": median(found), "peak": peak}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
