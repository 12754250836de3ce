"""Events of users: rows of a user by a power law with mean 10, categories by Zipf's law, amounts log-normal.

Ten million rows are drawn once with a fixed seed; other sizes are a part of them, or copies under other user ids.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np

DATA = Path(__file__).resolve().parent.parent / ".data" / "scale"
USERS, MILLIONS = 1_000_000, 10
CATEGORIES, DAYS, MOST_ROWS = 50, 365, 100
SEED = 0.42


def events(millions: int) -> Path:
    """The Parquet file with so many million rows, made on first use."""
    DATA.mkdir(parents=True, exist_ok=True)
    path = DATA / f"events-{millions}.parquet"
    if not path.exists():
        rows = _drawn() if millions == MILLIONS else _resized(millions)
        with duckdb.connect() as connection:
            if millions == MILLIONS:
                connection.execute("SET threads = 1")  # so that random() draws in one order
                connection.execute(f"SELECT setseed({SEED})")
            else:
                connection.execute("SET preserve_insertion_order = false")
            for statement in (*rows[:-1], f"COPY ({rows[-1]}) TO '{path}'"):
                connection.execute(statement)
    return path


def _resized(millions: int) -> list[str]:
    whole = events(MILLIONS)
    if millions < MILLIONS:
        return [f"SELECT * FROM '{whole}' WHERE uid % {MILLIONS} < {millions}"]
    shifted = f"* EXCLUDE (copy) REPLACE (uid + {USERS} * copy AS uid)"
    return [f"SELECT {shifted} FROM '{whole}', range({millions // MILLIONS}) t(copy)"]


def _drawn() -> list[str]:
    rows = np.arange(1, MOST_ROWS + 1)
    return [
        _steps("many", rows, rows ** -_exponent()),
        _steps("kinds", np.arange(CATEGORIES), 1 / np.arange(1, CATEGORIES + 1)),
        f"CREATE TABLE users AS SELECT i AS uid, random() AS r FROM range({USERS}) t(i)",
        """CREATE TABLE each AS SELECT uid, unnest(range(value)) AS j, random() AS r
            FROM users ASOF JOIN many ON users.r >= many.above""",
        f"""CREATE TABLE drawn AS SELECT uid, random() AS o, r, CAST(floor(random() * {DAYS}) AS INTEGER) AS day,
            sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random()) AS z FROM each""",
        """SELECT uid, day, CAST(value AS INTEGER) AS category, round(least(500, exp(3 + z)), 2) AS amount
            FROM drawn ASOF JOIN kinds ON drawn.r >= kinds.above ORDER BY o""",
    ]


def _steps(name: str, values: np.ndarray, weights: np.ndarray) -> str:
    """A table of values and of the chance that lies below each."""
    above = np.concatenate([[0.0], np.cumsum(weights / weights.sum())[:-1]])
    pairs = ", ".join(f"({value}, {float(low)!r})" for value, low in zip(values.tolist(), above, strict=True))
    return f"CREATE TABLE {name} AS SELECT * FROM (VALUES {pairs}) t(value, above)"


def _exponent() -> float:
    """Of the power law on 1..100 whose mean is ten rows a user."""
    rows, low, high = np.arange(1, MOST_ROWS + 1), 0.0, 3.0
    for _ in range(60):
        middle = (low + high) / 2
        weights = rows**-middle
        low, high = (middle, high) if (weights * rows).sum() / weights.sum() > 10 else (low, middle)
    return low
