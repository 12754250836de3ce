"""The whole path: reserve before touch, one price per key, nothing about the rows in any message, the budget holds."""

from __future__ import annotations

import logging
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lapwing.curator import Curator, load, open_data
from lapwing.curator import private_data as private_data_module
from lapwing.data import births
from lapwing.errors import BudgetExceeded, EngineFailed, LapwingError, LedgerFailed, Misconfigured, Refused
from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.privacy import Budget
from support.tape import SeededBits
from support.visits import CANARY, FACTS, Spy, frame, open_visits, write_visits

BY_SEX = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"


def test_the_charge_is_durable_before_any_row_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ledger:B1 a second connection sees the charge at the moment the engine is called."""
    curator = open_visits(write_visits(tmp_path))
    other = open_visits(tmp_path / "visits.parquet")
    steps: list[tuple[str, Fraction]] = []
    inner, noise, settle = curator._engine.fetch, private_data_module.release, curator.ledger.settle_all

    def cells(query: Any) -> pa.Table:
        steps.append(("cells", other.budget.spent.amount))
        return inner(query)

    def release(*args: Any) -> Any:
        steps.append(("release", other.budget.spent.amount))
        return noise(*args)

    def settled(*args: Any, **kwargs: Any) -> None:
        steps.append(("settle", other.budget.spent.amount))
        settle(*args, **kwargs)

    monkeypatch.setattr(curator._engine, "fetch", cells)
    monkeypatch.setattr(private_data_module, "release", release)
    monkeypatch.setattr(curator.ledger, "settle_all", settled)
    curator.sql(BY_SEX, epsilon=0.25)
    assert steps == [("cells", Fraction(1, 4)), ("release", Fraction(1, 4)), ("settle", Fraction(1, 4))]


@pytest.mark.parametrize("failing", ["reserve_all", "settle_all"])
def test_no_answer_if_the_ledger_fails(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """gate:G36 without a written charge nothing is read; without a stored answer nothing is sent."""
    curator = open_visits()
    spy = Spy(curator, monkeypatch)

    def broken(*_: Any, **__: Any) -> None:
        raise LedgerFailed("the disk is full")

    monkeypatch.setattr(curator.ledger, failing, broken)
    with pytest.raises(LedgerFailed):
        curator.sql(BY_SEX, epsilon=0.1)
    assert len(spy.queries) == (0 if failing == "reserve_all" else 1)


def test_ten_questions_fill_the_budget_and_the_eleventh_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """lecture:L30 lecture:L35 gate:G28 0.1 is a tenth, exactly."""
    curator = open_visits()
    for _ in range(10):
        assert curator.sql(BY_SEX, epsilon=0.1, refresh=True).cost.amount == Fraction(1, 10)
    spy = Spy(curator, monkeypatch)
    assert curator.budget.remaining.amount == 0
    for epsilon in (0.1, 1e-9):
        with pytest.raises(BudgetExceeded, match="Nothing was charged"):
            curator.sql(BY_SEX, epsilon=epsilon, refresh=True)
    assert spy.queries == []


def test_an_over_ask_has_no_side_effect() -> None:
    """ledger:B9 gate:G29"""
    curator = open_visits()
    with pytest.raises(BudgetExceeded):
        curator.sql(BY_SEX, epsilon=2)
    assert curator.sql(BY_SEX, epsilon=0.5).cost.amount == Fraction(1, 2)


def test_two_aggregates_share_one_price() -> None:
    """threat:A30 gate:G07 lecture:L30 what the parts lose adds up to what is charged."""
    curator = open_visits()
    seen = curator.preview("SELECT COUNT(*) AS n, SUM(cost) AS c, SUM(age) AS a FROM visits", epsilon=0.3)
    losses = [measure.noise.loss.epsilon for measure in seen.plan.measures]  # type: ignore[union-attr]
    assert (sum(losses), seen.cost.amount) == (Fraction(3, 10), Fraction(3, 10))


def test_post_processing_is_free() -> None:
    """lecture:L32 sorting, limits, arithmetic and every export leave the ledger alone."""
    curator = open_visits()
    text = "SELECT sex, COUNT(*) AS n, COUNT(*) * 2 + 1 AS m FROM visits GROUP BY sex ORDER BY n DESC LIMIT 1"
    answer = curator.sql(text, epsilon=0.5)
    assert curator.budget.spent.amount == Fraction(1, 2)
    assert len(list(curator.preview(text, epsilon=0.5).plan.measures)) == 1
    for use in (answer.to_arrow, answer.to_pandas, answer.to_csv, answer.to_json, answer.intervals, answer.methods):
        assert use() is not None
    assert curator.budget.spent.amount == Fraction(1, 2)


def test_a_unit_is_all_rows_of_a_person() -> None:
    """lecture:L33 two rows a person cost twice the noise of one, as group privacy says."""
    by_unit = open_visits(unit="pid", rows_per_unit=2).preview("SELECT COUNT(*) AS n FROM visits", epsilon=1)
    by_row = open_visits(unit=None, rows_per_unit=None).preview("SELECT COUNT(*) AS n FROM visits", epsilon=1)
    assert by_unit.plan.measures[0].noise.scale == 2 * by_row.plan.measures[0].noise.scale
    assert by_row.plan.measures[0].noise.loss.group(2) == type(by_row.plan.loss)(2)


def test_the_same_key_pays_once_and_gives_the_same_answer(tmp_path: Path) -> None:
    """ledger:B5 gate:G45 also from another process's point of view, and with keys and aggregates in another order."""
    path = write_visits(tmp_path)
    text = "SELECT sex, site, COUNT(*) AS n, SUM(cost) AS c FROM visits GROUP BY sex, site"
    one = open_visits(path).sql(text, epsilon=0.1, key="k")
    swapped = "SELECT SUM(cost) AS c, COUNT(*) AS n, site, sex FROM visits GROUP BY site, sex"
    later = open_visits(path)
    for again in (later.sql(text, epsilon=0.1, key="k"), later.sql(swapped, epsilon=0.1, key="k")):
        assert (again.cost.amount, again.entry) == (0, one.entry)
        assert again.to_arrow().select(one.to_arrow().column_names).equals(one.to_arrow())
    assert later.budget.spent.amount == Fraction(1, 10)
    for other in ({"epsilon": 0.2}, {"epsilon": 0.1, "sql": BY_SEX}):
        with pytest.raises(Misconfigured, match="used for another question"):
            later.sql(other.get("sql", text), epsilon=other["epsilon"], key="k")  # type: ignore[arg-type]


