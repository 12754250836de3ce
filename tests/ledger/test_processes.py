"""Many processes on one ledger, and processes that die: never above the budget, never an answer without a charge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Work = Callable[..., Any]


@pytest.fixture(params=["file", "database"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder for a ledger and its witness, or for the address of one in a database."""
    if request.param == "database":
        base = request.getfixturevalue("base")
        (tmp_path / "ledger.url").write_text(base.url)
    return tmp_path


@pytest.mark.parametrize("parts", [1, 7, 30])
def test_eight_racing_processes_get_exactly_the_budget(work: Work, home: Path, parts: int) -> None:
    """ledger:B2 gate:G32: also when all of them create the ledger at the same time."""
    result = work("race", home, parts, 8)
    assert sum(result["granted"]) == parts
    assert result["ok"]
    assert result["entries"] == 1 + 2 * parts
    assert result["notes"] == []


def test_a_process_killed_at_any_step_leaves_no_answer_without_a_charge(work: Work, home: Path) -> None:
    """ledger:B1 ledger:B3 ledger:B5 gate:G34: killed before and after each call that touches a file."""
    result = work("kill_at_every_step", home)
    assert result["problems"] == []
    assert result["kills"] > 45
    assert 0 < result["unanswered"] < result["kills"]
    assert result["sent"] >= 1


def test_a_process_killed_while_it_creates_a_ledger_leaves_one_that_opens(work: Work, tmp_path: Path) -> None:
    """ledger:B13: what was never used is no reason to refuse the data."""
    result = work("kill_while_created", tmp_path)
    assert result["problems"] == []
    assert result["kills"] > 50


def test_a_disk_that_fills_while_a_ledger_is_created_leaves_one_that_opens(work: Work, tmp_path: Path) -> None:
    """ledger:B13: at every size of the files, and at every sync; each refusal has a next step."""
    result = work("full_while_created", tmp_path)
    assert result["problems"] == []
    assert result["finished"] == 5
    assert len(result["refusals"]) > 10
    assert all("disk" in text or "free space" in text or "write access" in text for text in result["refusals"])


def test_twenty_random_kills_leave_no_answer_without_a_charge(work: Work, home: Path) -> None:
    """ledger:B1 ledger:B3: two processes on one ledger, both killed."""
    result = work("kill_at_random", home, 20)
    assert result["problems"] == []
    assert result["entries"] > result["sent"] >= 10


@pytest.mark.slow
def test_five_hundred_random_kills_leave_no_answer_without_a_charge(work: Work, tmp_path: Path) -> None:
    """ledger:B1 ledger:B3: the same for longer, so that checkpoints are hit too."""
    result = work("kill_at_random", tmp_path, 500)
    assert result["problems"] == []
    assert result["sent"] >= 250
