"""Coverage: how often the interval of every statistic holds the exact number, and how wide it is.

    python benchmarks/coverage.py

prints one table and writes it to benchmarks/results/coverage.md. The table of rows is opened and the question planned
as ever, and the engine counts its exact cells once. Then `release`, the one place where noise is added, draws thousands
of answers from those cells, and answers/columns.py makes numbers and intervals of them: what an analyst would be
given, without reading SQL and without charging a ledger each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import lapwing as lw
from lapwing.answers.columns import intervals_of, values_of
from lapwing.expressions.expression import Slot
from lapwing.plan.add_noise import Arranged, Released, fetched, release
from lapwing.plan.plan import Plan
from lapwing.plan.quantiles import QuantilesKind
from lapwing.plan.query import queries
from noise import aligned

RESULTS = Path(__file__).resolve().parent / "results" / "coverage.md"

Floats = npt.NDArray[np.float64]

LEVEL = Fraction(19, 20)
EPSILON = 1
RELEASES, QUANTILE_RELEASES = 10_000, 3_000
SIZES = (0, 1, 10, 1000)
BUDGETS = {"pure": lw.Budget(epsilon=1000), "zCDP": lw.Budget(epsilon=1000, delta=1e-6)}
MOST = 0.995
"""At 95 %, what covers more often than this is wider than it need be."""
TIGHT = ("COUNT(*)", "SUM(x)")
"""These must not be wide."""
SLACK = 1e-6
"""Sums of reals go in steps, so finely that nobody sees them but a comparison with the exact sum of floats."""


# The statistics, by definition; NaN where there are too few rows for one: then no interval is wrong


def with_rows(least: int, make: Callable[[Floats, Floats], float]) -> Callable[[Floats, Floats], float]:
    return lambda x, y: make(x, y) if x.size >= least else math.nan


def slope(x: Floats, y: Floats) -> float:
    return float(np.cov(x, y, ddof=0)[0, 1] / np.var(x))


STATISTICS: dict[str, Callable[[Floats, Floats], float]] = {
    "COUNT(*)": lambda x, _: float(x.size),
    "COUNT(x)": lambda x, _: float(x.size),
    "COUNT(DISTINCT n)": lambda x, _: float(np.unique(np.trunc(x)).size),
    "SUM(x)": lambda x, _: float(x.sum()),
    "SUM(n)": lambda x, _: float(np.trunc(x).sum()),
    "AVG(x)": with_rows(1, lambda x, _: float(x.mean())),
    "COUNT(x), AVG(x)": lambda x, _: float(x.size),
    "SUM(x), AVG(x)": lambda x, _: float(x.sum()),
    "AVG(x), VAR_POP(x)": with_rows(1, lambda x, _: float(x.mean())),
    "VAR_POP(x)": with_rows(1, lambda x, _: float(x.var())),
    "VARIANCE(x)": with_rows(2, lambda x, _: float(x.var(ddof=1))),
    "STDDEV_POP(x)": with_rows(1, lambda x, _: float(x.std())),
    "STDDEV(x)": with_rows(2, lambda x, _: float(x.std(ddof=1))),
    "COVAR_POP(y, x)": with_rows(1, lambda x, y: float(np.cov(x, y, ddof=0)[0, 1])),
    "COVAR_SAMP(y, x)": with_rows(2, lambda x, y: float(np.cov(x, y)[0, 1])),
    "CORR(y, x)": with_rows(2, lambda x, y: float(np.corrcoef(x, y)[0, 1])),
    "REGR_SLOPE(y, x)": with_rows(2, slope),
    "REGR_INTERCEPT(y, x)": with_rows(2, lambda x, y: float(y.mean() - slope(x, y) * x.mean())),
    "MEDIAN(x)": with_rows(1, lambda x, _: float(np.median(x))),
    "MEDIAN(n)": with_rows(1, lambda x, _: float(np.median(np.trunc(x)))),
    "QUANTILE_CONT(x, 0.9)": with_rows(1, lambda x, _: float(np.quantile(x, 0.9))),
    "QUANTILE_CONT(x, 0.99)": with_rows(1, lambda x, _: float(np.quantile(x, 0.99))),
    "MIN(x)": with_rows(1, lambda x, _: float(x.min())),
    "MAX(n)": with_rows(1, lambda x, _: float(np.trunc(x).max())),
}
"""What is asked; of two numbers in one question the first is looked at."""


def make_rows(size: int) -> tuple[Floats, Floats]:
    """The same in every run."""
    rng = np.random.default_rng(size)
    x = np.clip(rng.normal(3, 2, size), -5, 10)
    return x, np.clip(x + rng.normal(5, 1, size), 0, 20)


# Releases


def counted(question: str, rows: tuple[Floats, Floats], budget: lw.Budget) -> tuple[Plan, Arranged]:
    """The plan of a question, and the engine's exact cells."""
    x, y = rows
    columns = {"x": pa.array(x, pa.float64()), "y": pa.array(y, pa.float64())}
    frame = pa.table({**columns, "n": pa.array(np.trunc(x).astype(np.int64))})
    bounds = {"x": (-5, 10), "y": (0, 20), "n": (-5, 10)}
    asked = lw.open(frame, name="t", unit=None, budget=budget, bounds=bounds, ledger=":memory:")
    try:
        plan = asked.preview(f"SELECT {question} FROM t", epsilon=EPSILON, confidence=LEVEL).plan
        return plan, fetched(plan, queries(plan).prepared(asked._engine.prepare), asked._engine.fetch)
    finally:
        asked.close()