def test_a_key_does_not_reach_over_changed_declarations(tmp_path: Path) -> None:
    """threat:A29 an answer made with other bounds is another request, even if the words are the same."""
    path, text = write_visits(tmp_path), "SELECT SUM(cost) AS c FROM visits"
    open_visits(path).sql(text, epsilon=0.1, key="k")
    with pytest.raises(Misconfigured, match="used for another question"):
        open_visits(path, bounds={"cost": (0, 7)}).sql(text, epsilon=0.1, key="k")


def test_changed_data_pause_with_one_constant_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ledger:B4 a changed file is not served until the steward declares a version; nothing is reset then."""
    path = write_visits(tmp_path)
    curator = open_visits(path)
    curator.sql(BY_SEX, epsilon=0.5)
    spy = Spy(curator, monkeypatch)
    write_visits(tmp_path, people=41)
    with pytest.raises(Misconfigured) as caught:
        curator.sql(BY_SEX, epsilon=0.1)
    assert str(caught.value) == private_data_module.CHANGED
    assert spy.queries == []
    with pytest.raises(Misconfigured, match="declared for other data"):
        open_visits(path)
    renewed = open_visits(path, version="2")
    assert renewed.budget.spent.amount == Fraction(1, 2)
    assert renewed.sql(BY_SEX, epsilon=0.5).cost.amount == Fraction(1, 2)
    with pytest.raises(BudgetExceeded):
        renewed.sql(BY_SEX, epsilon=0.1, refresh=True)


def test_another_budget_for_the_same_ledger_is_refused(tmp_path: Path) -> None:
    """As long as nothing was charged, the steward is told how to start over."""
    path = write_visits(tmp_path)
    first = open_visits(path)
    with pytest.raises(
        Misconfigured, match=r"nothing was charged yet, delete .*ledger\.db\*, .*visits\.parquet\.lapwing"
    ):
        open_visits(path, budget=Budget(epsilon=100))
    first.sql(BY_SEX, epsilon=0.1)
    with pytest.raises(Misconfigured, match="keeps the budget it was created with"):
        open_visits(path, budget=Budget(epsilon=100))


def test_a_failing_engine_says_one_sentence_and_stays_charged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """gate:G34 gate:G18 threat:A12 threat:A13 whatever failed and whatever it said."""
    curator = open_visits()
    spent = Fraction(0)
    for error in (RuntimeError(CANARY), pa.ArrowInvalid(CANARY), MemoryError(CANARY), RecursionError(CANARY)):

        def broken(_: Any, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(curator._engine, "fetch", broken)
        with caplog.at_level(logging.DEBUG), pytest.raises(EngineFailed) as caught:
            curator.sql(BY_SEX, epsilon=0.1)
        words = str(caught.value).replace(caught.value.incident, "#")
        assert words == "The engine could not finish this question (incident #). The price stays charged."
        assert caught.value.__cause__ is None
        spent += Fraction(1, 10)
        assert curator.budget.spent.amount == spent
    assert CANARY not in caplog.text


def test_the_operator_finds_the_incident_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One line at the level of errors: the number that the analyst was told, and the kind of failure alone."""
    curator = open_visits()

    def broken(_: Any) -> None:
        raise pa.ArrowInvalid(CANARY)

    monkeypatch.setattr(curator._engine, "fetch", broken)
    with caplog.at_level(logging.DEBUG, "lapwing"), pytest.raises(EngineFailed) as caught:
        curator.sql(BY_SEX, epsilon=0.1)
    incident = caught.value.incident
    assert [(r.name, r.levelno, r.getMessage()) for r in caplog.records if "incident" in r.getMessage()] == [
        ("lapwing.curator", logging.ERROR, f"incident {incident}: ArrowInvalid")
    ]
    assert len(incident) == 12
    assert int(incident, 16) >= 0


