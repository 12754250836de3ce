"""The ledger at a path or an address, or in memory.

Frames that no file keeps have their budgets in memory, by the names of their tables:
Guarantee:  in one process, tables of the same name are the same people: all charges for them, by any number of
            curators, one after the other or at once, add up in one ledger. Its budget and its unit are the first ones.
Proof:      a name is given a ledger once, under a lock, and keeps it; a child of a fork has the same names, whose
            ledgers refuse it (ledger/sqlite_book.py). Two names that have ledgers of their own are never joined.
Versions:   data that were seen under a name before have the version that they had then; others are a new one.
Checked by: tests/curator/test_populations.py
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

from lapwing.errors import LedgerFailed, Misconfigured
from lapwing.ledger.chain import ChainFault
from lapwing.ledger.entry import Entry, Head
from lapwing.ledger.ledger import Ledger
from lapwing.ledger.sqlite import SqliteStore, copy_file, opened_to_read
from lapwing.ledger.sqlite_book import Memory, MemoryStore
from lapwing.ledger.store import Book, Store
from lapwing.ledger.verify import Report, known_heads, verify
from lapwing.ledger.witness import Witness, missing_ledger
from lapwing.postgres import PostgresAddress, is_postgres, load_driver, read_address
from lapwing.privacy.budget import Budget

LedgerPlace = Path | str | PostgresAddress
"""A file, or a database: its address, or the text of one, such as postgresql://HOST/DATABASE."""


FRESH = ":memory:"
"""In place of a path: a new ledger every time."""
_FRESH = "This budget is in memory, for this curator only: opening the data again starts another one."
_ENDS = "This budget is in memory and ends with the process. Pass ledger='ledger.db' to keep it."


class Population(Memory):
    """A ledger in memory, and the data that were opened with it."""

    def __init__(self, *, fresh: bool = False) -> None:
        super().__init__(_FRESH if fresh else _ENDS)
        self._seen: dict[str, dict[object, str]] = {}

    def version(self, table: str, mark: object, declared: str | None) -> str:
        """The version of a table with these contents: the declared one, the one they had, or the next number."""
        with _Known.lock:
            seen = self._seen.setdefault(table.lower(), {})
            if declared is None:
                return seen.setdefault(mark, next(n for n in map(str, count(1)) if n not in seen.values()))
            if declared not in seen.values():
                seen[mark] = declared
            return declared


class _Known:
    """The populations of this process by the names of their tables. A signal handler may open one too."""

    by_name: dict[str, Population] = {}  # noqa: RUF012 (shared by the whole process on purpose)
    lock = threading.RLock()

    @classmethod
    def renew(cls) -> None:
        cls.lock = threading.RLock()


os.register_at_fork(after_in_child=_Known.renew)  # a thread that does not exist here may hold the parent's lock


def population_of(tables: Sequence[str]) -> Population:
    """Whose rows these tables have, as long as the process runs."""
    names = [table.lower() for table in tables]
    with _Known.lock:
        populations = {_Known.by_name[name] for name in names if name in _Known.by_name}
        if len(populations) > 1:
            raise Misconfigured(
                f"{', '.join(f'`{table}`' for table in tables)} were opened before with a budget each. Open them one "
                "by one, or all of them with one ledger: ledger='ledger.db'. The budgets of two ledgers add up."
            )
        population = populations.pop() if populations else Population()
        _Known.by_name |= dict.fromkeys(names, population)
        return population


def open_ledger(
    path: LedgerPlace | Memory | None,
    budget: Budget,
    *,
    witness: Path | str | Sequence[Path | str] = (),
    timeout: float = 30.0,
) -> Ledger:
    """The ledger at this place, created if neither it nor a witness of it exists; in memory if the path is None.

    `witness` names files beside the data that remember how far the ledger had come. `timeout` is how many seconds to
    wait for other processes.
    """
    witnesses = _witnesses(witness, timeout)
    if path is not None and not isinstance(path, Memory):
        store = _store(path, timeout)
        if not store.files:  # a ledger in a file makes its folder, in which a witness may be too
            _make_folders(witnesses)
        return Ledger.open(store, budget, witnesses)
    if witnesses:
        raise Misconfigured("A ledger in memory has no witness. Leave `witness` out, or give the ledger a path.")
    return Ledger.open(MemoryStore(path), budget)