def drawn(plan: Plan, exact: Arranged) -> Released:
    """Many releases of the same cells, one below the other as if each were a group."""
    if any(isinstance(measure.kind, QuantilesKind) for measure in plan.measures):
        many = [release(plan, exact).cells for _ in range(QUANTILE_RELEASES)]
        return Released(
            (), tuple(tuple(map(np.concatenate, zip(*one, strict=True))) for one in zip(*many, strict=True))
        )
    repeated = tuple(tuple(np.repeat(column, RELEASES) for column in columns) for columns in exact.cells)
    return release(plan, replace(exact, cells=repeated))


@dataclass(frozen=True, slots=True)
class Line:
    """What was seen of one statistic at one size."""

    statistic: str
    size: int
    releases: int
    coverage: float | None
    mean_width: float
    median_width: float

    @property
    def verdict(self) -> str:
        if self.coverage is None:
            return ""
        least = float(LEVEL) - 3 * math.sqrt(float(LEVEL * (1 - LEVEL)) / self.releases)
        return "below" if self.coverage < least else "tight" if self.coverage <= MOST else "wide"


def measure(statistic: str, size: int, budget: lw.Budget) -> Line:
    rows = make_rows(size)
    plan, exact = counted(statistic, rows, budget)
    shown = plan.question.outputs[0].expression
    if not isinstance(shown, Slot):
        raise SystemExit(f"{statistic} is computed from released numbers; ask for one of them")
    reading = plan.outline.readings[shown.index]
    released = drawn(plan, exact)
    ends = intervals_of(plan, released, reading, LEVEL, simultaneous=1)
    if ends is None or np.isnan(values_of(plan, released, reading).astype(float)).any():
        raise SystemExit(f"{statistic} at {size} rows has no number or no interval")
    low, high = (end.astype(float) for end in ends)
    truth = STATISTICS[statistic](*rows)
    held = None if math.isnan(truth) else float(np.mean((low - SLACK <= truth) & (truth <= high + SLACK)))
    widths = high - low
    return Line(statistic, size, widths.size, held, float(widths.mean()), float(np.median(widths)))


# The table

HEAD = ("statistic", "rows", "releases", "coverage", "mean width", "median width", "")

NOTES = f"""
- Coverage is how often the interval holds the statistic of the clipped rows. `below`: less than 95 % minus three
  standard errors; `tight`: at most {MOST:.1%}; `wide`: more. COUNT and SUM must be tight.
- Where there are too few rows for the statistic (no mean of no rows, no sample variance of one) every number is right,
  and only the width is told. Such answers have the same shape as all others.
- Of two numbers in one question the first is looked at: COUNT and SUM come with AVG at no extra price, from its cells.
- `wide` intervals of a mean and of what is made of products are cut at the bounds, or allow for every number of rows
  that the noise may hide; those of quantiles hold for every histogram, and their ends grow in steps of about sqrt(2).
- A row is a unit; x lies in -5 to 10, y in 0 to 20, n is x without its fraction; x is normal (3, 2), clipped."""


def text_of(line: Line) -> tuple[str, ...]:
    coverage = "any number" if line.coverage is None else f"{line.coverage:.2%}"
    widths = (f"{width:.4g}" for width in (line.mean_width, line.median_width))
    return (line.statistic, f"{line.size:,}", f"{line.releases:,}", coverage, *widths, line.verdict)


def section(kind: str, lines: list[Line], price: str) -> list[str]:
    return [f"## {kind}: {price}", "", *aligned([HEAD, *map(text_of, lines)]), ""]


def main() -> None:
    text = ["# Coverage", "", f"Intervals at {float(LEVEL):.0%}, one number a question.", NOTES, ""]
    found: list[Line] = []
    for kind, budget in BUDGETS.items():
        lines = [measure(statistic, size, budget) for statistic in STATISTICS for size in SIZES]
        text += section(kind, lines, str(budget.price(epsilon=EPSILON)))
        found += lines
    wrong = [line for line in found if line.verdict == "below" or (line.verdict == "wide" and line.statistic in TIGHT)]
    text += [f"Wrong: {line.statistic} at {line.size} rows, {line.coverage:.2%}." for line in wrong]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("\n".join(text).rstrip("\n") + "\n")
    print("\n".join(text))
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
