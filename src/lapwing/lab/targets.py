"""What can be audited by name: a Python function, a program, or a question to the curator."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from lapwing.errors import Misconfigured
from lapwing.lab.experiment import open_experiment
from lapwing.lab.neighbouring_data import bundled_neighbours
from lapwing.numbers import Number, exact

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


def find_function(name: str) -> tuple[Callable[..., Any], Any]:
    """The function that `module:function` names, and the module's pair of neighbours, or None."""
    module, _, function = name.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise Misconfigured(f"the module {module!r} cannot be imported: {error}. Write module:function.") from None
    finally:
        sys.path.pop(0)
    try:
        made = getattr(found, function)
    except AttributeError:
        raise Misconfigured(f"the module {module!r} has nothing named {function!r}.") from None
    if not callable(made):
        raise Misconfigured(f"{name} cannot be called. Name a function.")
    return made, getattr(found, PAIR, None)


def run_program(path: str) -> Callable[[Any, int], list[Any]]:
    """A program as a mechanism. It is called with the data and a number n, and prints n releases, one on each line.

    A line is read as JSON if it is JSON, else as text. A program that stops early is started again for what is missing;
    that it stopped, and its exit code, is an output.
    """
    program = str(Path(path).resolve())

    def many(data: Any, runs: int) -> list[Any]:
        text = data if isinstance(data, str) else json.dumps(data)
        outputs: list[Any] = []
        while len(outputs) < runs:
            missing = runs - len(outputs)
            try:
                done = subprocess.run(
                    [program, text, str(missing)], capture_output=True, text=True, timeout=_LONGEST, check=False
                )
            except subprocess.TimeoutExpired:
                raise Misconfigured(
                    f"{path} took longer than {_LONGEST} s for {missing} releases. Ask for fewer with --runs."
                ) from None
            lines = done.stdout.splitlines()[:missing]
            outputs += [_read(line) for line in lines]
            if len(lines) < missing:
                outputs.append(f"stopped with exit code {done.returncode}")
        return outputs

    return many


def ask_question(question: str, *, epsilon: Number, runs: int, closer: ExitStack) -> tuple[Callable[[Any], Any], Any]:
    """A question on the bundled health data as a mechanism, and its two neighbours: with and without one person.

    The person is the one with the most visits. Every run pays again, for a fresh answer, from a budget for all of them.
    """
    price = exact(epsilon, "epsilon")
    table, without = bundled_neighbours()

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

    return release, (opened(table), opened(without))


def read_data(text: str) -> Any:
    """An input from the command line: JSON, or the text itself."""
    return _read(text)


def _read(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return line
