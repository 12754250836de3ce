"""Opening data: CSV files beside DuckDB's own reader, and pandas frames beside their conversion by Arrow.

    python benchmarks/loading.py [millions of rows]

prints one table and writes it to benchmarks/results/loading.md. Each figure is the smallest of several new processes,
ours and the other in turns: CPU seconds of the opening, without imports, and the peak memory of the whole process. Ours
includes the fingerprint of all bytes and the ledger. The data are made once under benchmarks/.data/.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

HERE = Path(__file__).resolve().parent
DATA, RESULTS = HERE / ".data", HERE / "results" / "loading.md"
ROUNDS, MILLIONS = 2, 12
TYPES = {"id": "integer", "pid": "integer", "cost": "real", "age": "integer", "day": "date"}
SQL = {"integer": "BIGINT", "real": "DOUBLE", "date": "DATE", "text": "VARCHAR"}
COLUMNS = ("id", "pid", "sex", "cost", "age", "day", "diagnosis", "ward")


def make_csv(millions: int, *, quoted: bool) -> Path:
    """Visits; two thirds of the wards are in quotes if asked. Values come from hashes, so runs agree."""
    DATA.mkdir(exist_ok=True)
    path = DATA / f"visits_{millions}_{'quoted' if quoted else 'plain'}.csv"
    wards = """['ward a', 'ward b, north', '"the" ward']""" if quoted else "['ward a', 'ward b north', 'the ward']"
    if not path.exists():
        duckdb.execute(f"""COPY (SELECT i AS id, hash(i) % 100000 AS pid, ['F', 'M'][(1 + hash(i, 1) % 2)::INT] AS sex,
            (hash(i, 2) % 100000) / 100.0 AS "cost", hash(i, 3) % 90 AS age, DATE '2020-01-01' + (hash(i, 4) % 999)::INT
            AS "day", 'diagnosis ' || (hash(i, 5) % 500) AS diagnosis, {wards}[(1 + hash(i, 6) % 3)::INT] AS ward
            FROM range({millions}000000) t(i)) TO '{path}' (HEADER)""")
    return path


def make_frame(millions: int) -> Any:
    """A pandas frame of numbers, truth values, truth values with missing ones, and texts."""
    import numpy as np
    import pandas as pd

    i = np.arange(millions * 1_000_000)
    flags = (i % 3 == 0).astype(object)
    flags[i % 7 == 0] = None
    texts = np.array(["a", "bb", "ccc"], dtype=object)[i % 3]
    columns = {"i": i, "x": i / 7, "b": i % 2 == 0, "maybe": pd.Series(flags, dtype=object)}
    return pd.DataFrame({**columns, "s": pd.Series(texts, dtype=object), "word": pd.Series(texts, dtype="str")})


def open_ours(data: Any) -> None:
    import lapwing as lw

    declared: dict[str, Any] = {"unit": None}
    if isinstance(data, Path):
        Path(f"{data}.lapwing").unlink(missing_ok=True)  # the witness of the last run's ledger
        declared = {"unit": "pid", "types": TYPES}
    with tempfile.TemporaryDirectory() as folder:
        lw.open(data, name="t", budget=lw.Budget(epsilon=1), ledger=Path(folder) / "ledger.db", **declared)


def open_duckdb(path: Path) -> None:
    columns = ", ".join(f"'{name}': '{SQL[TYPES.get(name, 'text')]}'" for name in COLUMNS)
    read = f"read_csv('{path}', header = true, columns = {{{columns}}})"
    with duckdb.connect(config={"preserve_insertion_order": "false"}) as connection:
        connection.execute(f"CREATE TABLE t AS SELECT * FROM {read}")


def open_arrow(frame: Any) -> None:
    """What Arrow and DuckDB need for the same rows, whose types then depend on the values."""
    import pyarrow as pa

    with duckdb.connect() as connection:
        connection.register("data", pa.Table.from_pandas(frame, preserve_index=False))
        connection.execute("CREATE TABLE t AS SELECT * FROM data")


def measured(work: Callable[[], object]) -> dict[str, float]:
    start, before = time.perf_counter(), sum(os.times()[:2])
    work()
    cpu = sum(os.times()[:2]) - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform != "darwin" else 1 << 30)
    return {"s": time.perf_counter() - start, "cpu": cpu, "peak": peak}


def one(what: str, source: str) -> dict[str, float]:
    """One measurement, in this process."""
    import pandas as pd  # noqa: F401 (both sides have paid for the imports)

    import lapwing.curator  # noqa: F401

    data: Any = Path(source) if source.endswith(".csv") else make_frame(int(source))
    return measured(lambda: {"ours": open_ours, "duckdb": open_duckdb, "arrow": open_arrow}[what](data))


def beside(other: str, source: str) -> tuple[dict[str, float], dict[str, float]]:
    """Ours and the other, in turns; of each figure the smallest."""
    runs: dict[str, list[dict[str, float]]] = {"ours": [], other: []}
    for _ in range(ROUNDS):
        for what, found in runs.items():
            command = [sys.executable, __file__, "--one", what, source]
            found.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    ours, others = ({key: min(run[key] for run in found) for key in found[0]} for found in runs.values())
    return ours, others


def row(title: str, ours: dict[str, float], other: dict[str, float]) -> str:
    cells = [f"{side['s']:.1f} | {side['cpu']:.1f} | {side['peak']:.2f}" for side in (ours, other)]
    ratios = f"**{ours['cpu'] / other['cpu']:.2f}** | {ours['peak'] / other['peak']:.2f}"
    return f"| {title} | {' | '.join(cells)} | {ratios} |"


def main(millions: int) -> None:
    plain, quoted = make_csv(millions, quoted=False), make_csv(millions, quoted=True)
    rows = [
        row(f"CSV of {path.stat().st_size / 1e6:.0f} MB, {kind}", *beside("duckdb", str(path)))
        for path, kind in ((plain, "plain"), (quoted, "with quotes"))
    ]
    rows.append(row("pandas frame of 10 million rows, 6 columns", *beside("arrow", "10")))
    text = RESULTS.read_text() if RESULTS.exists() else ""
    kept = text[text.index("\n## ") :] if "\n## " in text else "\n"
    RESULTS.write_text("\n".join([*HEAD, *rows, "", f"{platform.machine()}, {os.cpu_count()} cores.", ""]) + kept)
    print(RESULTS.read_text())


HEAD = [
    "# Opening data",
    "",
    f"Each figure is the smallest of {ROUNDS} new processes, in turns. Beside a CSV file stands DuckDB's own read_csv",
    "into a table of the same types; beside a frame Arrow's conversion, whose types depend on values, into a table.",
    "Ours includes the SHA-256 of the rows and the ledger.",
    "",
    "| | ours, s | CPU s | peak GiB | other, s | CPU s | peak GiB | CPU, times | peak, times |",
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
]

if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(one(*sys.argv[2:])))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else MILLIONS)
