"""A session over questions: paid in full at its start, one bit an answer, dead after its last one or a failure."""

from __future__ import annotations

import copy
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lapwing.curator import Curator
from lapwing.curator import watch as watch_module
from lapwing.curator.watch import plan_watched, score
from lapwing.errors import BudgetExceeded, EngineFailed, Halted, Misconfigured, Refused
from lapwing.mechanisms.sparse.vector import GeometricSparse
from lapwing.privacy import Budget
from lapwing.privacy.loss import Pure
from support.cells import exact_cells
from support.visits import CANARY, Spy, frame, open_visits, write_visits

ROWS = "SELECT COUNT(*) AS n FROM visits"
WOMEN = "SELECT COUNT(*) AS n FROM visits WHERE sex = 'F'"
COSTS = "SELECT SUM(cost) AS c FROM visits"
SURE = 1 - Fraction(1, 10**12)
"""A confidence at which a test never fails."""


def rich(**changes: Any) -> Curator:
    """A budget so large that answers far from the threshold are right."""
    return open_visits(budget=Budget(epsilon=1000), **changes)


def scores(curator: Curator, sql: str, threshold: int = 0, **session: Any) -> Fraction:
    """The exact score of a question, as the run sees it."""
    watch = curator.watch(threshold=threshold, epsilon=0.01, **session)
    plan = watch._planned(sql)
    return score(plan, exact_cells(curator._engine, plan), watch.threshold)


def test_a_session_is_charged_in_full_before_any_row_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """lecture:L19 one charge for all answers, and belows cost nothing more."""
    curator = rich()
    spy = Spy(curator, monkeypatch)
    watch = curator.watch(threshold=10_000, answers=3, epsilon=100, analyst="ann")
    entry = list(curator.ledger.entries())[-1]
    assert (watch.cost.amount, curator.budget.spent.amount, spy.queries) == (100, 100, [])
    assert (entry.seq, entry.analyst) == (watch.entry, "ann")
    assert entry.remark("watch") == {"threshold": "10000", "answers": 3}
    assert [watch.above(ROWS) for _ in range(20)] == [False] * 20
    assert (curator.budget.spent.amount, watch.left, len(spy.queries)) == (100, 3, 20)


def test_a_session_that_does_not_fit_is_refused_without_a_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = open_visits()
    spy = Spy(curator, monkeypatch)
    with pytest.raises(BudgetExceeded):
        curator.watch(threshold=10, epsilon=2)
    assert (curator.budget.spent.amount, spy.queries) == (0, [])


def test_a_session_says_above_as_often_as_was_paid_for_and_halts(monkeypatch: pytest.MonkeyPatch) -> None:
    """lecture:L19"""
    curator = rich()
    watch = curator.watch(threshold=60, answers=2, epsilon=500)
    assert [watch.above(q) for q in (WOMEN, ROWS, WOMEN, ROWS)] == [False, True, False, True]
    spy = Spy(curator, monkeypatch)
    assert watch.halted
    with pytest.raises(Halted, match="as often as was paid for"):
        watch.above(WOMEN)
    assert spy.queries == []


def test_counts_and_sums_share_a_session_in_the_units_of_their_answers() -> None:
    """80 rows, costs of 1,690: above 1,000 the one and not the other, in SQL and as an expression."""
    curator = rich()
    watch = curator.watch(threshold=1000, answers=2, epsilon=900)
    visits = curator.table("visits")
    assert [watch.above(q) for q in (ROWS, visits.count(), COSTS, visits.cost.sum())] == [False, False, True, True]


@pytest.mark.parametrize("sql", [ROWS, WOMEN, COSTS, "SELECT COUNT(DISTINCT pid) AS n FROM visits"])
@pytest.mark.parametrize("side", [-1, 1])
def test_answers_beyond_the_margin_are_right(sql: str, side: int) -> None:
    curator = rich()
    true = {ROWS: 80, WOMEN: 40, COSTS: sum(i % 50 + 0.5 for i in range(80))}.get(sql, 40)
    far = curator.watch(threshold=0, epsilon=3).margin(sql, SURE)
    watch = curator.watch(threshold=true - side * far, epsilon=3)
    assert watch.above(sql) is (side > 0)


def test_the_margin_is_in_reaches_of_the_question() -> None:
    watch = open_visits().watch(threshold=0, epsilon=1)
    one = watch.margin("SELECT COUNT(DISTINCT pid) AS n FROM visits")
    assert 5 < one < 12
    assert [watch.margin(q) / one for q in (ROWS, COSTS)] == pytest.approx([2, 200], rel=1e-6)


