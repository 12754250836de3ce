"""Frames without a ledger on disk: one budget for each population, as long as the process runs."""

from __future__ import annotations

import os
import threading
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import lapwing as lw
from lapwing.errors import TemporaryBudget

pytestmark = pytest.mark.filterwarnings("error::lapwing.errors.TemporaryBudget")

FRAME = pa.table({"id": [1, 2, 3, 4], "x": [1, 2, 3, 4]})
COUNT = "SELECT COUNT(DISTINCT id) AS n FROM people"
ENDS = "This budget is in memory and ends with the process. Pass ledger='ledger.db' to keep it."


def opened(data: Any = FRAME, *, epsilon: float = 1, first: bool = False, **facts: Any) -> lw.Curator:
    given = {"name": "people", "unit": "id", "budget": lw.Budget(epsilon=epsilon)} | facts
    if not first:
        return lw.open(data, **given)
    with pytest.warns(TemporaryBudget):
        return lw.open(data, **given)


def test_the_first_open_says_that_the_budget_ends_with_the_process() -> None:
    with pytest.warns(TemporaryBudget) as seen:
        lw.open(FRAME, name="people", unit="id", budget=lw.Budget(epsilon=1))
    assert [(str(one.message), one.filename) for one in seen] == [(ENDS, __file__)]


def test_following_its_advice_keeps_the_budget(tmp_path: Path) -> None:
    for price in (0.6, 0):
        with opened(ledger=tmp_path / "ledger.db") as curator:
            assert float(curator.sql(COUNT, epsilon=0.6).cost.amount) == price
            assert "memory" not in str(curator.budget)


def test_a_frame_that_is_opened_again_continues_its_budget() -> None:
    opened(first=True).sql(COUNT, epsilon=0.6)
    for again in (opened(), opened(FRAME.to_pandas())):
        assert float(again.budget.spent.amount) == 0.6
        assert not again.sql(COUNT, epsilon=0.6).cost  # stored
        with pytest.raises(lw.BudgetExceeded):
            again.sql(COUNT, epsilon=0.6, refresh=True)
    assert float(opened(name="PEOPLE").budget.spent.amount) == 0.6


def test_a_closed_curator_leaves_its_budget_to_the_next() -> None:
    with opened(first=True) as curator:
        curator.sql(COUNT, epsilon=0.6)
    with opened() as curator:
        assert float(curator.budget.spent.amount) == 0.6


def test_other_data_are_a_new_version_of_the_same_budget() -> None:
    first = opened(first=True)
    first.sql(COUNT, epsilon=0.3)
    with opened(FRAME.slice(1)) as second:
        assert second.catalog.tables[0].version == "2"
        assert float(second.sql(COUNT, epsilon=0.3).cost.amount) == 0.3  # not the answer about other rows
        assert float(second.budget.spent.amount) == 0.6
    with pytest.raises(lw.Misconfigured, match=r"another version was opened since.*open the table again"):
        first.sql(COUNT, epsilon=0.3, refresh=True)
    with opened() as again:
        assert again.catalog.tables[0].version == "1"
        assert not again.sql(COUNT, epsilon=0.3).cost


def test_a_declared_version_is_kept_as_with_files() -> None:
    assert opened(version="2026", first=True).catalog.tables[0].version == "2026"
    with pytest.raises(lw.Misconfigured, match="declare a new `version`"):
        opened(FRAME.slice(1), version="2026")
    assert opened(FRAME.slice(1), version="2027").catalog.tables[0].version == "2027"


def test_another_budget_is_refused_and_its_advice_works() -> None:
    opened(first=True)
    with pytest.raises(lw.Misconfigured, match=r"ledger=':memory:'"):
        opened(epsilon=2)
    assert opened(epsilon=2, ledger=":memory:").budget.total == lw.Budget(epsilon=2).capacity


@pytest.mark.parametrize("unit", [None, "x"])
def test_another_unit_is_refused_and_its_advice_works(unit: str | None) -> None:
    opened(first=True)
    with pytest.raises(lw.Misconfigured, match="another `name`"):
        opened(unit=unit)
    opened(unit=unit, name="others", first=True)


def test_other_names_have_budgets_of_their_own() -> None:
    opened(first=True).sql(COUNT, epsilon=1)
    assert not opened(name="others", first=True).budget.spent


def test_a_fresh_ledger_is_asked_for_and_says_so() -> None:
    for _ in range(2):
        with opened(ledger=":memory:") as curator:
            curator.sql(COUNT, epsilon=1)
            for text in (repr(curator), str(curator.budget), curator.budget.to_dict()["in_words"]):
                assert "in memory, for this curator only" in text
    assert ENDS in repr(opened(first=True))  # nothing was spent of it


def test_files_have_no_fresh_ledger(tmp_path: Path) -> None:
    FRAME.to_pandas().to_csv(tmp_path / "people.csv")
    with pytest.raises(lw.Misconfigured, match="for frames"):
        opened(tmp_path / "people.csv", ledger=":memory:")
    assert [file.name for file in tmp_path.iterdir()] == ["people.csv"]


def test_tables_of_one_curator_share_a_budget_with_each_of_them() -> None:
    facts = {"name": None, "unit": "id"}
    both = opened({"people": FRAME, "visits": FRAME}, first=True, **facts)
    both.sql(COUNT, epsilon=0.6)
    for one in ("people", "visits"):
        assert float(opened(name=one).budget.spent.amount) == 0.6
    assert float(opened({"visits": FRAME, "stays": FRAME}, **facts).budget.spent.amount) == 0.6
    opened(name="others", first=True)
    with pytest.raises(lw.Misconfigured, match="with a budget each"):
        opened({"people": FRAME, "others": FRAME}, **facts)


def test_a_private_frame_is_never_public_too() -> None:
    with pytest.raises(lw.Misconfigured, match="are private"):
        opened(first=True, public={"known": FRAME.to_pandas()})


def test_threads_that_open_at_once_share_one_budget() -> None:
    start, paid = threading.Barrier(8), []

    def ask() -> None:
        start.wait()
        with lw.open(FRAME, name="people", unit="id", budget=lw.Budget(epsilon=1)) as curator:
            try:
                paid.append(curator.sql(COUNT, epsilon=0.4, refresh=True).cost)
            except lw.BudgetExceeded:
                paid.append(None)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(paid) == 8
    assert len([cost for cost in paid if cost]) == 2


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_the_child_of_a_fork_has_no_second_budget() -> None:
    opened(first=True).sql(COUNT, epsilon=0.6)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            opened()
            said = "opened"
        except lw.LedgerFailed as error:
            said = str(error)
        os.write(write, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    said = os.read(read, 1000).decode()
    os.close(read)
    os.close(write)
    assert "forked" in said
    assert said.endswith("Pass ledger='ledger.db' to every process that opens the data.")


def test_a_frame_with_a_missing_value_keeps_its_types() -> None:
    opened(pd.DataFrame({"id": [1, 2], "x": [1, 2]}), first=True)
    again = opened(pd.DataFrame({"id": [1, 2], "x": [1, None]}))
    assert again.catalog.tables[0].fields[1].type.value == "integer"


def test_numbers_of_versions_leave_out_the_declared_ones() -> None:
    def version(start: int, **facts: Any) -> str:
        with opened(FRAME.slice(start), first=not start, **facts) as curator:
            return curator.catalog.tables[0].version

    assert [version(0), version(1, version="2"), version(2), version(1)] == ["1", "2", "3", "2"]