def has_ledger(path: LedgerPlace | Memory) -> bool:
    """Whether there is a ledger at this place. Creates nothing."""
    store = MemoryStore(path) if isinstance(path, Memory) else _store(path)
    try:
        return store.exists()
    finally:
        store.close()


def verify_ledger(path: LedgerPlace, *, witness: Sequence[Path] = (), against: Head | None = None) -> Report:
    """Checks a ledger, also one that can no longer be opened. Changes nothing."""
    address, witnesses = _place(path), _witnesses(witness)
    try:
        if not _is_there(address):
            heads = known_heads(witnesses, against)
            seen = [missing_ledger(source, head, str(address)) for source, head in heads if isinstance(head, Head)]
            return Report(0, None, ChainFault((seen or [f"There is no ledger at {address}."])[0]))
        with _opened_to_read(address) as book:
            return verify(lambda: nullcontext(book), witnesses, against=against)
    except LedgerFailed as error:
        return Report(0, None, ChainFault(str(error)))


def copy_ledger(path: LedgerPlace, to: Path) -> None:
    """Copies the newest commit to a file, also while others write; nothing if there is no ledger."""
    address = _place(path)
    if isinstance(address, Path):
        copy_file(address, to)
        return
    with _opened_to_read(address) as book:
        salt = None if book.is_empty() else book.salt()
        if not isinstance(salt, bytes):
            return
        copied = SqliteStore(to)
        copied.prepare()
        with copied.writing() as copy:
            copy.create(salt)
            while page := book.page(None if copy.last() is None else copy.last()[0]):  # type: ignore[index]
                for row in page:
                    copy.append(Entry(*row))
            for seq, _ in book.answered():
                copy.add_answer(book.answer(seq))  # type: ignore[arg-type]
        copied.close()


def check_writable(path: LedgerPlace) -> None:
    """Writes an entry and rolls it back: whatever would stop a charge fails here."""
    store = _store(path)
    try:
        with suppress(_RolledBack), store.writing() as book:
            if not book.is_empty():
                last = Entry.read(book.last() or ())
                book.append(replace(last, seq=last.seq + 1, key=None, previous=last.hash).seal())
            raise _RolledBack
    finally:
        store.close()


class _RolledBack(Exception):
    """Nothing was wrong."""


def accept_ledger(
    path: LedgerPlace, budget: Budget, *, witness: Sequence[Path] = (), against: Head | None = None
) -> Report:
    """Accepts a ledger whose server has changed, if no known entry is missing, and records it."""
    address = _place(path)
    if not isinstance(address, PostgresAddress):
        raise Misconfigured("A ledger in a file has no server. There is nothing to accept.")
    report = verify_ledger(address, witness=witness, against=against)
    if report.ok:  # to open it may write an entry, which would accept the server
        with Ledger.open(_store(address, moved=True), budget, _witnesses(witness)) as ledger:
            ledger.accept()
    return report


def _store(path: LedgerPlace, timeout: float = 30.0, *, moved: bool = False) -> Store:
    address = _place(path)
    if isinstance(address, Path):
        return SqliteStore(address, timeout=timeout)
    load_driver()
    from lapwing.ledger.postgres import PostgresStore

    return PostgresStore(address, timeout=timeout, moved=moved)


def _place(path: LedgerPlace) -> Path | PostgresAddress:
    if isinstance(path, PostgresAddress):
        return path
    return read_address(str(path)) if is_postgres(path) else Path(path)


def _is_there(address: Path | PostgresAddress) -> bool:
    if isinstance(address, Path):
        return SqliteStore(address).exists()
    with _opened_to_read(address) as book:
        return not book.is_empty()


def _opened_to_read(address: Path | PostgresAddress) -> AbstractContextManager[Book]:
    if isinstance(address, Path):
        return opened_to_read(address)
    return _store(address).inspecting()


def _make_folders(witnesses: Sequence[Witness]) -> None:
    for witness in witnesses:
        try:
            witness.path.parent.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise LedgerFailed(
                f"The witness {witness.path} could not be written ({error.strerror}). Make its folder writable."
            ) from None


def _witnesses(files: Path | str | Sequence[Path | str], timeout: float = 30.0) -> list[Witness]:
    return [Witness(Path(file), timeout) for file in ([files] if isinstance(files, Path | str) else files)]
