"""Lapwing's releases for benchmarks/accuracy.py: in SQL through a curator, or by a mechanism where it says so."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pyarrow as pa
from peers.accuracy_tasks import COUNTED_KEYS, DELTA, EPSILON, KEYS, LEVELS, Answer, Maker, Rows, shown

import lapwing as lw

UNKNOWN = "sum, bounds unknown"
BARE = ", no interval"
BOUNDS_SHARE = 0.2


def curator(rows: Rows, low: float, high: float) -> lw.Curator:
    column = pa.array(rows.values, pa.float64())
    frame = pa.table({"v": column.cast(pa.int64()) if rows.whole else column})
    return lw.open(frame, unit=None, bounds={"v": (low, high)}, budget=lw.Budget(epsilon=10**6, accounting="basic"))


def asked(expression: str) -> Maker:
    """The whole path: SQL, plan, durable charge, engine, noise."""

    def maker(rows: Rows) -> Callable[[], Answer]:
        question, private = expression.format(split=rows.split), curator(rows, *rows.bounds)
        return lambda: answer(private, question, EPSILON)

    return maker


def answer(private: lw.Curator, expression: str, epsilon: float) -> float:
    release = private.sql(f"SELECT {expression} AS a FROM data", epsilon=epsilon, refresh=True)
    return float(release.to_arrow()["a"][0].as_py())


def bare_quantile(level: float) -> Maker:
    """The mechanism by itself: all of the price for the estimate."""

    def maker(rows: Rows) -> Callable[[], Answer]:
        step = None if rows.whole else Fraction(int(rows.high - rows.low), 1 << 16)
        bounds = (int(rows.low), int(rows.high))
        mechanism = lw.Quantile(epsilon=EPSILON, at=level, bounds=bounds, step=step)
        values = np.array(rows.values, np.int64 if rows.whole else np.float64)
        return lambda: float(mechanism(values))

    return maker


def unknown_bounds(rows: Rows) -> Callable[[], Answer]:
    """AutoBounds on both sides for a fifth of the price, then SUM in SQL within what it found for the rest."""
    bounds = lw.AutoBounds(epsilon=BOUNDS_SHARE, first=-20, last=40)
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
    mechanism = lw.best_selection(epsilon=EPSILON, delta=DELTA).best
    counts = np.array(list(rows.counts.values()))
    return lambda: float(np.sum(mechanism.keep(counts)))


def counted_keys(rows: Rows) -> Callable[[], Answer]:
    frame = pa.table({"name": [name for name, many in rows.counts.items() for _ in range(many)]})
    private = lw.open(frame, unit=None, budget=lw.Budget(epsilon=10**6, delta=0.5, accounting="basic"))
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
    **{name: asked(f"QUANTILE_CONT(v, {level})") for name, level in LEVELS.items()},
    **{name + BARE: bare_quantile(level) for name, level in LEVELS.items()},
    UNKNOWN: unknown_bounds,
    KEYS: selected_keys,
    COUNTED_KEYS: counted_keys,
}