def without(unit: int) -> pa.Table:
    table = frame()
    return table.filter(pa.array([pid != unit for pid in table.column("pid").to_pylist()]))


def heavy() -> pa.Table:
    """The visits, where the first person has a thousand rows at a cost beyond its bounds."""
    more = frame(1).slice(0, 1).set_column(4, "cost", pa.array([1e9]))
    return pa.concat_tables([frame(), *[more] * 1000])


@pytest.mark.parametrize("table", [frame, heavy], ids=["plain", "heavy"])
@pytest.mark.parametrize("sql", [ROWS, WOMEN, COSTS, "SELECT SUM(age) AS a FROM visits WHERE cost > 3"])
def test_one_unit_raises_every_score_by_at_most_one(table: Callable[[], pa.Table], sql: str) -> None:
    """lecture:L19 what the mechanism asks for, exactly, for counts and sums alike and whatever the threshold."""
    with_all, with_less = table(), table().filter(pa.array([pid != 0 for pid in table().column("pid").to_pylist()]))
    moves = [scores(open_visits(with_all), sql, t) - scores(open_visits(with_less), sql, t) for t in (0, 77, -3)]
    assert all(0 <= move <= 1 for move in moves)
    assert len(set(moves)) == 1


def test_a_full_unit_moves_a_score_by_exactly_one() -> None:
    """The scale is tight: a person with as many rows as may count moves it by the whole sensitivity."""
    assert scores(open_visits(), ROWS) - scores(open_visits(without(0)), ROWS) == 1
    assert scores(open_visits(heavy()), COSTS) - scores(open_visits(without(0)), COSTS) == 1


def test_without_the_division_by_reach_a_score_would_move_by_more_than_one() -> None:
    """The planted fault: a cell as it is goes beyond the sensitivity of the mechanism."""
    full, less = open_visits(), open_visits(without(0))
    plan = full.watch(threshold=0, epsilon=0.01)._planned(ROWS)
    cells = [int(exact_cells(curator._engine, plan).cells[0][0][0]) for curator in (full, less)]
    assert cells[0] - cells[1] == 2


@pytest.mark.parametrize("signed", [False, True], ids=["raising", "signed"])
@pytest.mark.parametrize("answers", [1, 3])
@pytest.mark.parametrize(
    "budget", [Budget(epsilon=1), Budget(epsilon=1, delta=Fraction(1, 10**6))], ids=["pure", "zcdp"]
)
def test_the_noise_of_a_session_pays_for_a_move_by_one(budget: Budget, answers: int, signed: bool) -> None:
    """lecture:L19 the crossing lemma in exact numbers: a move by one is at most d ticks, and d ticks cost epsilon."""
    watch = open_visits(budget=budget).watch(threshold=7, epsilon=0.5, answers=answers, signed=signed)
    crossing, moved = watch.session.mechanism.crossing, (2 if signed else 1) * watch.session.mechanism.answers
    d = crossing.ticks.sensitivity
    assert watch.session.answers == watch.left == answers
    assert d / crossing.bar_scale + moved * d / crossing.query_scale <= watch.session.mechanism.epsilon
    for start in (Fraction(0), Fraction(1, 3), Fraction(-22, 7), crossing.ticks.step / 2):  # type: ignore[operator]
        assert crossing.ticks.read(start + 1) - crossing.ticks.read(start) <= d
    assert budget.cost(Pure(watch.session.mechanism.epsilon) * watch.session.runs) == watch.cost


def test_threads_share_the_answers_of_a_session() -> None:
    curator = rich()
    watch = curator.watch(threshold=10, answers=3, epsilon=900)

    def ask(_: int) -> bool | None:
        try:
            return watch.above(ROWS)
        except Halted:
            return None

    with ThreadPoolExecutor(4) as threads:
        said = list(threads.map(ask, range(12)))
    assert (said.count(True), said.count(None)) == (3, 9)


REFUSED = {
    "grouped": "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex",
    "mean": "SELECT AVG(cost) AS m FROM visits",
    "two": "SELECT COUNT(*) AS n, SUM(cost) AS c FROM visits",
    "arithmetic": "SELECT COUNT(*) + 5 AS n FROM visits",
    "twice": "SELECT COUNT(*) AS n, COUNT(*) AS m FROM visits",
    "distinct": "SELECT COUNT(DISTINCT age) AS n FROM visits",
    "median": "SELECT MEDIAN(age) AS n FROM visits",
    "having": "SELECT COUNT(*) AS n FROM visits HAVING COUNT(*) > 3",
    "limit": "SELECT COUNT(*) AS n FROM visits LIMIT 1",
    "rows": "SELECT name FROM visits",
    "signed": "SELECT SUM(cost - 50) AS c FROM visits",
}


