"""Strategies: ranges and tables of counts from one release, beside question by question and OpenDP's tree.

    python benchmarks/strategies.py

prints the tables and writes them to benchmarks/results/strategies.md. Every method has the same price; one unit is one
row. Errors of Lapwing's mechanisms are known beforehand, and what is released agrees with them; OpenDP's tree is run.
It runs in an environment of its own under benchmarks/.venvs/, made on first use.
"""

from __future__ import annotations

import json
import math
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

import lapwing as lw
from lapwing.data import health
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.ranges.components import cells
from lapwing.mechanisms.ranges.noisy_marginals import LaplaceMarginals, Marginals
from lapwing.mechanisms.ranges.ranges import PrefixSums, Ranges
from lapwing.privacy.loss import ZCDP
from noise import aligned, environment

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "strategies.md"
SIZES = (64, 256, 1024)
EPSILON, RHO = Fraction(1), Fraction(1, 2)
REPETITIONS, PEER_REPETITIONS, REAL_REPETITIONS = 300, 300, 12
TABLES = {
    "5 attributes of 10, up to pairs": ((10,) * 5, 2),
    "10 attributes of 10, up to pairs": ((10,) * 10, 2),
    "20 attributes of 5, up to pairs": ((5,) * 20, 2),
    "15 attributes of 2, up to triples": ((2,) * 15, 3),
}
COLUMNS = ["site", "plan", "sex", "age", "general_health"]

Floats = npt.NDArray[np.float64]


# Ranges


def rmse(prefixes: Floats) -> tuple[float, float]:
    """Of all prefixes and of all ranges, from the errors of the prefixes, one row a repetition."""
    size = prefixes.shape[1]
    squares, sums = (prefixes**2).sum(axis=1), prefixes.sum(axis=1)
    ranges = ((size + 1) * squares - sums**2) / (size * (size + 1) / 2)
    return math.sqrt(squares.mean() / size), math.sqrt(ranges.mean())


def released(mechanism: PrefixSums | Ranges) -> tuple[float, float]:
    """What really comes out of so many releases."""
    nobody = np.zeros(mechanism.size, np.int64)
    return rmse(np.array([mechanism.release(nobody).prefix() for _ in range(REPETITIONS)]))


def range_rows(noise: str, peer: dict[str, Any]) -> list[tuple[str, ...]]:
    rows = []
    for size in SIZES:
        if noise == "laplace":
            mechanism: PrefixSums | Ranges = Ranges(size=size, epsilon=EPSILON)
            cell, each = (
                math.sqrt(Laplace(epsilon=EPSILON).variance),
                math.sqrt(Laplace(epsilon=EPSILON / size).variance),
            )
        else:
            mechanism = PrefixSums(size=size, rho=RHO)
            cell, each = math.sqrt(1 / (2 * RHO)), math.sqrt(size / (2 * RHO))
        histogram = cell * math.sqrt((size + 1) / 2), cell * math.sqrt((size + 2) / 3)
        tree = rmse(np.array(peer["found"][noise][str(size)])) if noise in peer["found"] else None
        ours, seen = (mechanism.prefix_rmse, mechanism.range_rmse), released(mechanism)
        for i, what in enumerate(("prefixes", "ranges")):
            asked = number(each) if what == "prefixes" else ""
            beside = ("", "") if tree is None else (number(tree[i]), f"{ours[i] / tree[i]:.2f}")
            gain = f"{histogram[i] / ours[i]:.2f}"
            rows.append((str(size), what, asked, number(histogram[i]), *beside, number(ours[i]), number(seen[i]), gain))
    return rows