HOSTILE = [
    BY_SEX,
    "SELECT SUM(cost) AS s FROM visits WHERE name = 'x'",
    "SELECT SUM(cost / age) AS s FROM visits",
    "SELECT COUNT(*) AS n FROM visits WHERE age * age * age * age > 1e300 OR cost / (age - age) > 1",
    "SELECT name FROM visits",
    "SELECT name, COUNT(*) AS n FROM visits GROUP BY name",
    "SELECT COUNT(*) AS n FROM visits WHERE CAST(name AS INTEGER) = 1",
    "SELECT MAX(name) AS n FROM visits",
    "SELECT SUM(name) AS n FROM visits",
    "SELECT COUNT(*) AS n FROM visits WHERE name > 3",
    "SELECT COUNT(*) AS n FROM nothing",
    "SELECT COUNT(DISTINCT pid) AS n FROM visits WHERE name <> ''",
]


def transcript(curator: Curator) -> list[tuple[str, str, Fraction]]:
    """What an analyst sees beside the numbers: kinds of outcome, messages, balances."""
    seen = []
    for text in HOSTILE:
        try:
            answer = curator.sql(text, epsilon=0.15)
            outcome, words = "answer", f"{answer.to_arrow().schema}{answer.methods()}{len(answer)}"
        except LapwingError as error:
            outcome, words = type(error).__name__, str(error)
        seen.append((outcome, words, curator.budget.spent.amount))
    return seen


def test_neighbours_give_the_same_messages_charges_and_shapes() -> None:
    """gate:G18 threat:A11 threat:A12 only the numbers may differ between a table and the table without one person."""
    hostile = pa.table(
        {
            "pid": pa.array([999] * 4, pa.int64()),
            "name": [CANARY, "", None, "12"],
            "sex": ["X", None, "F", CANARY],
            "site": pa.array([127, None, 9, -128], pa.int8()),
            "cost": [math.nan, math.inf, -1e308, None],
            "age": pa.array([2**63 - 1, -(2**63), None, 0], pa.int64()),
        }
    )
    here = transcript(open_visits(pa.concat_tables([frame(), hostile])))
    gone = transcript(open_visits(frame()))
    nobody = transcript(open_visits(frame().slice(0, 0)))
    assert here == gone == nobody
    assert CANARY not in str(here)
    assert [outcome for outcome, _, _ in here].count("answer") >= 4


def test_no_row_is_in_the_ledger_or_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """threat:A13 the canary of every row is searched in all files that are written."""
    curator = open_visits(write_visits(tmp_path))
    with caplog.at_level(logging.DEBUG):
        transcript(curator)
    curator.ledger.export(tmp_path / "export.jsonl")
    curator.close()
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "visits.parquet"]
    assert len(written) >= 3
    assert not [path.name for path in written if CANARY.encode() in path.read_bytes()]
    assert CANARY not in caplog.text


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, -math.inf, True, "0.1", None, 1e-320, 1e400, [1]])
def test_odd_prices_are_refused_and_change_nothing(epsilon: Any) -> None:
    """threat:A26"""
    curator = open_visits()
    with pytest.raises((Misconfigured, Refused, BudgetExceeded)):
        curator.sql(BY_SEX, epsilon=epsilon)
    assert curator.budget.spent.amount == 0


