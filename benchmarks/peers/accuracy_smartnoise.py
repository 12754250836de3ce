"""SmartNoise SQL's releases for benchmarks/accuracy.py, in SQL over SQLite, with fewer repetitions since it is slow.

It charges an average twice and a variance three times the epsilon of the reader, so the reader is given as much less.
Bounds: its approx_bounds for a fifth of the price, then a sum within them. It has no quantiles.
"""

from __future__ import annotations

import sqlite3
import warnings

from accuracy_tasks import COUNTED_KEYS, DELTA, EPSILON, Rows, main, shown
from snsql import Privacy, from_connection
from snsql.sql._mechanisms.approx_bounds import approx_bounds

warnings.simplefilter("ignore")

BOUNDS_SHARE = 0.2


def connection(rows: Rows) -> sqlite3.Connection:
    made = sqlite3.connect(":memory:")
    made.execute("CREATE TABLE d (v REAL, k TEXT)")
    made.executemany("INSERT INTO d VALUES (?, '')", [(value,) for value in rows.values])
    made.executemany("INSERT INTO d VALUES (0, ?)", [(key,) for key, many in rows.counts.items() for _ in range(many)])
    return made


def reader(held: sqlite3.Connection, low: float, high: float, privacy: Privacy, *, keys: bool = False):
    columns = {"v": {"type": "float", "lower": float(low), "upper": float(high)}, "k": {"type": "string"}}
    options = {"row_privacy": True, "censor_dims": keys, "clamp_counts": False, "clamp_columns": True, "max_ids": 1}
    metadata = {"": {"main": {"d": {**options, "rows": 10_000, **columns}}}}
    return from_connection(held, privacy=privacy, metadata=metadata, engine="sqlite")


def priced(held: sqlite3.Connection, low: float, high: float, query: str, epsilon: float, *, keys: bool = False):
    """A reader to which the query costs this epsilon, and at most DELTA."""
    spent, slack = reader(held, low, high, Privacy(epsilon=1.0, delta=DELTA), keys=keys).get_privacy_cost(query)
    privacy = Privacy(epsilon=epsilon / float(spent), delta=DELTA * min(1.0, DELTA / float(slack)))
    return reader(held, low, high, privacy, keys=keys)


def asked(expression: str):
    def maker(rows: Rows):
        query = "SELECT " + expression.format(split=rows.split)
        made = priced(connection(rows), rows.low, rows.high, query, EPSILON)
        return lambda: float(made.execute(query)[1][0])

    return maker


def unbounded_total(rows: Rows):
    held, query = connection(rows), "SELECT SUM(v) AS a FROM main.d"

    def draw():
        low, high = approx_bounds(rows.values, BOUNDS_SHARE * EPSILON)
        return float(priced(held, low, high, query, (1 - BOUNDS_SHARE) * EPSILON).execute(query)[1][0])

    return draw


def counted_keys(rows: Rows):
    query = "SELECT k, COUNT(*) AS n FROM main.d GROUP BY k"
    made = priced(connection(rows), 0, 1, query, EPSILON, keys=True)
    return lambda: shown(dict(made.execute(query)[1:]), rows.counts)


MAKERS = {
    "count": asked("COUNT(*) AS a FROM main.d WHERE v > {split}"),
    "sum": asked("SUM(v) AS a FROM main.d"),
    "mean": asked("AVG(v) AS a FROM main.d"),
    "variance": asked("VAR(v) AS a FROM main.d"),
    "sum, bounds unknown": unbounded_total,
    COUNTED_KEYS: counted_keys,
}

if __name__ == "__main__":
    main("smartnoise-sql", MAKERS, most=60)
