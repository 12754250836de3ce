"""How much limits cut: part of the price, stored, served to every filter over the same keys, and said in words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lapwing as lw
from lapwing.answers.warnings import HIGHER, NO_SIGN
from lapwing.curator import Curator, load
from lapwing.errors import BudgetExceeded, EngineFailed, LedgerFailed, Misconfigured
from lapwing.plan.add_noise import Arranged, release
from lapwing.plan.plan import Plan
from support.visits import Spy, frame, open_visits, write_visits

PURE, ZCDP = lw.Budget(epsilon=20), lw.Budget(epsilon=20, delta=1e-6)
BASIC = lw.Budget(epsilon=20, delta=1e-6, accounting="basic")
BUDGETS = {"pure": PURE, "zcdp": ZCDP, "basic": BASIC}
pytestmark = pytest.mark.usefixtures("seeded")

TOTAL, BY_SEX = "SELECT COUNT(*) AS n FROM visits", "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"


def opened(budget: lw.Budget = PURE, data: Any = None, **changes: Any) -> Curator:
    return open_visits(frame(50) if data is None else data, budget=budget, **{"check": None, **changes})


def flights(**changes: Any) -> Curator:
    """Planes: half of 800 fly 40 times from each of three airports, half of them 10 times."""
    rows = [(f"N{p}", origin) for p in range(800) for origin in ("EWR", "JFK", "LGA") for _ in range(40 - p % 2 * 30)]
    data = pa.table({"tailnum": [row[0] for row in rows], "origin": [row[1] for row in rows]})
    facts: dict[str, Any] = {"rows_per_unit": 30, "values": {"origin": ["EWR", "JFK", "LGA"]}, "budget": PURE}
    return lw.open(data, name="flights", unit="tailnum", ledger=":memory:", **{**facts, **changes})


def _interrupted(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def reserved(curator: Curator) -> list[Fraction]:
    return [Fraction(entry.amount) for entry in curator.ledger.entries() if entry.kind == "reserve"]


def scales(answer: Any) -> list[float]:
    return [part["scale"] for part in answer.to_dict()["measures"]]


class TestWords:
    def test_flights_by_plane_say_how_many_planes_were_cut(self) -> None:
        answer = flights().sql("SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin", epsilon=20)
        said = answer.notes[-1]
        assert said.startswith(f"{HIGHER}: about ")
        assert "tailnums exceed a limit. Each number is within 7 with 95% confidence." in said
        for shown in (str(answer), answer._repr_html_()):
            assert said.partition(" Each")[0] in shown
        for shown in (answer.explain(), answer.methods(), *json.loads(answer.to_json())["notes"][1:]):
            assert said in shown
        check = answer.to_dict()["check"]
        assert abs(check["units"] - 800) <= 3 * check["within"] == 21
        assert abs(check["exceed"]["the limit on rows"] - 400) <= 21

    def test_a_filter_cuts_at_most_those(self) -> None:
        asked = flights(groups_per_unit=2)
        words = "SELECT origin, COUNT(*) AS n FROM flights WHERE origin <> 'EWR' GROUP BY origin"
        said = asked.sql(words, epsilon=20).notes[-1]
        assert said.startswith("Before WHERE, about ")
        assert "; this filter cuts at most those. Each number is within " in said
        assert "exceed the limit on rows, about " in said
        assert " the limit on groups; " in said
        assert HIGHER not in said

    def test_people_in_four_groups_that_count_in_one(self) -> None:
        data = pa.table({"person": [p for p in range(1000) for _ in "abcd"], "g": list("abcd") * 1000})
        curator = lw.open(
            data, name="people", unit="person", groups_per_unit=1, values={"g": list("abcd")}, budget=ZCDP
        )
        answer = curator.sql("SELECT g, COUNT(DISTINCT person) AS n FROM people GROUP BY g", epsilon=20)
        assert "Counts a person in at most 1 group; the rest is left out." in answer.explain()
        assert answer.notes[-1].startswith(f"{HIGHER}: about ")
        check = answer.to_dict()["check"]
        assert abs(check["exceed"]["the limit on groups"] - 1000) <= check["within"]

    def test_where_the_interval_holds_0_there_is_no_sign(self) -> None:
        strong, weak = (opened(rows_per_unit=3).sql(BY_SEX, epsilon=epsilon).notes[-1] for epsilon in (20, 1))
        assert strong.startswith(f"{NO_SIGN} With 95% confidence at most ")
        assert weak.startswith("The check is too weak to tell what limits cut: any of about ")

    @pytest.mark.parametrize("number", ["AVG(cost)", "SUM(cost)", "COUNT(cost)", "MEDIAN(cost)"])
    def test_no_direction_is_said_of_anything_but_plain_counts(self, number: str) -> None:
        curator = opened(rows_per_unit=1, bounds={"cost": (0, 1)})
        said = curator.sql(f"SELECT {number} AS x FROM visits", epsilon=20).notes[-1]
        assert said.startswith("About ")
        assert HIGHER not in said

    def test_a_count_of_units_is_not_called_higher_for_a_limit_on_rows(self) -> None:
        both = "SELECT sex, COUNT(*) AS n, COUNT(DISTINCT pid) AS p FROM visits GROUP BY sex"
        said = opened(rows_per_unit=1).sql(both, epsilon=20).notes[-1]
        assert (said.startswith("About "), HIGHER in said) == (True, False)


class TestPrice:
    @pytest.mark.parametrize("name", BUDGETS)
    @pytest.mark.parametrize("epsilon", [0.1, 1 / 3, Fraction(1, 3), 7])
    def test_a_check_is_part_of_the_price_and_never_on_top(self, name: str, epsilon: Any) -> None:
        curator = opened(BUDGETS[name])
        price = curator.ledger.budget.cost(curator.ledger.budget.price(epsilon=epsilon))
        assert curator.preview(BY_SEX, epsilon=epsilon).cost == price
        answer = curator.sql(BY_SEX, epsilon=epsilon)
        check, rest = reserved(curator)
        assert answer.cost == curator.ledger.spent == price
        assert check + rest == price.amount
        assert price.amount / 20 - check <= Fraction(1, 10**40)

    @pytest.mark.parametrize("epsilon", [1e-30, 10**9])
    def test_a_price_without_an_answer_is_refused_as_such(self, epsilon: float) -> None:
        with pytest.raises(lw.Refused, match="noise for epsilon"):
            opened(lw.Budget(epsilon=10**10)).preview(BY_SEX, epsilon=epsilon)

    def test_the_whole_budget_pays_for_one_question_with_its_check(self) -> None:
        for budget in BUDGETS.values():
            curator = opened(budget)
            curator.sql(BY_SEX, epsilon=20)
            assert curator.ledger.spent.amount == budget.capacity.amount

    def test_a_precision_costs_a_check_more_and_the_preview_shows_it(self) -> None:
        curator, bare = opened(), opened(check=0)
        plain = bare.preview(TOTAL, within=20).cost.amount
        preview = curator.preview(TOTAL, within=20)
        assert preview.cost.amount == plain * Fraction(21, 20)
        assert "of the price reports clipping; check=0 skips it." in preview.explain()
        curator.sql(TOTAL, within=20)
        assert curator.ledger.spent.amount == plain * Fraction(21, 20)
        assert curator.preview(TOTAL + " WHERE age > 30", within=20).cost.amount == plain

    def test_a_share_can_be_named_and_0_turns_it_off(self, tmp_path: Path) -> None:
        curator = opened()
        curator.sql(BY_SEX, epsilon=1, check=0.1)
        curator.sql(TOTAL, epsilon=1, check=0)
        assert reserved(curator) == [Fraction(1, 10), Fraction(9, 10), 1]
        with pytest.raises(Misconfigured, match="check"):
            curator.sql(TOTAL, epsilon=1, check=1)
        write_visits(tmp_path)
        (tmp_path / "lapwing.toml").write_text(
            'check = 0\n[budget]\nepsilon = 1\n[tables.visits]\nsource = "visits.parquet"\nunit = "pid"\n'
            'rows_per_unit = 2\n[tables.visits.columns]\npid = { type = "integer" }\n'
        )
        steward = load(tmp_path / "lapwing.toml")
        steward.sql(TOTAL, epsilon=0.5)
        assert reserved(steward) == [Fraction(1, 2)]

    @pytest.mark.parametrize(
        ("question", "changes"),
        [
            ("SELECT COUNT(DISTINCT pid) AS n FROM visits", {}),
            ("SELECT sex, COUNT(DISTINCT pid) AS n FROM visits GROUP BY sex", {}),
            (BY_SEX, {"unit": None}),
        ],
    )
    def test_nothing_is_checked_where_no_limit_can_bind(self, question: str, changes: dict[str, Any]) -> None:
        curator = opened(**changes)
        assert curator.sql(question, epsilon=1).check is None
        assert reserved(curator) == [1]

    @pytest.mark.parametrize("number", ["SUM(cost)", "AVG(cost)"])
    def test_rows_as_units_are_checked_for_bounds(self, number: str) -> None:
        curator = opened(unit=None, bounds={"cost": (0, 10)})
        answer = curator.sql(f"SELECT {number} AS x FROM visits", epsilon=20)
        assert list(answer.to_dict()["check"]["exceed"]) == ["the bounds of `cost`"]
        assert "with 95% confidence." in answer.notes[-1]

    def test_twenty_questions_on_four_sets_of_keys_lose_less_than_3_percent(self) -> None:
        """The mean over all questions of how much wider an interval is than without checks."""
        keys = ["", "sex", "site", "sex, site"]
        asked = [f"SELECT COUNT(*) AS n FROM visits WHERE age > {age}" for age in (20, 30, 40, 50, 60)]
        questions = [f"{one} GROUP BY {key}" if key else one for one in asked for key in keys]
        for budget in (lw.Budget(epsilon=100), lw.Budget(epsilon=100, delta=1e-6)):
            curator, bare = (open_visits(frame(50), budget=budget, check=check) for check in (None, 0))
            wider = [
                curator.preview(q, epsilon=1).errors["COUNT(*)"] / bare.preview(q, epsilon=1).errors["COUNT(*)"]
                for q in questions
                if curator.sql(q, epsilon=1) is not None
            ]
            assert 1 < sum(wider) / len(wider) < 1.03


class TestStored:
    @pytest.mark.parametrize("name", BUDGETS)
    def test_asking_again_is_free_and_says_the_same(self, name: str) -> None:
        curator = opened(BUDGETS[name])
        first = curator.sql(BY_SEX, epsilon=1)
        spent = curator.ledger.spent
        for _ in range(3):
            again = curator.sql(BY_SEX, epsilon=1)
            assert (bool(again.cost), again.notes, again.entry) == (False, first.notes, first.entry)
        assert curator.preview(BY_SEX, epsilon=1).stored
        assert curator.ledger.spent == spent

    def test_one_check_serves_every_filter_over_the_same_keys(self, monkeypatch: pytest.MonkeyPatch) -> None:
        curator = opened()
        first, spy = curator.sql(BY_SEX, epsilon=1), Spy(curator, monkeypatch)
        filtered = curator.sql(BY_SEX.replace("GROUP", "WHERE age > 30 GROUP"), epsilon=1)
        assert (filtered.check.result, len(spy.queries)) == (first.check.result, 1)
        assert reserved(curator) == [Fraction(1, 20), Fraction(19, 20), 1]

    def test_a_check_of_more_limits_serves_fewer_of_them(self) -> None:
        curator = opened(bounds={"cost": (0, 50)})
        curator.sql("SELECT sex, SUM(cost) AS s FROM visits GROUP BY sex", epsilon=1)
        curator.sql(BY_SEX, epsilon=1)
        assert reserved(curator) == [Fraction(1, 20), Fraction(19, 20), 1]
        other = opened(bounds={"cost": (0, 50)})
        other.sql(BY_SEX, epsilon=1)
        other.sql("SELECT sex, SUM(cost) AS s FROM visits GROUP BY sex", epsilon=1)
        assert len(reserved(other)) == 4

    def test_a_cheap_check_spoils_nothing(self) -> None:
        """It serves if it cost a quarter of what the question would pay, or more; the oldest that did."""
        curator = opened()
        curator.sql(BY_SEX, epsilon=Fraction(1, 4))
        curator.sql(BY_SEX, epsilon=1)
        assert reserved(curator)[2:] == [1]
        dear = curator.sql(BY_SEX, epsilon=2)
        assert reserved(curator)[3:] == [Fraction(1, 10), Fraction(19, 10)]
        assert str(dear.check.result.loss) == "epsilon = 0.1"
        filtered = BY_SEX.replace("GROUP", "WHERE age > 30 GROUP")
        assert str(curator.sql(filtered, epsilon=1).check.result.loss) == "epsilon = 0.0125"

    def test_a_stored_answer_is_free_even_if_nothing_was_checked(self) -> None:
        curator = opened()
        bare = curator.sql(BY_SEX, epsilon=1, check=0)
        answer = curator.sql(BY_SEX, epsilon=1)
        assert (answer.entry, bool(answer.cost), answer.check) == (bare.entry, False, None)

    def test_a_key_of_older_data_buys_no_check_and_says_why(self, tmp_path: Path) -> None:
        """The check of the newer data is missing, and nobody pays for it: the key was used."""
        for version, people in (("1", 40), ("2", 50)):
            curator = opened(data=write_visits(tmp_path, people), version=version, groups_per_unit=1)
            if version == "1":
                curator.distribution("sex", epsilon=1, key="k")
            else:
                with pytest.raises(Misconfigured, match="changed since this key was used"):
                    curator.distribution("sex", epsilon=1, key="k")
            assert reserved(curator) == [Fraction(1, 20), Fraction(19, 20)]
            curator.close()

    def test_new_data_are_checked_anew(self, tmp_path: Path) -> None:
        """threat:A7 what was told of older data does not hold for newer ones."""
        for version, people in (("1", 40), ("2", 50)):
            curator = opened(data=write_visits(tmp_path, people), version=version)
            curator.sql(BY_SEX, epsilon=1)
            curator.close()
        assert (
            reserved(opened(data=tmp_path / "visits.parquet", version="2")) == [Fraction(1, 20), Fraction(19, 20)] * 2
        )


class TestCharges:
    def test_each_charge_is_durable_before_its_rows_are_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """threat:A12 threat:A9: both are charged at once: a second charge would tell when rows were read."""
        curator = opened()
        seen, inner = [], curator._engine.fetch

        def fetch(query: Any) -> pa.Table:
            seen.append(curator.ledger.spent.amount)
            return inner(query)

        monkeypatch.setattr(curator._engine, "fetch", fetch)
        curator.sql(BY_SEX, epsilon=1)
        assert seen == [1, 1]

    def test_the_whole_price_must_fit_before_the_check_is_charged(self) -> None:
        curator = opened(lw.Budget(epsilon=1))
        curator.sql(TOTAL, epsilon=Fraction(1, 2), check=0)
        with pytest.raises(BudgetExceeded):
            curator.sql(BY_SEX, epsilon=Fraction(51, 100))
        assert reserved(curator) == [Fraction(1, 2)]

    def test_a_check_that_fails_says_what_stays_charged(self, monkeypatch: pytest.MonkeyPatch) -> None:
        curator = opened()

        def broken(_: Any) -> pa.Table:
            raise RuntimeError("ZZCANARY")

        monkeypatch.setattr(curator._engine, "fetch", broken)
        with pytest.raises(EngineFailed) as caught:
            curator.sql(BY_SEX, epsilon=1)
        assert caught.value.charged is not None
        assert caught.value.charged.amount == 1
        assert reserved(curator) == [Fraction(1, 20), Fraction(19, 20)]
        assert "All of it stays charged" in str(caught.value)

    def test_an_answer_that_fails_says_that_its_check_is_charged_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        curator = opened()
        inner, many = curator._engine.fetch, iter(range(9))

        def second_fails(query: Any) -> pa.Table:
            if next(many):
                raise RuntimeError("ZZCANARY")
            return inner(query)

        monkeypatch.setattr(curator._engine, "fetch", second_fails)
        with pytest.raises(EngineFailed) as caught:
            curator.sql(BY_SEX, epsilon=1)
        assert caught.value.charged is not None
        assert caught.value.charged.amount == 1

    def test_what_cannot_be_prepared_is_not_charged(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Check and answer are both written and rehearsed before the first of them is charged."""
        for broken in ("check", "answer"):
            curator = opened()

            def fails(plan: Plan, *_: Any, broken: str = broken) -> None:
                if (plan.outline.kinds[0].identity is not None) == (broken == "check"):
                    raise ZeroDivisionError

            with monkeypatch.context() as patched:
                patched.setattr("lapwing.curator.query_cache.rehearse", fails)
                with pytest.raises(lw.errors.Bug):
                    curator.sql(BY_SEX, epsilon=1)
            assert reserved(curator) == []

    def test_a_retry_with_its_key_pays_once_if_it_stopped_before_the_charge(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        curator = opened()
        with monkeypatch.context() as patch:
            patch.setattr(curator.ledger, "reserve_all", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                curator.sql(BY_SEX, epsilon=1, key="k")
        answers = [curator.sql(BY_SEX, epsilon=1, key="k", refresh=refresh) for refresh in (False, False, True)]
        assert reserved(curator) == [Fraction(1, 20), Fraction(19, 20)]
        assert len({answer.entry for answer in answers}) == 1

    @pytest.mark.parametrize("place", [0, 1])
    def test_a_retry_with_its_key_is_lost_if_it_stopped_while_rows_were_read(
        self, place: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        curator = opened()
        inner, many = curator._engine.fetch, iter(range(9))
        with monkeypatch.context() as patch:
            patch.setattr(
                curator._engine, "fetch", lambda query: _interrupted() if next(many) == place else inner(query)
            )
            with pytest.raises(KeyboardInterrupt):
                curator.sql(BY_SEX, epsilon=1, key="k")
        with pytest.raises(LedgerFailed, match="not run again"):
            curator.sql(BY_SEX, epsilon=1, key="k")
        assert reserved(curator) == [Fraction(1, 20), Fraction(19, 20)]
        assert curator.sql(BY_SEX, epsilon=1, key="other").cost

    def test_a_key_stands_for_one_share(self) -> None:
        curator = opened()
        curator.sql(BY_SEX, epsilon=1, key="k")
        with pytest.raises(Misconfigured, match="key"):
            curator.sql(BY_SEX, epsilon=1, key="k", check=0)


class TestBatch:
    def questions(self) -> Sequence[str]:
        return [TOTAL, TOTAL + " WHERE age > 30", BY_SEX, "SELECT sex, SUM(cost) AS s FROM visits GROUP BY sex"]

    @pytest.mark.parametrize("name", BUDGETS)
    def test_a_batch_has_one_check_for_each_list_of_keys_within_its_price(self, name: str) -> None:
        curator = opened(BUDGETS[name], bounds={"cost": (0, 50)})
        price = curator.ledger.budget.cost(curator.ledger.budget.price(epsilon=1))
        preview = curator.preview_batch(self.questions(), epsilon=1)
        answers = curator.batch(self.questions(), epsilon=1)
        assert answers.cost == curator.ledger.spent == preview.cost
        assert answers.cost.amount <= price.amount
        assert sum(answer.cost.amount for answer in answers) == answers.cost.amount
        assert sum("check" in str(entry.remark("question")) for entry in curator.ledger.entries()) == 2
        assert answers[0].check.result == answers[1].check.result != answers[2].check.result == answers[3].check.result
        assert list(answers[2].to_dict()["check"]["exceed"]) == ["the limit on rows"]
        assert "this filter cuts at most those" in str(answers[1]) or NO_SIGN in answers[1].explain()
        again = curator.batch(self.questions(), epsilon=1)
        assert (bool(again.cost), str(again[3].to_arrow())) == (False, str(answers[3].to_arrow()))

    def test_a_retry_of_a_batch_pays_once(self) -> None:
        curator = opened()
        first = curator.batch(self.questions()[:3], epsilon=1, key="k")
        again = curator.batch(self.questions()[:3], epsilon=1, key="k", refresh=True)
        assert curator.ledger.spent.amount == 1
        assert [a.entry for a in first] == [a.entry for a in again]


def test_workloads_are_checked_over_their_cells() -> None:
    curator = opened(groups_per_unit=1, bounds={"age": (0, 99)})
    ages = curator.distribution("age", cells=10, epsilon=5)
    assert list(ages.to_dict()["check"]["exceed"]) == ["the limit on rows", "the limit on groups"]
    assert sum(reserved(curator)) == 5
    assert not curator.distribution("age", cells=10, epsilon=5).cost


def test_neighbours_release_the_same_counts_at_the_same_scales(monkeypatch: pytest.MonkeyPatch) -> None:
    """gate:G08 a table and the table without one unit: the same calls and noise, and counts that differ by 0 or 1."""
    seen: list[list[tuple[Any, list[int]]]] = []

    def watched(plan: Plan, cells: Arranged) -> Any:
        if plan.outline.kinds[0].identity is not None:
            seen[-1].append((plan.measures[0].noise, cells.cells[0][0].tolist()))
        return release(plan, cells)

    monkeypatch.setattr("lapwing.curator.private_data.release", watched)
    data, question = frame(12), "SELECT site, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY site"
    facts: dict[str, Any] = {"rows_per_unit": 1, "groups_per_unit": 1, "bounds": {"cost": (0, 9)}, "check": None}
    for gone in (None, 0, 3, 11):
        seen.append([])
        rows = data.filter(pa.compute.not_equal(data["pid"], -1 if gone is None else gone))
        open_visits(rows, budget=PURE, **facts).sql(question, epsilon=1)
    assert [len(calls) for calls in seen] == [1] * 4
    for calls in seen[1:]:
        pairs = list(zip(seen[0], calls, strict=True))
        assert all(mine[0] == yours[0] and len(mine[1]) == 4 for mine, yours in pairs)
        assert any(mine[1] != yours[1] for mine, yours in pairs)
        assert {a - b for mine, yours in pairs for a, b in zip(mine[1], yours[1], strict=True)} <= {0, 1}