def test_a_preview_reads_nothing_and_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = open_visits()
    spy = Spy(curator, monkeypatch)
    assert curator.preview(BY_SEX, epsilon=0.1).cost.amount == Fraction(1, 10)
    visits = curator.table("visits")
    assert curator.preview(visits.count(), epsilon=0.1).fits
    assert (spy.queries, curator.budget.spent.amount) == ([], 0)


def test_a_question_with_delta_pays_in_rho() -> None:
    curator = open_visits(budget=Budget(epsilon=2, delta=1e-6))
    answer = curator.sql(BY_SEX, epsilon=0.5)
    assert isinstance(answer.plan.measures[0].noise, Gaussian)
    assert answer.cost.unit == "rho"
    assert sum(m.noise.loss.to_zcdp().rho for m in answer.plan.measures) <= answer.cost.amount
    assert curator.budget.spent == answer.cost


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": "person"}, "`visits` has no such column"),
        ({"bounds": {"costs": (0, 1)}}, "Did you mean `cost`"),
        ({"values": {"sx": ["F"]}}, "Did you mean `sex`"),
        ({"bounds": {"cost": (5, 1)}}, "the lower bound exceeds the upper bound"),
        ({"bounds": {"cost": 5}}, "two numbers"),
        ({"bounds": {"sex": (0, 1)}}, "the type is text"),
        ({"bounds": {"age": (0, 2**70)}}, "beyond 64 bits"),
        ({"values": {"sex": ["F", "F"]}}, "twice"),
        ({"values": {"sex": [1]}}, "not of the column's type"),
        ({"rows_per_unit": 0}, "at least 1"),
        ({"groups_per_unit": 1.5}, "whole number"),
        ({"confidence": 95}, "between 0 and 1"),
        ({"types": {"cost": "money"}}, "must be one of"),
        ({"types": {"colour": "text"}}, "no column `colour`"),
    ],
)
def test_wrong_declarations_name_the_rule(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(Misconfigured, match=message):
        open_visits(**changes)


def test_unknown_data_are_named() -> None:
    with pytest.raises(Misconfigured, match="unknown type"):
        open_data({"a": 1}, unit=None, budget=Budget(epsilon=1))
    with pytest.raises(Misconfigured, match="unsupported extension"):
        open_data("data.sav", unit=None, budget=Budget(epsilon=1))
    with pytest.raises(Misconfigured, match="`visits` is no folder here, and has no extension"):
        open_data("visits", unit=None, budget=Budget(epsilon=1))
    with pytest.raises(Misconfigured, match="cannot be"):
        open_data("nowhere.parquet", unit=None, budget=Budget(epsilon=1))


def test_a_file_and_its_toml_are_the_same_curator(tmp_path: Path) -> None:
    write_visits(tmp_path)
    (tmp_path / "lapwing.toml").write_text(
        '[budget]\nepsilon = 1\n[tables.visits]\nsource = "visits.parquet"\nunit = "pid"\nrows_per_unit = 2\n'
        '[tables.visits.columns]\npid = { type = "integer" }\nsex = { type = "text", values = ["F", "M"] }\n'
    )
    one, two = load(tmp_path / "lapwing.toml"), open_visits(tmp_path / "visits.parquet", check=None)
    assert one.preview(BY_SEX, epsilon=0.1).plan.measures == two.preview(BY_SEX, epsilon=0.1).plan.measures
    one.sql(BY_SEX, epsilon=0.25)
    assert two.budget.spent.amount == Fraction(1, 4)


def test_answers_are_right_without_much_noise(seeded: SeededBits) -> None:
    """The path does not mix up groups or measures: at a high price the answer is the exact one."""
    curator = open_visits(budget=Budget(epsilon=10_000))
    text = "SELECT site, sex, COUNT(*) AS n, SUM(age) AS a, COUNT(DISTINCT pid) AS u FROM visits GROUP BY site, sex"
    answer = curator.sql(text, epsilon=9_000).to_arrow().to_pylist()
    exact = frame().to_pylist()
    for row in answer:
        kept = [r for r in exact if (r["site"], r["sex"]) == (row["site"], row["sex"])]
        assert row["n"] == len(kept)
        assert row["u"] == len({r["pid"] for r in kept})
        assert abs(row["a"] - sum(r["age"] for r in kept)) <= 3
    assert len(answer) == 6


def names_table(most: int) -> pa.Table:
    """One row for each person who has one of the most frequent names."""
    table = births()
    counts = sorted(zip(table["name"].to_pylist(), table["births"].to_pylist(), strict=True), key=lambda pair: -pair[1])
    totals: dict[str, int] = {}
    for name, n in counts:
        totals[name] = totals.get(name, 0) + n
    top = dict(sorted(totals.items(), key=lambda pair: (-pair[1], pair[0]))[:most])
    return pa.table({"name": list(top), "n": list(top.values())})


def test_ten_thousand_names_are_within_twelve(seeded: SeededBits, tmp_path: Path) -> None:
    """lecture:L13 lecture:L14 a histogram over disjoint cells: one person, one cell, noise of scale 1."""
    top = names_table(10_000)
    people = pa.table({"name": top["name"].combine_chunks().take(_repeated(top["n"].to_pylist()))})
    pq.write_table(people, tmp_path / "people.parquet")
    curator = open_data(
        tmp_path / "people.parquet", unit=None, values={"name": top["name"].to_pylist()}, budget=Budget(epsilon=1)
    )
    text = "SELECT name, COUNT(*) AS n FROM people GROUP BY name"
    seen = curator.preview(text, epsilon=1)
    assert seen.plan.measures[0].noise.scale == 1
    assert seen.plan.measures[0].noise.error(Fraction(19, 20), simultaneous=10_000) == 12
    found = curator.sql(text, epsilon=1).to_arrow()
    assert found["name"].to_pylist() == top["name"].to_pylist()
    off = [abs(a - b) for a, b in zip(found["n"].to_pylist(), top["n"].to_pylist(), strict=True)]
    assert max(off) <= 12


def _repeated(counts: list[int]) -> pa.Array:
    import numpy as np

    return pa.array(np.repeat(np.arange(len(counts)), counts))


def test_m_counts_as_one_vector_have_sensitivity_m() -> None:
    """lecture:L13 a person who may be in every one of the m groups changes m counts."""
    text = "SELECT site, COUNT(DISTINCT pid) AS n FROM visits GROUP BY site"
    free = open_visits(groups_per_unit=None).preview(text, epsilon=1).plan.measures[0].noise
    one = open_visits(groups_per_unit=1).preview(text, epsilon=1).plan.measures[0].noise
    assert (free.scale, one.scale) == (3, 1)
    assert FACTS["rows_per_unit"] == 2


def test_a_stored_answer_at_hand_is_given_only_while_ledger_and_data_stay(tmp_path: Path) -> None:
    """The memory of a curator never answers for other data, and sees what others pay for."""
    file = tmp_path / "visits.parquet"
    pq.write_table(frame(), file)
    facts: dict[str, Any] = {"unit": "pid", "rows_per_unit": 5, "budget": Budget(epsilon=100)}
    text = "SELECT COUNT(*) AS n FROM visits"
    asked, other = open_data(file, **facts), open_data(file, **facts)
    first = asked.sql(text, epsilon=1)
    found = asked.sql(text, epsilon=1)
    assert asked.sql(text, epsilon=1) is found
    with pytest.raises(ValueError, match="read-only"):
        found.released.cells[0][0][:] = 7
    assert (found.entry, bool(found.cost)) == (first.entry, False)
    assert asked.sql(text, epsilon=1, refresh=True).entry != first.entry
    better = other.sql(text, epsilon=2)
    assert asked.sql(text, epsilon=1).entry == better.entry
    assert asked.sql(text, epsilon=Fraction(1, 2)) is not asked.sql(text, epsilon=0.5)
    pq.write_table(frame(39), file)
    with pytest.raises(Misconfigured, match="changed without a new version"):
        asked.sql(text, epsilon=1)


def test_groups_are_paid_once_and_separate_questions_each() -> None:
    """lecture:L31 with one group a unit a histogram has price and noise of one count; questions asked apart add up."""
    curator = open_visits(groups_per_unit=1)
    one, all_groups = (
        curator.preview(text, epsilon=0.25).plan.measures[0].noise
        for text in ("SELECT COUNT(*) AS n FROM visits WHERE sex = 'F'", BY_SEX)
    )
    assert one == all_groups
    both = open_visits(groups_per_unit=2).preview(BY_SEX, epsilon=0.25).plan.measures[0].noise
    assert isinstance(both, Laplace)
    assert both.scale == 2 * one.scale  # type: ignore[union-attr]
    assert curator.sql(BY_SEX, epsilon=0.25).cost.amount == Fraction(1, 4)
    assert curator.budget.spent.amount == Fraction(1, 4)
    for sex in "FM":
        curator.sql(f"SELECT COUNT(*) AS n FROM visits WHERE sex = '{sex}'", epsilon=0.25)
    assert curator.budget.spent.amount == Fraction(3, 4)


@pytest.mark.parametrize("question", [5, None, b"SELECT 1", ["SELECT 1"]])
def test_a_question_that_is_no_text_is_refused(question: Any) -> None:
    curator = open_visits()
    with pytest.raises(Refused, match=r"neither SQL text nor .* Pass one SELECT as text, .* Nothing was charged"):
        curator.sql(question, epsilon=0.1)
    assert not curator.budget.spent


@pytest.mark.parametrize("key", [5, [1], "", b"a"])
def test_a_key_that_is_no_text_is_refused(key: Any) -> None:
    curator = open_visits()
    with pytest.raises(Misconfigured, match="`key` must be a text"):
        curator.sql(BY_SEX, epsilon=0.1, key=key)
    assert not curator.budget.spent


@pytest.mark.parametrize("rows", [0, -4, 2.5, "many"])
def test_assumed_rows_are_a_whole_number_everywhere(rows: Any) -> None:
    curator = open_visits()
    for ask in (curator.preview, curator.sql):
        with pytest.raises(Misconfigured, match="`assume_rows` is"):
            ask(BY_SEX, epsilon=0.1, assume_rows=rows)


def test_a_delta_that_a_pure_budget_does_not_have_is_refused_free_of_charge() -> None:
    with pytest.raises(Refused, match=r"Leave `delta` out. Nothing was charged."):
        open_visits().sql(BY_SEX, epsilon=0.1, delta=1e-6)


def test_advice_about_keys_names_the_columns_and_works() -> None:
    """values = [...] for an expression cannot be declared, only for its columns."""
    frame = pa.table({"p": [1], "town": ["a"], "seen": ["2020-01-05"]})
    facts: dict[str, Any] = {"unit": "p", "rows_per_unit": 1, "groups_per_unit": 1, "budget": Budget(epsilon=1)}
    shouted = "SELECT UPPER(town) AS t, COUNT(*) AS n FROM data GROUP BY t"
    with pytest.raises(Refused, match=r"GROUP BY an expression: .* selects them, or pass values=\{'town': \[.*\]\} to"):
        open_data(frame, **facts).preview(shouted, epsilon=0.1)
    assert open_data(frame, values={"town": ["a"]}, **facts).preview(shouted, epsilon=0.1)
    years = "SELECT {} AS y, COUNT(*) AS n FROM data GROUP BY y"
    with pytest.raises(Refused, match=r"Clip it to a range: CLIP\(..., low, high\)"):
        open_data(frame, types={"seen": "date"}, **facts).preview(years.format("YEAR(seen)"), epsilon=0.1)
    clipped = years.format("CLIP(YEAR(seen), 2019, 2023)")
    assert open_data(frame, types={"seen": "date"}, **facts).preview(clipped, epsilon=0.1)


def test_a_filter_that_is_no_condition_is_told_as_one() -> None:
    for aggregate in ("COUNT(*)", "COUNT(DISTINCT pid)", "COUNT(sex)"):
        with pytest.raises(Refused, match=r"its filter is not a condition. Use a comparison"):
            open_visits().preview(f"SELECT {aggregate} FILTER (WHERE sex) AS n FROM visits", epsilon=0.1)


def test_advice_on_opening_works(tmp_path: Path) -> None:
    """Columns of a CSV file are text until a type is declared; rows are units with None."""
    path = tmp_path / "t.csv"
    path.write_text("p,cost\n1,2.5\n")
    facts: dict[str, Any] = {"unit": "p", "budget": Budget(epsilon=1), "bounds": {"cost": (0, 5)}}
    with pytest.raises(Misconfigured, match="Declare the type as integer or real, or remove the bounds"):
        open_data(path, **facts)
    with pytest.raises(Misconfigured, match="Pass unit=None if every row is a unit"):
        open_data(path, **(facts | {"unit": "row"}))
    for name in (3, ""):
        with pytest.raises(Misconfigured, match="`name` must be text"):
            open_data(path, name=name, **facts)
    open_data(path, types={"cost": "real"}, **facts).close()
