"""The release gate on SQL, values, errors, order, keys, metadata and budget: whatever one person's rows hold, nothing
but noisy numbers may tell.

D is a table, D' the table without one person. Each test runs the same script on both and compares everything that an
analyst sees except the numbers themselves.
"""

from __future__ import annotations

import inspect
import json
import logging
import math
from datetime import date, datetime
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lapwing as lw
from lapwing.answers.answer import Release
from lapwing.curator import Curator
from lapwing.curator.pricing import Terms
from lapwing.curator.purchase import run as run_steps
from lapwing.curator.request import QuestionRequest, Request
from lapwing.errors import LapwingError
from support.audit import assert_private
from support.cells import run

BUDGET = lw.Budget(epsilon=1000, delta=1e-6)
CANARY = "ZZCANARY"
NOON = datetime.fromisoformat("2020-01-01 12:00:00")

SCHEMA = pa.schema(
    [
        ("pid", pa.int64()),
        ("sex", pa.string()),
        ("note", pa.string()),
        ("x", pa.float64()),
        ("n", pa.int64()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us")),
        ("b", pa.bool_()),
    ]
)
CROWD = [(i, "FM"[i % 2], f"note {i % 5}", i % 10 + 0.5, i % 100, date(2020, 1, 1 + i % 28), NOON, True)
         for i in range(60)]  # fmt: skip
HOSTILE_VALUES: dict[str, tuple[Any, ...]] = {
    "note": (
        "",
        CANARY,
        f"{CANARY} \N{SNOWMAN}\N{PILE OF POO}",
        f"{CANARY}'; DROP TABLE t; --",
        CANARY * 100_000,
        None,
    ),
    "x": (math.nan, math.inf, -math.inf, -0.0, 1e308, -1e308, 5e-324, None),
    "n": (2**63 - 1, -(2**63), 0, None),
    "d": (date(1, 1, 1), date(9999, 12, 31), None),
    "t": (datetime.fromisoformat("0001-01-01"), datetime.fromisoformat("9999-12-31 23:59:59.999999"), None),
}


def curator(victim: list[tuple[Any, ...]], **changes: Any) -> Curator:
    columns = list(zip(*(CROWD + victim), strict=True))
    arrays = [
        pa.array(list(column), field.type, from_pandas=False) for column, field in zip(columns, SCHEMA, strict=True)
    ]
    facts: dict[str, Any] = {
        "name": "t",
        "unit": "pid",
        "rows_per_unit": 3,
        "groups_per_unit": 2,
        "bounds": {"x": (0, 10), "n": (0, 100)},
        "values": {"sex": ["F", "M"]},
        "budget": BUDGET,
        "check": 0,
        **changes,
    }
    return lw.open(pa.table(arrays, schema=SCHEMA), ledger=":memory:", **facts)


def victim_rows() -> list[tuple[Any, ...]]:
    """One person with every hostile value in turn."""
    usual = {"note": "x", "x": 1.0, "n": 1, "d": date(2020, 1, 1), "t": NOON}
    rows = []
    for name, values in HOSTILE_VALUES.items():
        for value in values:
            row = {**usual, name: value}
            rows.append((999, "F", row["note"], row["x"], row["n"], row["d"], row["t"], None))
    return rows


RISKY = (
    "CAST(note AS INTEGER)",
    "CAST(note AS DOUBLE)",
    "CAST(note AS DATE)",
    "CAST(note AS TIMESTAMP)",
    "LN(x)",
    "LOG10(n)",
    "SQRT(x)",
    "x / n",
    "n / x",
    "n % n",
    "n // n",
    "x * x * x * x",
    "n * n * n",
    "n * 9223372036854775807 - 5",
    "ABS(n)",
    "-n",
    "EXP(x)",
    "EXP(n)",
    "POWER(x, 3)",
    "ROUND(x, 2)",
    "FLOOR(x)",
    "CEIL(n * x)",
    "LENGTH(note)",
    "UPPER(note)",
    "SUBSTRING(note, 2, 3)",
    "note || note || note",
    "CONCAT(note, 'x')",
    "EXTRACT(year FROM d)",
    "EXTRACT(week FROM t)",
    "DATE_TRUNC('year', d)",
    "DATE_DIFF('day', d, DATE '1970-01-01')",
    "d + INTERVAL 400 DAY",
    "t - INTERVAL 5 MONTH",
    "COALESCE(x, n)",
    "NULLIF(x, 0)",
    "CASE WHEN x > 0 THEN n ELSE x END",
    "LEAST(x, n)",
    "GREATEST(x, n, 0)",
    "CAST(x AS INTEGER)",
    "CAST(n AS VARCHAR)",
    "x IS DISTINCT FROM n",
    "note LIKE '%a%b%'",
    "CLIP(x, 0, 1)",
)
"""Expressions that raise in an engine on some row, or could."""


def scripts() -> list[str]:
    texts = [f"SELECT COUNT(*) AS c FROM t WHERE ({risky}) IS NOT NULL" for risky in RISKY]
    texts += [f"SELECT COUNT({risky}) AS c FROM t" for risky in RISKY]
    numbers = [risky for risky in RISKY if not risky.startswith(("UPPER", "SUBSTRING", "note", "CONCAT", "DATE_TRUNC"))]
    skip = ("d +", "t -", "x IS", "CAST(n", "CAST(note AS DATE", "CAST(note AS TIME")
    texts += [
        f"SELECT SUM(CLIP({one}, -1, 1)) AS s, AVG(CLIP({one}, -5, 5)) AS m FROM t"
        for one in numbers
        if not one.startswith(skip)
    ]
    return texts


def seen(asked: Curator, text: str, **terms: Any) -> tuple[Any, ...]:
    """Everything that an analyst sees of an answer but the numbers, and what it did to the budget."""
    try:
        answer = asked.sql(text, **terms)
    except LapwingError as error:
        return type(error).__name__, str(error), str(asked.budget)
    shown = answer.to_dict()
    rows = shown.pop("rows")
    kinds = [[(name, value is None, type(value).__name__) for name, value in row.items()] for row in rows]
    return str(answer.to_arrow().schema), kinds, json.dumps(shown), str(asked.budget)


def test_no_expression_tells_by_failing_that_a_row_is_there() -> None:
    """gate:G18 gate:G13 threat:A12 status, schema, words, price and what is left are the same on D and D'."""
    there, gone = curator(victim_rows()), curator([])
    compared = 0
    for text in scripts():
        one, two = seen(there, text, epsilon=0.5), seen(gone, text, epsilon=0.5)
        assert one == two, text
        assert one[0] != "EngineFailed", text
        compared += one[0].startswith("c:") or one[0].startswith("s:")
    assert compared == len(scripts())


def test_no_word_about_a_row_leaves(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    """gate:G18 threat:A13 canary strings in the rows appear in no answer, message, log or ledger entry."""
    caplog.set_level(logging.DEBUG)
    asked = curator(victim_rows())
    texts = [*scripts(), "SELECT note, COUNT(*) AS c FROM t GROUP BY note", "SELECT note FROM t", "SELECT nope FROM t"]
    said = [str(seen(asked, text, epsilon=0.1)) for text in texts]
    said += [
        str(list(asked.ledger.entries())),
        str(asked.budget),
        str(asked.catalog),
        caplog.text,
        *capsys.readouterr(),
    ]
    assert not any(CANARY in text for text in said)


def test_keys_of_one_person_are_hidden_and_common_ones_are_shown() -> None:
    """gate:G23 threat:A15 threat:A16 a key that one person brings is hidden, whatever she does to be seen."""
    asked = curator([(999, "F", CANARY, 1.0, 1, None, None, None)] * 1000)
    found = asked.sql("SELECT note, COUNT(*) AS c FROM t GROUP BY note", epsilon=20).to_pandas()
    assert found["note"].tolist() == [f"note {i}" for i in range(5)]
    many = asked.sql("SELECT note || CAST(n AS VARCHAR) AS k, COUNT(*) AS c FROM t GROUP BY 1", epsilon=1)
    assert len(many) == 0


def test_groups_come_in_one_order() -> None:
    """gate:G10 threat:A14 by key, wherever the rows stand."""
    text = "SELECT note, COUNT(DISTINCT pid) AS c FROM t GROUP BY note"
    orders = set()
    for turn in range(3):
        columns = CROWD[turn * 20 :] + CROWD[: turn * 20]
        arrays = [pa.array(list(c), f.type) for c, f in zip(zip(*columns, strict=True), SCHEMA, strict=True)]
        asked = lw.open(
            pa.table(arrays, schema=SCHEMA), name="t", unit="pid", groups_per_unit=1, budget=BUDGET, ledger=":memory:"
        )
        orders.add(tuple(asked.sql(text, epsilon=100).to_pandas()["note"]))
    assert orders == {tuple(f"note {i}" for i in range(5))}


def test_facts_about_the_data_are_the_same_with_and_without_a_person() -> None:
    """gate:G24 threat:A19 catalog, preview, budget, and the words of refusals."""
    there, gone = curator(victim_rows()), curator([])
    assert there.catalog == gone.catalog
    for text in ("SELECT note, AVG(x) AS m FROM t GROUP BY note", "SELECT sex, COUNT(*) AS c FROM t GROUP BY sex"):
        one, two = (c.preview(text, epsilon=1) for c in (there, gone))
        assert (str(one), one.to_dict()) == (str(two), two.to_dict())
    assert str(there.table("t").schema()) == str(gone.table("t").schema())
    assert str(there.budget) == str(gone.budget)


PREVIEWS = {"preview", "preview_batch", "preview_distribution", "preview_marginals"}
FREE = {*PREVIEWS, "preview_request", "table", "close", "catalog", "budget", "ledger", "describe", "dummy", "address"}
PAID = {"sql", "ask", "answer", "steps", "watch", "batch", "summary", "distribution", "marginals"}


def test_every_public_way_to_an_answer_is_paid() -> None:
    """gate:G30 threat:A31 the list of names is reviewed: a new one must be put on one side."""
    names = {name for name, _ in inspect.getmembers(Curator) if not name.startswith("_")}
    assert names == FREE | PAID
    asked = curator([])
    for ask in (
        lambda: asked.sql("SELECT COUNT(*) AS c FROM t", epsilon=1),
        lambda: asked.ask(asked.table("t").x.sum(), epsilon=1),
        lambda: asked.answer(Request(QuestionRequest("SELECT MEDIAN(x) AS c FROM t"), Terms(epsilon=1))),
        lambda: run_steps(asked.steps(Request(QuestionRequest("SELECT AVG(x) AS c FROM t"), Terms(epsilon=1)))),
        lambda: asked.watch(threshold=10, epsilon=1),
        lambda: asked.batch(["SELECT COUNT(*) AS c FROM t WHERE x < 5"], epsilon=1),
        lambda: asked.distribution("n", epsilon=1),
        lambda: asked.marginals(["sex", "n"], epsilon=1),
    ):
        before = asked.ledger.spent.amount
        ask()
        assert asked.ledger.spent.amount > before


@pytest.mark.parametrize("epsilon", [math.inf, math.nan, 0, -1, 10**9, "inf"])
def test_no_price_buys_the_exact_answer(epsilon: Any) -> None:
    """gate:G58 threat:A26 there is no switch for exact answers."""
    asked = curator([])
    with pytest.raises(LapwingError):
        asked.sql("SELECT COUNT(*) AS c FROM t", epsilon=epsilon)
    assert not asked.ledger.spent
    options = set(inspect.signature(Curator.sql).parameters)
    assert not options & {"debug", "exact", "dry_run", "seed", "explain", "test"}


def test_an_answer_says_how_it_was_made_and_only_that() -> None:
    """gate:G54 mechanism, scale, unit, price and ledger entry, the same on D and D'."""
    text = "SELECT sex, COUNT(*) AS c, AVG(x) AS m FROM t GROUP BY sex"
    facts = []
    for asked in (curator(victim_rows()), curator([])):
        shown = asked.sql(text, epsilon=1).to_dict()
        assert {"confidence", "price", "ledger_entry", "measures", "unit", "limits", "methods"} <= set(shown)
        assert all({"mechanism", "scale", "loss"} <= set(measure) for measure in shown["measures"])
        shown.pop("rows")
        facts.append(json.dumps(shown))
    assert facts[0] == facts[1]


def differences(secret: bool, tries: int) -> tuple[float, Any]:
    """All rows less all but one person's: the true difference of two sums at 0.5 each, and what noise did to it."""
    from lapwing.plan.add_noise import arrange, release
    from lapwing.plan.query import cells_query

    row = (999, "F", "x", 10.0 if secret else 0.0, 1, None, None, None)
    asked = curator([row], budget=lw.Budget(epsilon=1), rows_per_unit=1)
    truths, noises = [], []
    for condition in ("TRUE", "pid <> 999"):
        plan = asked.preview(f"SELECT SUM(x) AS s FROM t WHERE {condition}", epsilon=0.5).plan
        exact = arrange(plan, run(asked._engine, cells_query(plan)))
        step, ((cell,),) = float(plan.measures[0].step), exact.cells
        noisy = np.array([int(release(plan, exact).cells[0][0][0]) for _ in range(tries)])
        truths.append(float(cell[0]) * step)
        noises.append((noisy - int(cell[0])) * step)
    return truths[0] - truths[1], noises[0] - noises[1]


@pytest.mark.usefixtures("seeded")
def test_differencing_tells_no_more_than_epsilon_allows() -> None:
    """gate:G47 lecture:L41 who asks of all, and of all but one, for epsilon = 1, guesses as often as the law says.

    The difference of two Laplace noises of scale b exceeds t with probability e^(-t/b) (1 + t/2b) / 2. Nobody may guess
    right more often than e / (1 + e). Exact answers, and noise 6 times too small, break that bound; noise half as large
    breaks the law.
    """
    tries, found = 2_500, {secret: differences(secret, 2_500) for secret in (True, False)}

    def right(size: float) -> float:
        hits = [(truth + size * noise > 5) == secret for secret, (truth, noise) in found.items()]
        return float(np.mean(hits))

    law = 1 - math.exp(-5 / 20) * (1 + 5 / 40) / 2
    far = 5 * math.sqrt(law * (1 - law) / (2 * tries))
    most = math.e / (1 + math.e)
    assert abs(right(1) - law) < far
    assert right(1) < most
    assert right(0) == 1
    assert right(1 / 6) > most
    assert abs(right(1 / 2) - law) > far


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 2, 5, 20])
def test_many_aggregates_together_cost_what_was_paid(parts: int) -> None:
    """gate:G07 threat:A30 a joint audit of all numbers of one question at the total price."""
    from lapwing.plan.add_noise import arrange, release
    from lapwing.plan.query import cells_query

    columns = ", ".join(f"SUM(CASE WHEN n >= {i} THEN 1 ELSE 0 END) AS s{i}" for i in range(parts))
    samples = []
    for victim in ([(999, "F", "x", 10.0, 99, None, None, None)] * 3, []):
        asked = curator(victim, budget=lw.Budget(epsilon=1))
        plan = asked.preview(f"SELECT {columns} FROM t", epsilon=1).plan
        exact = arrange(plan, run(asked._engine, cells_query(plan)))
        drawn = [release(plan, exact).cells for _ in range(20_000)]
        samples.append(np.array([[int(cell[0]) for (cell,) in cells] for cells in drawn]))
    assert_private(samples[0].sum(axis=1), samples[1].sum(axis=1), 1.0)
    assert plan.loss.to_pure().epsilon <= Fraction(1)


@pytest.mark.parametrize("rows", [[], CROWD[:1]], ids=["none", "one"])
def test_no_rows_and_one_row_give_the_same_shape(rows: list[Any]) -> None:
    """gate:G08 no error, the same columns, finite numbers."""
    arrays = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(SCHEMA)]
    facts: dict[str, Any] = {"name": "t", "unit": "pid", "rows_per_unit": 1, "bounds": {"x": (0, 10)}, "budget": BUDGET}
    answer = lw.open(pa.table(arrays, schema=SCHEMA), ledger=":memory:", **facts).sql(
        "SELECT COUNT(*) AS c, SUM(x) AS s, AVG(x) AS m, SUM(x) / COUNT(*) AS r FROM t", epsilon=1
    )
    assert isinstance(answer, Release)
    [row] = answer.intervals().to_pylist()
    assert all(row[name] is not None and math.isfinite(row[name]) for name in ("c", "s", "m"))
    assert 0 <= row["m_low"] <= row["m"] <= row["m_high"] <= 10
