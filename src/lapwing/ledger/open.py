"""The ledger at a path or an address, for those who have no store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
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
    place, witnesses = _place(path), _witnesses(witness)
    try:
        if not _is_there(place):
            heads = known_heads(witnesses, against)
            seen = [missing_ledger(source, head, str(place)) for source, head in heads if isinstance(head, Head)]
            return Report(0, None, ChainFault((seen or [f"There is no ledger at {place}."])[0]))
        with _opened_to_read(place) as book:
            return verify(lambda: nullcontext(book), witnesses, against=against)
    except LedgerFailed as error:
        return Report(0, None, ChainFault(str(error)))


def copy_ledger(path: LedgerPlace, to: Path) -> None:
    """Copies the newest commit to a file, whoever writes meanwhile; nothing if there is no ledger."""
    place = _place(path)
    if isinstance(place, Path):
        copy_file(place, to)
        return
    with _opened_to_read(place) as book:
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
    """Writes an entry and takes it back, before the commit: whatever would stop a charge fails here."""
    store = _store(path)
    try:
        with suppress(_TakenBack), store.writing() as book:
            if not book.is_empty():
                last = Entry.read(book.last() or ())
                book.append(replace(last, seq=last.seq + 1, key=None, previous=last.hash).seal())
            raise _TakenBack
    finally:
        store.close()


class _TakenBack(Exception):
    """Nothing was wrong."""


def accept_ledger(
    path: LedgerPlace, budget: Budget, *, witness: Sequence[Path] = (), against: Head | None = None
) -> Report:
    """Goes on with a ledger whose server has changed, if all that is known of it is there. Records that it did."""
    place = _place(path)
    if not isinstance(place, PostgresAddress):
        raise Misconfigured("A ledger in a file has no server. There is nothing to accept.")
    load_driver()
    from lapwing.ledger.postgres import PostgresStore

    report = verify_ledger(place, witness=witness, against=against)
    if report.ok:  # to open it may write an entry, which would accept the server
        with Ledger.open(PostgresStore(place, moved=True), budget, _witnesses(witness)) as ledger:
            ledger.accept()
    return report


def _store(path: LedgerPlace, timeout: float = 30.0) -> Store:
    place = _place(path)
    if isinstance(place, Path):
        return SqliteStore(place, timeout=timeout)
    load_driver()
    from lapwing.ledger.postgres import PostgresStore

    return PostgresStore(place, timeout=timeout)


def _place(path: LedgerPlace) -> Path | PostgresAddress:
    if isinstance(path, PostgresAddress):
        return path
    return read_address(str(path)) if is_postgres(path) else Path(path)


def _is_there(place: Path | PostgresAddress) -> bool:
    if isinstance(place, Path):
        return SqliteStore(place).exists()
    with _opened_to_read(place) as book:
        return not book.is_empty()


def _opened_to_read(place: Path | PostgresAddress) -> AbstractContextManager[Book]:
    if isinstance(place, Path):
        return opened_to_read(place)
    load_driver()
    from lapwing.ledger import postgres

    return postgres.opened_to_read(place)


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
