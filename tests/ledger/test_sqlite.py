"""The file fails closed: full, read-only, locked, damaged, moved. No charge, no answer, a next step."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from lapwing.errors import LapwingError, LedgerFailed, Misconfigured
from lapwing.ledger import Ledger, open_ledger, sqlite, verify_ledger
from lapwing.ledger.sqlite import SqliteStore
from lapwing.ledger.sqlite_book import SCHEMA
from lapwing.privacy import Accounting, Budget, Cost

Work = Callable[..., Any]
TENTH = Cost(Accounting.PURE, 0.1)


def ask(ledger: Ledger, **more: Any) -> Any:
    return ledger.reserve(TENTH, analyst="ann", body="q", **more)


def connection(ledger: Ledger) -> sqlite3.Connection:
    assert isinstance(ledger._store, SqliteStore)
    with ledger._store._connection_held() as found:
        return found


@pytest.fixture
def place(disk: Any) -> Any:
    return disk


def test_only_the_owner_may_read_the_files(place: Any) -> None:
    ask(place.open())
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
        assert stat.S_IMODE((place.folder / name).stat().st_mode) == 0o600


def test_commits_are_as_durable_as_promised(place: Any) -> None:
    """ledger:B1: WAL, and FULL (2) for a charge; NORMAL (1) for an answer, which the next charge makes durable."""
    ledger = place.open()
    assert connection(ledger).execute("PRAGMA journal_mode").fetchone() == ("wal",)
    reservation = ask(ledger)
    assert connection(ledger).execute("PRAGMA synchronous").fetchone() == (2,)
    ledger.settle(reservation, b"answer")
    assert connection(ledger).execute("PRAGMA synchronous").fetchone() == (1,)


def test_the_log_is_moved_into_the_file_now_and_then(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the ledger itself, every so many commits; SQLite's own checkpoints may meet a commit and are off."""
    monkeypatch.setattr(sqlite, "CHECKPOINT_EVERY", 10)
    ledger, sizes = place.open(Budget(100)), []
    assert connection(ledger).execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)
    for _ in range(40):
        ask(ledger)
        sizes.append((place.folder / "ledger.db-wal").stat().st_size)
    assert max(sizes[10:]) <= max(sizes[:10])
    assert ledger.spent == Cost(Accounting.PURE, 4)
    assert ledger.verify().ok


@pytest.mark.parametrize("table", ["entry", "answer", "secret"])
def test_nothing_can_be_changed_or_deleted(place: Any, table: str) -> None:
    """ledger:B4 gate:G38: not even by SQL on the open file."""
    ledger = place.open()
    ledger.settle(ask(ledger, key="k"), b"answer")
    before = list(ledger.entries())
    with closing(sqlite3.connect(place.path)) as shell:
        columns = [name for _, name, *_ in shell.execute(f"PRAGMA table_info({table})")]
        attempts = [f"DELETE FROM {table}", *(f"UPDATE {table} SET {column} = {column}" for column in columns)]
        attempts += [f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}"]
        attempts += [f"REPLACE INTO {table} SELECT * FROM {table} LIMIT 1"]
        for attempt in attempts:
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                shell.execute(attempt)
    assert list(ledger.entries()) == before
    assert ledger.verify().ok


def test_a_key_cannot_be_replaced_by_a_later_entry(place: Any) -> None:
    """ledger:B4: REPLACE on the index of keys would delete the old charge without a trigger."""
    ledger = place.open()
    ask(ledger, key="k")
    with closing(sqlite3.connect(place.path)) as shell:
        row = shell.execute("SELECT * FROM entry WHERE seq = 2").fetchone()
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            shell.execute(f"REPLACE INTO entry VALUES ({', '.join('?' * len(row))})", (3, *row[1:]))
    assert ledger.verify().ok


def test_a_full_disk_charges_and_answers_nothing(place: Any) -> None:
    """ledger:B13 gate:G36: SQLite's own limit on the file."""
    ledger = place.open()
    reservation = ask(ledger)
    pages = connection(ledger).execute("PRAGMA page_count").fetchone()[0]
    connection(ledger).execute(f"PRAGMA max_page_count = {pages}")
    for attempt in (lambda: ask(ledger, note={"q": "x" * 9000}), lambda: ledger.settle(reservation, b"x" * 9000)):
        with pytest.raises(LedgerFailed, match=r"disk is full. Free some space.*No answer is given"):
            attempt()
    assert ledger.spent == TENTH
    assert ledger.verify().ok
    connection(ledger).execute("PRAGMA max_page_count = 1000000")
    ledger.settle(reservation, b"x" * 9000)
    assert ask(ledger).fresh


@pytest.mark.parametrize("limit", [4096, 50_000, 200_000])
def test_a_file_that_may_not_grow_charges_and_answers_nothing(work: Work, tmp_path: Path, limit: int) -> None:
    """ledger:B13 gate:G36: the system refuses the write; afterwards the ledger is whole and goes on."""
    result = work("without_space", tmp_path, limit)
    assert result["refusal"].startswith("LedgerFailed")
    assert "disk" in result["refusal"]
    assert result["after"]
    assert result["ok"]
    assert result["entries"] == result["granted"] + 2