def run_peer() -> dict[str, Any]:
    python = environment("OpenDP", ["opendp==0.16.*"])
    asked = {"sizes": SIZES, "epsilon": float(EPSILON), "rho": float(RHO), "repetitions": PEER_REPETITIONS}
    command = [python, HERE / "peers" / "strategies_opendp.py", json.dumps(asked)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# Tables of counts


def table_rows() -> list[tuple[str, ...]]:
    rows = []
    for name, (sizes, ways) in TABLES.items():
        residual = Marginals(sizes=sizes, ways=ways, rho=RHO)
        laplace = LaplaceMarginals(sizes=sizes, ways=ways, epsilon=EPSILON)
        many = len(residual.sets)
        split = math.sqrt(many / (2 * RHO)), math.sqrt(Laplace(epsilon=EPSILON / many).variance)
        every = tuple(range(len(sizes)))
        added = math.sqrt(np.mean([cells(sizes, every) / cells(sizes, one) for one in residual.sets]))
        whole = added * math.sqrt(1 / (2 * RHO)), added * math.sqrt(Laplace(epsilon=EPSILON).variance)
        for i, (price, mechanism) in enumerate((("rho = 1/2", residual), ("epsilon = 1", laplace))):
            ours = math.sqrt(np.mean([mechanism.standard_error(one) ** 2 for one in mechanism.sets]))
            rows.append(
                (name, str(many), price, number(split[i]), number(whole[i]), number(ours), f"{split[i] / ours:.2f}")
            )
    return rows


# Real data, through the curator


def opened(budget: lw.Budget) -> lw.Curator:
    table = health()
    values = {name: sorted(pc.unique(table[name]).to_pylist()) for name in COLUMNS if name != "age"}
    return lw.open(
        table,
        name="health",
        unit="person",
        rows_per_unit=1,
        groups_per_unit=1,
        values=values,
        bounds={"age": (0, 64)},
        budget=budget,
        ledger=":memory:",
    )


def truths(table: pa.Table) -> dict[tuple[str, ...], Any]:
    """The exact counts in the order of the declared values."""
    decade = pc.cast(pc.floor(pc.divide(pc.cast(table["age"], pa.float64()), 13.0)), pa.int64())
    codes = {"age": decade.to_numpy()}
    for name in COLUMNS:
        if name == "age":
            continue
        codes[name] = pc.index_in(
            table[name], value_set=pa.array(sorted(pc.unique(table[name]).to_pylist()))
        ).to_numpy()
    sizes = {name: int(codes[name].max()) + 1 for name in COLUMNS}
    pairs = [(a, b) for i, a in enumerate(COLUMNS) for b in COLUMNS[i + 1 :]]
    found = {}
    for names in [*((name,) for name in COLUMNS), *pairs]:
        flat = np.ravel_multi_index([codes[name] for name in names], [sizes[name] for name in names])
        found[names] = np.bincount(flat, minlength=math.prod(sizes[name] for name in names)).astype(float)
    return found


def real_row(budget: lw.Budget, epsilon: float) -> tuple[str, ...]:
    """People of the first year by two of five columns at a time: 15 questions in SQL, or one release."""
    curator = opened(budget)
    exact = truths(health().filter(pc.equal(health()["year"], 1)))
    each = share(budget, epsilon, len(exact))
    asked, ours = [], []
    for _ in range(REAL_REPETITIONS):
        answer = curator.marginals(COLUMNS, epsilon=epsilon, cells={"age": 5}, where="year = 1", refresh=True)
        ours.append([np.mean((np.ravel(answer[names].counts) - counts) ** 2) for names, counts in exact.items()])
        tables = [curator.sql(question(names), epsilon=each, refresh=True).to_arrow()["n"] for names in exact]
        pairs = zip(tables, exact.values(), strict=True)
        asked.append([np.mean((table.to_numpy() - counts) ** 2) for table, counts in pairs])
    split, one = math.sqrt(np.mean(asked)), math.sqrt(np.mean(ours))
    price = f"epsilon = {epsilon:g}" + (f", delta = {float(budget.delta):g}" if budget.delta else "")
    return (
        "people by site, plan, sex, age, health",
        str(len(exact)),
        price,
        number(split),
        "",
        number(one),
        f"{split / one:.2f}",
    )


def question(names: tuple[str, ...]) -> str:
    keys = ["FLOOR(age / 13)" if name == "age" else name for name in names]
    shown = ", ".join(f"{key} AS k{i}" for i, key in enumerate(keys))
    order = ", ".join(f"k{i}" for i in range(len(keys)))
    return f"SELECT {shown}, COUNT(*) AS n FROM health WHERE year = 1 GROUP BY {', '.join(keys)} ORDER BY {order}"


def share(budget: lw.Budget, epsilon: float, many: int) -> float:
    """The epsilon at which so many questions cost as much as one at this epsilon."""
    whole = budget.cost(budget.price(epsilon=epsilon)).amount
    if not isinstance(budget.price(epsilon=epsilon), ZCDP):
        return epsilon / many
    low, high = 0.0, epsilon
    for _ in range(40):
        middle = (low + high) / 2
        fits = many * budget.cost(budget.price(epsilon=middle)).amount <= whole
        low, high = (middle, high) if fits else (low, middle)
    return low


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


NOTES = """
RMSE of a count, over all prefixes (or ranges) or over all cells of all tables, each table counting the same. `gain` is
the error beside Lapwing's: of adding up noisy cells for ranges, of an equal split of the price for tables.

- `each asked`: every prefix is a question of its own, and all share the price. `cells`: one histogram, and ranges add
  up its cells. `OpenDP`: its b-ary tree with the branching factor that it chooses, and its consistency step.
- `known` is the error that Lapwing states beforehand; `released` what came out of {} releases (OpenDP {}).
- `table by table`: the price is split equally among the tables. `full table`: noise on every cell of all attributes
  together, and tables are sums of it.
- The last lines are asked through the curator about the first year of the RAND health data (5,638 people, ages in 5
  cells): {} repetitions, one release beside 15 questions in SQL."""


def main() -> None:
    peer = run_peer()
    head = ("cells", "of all", "each asked", "cells", "OpenDP", "to OpenDP", "known", "released", "gain")
    lines = ["# Strategies", NOTES.format(REPETITIONS, PEER_REPETITIONS, REAL_REPETITIONS)]
    for noise, price in (("laplace", "epsilon = 1"), ("gaussian", "rho = 1/2")):
        lines += ["", f"## Ranges at {price}", "", *aligned([head, *range_rows(noise, peer)])]
    real = [real_row(lw.Budget(epsilon=10_000), 1.0), real_row(lw.Budget(epsilon=1_000, delta=1e-6), 1.0)]
    tables = [("tables", "how many", "price", "table by table", "full table", "Lapwing", "gain"), *table_rows(), *real]
    lines += ["", "## Tables of counts", "", *aligned(tables), "", f"OpenDP {peer['version']}."]
    failed = [f"OpenDP could not do {noise}: {why}" for noise, why in peer["failures"].items()]
    text = "\n".join([*lines, *failed, ""])
    RESULTS.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
