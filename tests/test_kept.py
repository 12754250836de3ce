"""Stored answers in memory: given again while nothing about them changed, whatever else is asked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lapwing.curator import Curator
from lapwing.errors import LapwingError
from lapwing.privacy import Budget
from support.visits import open_visits, write_visits

BY_SEX = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
TOTAL = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_visits(tmp_path)


def opened(path: Path, **changes: Any) -> Curator:
    return open_visits(path, budget=Budget(epsilon=100), **changes)


def kept(curator: Curator) -> Any:
    """An answer that is in memory."""
    curator.sql(BY_SEX, epsilon=1)
    answer = curator.sql(BY_SEX, epsilon=1)
    assert curator.sql(BY_SEX, epsilon=1) is answer
    return answer


def test_a_paid_question_leaves_other_answers_in_memory(path: Path) -> None:
    """Of this process or of another one."""
    curator, other = opened(path), opened(path)
    answer = kept(curator)
    for asking in (curator, other):
        asking.sql(TOTAL, epsilon=1, refresh=True)
        assert curator.sql(BY_SEX, epsilon=1) is answer


@pytest.mark.parametrize("who", [0, 1])
def test_a_better_answer_replaces_the_one_in_memory(path: Path, who: int) -> None:
    curators = [opened(path), opened(path)]
    answer = kept(curators[0])
    better = curators[who].sql(BY_SEX, epsilon=2)
    found = curators[0].sql(BY_SEX, epsilon=1)
    assert found.entry == better.entry != answer.entry


def test_an_answer_that_was_charged_earlier_and_stored_later_is_noticed(path: Path) -> None:
    curator = opened(path)
    ledger = curator.ledger
    plan = curator.preview(BY_SEX, epsilon=1).plan
    slow = ledger.reserve(ledger.budget.cost(plan.loss), analyst="ann", body="q")
    answer = kept(curator)
    ledger.settle(slow, b"{}", match=plan.outline.identity.text, terms="another")
    assert ledger.answer_stamp(plan.outline.identity.text)[2] == slow.seq + 3
    assert answer.entry == slow.seq + 1


@pytest.mark.parametrize("change", ["new version", "changed data", "replaced ledger", "deleted ledger"])
def test_an_answer_in_memory_is_not_given_where_it_would_be_refused(path: Path, change: str) -> None:
    curator = opened(path)
    kept(curator)
    ledger = path.parent / ".lapwing" / "ledger.db"
    steps: dict[str, Callable[[], object]] = {
        "new version": lambda: (write_visits(path.parent, 41), opened(path, version="2")),
        "changed data": lambda: write_visits(path.parent, 41),
        "replaced ledger": lambda: os.replace(shutil.copy(ledger, ledger.with_name("copy.db")), ledger),
        "deleted ledger": ledger.unlink,
    }
    steps[change]()
    with pytest.raises(LapwingError):
        curator.sql(BY_SEX, epsilon=1)


@pytest.mark.parametrize("who", [0, 1])
def test_an_answer_in_memory_tells_a_check_that_was_paid_since(path: Path, who: int) -> None:
    """It was bought without one. Another question pays for a check of the same limits, in this process or another."""
    curators = [opened(path, check=None), opened(path, check=None)]
    curators[0].sql(BY_SEX, epsilon=1, check=0)
    assert kept(curators[0]).check is None
    other = curators[who].sql("SELECT sex, COUNT(*) AS n FROM visits WHERE age > 3 GROUP BY sex", epsilon=1)
    found = curators[0].sql(BY_SEX, epsilon=1)
    assert not found.cost
    assert found.check is not None
    assert found.check.result == other.check.result
    assert str(found) == str(opened(path, check=None).sql(BY_SEX, epsilon=1))