@pytest.mark.parametrize("sql", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_watched_is_refused_and_the_session_goes_on(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    curator = rich()
    watch = curator.watch(threshold=10, epsilon=500)
    spy = Spy(curator, monkeypatch)
    with pytest.raises(Refused, match="Nothing was charged"):
        watch.above(sql)
    assert (spy.queries, curator.budget.spent.amount) == ([], 500)
    assert watch.above(ROWS)


def test_a_signed_session_watches_sums_that_a_unit_may_lower() -> None:
    """Such a session has more noise, since scores may move both ways."""
    curator = rich()
    plain, signed = (curator.watch(threshold=0, epsilon=100, signed=signed) for signed in (False, True))
    assert not signed.above("SELECT SUM(cost - 100) AS c FROM visits")
    assert signed.margin(ROWS) > 1.2 * plain.margin(ROWS)
    move = scores(open_visits(), "SELECT SUM(cost - 100) AS c FROM visits", signed=True)
    assert -1 <= move - scores(open_visits(without(0)), "SELECT SUM(cost - 100) AS c FROM visits", signed=True) < 0


def test_a_failing_engine_ends_the_session_with_one_sentence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """gate:G34 threat:A12 a failure may depend on the rows, so there is one a session at most."""
    curator = rich()
    watch = curator.watch(threshold=10, epsilon=500, answers=5)

    def broken(_: Any) -> None:
        raise RuntimeError(CANARY)

    with monkeypatch.context() as patch:
        patch.setattr(curator._engine, "fetch", broken)
        with pytest.raises(EngineFailed) as caught:
            watch.above(ROWS)
    words = str(caught.value).replace(caught.value.incident, "#")
    assert words == "The engine could not finish this question (incident #). The price stays charged."
    assert (caught.value.__cause__, caught.value.__context__, CANARY in caplog.text) == (None, None, False)
    assert (watch.halted, curator.budget.spent.amount) == (True, 500)
    with pytest.raises(Halted, match="a question failed"):
        watch.above(ROWS)


def test_an_interrupt_ends_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can tell how far the answer had come, so there is no second look."""
    curator = rich()
    watch = curator.watch(threshold=10, epsilon=500, answers=5)

    def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(curator._engine, "fetch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            watch.above(ROWS)
    assert watch.halted
    with pytest.raises(Halted, match="a question failed"):
        watch.above(ROWS)


def test_a_signal_handler_that_asks_the_session_is_refused_and_not_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = rich()
    watch = curator.watch(threshold=10, epsilon=500, answers=5)
    cells = curator._engine.fetch

    def interrupted(asked: Any) -> Any:
        with pytest.raises(Halted, match="in the middle of a question"):
            watch.above(ROWS)
        return cells(asked)

    with monkeypatch.context() as patch:
        patch.setattr(curator._engine, "fetch", interrupted)
        assert watch.above(ROWS)
    assert watch.left == 4
    assert watch.above(ROWS)


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"])
def test_a_session_cannot_be_copied(take: Callable[[Any], Any]) -> None:
    watch = open_visits().watch(threshold=10, epsilon=1)
    with pytest.raises(Misconfigured, match="cannot be copied"):
        take(watch)


FORK = """
import os, sys, warnings
import pyarrow as pa
from lapwing.curator import open_data
from lapwing.errors import Halted
from lapwing.privacy import Budget
warnings.simplefilter("ignore")
curator = open_data(pa.table({"x": [1] * 50}), name="t", unit=None, budget=Budget(epsilon=1000))
watch = curator.watch(threshold=10, epsilon=900)
watch._lock.acquire()  # as if another thread were asking
reader, writer = os.pipe()
if not os.fork():
    try:
        said = str(watch.above("SELECT COUNT(*) AS n FROM t"))
    except Halted as refusal:
        said = str(refusal)
    os.write(writer, said.encode())
    os._exit(0)
os.close(writer)
watch._lock.release()
with os.fdopen(reader) as pipe:
    print(pipe.read(), watch.above("SELECT COUNT(*) AS n FROM t"))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_process_cannot_go_on_with_a_session() -> None:
    """A real fork, while another thread asks: the child is told so, and the parent goes on."""
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60, check=True)
    again = "Start another with curator.watch(...), and pay for it."
    assert done.stdout == f"This session belongs to the process that started it. {again} True\n"


def test_changed_data_are_not_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ledger:B4 the version is checked at every question."""
    curator = open_visits(write_visits(tmp_path), budget=Budget(epsilon=1000))
    watch = curator.watch(threshold=10, epsilon=500, answers=2)
    assert watch.above(ROWS)
    spy = Spy(curator, monkeypatch)
    write_visits(tmp_path, people=41)
    with pytest.raises(Misconfigured) as caught:
        watch.above(ROWS)
    assert (str(caught.value), spy.queries) == (watch_module.CHANGED, [])
    assert "The price of the session stays charged" in str(caught.value)
    spent = curator.budget.spent
    with pytest.raises(Misconfigured, match="Nothing was charged"):
        curator.watch(threshold=10, epsilon=100)
    assert curator.budget.spent == spent
    assert watch.left == 1  # no row was read, so the session is as it was


@pytest.mark.parametrize("accounting", ["zcdp", "basic"])
def test_a_session_never_costs_more_than_its_price(accounting: str) -> None:
    """Under zCDP a pure epsilon costs half its square; the session takes the largest that its price pays for."""
    budget = Budget(epsilon=2, delta=Fraction(1, 10**6), accounting=accounting)
    curator = open_visits(budget=budget)
    watch = curator.watch(threshold=10, epsilon=1)
    price, epsilon = budget.cost(budget.price(epsilon=1)), watch.session.mechanism.epsilon
    assert watch.cost == budget.cost(watch.session.loss) == curator.budget.spent
    assert price.amount * (1 - Fraction(1, 10**15)) < watch.cost.amount <= price.amount
    assert watch.cost.amount == pytest.approx(float(epsilon**2 / 2 if accounting == "zcdp" else epsilon))


@pytest.mark.parametrize("answers", [1, 3, 10])
def test_under_zcdp_each_answer_has_a_run_of_its_own(answers: int) -> None:
    """Together they cost no more than the price; and they halt together."""
    budget = Budget(epsilon=2000, delta=Fraction(1, 10**6))
    curator = open_visits(budget=budget)
    watch = curator.watch(threshold=60, epsilon=1900, answers=answers)
    assert (watch.session.runs, watch.session.mechanism.answers) == (answers, 1)
    assert watch.cost.amount == answers * watch.session.mechanism.epsilon**2 / 2 <= budget.price(epsilon=1900).rho  # type: ignore[union-attr]
    said = [watch.above(question) for _ in range(answers) for question in (WOMEN, ROWS)]
    assert (said, watch.halted) == ([False, True] * answers, True)
    with pytest.raises(Halted):
        watch.above(WOMEN)


def test_runs_of_their_own_are_more_exact_under_zcdp() -> None:
    """Ten answers among a hundred questions: 29 % less than one run at the same rho."""
    session = (
        open_visits(budget=Budget(epsilon=2, delta=Fraction(1, 10**6)))
        .watch(threshold=0, epsilon=1, answers=10)
        .session
    )
    rho = float(session.loss.to_zcdp().rho)
    one = GeometricSparse(
        threshold=0, epsilon=math.sqrt(2 * rho), answers=10, queries=100, monotone=True, reals=True
    ).error(0.95)
    assert 0.65 < session.error(0.95) / one < 0.75


def test_a_session_at_the_whole_budget_fits_into_it() -> None:
    curator = open_visits(budget=Budget(epsilon=2, delta=Fraction(1, 10**6)))
    curator.watch(threshold=10, epsilon=2)
    with pytest.raises(BudgetExceeded):
        curator.sql(ROWS, epsilon=0.1)
    assert curator.budget.spent.fits(curator.ledger.total)


@pytest.mark.parametrize(
    "bad",
    [{"epsilon": 0}, {"answers": 0}, {"threshold": "x"}, {"queries": 0}, {"signed": 1}],
    ids=lambda bad: str(*bad),
)
def test_bad_parameters_are_told_before_the_charge(bad: dict[str, Any]) -> None:
    curator = open_visits()
    with pytest.raises(Misconfigured):
        curator.watch(**{"threshold": 10, "epsilon": 1, **bad})
    assert curator.budget.spent.amount == 0


def test_the_step_of_a_watched_sum_is_fine_against_the_noise() -> None:
    """Rounding drowns in the noise: a step is a tiny part of what one unit may add."""
    curator = open_visits()
    watch = curator.watch(threshold=0, epsilon=1)
    plan = plan_watched(watch._read(COSTS), watch.session.mechanism)  # type: ignore[arg-type]
    assert plan.measures[0].sensitivity > 10**6  # type: ignore[union-attr]
