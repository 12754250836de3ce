"""Questions whose bounds or limits are found first: two charges that make one price, stored and safe to repeat."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lapwing.curator import Curator, load, open_data
from lapwing.curator.pipeline import Pipeline
from lapwing.curator.search import choose_result, price_of_each
from lapwing.data import health
from lapwing.errors import BudgetExceeded, EngineFailed, LedgerFailed, Misconfigured, Refused
from lapwing.expressions.table import Limit
from lapwing.ledger import Ledger
from lapwing.plan.bounds_search import BoundsOf, SearchResult
from lapwing.privacy import Budget
from lapwing.privacy.budget import Accounting, Cost
from support.visits import CANARY, Spy, crowd, frame, open_visits, write_visits

PURE, ZCDP, BASIC = Budget(epsilon=8), Budget(epsilon=8, delta=1e-6), Budget(8, 1e-6, accounting="basic")
pytestmark = pytest.mark.usefixtures("seeded")
BUDGETS = pytest.mark.parametrize("budget", [PURE, ZCDP, BASIC], ids=lambda budget: budget.accounting.value)

TOTAL = "SELECT SUM(cost) AS s FROM visits"
BEYOND = "(units beyond: at most 1 of about 40, 95% sure)"
ASIDE = BEYOND.replace("40,", "40 on a side,")
BOTH = "SELECT sex, SUM(cost) AS s, SUM(age) AS a FROM visits GROUP BY sex"


def opened(data: Any = None, budget: Budget = PURE, **changes: Any) -> Curator:
    facts = {"name": "visits", "unit": "pid", "rows_per_unit": 2, "values": {"sex": ["F", "M"]}, "check": 0, **changes}
    fresh = {} if isinstance(data, Path) else {"ledger": ":memory:"}
    return open_data(crowd() if data is None else data, budget=budget, **fresh, **facts)


def charges(curator: Curator) -> list[Fraction]:
    return [Fraction(entry.amount) for entry in curator.ledger.entries() if entry.kind == "reserve"]


def price(budget: Budget, epsilon: float = 1) -> Fraction:
    return budget.cost(budget.price(epsilon=epsilon)).amount


@BUDGETS
def test_bounds_and_answer_cost_the_price_exactly(budget: Budget) -> None:
    """Two durable charges; in the currency of the budget they are the price to the last digit."""
    curator = opened(budget=budget)
    answer = curator.sql(TOTAL, epsilon=1, bounds="auto")
    finding, rest = charges(curator)
    assert finding + rest == answer.cost.amount == curator.budget.spent.amount == price(budget)
    assert Fraction(349, 1000) < finding / price(budget) <= Fraction(35, 100)
    assert answer.plan.loss == answer.plan.prices.loss
    assert budget.cost(answer.plan.loss).amount == rest


@BUDGETS
@pytest.mark.parametrize("share", [0.1, 0.9])
def test_several_findings_share_their_part(budget: Budget, share: float) -> None:
    curator = opened(budget=budget, rows_per_unit=None)
    answer = curator.sql(BOTH, epsilon=0.7, bounds="auto", limits="auto", find_share=share)
    *parts, rest = charges(curator)
    assert [type(found.target).__name__ for found in answer.found] == ["BoundsOf", "BoundsOf", "LimitOf", "LimitOf"]
    assert len(parts) == 4
    assert len(set(parts)) == 1
    assert sum(parts) + rest == price(budget, 0.7)
    assert sum(parts) <= Fraction(str(share)) * price(budget, 0.7)


def test_each_charge_is_durable_before_its_rows_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """ledger:B1 for the finding and for the answer."""
    curator = opened()
    spent: list[Fraction] = []
    inner = curator._engine.fetch
    monkeypatch.setattr(
        curator._engine, "fetch", lambda query: (spent.append(curator.ledger.spent.amount), inner(query))[1]
    )
    curator.sql(TOTAL, epsilon=1, bounds="auto")
    assert spent == [Fraction(35, 100), Fraction(1)]


def test_the_same_question_is_free_and_the_next_has_the_bounds_for_nothing() -> None:
    curator = opened()
    first = curator.sql(TOTAL, epsilon=1, bounds="auto")
    again = curator.sql(TOTAL, epsilon=1, bounds="auto")
    assert (again.entry, again.cost.amount, again.found) == (first.entry, 0, first.found)
    other = curator.sql("SELECT AVG(cost) AS m FROM visits", epsilon=1, bounds="auto")
    assert charges(curator) == [Fraction(35, 100), Fraction(65, 100), 1]
    assert other.found == first.found
    (found,) = first.found
    assert isinstance(found.target, BoundsOf)
    assert f"clipped to {found.target.interval(*found.powers)}" in str(other.plan.measures[0].kind)


def test_the_preview_says_what_is_found_first_and_charges_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = opened()
    spy = Spy(curator, monkeypatch)
    seen = curator.preview(TOTAL, epsilon=1, bounds="auto")
    assert seen.cost == Cost(Accounting.PURE, 1)
    assert seen.missing == ("the bounds of `cost` in `visits`",)
    assert not seen.errors
    assert seen.to_dict()["finds_first"] == list(seen.missing)
    assert f"Finds {seen.missing[0]} first" in str(seen)
    assert "cannot be told before" in seen.explain()
    assert "cannot be told before" in seen.to_dict()["explained"]
    assert not spy.queries
    assert charges(curator) == []
    curator.sql(TOTAL, epsilon=1, bounds="auto")
    after = curator.preview(TOTAL, epsilon=1, bounds="auto")
    assert after.stored
    assert after.errors
    assert curator.preview(TOTAL, within=1, bounds="auto").missing == ()


def test_the_answer_says_what_was_found_and_at_which_price() -> None:
    answer = opened(frame(), budget=Budget(epsilon=600)).sql(TOTAL, epsilon=200, bounds="auto")
    words = "the bounds of `cost` in `visits`, [0, 64], where values are clipped"
    what = f"{words} {ASIDE}"
    assert f"Found privately at epsilon = 70: {what}." in answer.methods()
    assert f"Found privately at epsilon = 70: {what}." in answer.explain()
    assert f"\nFound privately: {words}. Intervals do not cover what that cuts." in str(answer)
    assert "Intervals do not cover what that cuts." in answer.methods()
    assert answer.to_dict()["found"] == [{"what": what, "epsilon": 70.0, "relied_on": True}]
    assert "null_because" not in answer.to_dict()
    assert abs(answer.to_arrow().column("s")[0].as_py() - sum(frame().column("cost").to_pylist())) < 10


def test_bounds_of_real_data_are_sensible() -> None:
    """Visits to doctors: nobody has 100 in a year, half of all people have 3 or more in some year."""
    curator = open_data(
        health(), name="h", unit="person", rows_per_unit=5, types={"visits": "integer"}, ledger=":memory:", budget=ZCDP
    )
    answer = curator.sql("SELECT AVG(visits) AS m FROM h", epsilon=1, bounds="auto")
    (found,) = answer.found
    assert isinstance(found.target, BoundsOf)
    assert found.target.interval(*found.powers).low == 0
    assert 7 <= found.target.interval(*found.powers).high <= 63
    assert 2 < answer.to_arrow().column("m")[0].as_py() < 3.2


class TestKeys:
    """A retry with the same key pays once and never runs anything again."""

    @pytest.mark.parametrize("budget", [PURE, ZCDP], ids=lambda budget: budget.accounting.value)
    def test_a_retry_gives_the_same_answer_for_nothing(self, budget: Budget) -> None:
        curator = opened(budget=budget)
        first = curator.sql(TOTAL, epsilon=1, bounds="auto", key="a")
        again = curator.sql(TOTAL, epsilon=1, bounds="auto", key="a")
        assert (again.entry, again.cost.amount) == (first.entry, 0)
        assert len(charges(curator)) == 2
        another = curator.sql(TOTAL, epsilon=1, bounds="auto", key="b", refresh=True)
        assert another.cost.amount == price(budget)
        assert curator.sql(TOTAL, epsilon=1, bounds="auto", key="b").entry == another.entry

    def test_a_retry_after_the_finding_pays_the_rest(self, monkeypatch: pytest.MonkeyPatch) -> None:
        curator = opened()
        with monkeypatch.context() as patch:
            patch.setattr(Pipeline, "_pay", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                curator.sql(TOTAL, epsilon=1, bounds="auto", key="a")
        answer = curator.sql(TOTAL, epsilon=1, bounds="auto", key="a")
        assert charges(curator) == [Fraction(35, 100), Fraction(65, 100)]
        assert answer.cost.amount == Fraction(65, 100)

    def test_a_finding_without_an_answer_is_not_run_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        curator = opened()
        with monkeypatch.context() as patch:
            patch.setattr(Ledger, "settle_all", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                curator.sql(TOTAL, epsilon=1, bounds="auto", key="a")
        spy = Spy(curator, monkeypatch)
        with pytest.raises(LedgerFailed, match="not run again"):
            curator.sql(TOTAL, epsilon=1, bounds="auto", key="a")
        assert not spy.queries
        assert charges(curator) == [Fraction(35, 100)]
        assert curator.sql(TOTAL, epsilon=1, bounds="auto", key="b").cost.amount == 1

    def test_a_key_belongs_to_one_price(self) -> None:
        curator = opened()
        curator.sql(TOTAL, epsilon=1, bounds="auto", key="a")
        with pytest.raises(Misconfigured, match="another question"):
            curator.sql(TOTAL, epsilon=7, bounds="auto", key="a")
        assert len(charges(curator)) == 2


def _interrupted(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


class TestRefusals:
    """All before the first charge, and without a look at the rows."""

    @pytest.mark.parametrize(
        ("sql", "terms", "error"),
        [
            (TOTAL, {"epsilon": 9, "bounds": "auto"}, BudgetExceeded),
            (TOTAL, {"within": 10, "bounds": "auto"}, Refused),
            (TOTAL, {"bounds": "auto"}, Misconfigured),
            (TOTAL, {"epsilon": 1, "within": 1, "bounds": "auto"}, Refused),
            (TOTAL, {"epsilon": 1, "bounds": "wide"}, Misconfigured),
            (TOTAL, {"epsilon": 1, "limits": "wide"}, Misconfigured),
            (TOTAL, {"epsilon": 1, "bounds": "auto", "find_share": 1}, Misconfigured),
            (TOTAL, {"epsilon": 1, "limits": "auto"}, Refused),
            (TOTAL, {"epsilon": 1, "bounds": "auto", "combine": True}, Misconfigured),
            (TOTAL, {"epsilon": 1, "bounds": "auto", "confidence": 2}, Misconfigured),
            ("SELECT name, SUM(cost) AS s FROM visits GROUP BY name", {"epsilon": 1, "bounds": "auto"}, Refused),
            ("SELECT SUM(1 / cost) AS s FROM visits", {"epsilon": 1, "bounds": "auto"}, Refused),
        ],
        ids=range(12),
    )
    def test_a_refusal_charges_nothing(
        self, sql: str, terms: dict[str, Any], error: type[Exception], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        curator = opened()
        spy = Spy(curator, monkeypatch)
        with pytest.raises(error):
            curator.sql(sql, **terms)
        assert not spy.queries
        assert charges(curator) == []

    def test_the_whole_price_must_fit_before_bounds_are_found(self) -> None:
        curator = opened(budget=Budget(epsilon=1))
        curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.5)
        with pytest.raises(BudgetExceeded, match=r"costs epsilon = 0\.6") as caught:
            curator.sql(TOTAL, epsilon=0.6, bounds="auto")
        assert caught.value.remaining.amount == Fraction(1, 2)
        assert charges(curator) == [Fraction(1, 2)]

    def test_an_allowance_is_asked_for_the_whole_price_too(self) -> None:
        curator = opened()
        curator.ledger.allow("ann", Cost(Accounting.PURE, Fraction(1, 2)))
        with pytest.raises(BudgetExceeded, match="allowance of ann"):
            curator.sql(TOTAL, epsilon=0.6, bounds="auto", analyst="ann")
        assert charges(curator) == []

    @pytest.mark.parametrize(
        ("sql", "changes", "words"),
        [
            (TOTAL, {}, 'Or pass bounds="auto": a share'),
            ("SELECT COUNT(*) AS n FROM visits", {"rows_per_unit": None}, 'Or pass limits="auto": a share'),
            (TOTAL, {"rows_per_unit": None}, 'Or pass bounds="auto" and limits="auto": a share'),
        ],
        ids=["bounds", "limits", "both"],
    )
    def test_a_refusal_says_what_can_be_found(self, sql: str, changes: dict[str, Any], words: str) -> None:
        with pytest.raises(Refused, match=words):
            opened(**changes).sql(sql, epsilon=1)
        with pytest.raises(Refused) as caught:
            opened(**changes).sql("SELECT SUM(1 / cost) AS s FROM visits", epsilon=1)
        assert "auto" not in str(caught.value)

    def test_what_was_found_may_refuse_the_answer_and_the_message_says_so(self) -> None:
        """Bounds of 64 beside 2^40 are one number. By the finding, which is public."""
        curator = opened()
        with pytest.raises(Refused, match="remain charged; the answer was not charged"):
            curator.sql("SELECT AVG(cost + 1099511627776) AS m FROM visits", epsilon=1, bounds="auto")
        assert charges(curator) == [Fraction(35, 100)]

    def test_a_session_watches_declared_bounds_only(self) -> None:
        watch = opened(bounds={"cost": "auto"}).watch(threshold=5, epsilon=1)
        with pytest.raises(Refused, match="declare bounds"):
            watch.above(TOTAL)


def test_an_engine_that_fails_stays_charged_and_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """threat:A12 the message of a failed finding is the constant one."""
    curator = opened()

    def broken(_: Any) -> None:
        raise ValueError(CANARY)

    monkeypatch.setattr(curator._engine, "fetch", broken)
    with pytest.raises(EngineFailed) as caught:
        curator.sql(TOTAL, epsilon=1, bounds="auto")
    assert CANARY not in str(caught.value)
    assert charges(curator) == [Fraction(35, 100)]


def test_a_new_version_is_found_anew(tmp_path: Path) -> None:
    """threat:A7 what was found in older data does not hold for newer ones."""
    path = write_visits(tmp_path, 20_000)
    facts: dict[str, Any] = {"name": "visits", "unit": "pid", "rows_per_unit": 2, "budget": PURE, "check": 0}
    for version in ("1", "2"):
        curator = open_data(path, **facts, version=version)
        curator.sql(TOTAL, epsilon=1, bounds="auto")
        curator.close()
        pq.write_table(frame(20_050), path)
    assert charges(open_data(path, **facts, version="3")) == [Fraction(35, 100), Fraction(65, 100)] * 2


def test_changed_data_are_refused_before_anything_is_found(tmp_path: Path) -> None:
    curator = opened(write_visits(tmp_path))
    pq.write_table(frame(50), tmp_path / "visits.parquet")
    with pytest.raises(Misconfigured, match="changed without a new version"):
        curator.sql(TOTAL, epsilon=1, bounds="auto")
    assert charges(curator) == []


def test_rows_as_units_need_no_limits() -> None:
    curator = open_data(frame(), name="visits", unit=None, ledger=":memory:", budget=Budget(epsilon=300))
    answer = curator.sql("SELECT SUM(age) AS s, COUNT(*) AS n FROM visits", epsilon=100, bounds="auto", limits="auto")
    assert [str(found) for found in answer.found] == [
        f"the bounds of `age` in `visits`, [0, 127], where values are clipped {ASIDE.replace('40', '80')}"
    ]


def test_limits_are_found_where_they_are_asked_for() -> None:
    curator = opened(frame(), budget=Budget(epsilon=900), rows_per_unit=None)
    answer = curator.sql("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex", epsilon=300, limits="auto")
    assert [str(found) for found in answer.found] == [
        f"a limit for the rows of one unit in a group of `visits`, 3 {BEYOND}",
        f"a limit for the groups of one unit of `visits`, 1 {BEYOND}",
    ]
    assert (answer.plan.table.row_limit, answer.plan.groups_per_unit, answer.plan.outline.limit_groups) == (3, 1, True)
    assert answer.to_arrow().column("n").to_pylist() == [40, 40]


@pytest.mark.parametrize(
    ("sql", "many"),
    [
        ("SELECT SUM(a.cost) AS s FROM visits a JOIN visits b USING (pid)", 1),
        ("SELECT AVG(s) AS m FROM (SELECT pid, SUM(cost) AS s FROM visits GROUP BY pid)", 1),
        ("SELECT SUM(x) AS m FROM (SELECT cost AS x FROM visits UNION ALL SELECT age AS x FROM visits)", 2),
        ("WITH v AS (SELECT cost * 2 AS c FROM visits WHERE age > 3) SELECT AVG(c) AS m, MEDIAN(c) AS d FROM v", 1),
    ],
    ids=["join", "per-unit", "union", "with"],
)
def test_bounds_reach_a_question_through_every_relation(sql: str, many: int) -> None:
    curator = opened()
    answer = curator.sql(sql, epsilon=1, bounds="auto")
    assert len(answer.found) == many
    assert sum(charges(curator)) == 1
    assert curator.sql(sql, epsilon=1, bounds="auto").cost.amount == 0


def test_a_question_of_ibis_finds_the_same_bounds() -> None:
    curator = opened()
    visits = curator.table("visits")
    first = curator.ask(visits.agg(s=visits.cost.sum()), epsilon=1, bounds="auto")
    assert curator.sql(TOTAL, epsilon=1, bounds="auto").entry == first.entry
    assert curator.preview(visits.agg(s=visits.cost.sum()), epsilon=1, bounds="auto").stored


def test_joined_answers_keep_the_bounds_of_the_first() -> None:
    curator = opened()
    curator.sql(TOTAL, epsilon=1, bounds="auto")
    joined = curator.sql(TOTAL, epsilon=1, bounds="auto", refresh=True, combine=True)
    assert joined.to_dict()["ledger_entries"] == [5, 7]
    assert "Found privately at" in joined.methods()
    assert joined.cost.amount == 1


def test_an_answer_without_rows_is_stored_too() -> None:
    curator = opened(budget=ZCDP, groups_per_unit=1)
    sql = "SELECT name, SUM(cost) AS s FROM visits GROUP BY name"
    first = curator.sql(sql, epsilon=0.1, bounds="auto")
    assert len(first) == 0
    assert curator.sql(sql, epsilon=0.1, bounds="auto").entry == first.entry


class TestDeclared:
    """What a steward leaves open in lapwing.toml or in lw.open."""

    def test_open_reads_auto(self) -> None:
        curator = opened(bounds={"cost": "auto", "age": (0, 120)}, rows_per_unit="auto", groups_per_unit="auto")
        (table,) = curator.catalog.tables
        assert table.auto == frozenset(Limit)
        assert (table.rows_per_unit, table.field("cost").auto, table.field("age").auto) == (None, True, False)
        answer = curator.sql(TOTAL, epsilon=1)
        assert len(answer.found) == 2
        assert curator.sql("SELECT COUNT(DISTINCT pid) AS n FROM visits WHERE cost > 3", epsilon=1).found == ()

    def test_the_file_reads_auto(self, tmp_path: Path) -> None:
        write_visits(tmp_path, 20_000)
        (tmp_path / "lapwing.toml").write_text(
            '[budget]\nepsilon = 2\n[tables.visits]\nsource = "visits.parquet"\nunit = "pid"\nrows_per_unit = "auto"\n'
            '[tables.visits.columns]\npid = { type = "integer" }\ncost = { type = "real", bounds = "auto" }\n'
        )
        curator = load(tmp_path / "lapwing.toml")
        (table,) = curator.catalog.tables
        assert (table.auto, table.field("cost").auto) == (frozenset({Limit.ROWS}), True)
        assert len(curator.sql(TOTAL, epsilon=1).found) == 2

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"bounds": {"sex": "auto"}}, "for numbers"),
            ({"bounds": {"cost": "wide"}}, "two numbers"),
            ({"rows_per_unit": "many"}, "rows_per_unit"),
            ({"unit_bounds": {"cost": "auto"}}, "two numbers"),
        ],
        ids=range(4),
    )
    def test_what_cannot_be_found_is_refused(self, changes: dict[str, Any], words: str) -> None:
        with pytest.raises(Misconfigured, match=words):
            opened(**changes)


class TestServing:
    """Which stored finding a question uses."""

    def found(self, *epsilons: str) -> list[SearchResult]:
        (table,) = opened().catalog.tables
        target = BoundsOf(table, table.field("cost"))
        return [SearchResult(target, Fraction(epsilon), (-20, place)) for place, epsilon in enumerate(epsilons)]

    def test_the_oldest_that_cost_a_quarter_serves_for_ever(self) -> None:
        findings = self.found("0.01", "0.3", "5")
        assert [choose_result(findings[:many], Fraction(1)) for many in (0, 1)] == [None, None]
        assert choose_result(findings[:2], Fraction(1)) == choose_result(findings, Fraction(1)) == findings[1]
        assert choose_result(findings, Fraction(1, 25)) == findings[0]
        assert choose_result(findings, Fraction(21)) is None

    def test_without_a_price_the_dearest_serves(self) -> None:
        findings = self.found("0.01", "5", "0.3", "5")
        assert choose_result(findings, None) == findings[1]
        assert choose_result([], None) is None

    def test_a_cheap_finding_spoils_nothing(self) -> None:
        curator = opened()
        curator.sql(TOTAL, epsilon=0.001, bounds="auto", analyst="eve")
        answer = curator.sql(TOTAL, epsilon=1, bounds="auto", analyst="ann")
        assert charges(curator)[1:] == [Fraction(35, 100), Fraction(65, 100)]
        assert answer.found[0].epsilon == Fraction(35, 100)

    def test_prices_under_zcdp_are_short_decimals(self) -> None:
        for epsilon in (0.001, 0.3, 7.5):
            each = price_of_each(ZCDP.price(epsilon=epsilon), Fraction(1, 3), 3)
            assert 10**18 % each.denominator == 0
            rho = price(ZCDP, epsilon) / 9
            assert each**2 / 2 <= rho
            assert (each + Fraction(1, 10**18)) ** 2 / 2 > rho

    @pytest.mark.parametrize(("delta", "epsilon"), [(0, 1e-18), (0, 1e6), (1e-30, 1e-18), (1e-30, 1e-300)])
    def test_a_price_that_finds_nothing_is_refused(self, delta: float, epsilon: float) -> None:
        curator = opened(budget=Budget(1e7, delta))
        with pytest.raises(Misconfigured, match="too small or too large"):
            curator.sql(TOTAL, epsilon=epsilon, bounds="auto")
        assert charges(curator) == []


@pytest.mark.parametrize(
    ("price", "fits"), [(Fraction(1, 4), True), (Fraction(1, 2), True), (Fraction(51, 100), False)]
)
def test_a_question_that_finds_bounds_is_held_to_its_allowance(price: Fraction, fits: bool) -> None:
    """What is found and the answer together: up to the last bit of the allowance it is answered, beyond it nothing is
    charged, not even for finding."""
    curator = open_visits(crowd(), budget=Budget(epsilon=10))
    curator.ledger.allow("ann", Cost(Accounting.PURE, Fraction(3, 4)))
    curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.25, analyst="ann")
    ask = partial(curator.sql, "SELECT SUM(site) AS s FROM visits", epsilon=price, bounds="auto", analyst="ann")
    if fits:
        assert ask().cost.amount == price
        assert curator.ledger.spent_by("ann").amount == Fraction(1, 4) + price
    else:
        with pytest.raises(BudgetExceeded, match=r"is left of the allowance of ann\. Nothing was charged"):
            ask()
        assert curator.ledger.spent_by("ann").amount == Fraction(1, 4)