def test_a_folder_that_cannot_be_written_is_refused(work: Work) -> None:
    """ledger:B13 gate:G36: an old ledger and a new one, with the next step."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        open_ledger(folder / "old.db", Budget(1), witness=folder / "old.witness").close()
        result = work("without_rights", folder)
        folder.chmod(0o755)
    assert set(result) == {"old", "new"}
    assert all(text.startswith("LedgerFailed") and "write access" in text for text in result.values()), result


def test_a_locked_ledger_is_waited_for_and_then_refused(work: Work, place: Any) -> None:
    """ledger:B13 gate:G36: the wait is configurable; nothing is charged; afterwards it goes on."""
    ledger = place.open(timeout=0.2)
    holder = work("hold_lock", place.path)["process"]
    try:
        for attempt in (lambda: ask(ledger), lambda: place.open(timeout=0.1)):
            with pytest.raises(LedgerFailed, match="kept it locked for too long"):
                attempt()
        assert ledger.spent == Cost(Accounting.PURE, 0)
    finally:
        os.kill(holder, signal.SIGKILL)
    assert ask(place.open(timeout=30)).fresh


def test_a_lock_is_taken_soon_after_it_is_free(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's own wait would sleep longer each time; here two looks are at most a millisecond apart."""
    ledger, pauses = place.open(), []
    holder = sqlite3.connect(place.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 50:
            holder.execute("ROLLBACK")

    monkeypatch.setattr(sqlite.time, "sleep", sleep)
    assert ask(ledger).fresh
    holder.close()
    assert len(pauses) == 50
    assert max(pauses) <= 0.001
    assert connection(ledger).execute("PRAGMA busy_timeout").fetchone() == (5000,)


@pytest.mark.parametrize("damage", ["header", "first page", "every page", "empty", "text"])
def test_a_damaged_file_is_refused(place: Any, damage: str) -> None:
    """ledger:B13 gate:G36: and verify says so too."""
    ledger = place.open()
    ledger.settle(ask(ledger), b"answer" * 1000)
    ledger.close()
    raw = bytearray(place.path.read_bytes())
    match damage:
        case "header":
            raw[:16] = b"not a data base!"
        case "first page":
            raw[100:4096] = bytes(3996)
        case "every page":
            raw[100:] = b"\xff" * (len(raw) - 100)
        case "empty":
            raw = bytearray()
        case _:
            raw = bytearray(b"epsilon,delta\n1,0\n" * 500)
    place.path.write_bytes(raw)
    with pytest.raises((LedgerFailed, Misconfigured), match=r"newest copy|another program"):
        place.open()
    assert not place.verify().ok
    assert damage == "empty" or place.path.read_bytes()[100:] == bytes(raw)[100:]


def test_a_database_of_another_program_is_refused(place: Any) -> None:
    with closing(sqlite3.connect(place.path)) as other:
        other.execute("CREATE TABLE patients (name TEXT)")
    with pytest.raises(Misconfigured, match="another program"):
        place.open()
    assert not place.verify().ok


@pytest.mark.parametrize("how", ["moved", "deleted", "replaced by a copy", "replaced by another"])
def test_a_ledger_that_goes_away_while_in_use_is_noticed(place: Any, how: str) -> None:
    """ledger:B12 gate:G37: charges must not go to a file that nobody will find."""
    ledger = place.open()
    reservation = ask(ledger)
    match how:
        case "moved":
            place.path.rename(place.folder / "elsewhere.db")
        case "deleted":
            place.path.unlink()
        case "replaced by a copy":
            shutil.copy(place.path, place.folder / "copy.db")
            os.replace(place.folder / "copy.db", place.path)
        case _:
            open_ledger(place.folder / "other.db", Budget(1)).close()
            os.replace(place.folder / "other.db", place.path)
    for attempt in (lambda: ask(ledger), lambda: ledger.settle(reservation, b"answer"), lambda: ledger.spent):
        with pytest.raises(LedgerFailed, match="while in use"):
            attempt()


class Interrupting(sqlite3.Connection):
    """Interrupted as by Ctrl-C, when the call returns; and notes how durable each commit is."""

    left = -1
    modes: ClassVar[list[int]] = []

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql == "COMMIT":
            self.modes += super().execute("PRAGMA synchronous").fetchone()
        done = super().execute(sql, *values)
        Interrupting.left -= 1
        if Interrupting.left == 0:
            raise KeyboardInterrupt
        return done


def test_after_an_interruption_anywhere_charges_are_durable(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """ledger:B1: after each call to SQLite in turn, while a question is charged and answered."""
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Interrupting))
    ledger, steps, charged = place.open(Budget(1000)), 0, 0
    finished = False
    while not finished:
        steps += 1
        Interrupting.left = steps
        with suppress(KeyboardInterrupt):
            ledger.settle(ask(ledger), b"answer")
            finished = True
        Interrupting.left = -1
        Interrupting.modes.clear()
        after = ask(ledger)
        assert set(Interrupting.modes) == {2}
        ledger.settle(after, b"answer")
        assert not connection(ledger).in_transaction
        charged += 1
    assert steps > 10
    assert charged * TENTH.amount <= ledger.spent.amount <= 2 * charged * TENTH.amount
    assert ledger.verify().ok


def test_the_tables_are_the_documented_ones(place: Any) -> None:
    place.open().close()
    with closing(sqlite3.connect(place.path)) as shell:
        assert dict(shell.execute("SELECT name, sql FROM sqlite_master")) == SCHEMA


def test_an_unreachable_path_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "ledger.db", Path("/proc/ledger.db")):
        with pytest.raises(LapwingError, match=r"write access|permissions"):
            open_ledger(path, Budget(1))
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(Misconfigured, match=r"is not a regular file\. Name another file for the ledger\."):
            open_ledger(path, Budget(1))
        with pytest.raises(Misconfigured, match="is not a regular file"):
            verify_ledger(path)
    assert not verify_ledger(tmp_path / "nowhere").ok
