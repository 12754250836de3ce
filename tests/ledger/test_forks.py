"""A ledger and fork: SQLite's locks do not survive it, so the connection is closed before and opened again after.

In PostgreSQL the child leaves its parent's connections alone and opens its own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from lapwing.ledger.sqlite_book import Memory, MemoryStore
from lapwing.ledger.store import ForkGuard

Work = Callable[..., Any]


@pytest.fixture(params=["file", "database"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder for a ledger and its witness, or for the address of one in a database."""
    if request.param == "database":
        base = request.getfixturevalue("base")
        (tmp_path / "ledger.url").write_text(base.url)
    return tmp_path


def test_sqlite_loses_a_charge_if_a_child_inherits_a_connection(work: Work, tmp_path: Path) -> None:
    """threat:A28: the child opens its own connection, its commit succeeds, and the row is gone. Hence the rule."""
    assert work("fork_without_care", tmp_path, "none")["charges"] == [[1]]


def test_sqlite_keeps_every_charge_if_the_connection_is_closed_before(work: Work, tmp_path: Path) -> None:
    assert work("fork_without_care", tmp_path, "close")["charges"] == [[1], [2]]


def test_parent_and_child_may_both_go_on_charging(work: Work, home: Path) -> None:
    """threat:A28: four charges of a tenth on two sides of a fork are four tenths."""
    assert work("fork_in_use", home) == {"code": 7, "spent": "2/5", "ok": True}


def test_a_ledger_in_memory_is_not_doubled_by_a_fork(work: Work) -> None:
    """threat:A28: the child is refused, the parent goes on."""
    assert work("fork_in_memory") == {"code": 7, "spent": "1"}


def test_a_fork_while_threads_charge_in_memory_leaves_the_child_no_lock(work: Work, tmp_path: Path) -> None:
    assert work("fork_in_memory_under_load", tmp_path) == {"codes": [7] * 5, "ok": [True] * 3}


def test_a_fork_waits_for_a_transaction_in_memory() -> None:
    """The lock is kept until the fork has ended. A transaction that its own thread interrupts is not waited for."""
    memory = Memory()
    assert memory.gate in ForkGuard.stores
    with MemoryStore(memory).writing():
        assert not memory.gate.fork_begins()
    assert memory.gate.fork_begins()
    held: list[bool] = []
    other = Thread(target=lambda: held.append(memory.gate.lock.acquire(blocking=False)))
    other.start()
    other.join()
    memory.gate.fork_ends(in_child=False)
    assert held == [False]


def test_a_fork_while_threads_are_charging_harms_nobody(work: Work, home: Path) -> None:
    result = work("fork_under_load", home)
    assert result == {"codes": [7] * 5, "ok": True, "child": "1/2"}


def test_a_fork_waits_for_a_long_read(disk: Any) -> None:
    """Its connection must not be carried into the child either."""
    held = disk.open(timeout=0.1)._store
    with held.inspecting() as book:
        assert len(book.page(None)) == 1
        assert not held.fork_begins()
    assert held.fork_begins()
    held.fork_ends(in_child=False)
