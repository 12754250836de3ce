"""PyDP's (Google's C++ library) releases for benchmarks/accuracy.py.

Keys: the truncated geometric selection; with counts, half the epsilon for each, as PipelineDP splits it.
"""

from __future__ import annotations

from accuracy_tasks import COUNTED_KEYS, DELTA, EPSILON, KEYS, LEVELS, Rows, main, shown
from pydp.algorithms import laplacian, partition_selection
from pydp.algorithms.numerical_mechanisms import LaplaceMechanism


def bounded(algorithm):
    def maker(rows: Rows):
        bounds = {"lower_bound": rows.low, "upper_bound": rows.high}
        return lambda: algorithm(epsilon=EPSILON, dtype="float", **bounds).quick_result(rows.values)

    return maker


def count(rows: Rows):
    above = rows.above
    return lambda: laplacian.Count(epsilon=EPSILON, dtype="float").quick_result(above)


def unbounded_total(rows: Rows):
    """Without bounds it finds them by itself, and pays from the same epsilon."""
    return lambda: laplacian.BoundedSum(epsilon=EPSILON, dtype="float").quick_result(rows.values)


def quantile(level: float):
    def maker(rows: Rows):
        facts = {"percentile": level, "lower_bound": rows.low, "upper_bound": rows.high, "dtype": "float"}
        return lambda: rows.rounded(laplacian.Percentile(epsilon=EPSILON, **facts).quick_result(rows.values))

    return maker


def keys(rows: Rows):
    select = partition_selection.create_partition_strategy("truncated_geometric", EPSILON, DELTA, 1)
    return lambda: sum(select.should_keep(many) for many in rows.counts.values())


def counted_keys(rows: Rows):
    select = partition_selection.create_partition_strategy("truncated_geometric", EPSILON / 2, DELTA, 1)
    noise = LaplaceMechanism(epsilon=EPSILON / 2, sensitivity=1.0)

    def draw():
        kept = {key: many for key, many in rows.counts.items() if select.should_keep(many)}
        return shown({key: noise.add_noise(many) for key, many in kept.items()}, rows.counts)

    return draw


MAKERS = {
    "count": count,
    "sum": bounded(laplacian.BoundedSum),
    "mean": bounded(laplacian.BoundedMean),
    "variance": bounded(laplacian.BoundedVariance),
    "sum, bounds unknown": unbounded_total,
    KEYS: keys,
    COUNTED_KEYS: counted_keys,
}
MAKERS |= {name: quantile(level) for name, level in LEVELS.items()}

if __name__ == "__main__":
    main("python-dp", MAKERS)
