"""OpenDP on the same work: `python scale_opendp.py W3 FILE` prints seconds, CPU seconds and peak memory as JSON."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from importlib.metadata import version
from typing import Any

import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib", "idealized-numerics", "honest-but-curious")
EPSILON, DELTA, LEVELS = 1.0, 1e-6, (0.25, 0.5, 0.75, 0.95)
CATEGORIES = pl.LazyFrame({"category": pl.Series(range(50), dtype=pl.Int32)})
EDGES = [500 * i / 4096 for i in range(4097)]


def query(path: str, *, unit: Any, delta: float | None = None) -> Any:
    context = dp.Context.compositor(
        data=pl.scan_parquet(path),
        privacy_unit=unit,
        privacy_loss=dp.loss_of(epsilon=EPSILON) if delta is None else dp.loss_of(epsilon=EPSILON, delta=delta),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=(), max_length=200_000_000, max_groups=1)],
    )
    return context.query()


def ask(workload: str, path: str) -> Any:
    user = dp.unit_of(contributions=1, identifier="uid")
    match workload:
        case "W3":
            cents = (pl.col("amount") * 100).cast(int).fill_null(0).dp.sum((0, 10000))
            rows = query(path, unit=user).truncate_per_group(5, by=["category"])
            rows = rows.truncate_num_groups(5, by=["category"], keep="first")
            return rows.group_by("category").agg(dp.len(signed=True), cents).with_keys(CATEGORIES)
        case "W4":
            keys = ["day", "category"]
            rows = query(path, unit=user, delta=DELTA).truncate_per_group(1, by=keys).truncate_per_group(10)
            return rows.group_by(keys).agg(dp.len(signed=True))
        case _:
            amount = pl.col("amount").fill_null(0.0).fill_nan(0.0)
            columns = [amount.dp.quantile(level, EDGES).alias(f"q{level}") for level in LEVELS]
            return query(path, unit=dp.unit_of(contributions=1)).select(*columns)


start, before = time.perf_counter(), sum(os.times()[:2])
ask(sys.argv[1], sys.argv[2]).release().collect()
seconds, cpu = time.perf_counter() - start, sum(os.times()[:2]) - before
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps({"version": version("opendp"), "seconds": seconds, "cpu": cpu, "peak": peak}))
