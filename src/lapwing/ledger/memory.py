"""A ledger in the memory of one process, which ends with it: for data frames, lessons and tests.

Whole:      a transaction writes at the end of the rows, and counts them as committed in its last step, one assignment.
            What an error or an interrupt left behind is cut off when the next one starts.
Forks:      a child has a copy of the rows, which would be a second budget. It is refused, also if it opens it again.
Checked by: tests/ledger/test_ledger.py, tests/ledger/test_promises.py
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from lapwing.errors import LedgerFailed, Misconfigured
from lapwing.ledger.entry import UNSYNCED, Entry, EntryKind
from lapwing.ledger.gate import Gate
from lapwing.ledger.store import PAGE, AnswerRow, Row


class MemoryBook:
    """Rows in the order in which they came, and where to find them."""

    def __init__(self) -> None:
        self.secret: bytes | None = None
        self.rows: list[Row] = []
        self.answers: dict[int, AnswerRow] = {}
        self._kinds: dict[tuple[str, str], list[Row]] = {}
        self._keys: dict[tuple[str, str], Row] = {}
        self._matches: dict[str, list[AnswerRow]] = {}

    def copy(self, rows: int, answers: int) -> MemoryBook:
        """The same up to here."""
        book = MemoryBook()
        book.secret = self.secret
        for row in self.rows[:rows]:
            book.append(Entry(*row))
        for answer in list(self.answers.values())[:answers]:
            book.add_answer(answer)
        return book

    def is_empty(self) -> bool:
        return not self.rows

    def create(self, salt: bytes) -> None:
        self.secret = salt

    def salt(self) -> object:
        return self.secret

    def entry(self, seq: int) -> Row | None:
        return self.rows[seq - 1] if 0 < seq <= len(self.rows) else None

    def last(self) -> Row | None:
        return self.rows[-1] if self.rows else None

    def last_durable(self) -> Row | None:
        return next((row for row in reversed(self.rows) if row[1] not in UNSYNCED), None)

    def entries_from(self, seq: int) -> list[Row]:
        return self.rows[max(seq, 1) - 1 :]

    def page(self, after: int | None, end: int | None = None) -> list[Row]:
        return self.rows[after or 0 : end][:PAGE]

    def entries_of(self, kind: str, analyst: str) -> list[Row]:
        return list(self._kinds.get((kind, analyst), ()))

    def latest(self, kind: str, analyst: str) -> Row | None:
        return next(reversed(self._kinds.get((kind, analyst), ())), None)

    def with_key(self, analyst: str, key: str) -> Row | None:
        return self._keys.get((analyst, key))

    def append(self, entry: Entry) -> None:
        used = entry.key is not None and (entry.analyst, entry.key) in self._keys
        if entry.seq != len(self.rows) + 1 or used:
            raise LedgerFailed(f"Entry {entry.seq} is not the next one. The ledger is append-only.")
        row = entry.row
        self.rows.append(row)
        self._kinds.setdefault((entry.kind, entry.analyst), []).append(row)
        if entry.key is not None:
            self._keys[entry.analyst, entry.key] = row

    def answer(self, seq: int) -> AnswerRow | None:
        return self.answers.get(seq)

    def matching(self, match_hash: str) -> list[int]:
        return sorted((answer.seq for answer in self._matches.get(match_hash, ())), reverse=True)

    def offers(self, match_hash: str) -> list[tuple[int, str]]:
        newest: dict[str, int] = {}
        for answer in self._matches.get(match_hash, ()):
            newest[answer.terms] = max(answer.seq, newest.get(answer.terms, 0))
        return sorted(((seq, terms) for terms, seq in newest.items()), reverse=True)

    def stamp(self, match_hash: str) -> tuple[object, ...]:
        settled, declared = self._matches.get(match_hash), self.latest(EntryKind.VERSION, "")
        return self.rows[0][-1], settled[-1].settled if settled else None, declared[0] if declared else None

    def add_answer(self, answer: AnswerRow) -> None:
        if answer.seq in self.answers:
            raise LedgerFailed(f"Charge {answer.seq} has an answer. The ledger is append-only.")
        self.answers[answer.seq] = answer
        if answer.match_hash is not None:
            self._matches.setdefault(answer.match_hash, []).append(answer)

    def answered(self) -> list[tuple[int, int]]:
        return sorted((answer.seq, answer.settled) for answer in self.answers.values())

    def find_damage(self) -> str | None:
        return None


class Memory:
    """What the stores of one ledger share."""

    def __init__(self, note: str = "") -> None:
        self.gate = Gate("Pass ledger='ledger.db' to every process that opens the data.")
        self.note = note
        self.book = MemoryBook()
        self.committed = (0, 0)
        """How many rows and answers count."""


class MemoryStore:
    """A ledger in memory; another one on the same memory sees the same rows."""

    name = "in memory"
    files: tuple[Path, ...] = ()
    opened = 1

    def __init__(self, memory: Memory | None = None) -> None:
        self._memory = memory or Memory()
        self._closed = False

    @property
    def note(self) -> str:
        return self._memory.note

    @property
    def state(self) -> tuple[int, int]:
        with self.reading():
            return self._memory.committed

    def exists(self) -> bool:
        return self._memory.committed > (0, 0)

    def prepare(self) -> None:
        """There is nothing to make."""

    @contextmanager
    def reading(self) -> Iterator[MemoryBook]:
        with self._memory.gate.enter():
            if self._closed:
                raise Misconfigured("This ledger is closed. Open it again.")
            book = self._memory.book
            if (len(book.rows), len(book.answers)) != self._memory.committed:
                book = self._memory.book = book.copy(*self._memory.committed)
            yield book

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[MemoryBook]:
        del durable  # nothing in memory survives the process
        with self.reading() as book:
            yield book
            self._memory.committed = len(book.rows), len(book.answers)

    def inspecting(self) -> AbstractContextManager[MemoryBook]:
        return self.reading()

    def sync(self) -> None:
        """There is no disk."""

    def close(self) -> None:
        self._closed = True
