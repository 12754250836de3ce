"""Targets of audits: a Python function, a program, a question to the curator, or two servers on public neighbours.

The neighbours are the bundled health data with and without one person. `write_neighbours` makes a folder for each, so
that two servers with a ledger each can be compared from outside.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lapwing.errors import Misconfigured
from lapwing.numbers import Number, exact

if TYPE_CHECKING:
    import pyarrow as pa

    from lapwing.curator import Curator

PAIR = "NEIGHBOURS"
"""The name that a module may give its pair of neighbours."""
BOUNDS = {"age": (0, 64), "visits": (0, 20), "spending": (0, 5000), "income": (0, 30_000)}
VALUES: dict[str, list[Any]] = {
    "plan": ["free", "25%", "50%", "95%", "deductible"],
    "sex": ["F", "M"],
    "year": [1, 2, 3, 4, 5],
    "site": [1, 2, 3, 4, 5, 6],
}
_LONGEST = 600  # seconds that one call of a program may take
SIDES = ("left", "right")
"""With the person, and without."""
VERSION = "audited neighbours"
_BUDGET = 100_000  # epsilon: the data are public, and an audit asks thousands of times

SETTINGS = """
# The RAND Health Insurance Experiment, which is public, {whom}. Only for audits: this budget does not protect anyone.
[budget]
epsilon = {budget}

[tables.health]
source = "health.parquet"
unit = "person"
version = "{version}"
rows_per_unit = 5
groups_per_unit = 5
answer_time = 0.05

[tables.health.columns]
person = {{ type = "integer" }}
year = {{ type = "integer", values = [1, 2, 3, 4, 5] }}
sex = {{ type = "text", values = ["F", "M"] }}
plan = {{ type = "text", values = ["free", "25%", "50%", "95%", "deductible"] }}
site = {{ type = "integer", values = [1, 2, 3, 4, 5, 6] }}
age = {{ type = "real", bounds = [0, 64] }}
visits = {{ type = "integer", bounds = [0, 20] }}
spending = {{ type = "real", bounds = [0, 5000] }}
income = {{ type = "real", bounds = [0, 30000] }}

[serve]
port = {port}
rate = 100000
burst = 100000
"""


def open_experiment(data: Any, *, epsilon: Number, **facts: Any) -> Curator:
    """Opens a frame with a fresh budget, which may be weak: the data are synthetic or public."""
    from lapwing.curator import open_data
    from lapwing.privacy.budget import Budget

    return open_data(data, budget=Budget.from_record(epsilon, 0, "pure"), ledger=":memory:", **facts)


def find_function(name: str) -> tuple[Callable[..., Any], Any]:
    """The function that `module:function` names, and the module's pair of neighbours, or None."""
    module, _, function = name.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        imported = importlib.import_module(module)
    except ImportError as error:
        raise Misconfigured(f"the module {module!r} cannot be imported: {error}. Write module:function.") from None
    finally:
        sys.path.pop(0)
    if not hasattr(imported, function):
        raise Misconfigured(f"the module {module!r} has nothing named {function!r}.")
    mechanism = getattr(imported, function)
    if not callable(mechanism):
        raise Misconfigured(f"{name} cannot be called. Name a function.")
    return mechanism, getattr(imported, PAIR, None)


def run_program(path: str) -> Callable[[Any, int], list[Any]]:
    """A program as a mechanism. It is called with the data and a number n, and prints n releases, one on each line.

    A line is JSON or text. A program that stops early is started again for what is missing; its exit code is an output.
    """
    program = str(Path(path).resolve())

    def release(data: Any, runs: int) -> list[Any]:
        text = data if isinstance(data, str) else json.dumps(data)
        outputs: list[Any] = []
        while len(outputs) < runs:
            missing = runs - len(outputs)
            command = [program, text, str(missing)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST, check=False)
            except subprocess.TimeoutExpired:
                why = f"{path} took longer than {_LONGEST} s for {missing} releases."
                raise Misconfigured(f"{why} Ask for fewer with --runs.") from None
            lines = done.stdout.splitlines()[:missing]
            outputs += map(read_data, lines)
            if len(lines) < missing:
                outputs.append(f"stopped with exit code {done.returncode}")
        return outputs

    return release


def ask_question(question: str, *, epsilon: Number, runs: int, closer: ExitStack) -> tuple[Callable[[Any], Any], Any]:
    """A question on the bundled neighbours as a mechanism. Every run pays again, from a budget for all of them."""
    price = exact(epsilon, "epsilon")

    def opened(rows: Any) -> Any:
        curator = open_experiment(
            rows, name="health", unit="person", rows_per_unit=5, groups_per_unit=5, bounds=BOUNDS, values=VALUES,
            epsilon=price * runs,
        )  # fmt: skip
        closer.enter_context(closing(curator))
        curator.preview(question, epsilon=price)  # a refusal comes before the first run
        return curator

    def release(curator: Any) -> dict[str, Any]:
        rows = curator.sql(question, epsilon=price, refresh=True).to_arrow().to_pylist()
        return {f"row {i} {name}": value for i, row in enumerate(rows) for name, value in row.items()}

    left, right = map(opened, bundled_neighbours())
    return release, (left, right)


def read_data(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def bundled_neighbours() -> tuple[pa.Table, pa.Table]:
    """The health data with everybody, and without the person with the most visits."""
    from lapwing.data import health

    table = health()
    totals = table.group_by("person").aggregate([("visits", "sum")]).sort_by([("visits_sum", "descending")])
    heaviest = totals["person"][0].as_py()
    return table, table.filter([person != heaviest for person in table["person"].to_pylist()])


def health_of_one_year() -> Any:
    """The bundled health data: one row for each person, of the first study year."""
    from lapwing.data import health

    table = health()
    return table.filter([year == 1 for year in table["year"].to_pylist()])


def write_neighbours(folder: Path, ports: tuple[int, int] = (8471, 8472)) -> list[Path]:
    """Writes a folder for each neighbour, with its data and a lapwing.toml to serve; the paths of the latter."""
    import pyarrow.parquet as pq

    files = []
    pairs = zip(SIDES, bundled_neighbours(), ports, ("with everybody", "without one person"), strict=True)
    for side, rows, port, whom in pairs:
        home = folder / side
        if home.exists():
            raise Misconfigured(f"{home} exists already. Name a new folder, or remove it.")
        home.mkdir(parents=True)
        pq.write_table(rows, home / "health.parquet")
        settings = SETTINGS.format(whom=whom, budget=_BUDGET, version=VERSION, port=port)
        (home / "lapwing.toml").write_text(settings.lstrip(), encoding="utf-8")
        files.append(home / "lapwing.toml")
    return files
