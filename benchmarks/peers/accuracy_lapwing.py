"""Lapwing's releases for benchmarks/accuracy.py: in SQL through a curator, or by a mechanism where it says so."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from peers.accuracy_tasks import COUNTED_KEYS, DELTA, EPSILON, KEYS, LEVELS, Answer, Maker, Rows, shown

import lapwing as lw

UNKNOWN = "sum, bounds unknown"
WITH = ", with interval"
BOUNDS_SHARE = 0.35


def curator(rows: Rows, low: float, high: float) -> lw.Curator:
    column = pa.array(rows.values, pa.float64())
    frame = pa.table({"v": column.cast(pa.int64()) if rows.whole else column})
    budget = lw.Budget(epsilon=10**6, accounting="basic")
    return lw.open(frame, unit=None, bounds={"v": (low, high)}, budget=budget, ledger=":memory:")


def asked(expression: str, *, intervals: bool = True) -> Maker:
    """The whole path: SQL, plan, durable charge, engine, noise."""

    def maker(rows: Rows) -> Callable[[], Answer]:
        question, private = expression.format(split=rows.split), curator(rows, *rows.bounds)
        return lambda: answer(private, question, EPSILON, intervals=intervals)

    return maker


def answer(private: lw.Curator, expression: str, epsilon: float, *, intervals: bool = True) -> float:
    question = f"SELECT {expression} AS a FROM data"
    release = private.sql(question, epsilon=epsilon, refresh=True, intervals=intervals)
    return float(release.to_arrow()["a"][0].as_py())


def unknown_bounds(rows: Rows) -> Callable[[], Answer]:
    """AutoBounds on both sides for its share of the price, then SUM in SQL within what it found for the rest."""
    bounds = lw.mechanisms.AutoBounds(epsilon=BOUNDS_SHARE, first=-20, last=40)
    values = np.array(rows.values)
    sides = [np.floor(np.log2(side[side > 0])).astype(np.int64) for side in (-values, values)]
    negative, positive = ((side, np.ones_like(side)) for side in sides)
    opened: dict[tuple[int, int], lw.Curator] = {}

    def draw() -> float:
        low, high = found = bounds.signed(negative, positive)
        if found not in opened:
            opened[found] = curator(rows, -(2.0**low), 2.0**high)
        return answer(opened[found], "SUM(v)", 1 - BOUNDS_SHARE)

    return draw


def selected_keys(rows: Rows) -> Callable[[], Answer]:
    """The mechanism by itself: SQL shows no keys without a number."""
    mechanism = lw.mechanisms.best_selection(epsilon=EPSILON, delta=DELTA).best
    counts = np.array(list(rows.counts.values()))
    return lambda: float(np.sum(mechanism.keep(counts)))


def counted_keys(rows: Rows) -> Callable[[], Answer]:
    frame = pa.table({"name": [name for name, many in rows.counts.items() for _ in range(many)]})
    budget = lw.Budget(epsilon=10**6, delta=0.5, accounting="basic")
    private = lw.open(frame, unit=None, budget=budget, ledger=":memory:")
    question = "SELECT name, COUNT(*) AS n FROM data GROUP BY name"

    def draw() -> list[float]:
        table = private.sql(question, epsilon=EPSILON, delta=DELTA, refresh=True).to_arrow()
        return shown(dict(zip(table["name"].to_pylist(), table["n"].to_pylist(), strict=True)), rows.counts)

    return draw


OWN: dict[str, Maker] = {
    "count": asked("COUNT(*) FILTER (WHERE v > {split})"),
    "sum": asked("SUM(v)"),
    "mean": asked("AVG(v)"),
    "variance": asked("VAR_POP(v)"),
    **{name: asked(f"QUANTILE_CONT(v, {level})", intervals=False) for name, level in LEVELS.items()},
    **{name + WITH: asked(f"QUANTILE_CONT(v, {level})") for name, level in LEVELS.items()},
    UNKNOWN: unknown_bounds,
    KEYS: selected_keys,
    COUNTED_KEYS: counted_keys,
}
