"""The ledger against a model of twenty lines, under any order of charges, retries, answers, crashes and restores."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lapwing.errors import BudgetExceeded, Misconfigured
from lapwing.ledger import Entry, Ledger, Reservation
from lapwing.ledger.sqlite import SqliteStore
from lapwing.ledger.sqlite_book import Memory, MemoryStore
from lapwing.ledger.store import Store
from lapwing.ledger.witness import Witness
from lapwing.privacy import Accounting, Budget, Cost

ANALYSTS = st.sampled_from(["ann", "bob"])
AMOUNTS = st.sampled_from([Fraction(1, 10), Fraction(1, 7), Fraction(1, 3), Fraction(11, 10)])
KEYS = st.sampled_from([None, "a", "b", "c"])
BODIES = st.sampled_from(["one", "two"])


class Model:
    """What a ledger should do, in memory and without any of its machinery."""

    def __init__(self) -> None:
        self.charges: list[tuple[str, Fraction]] = []
        self.keys: dict[tuple[str, str], tuple[str, int]] = {}
        self.limits: dict[str, Fraction] = {}
        self.answers: dict[int, bytes] = {}

    def spent(self, analyst: str | None = None) -> Fraction:
        return sum((amount for who, amount in self.charges if analyst in (None, who)), Fraction(0))

    def ask(self, analyst: str, amount: Fraction, key: str | None, body: str) -> str:
        if key is not None and (analyst, key) in self.keys:
            return "again" if self.keys[analyst, key][0] == body else "conflict"
        if self.spent() + amount > 1 or self.spent(analyst) + amount > self.limits.get(analyst, Fraction(2)):
            return "refused"
        self.charges.append((analyst, amount))
        if key is not None:
            self.keys[analyst, key] = (body, len(self.charges))
        return "fresh"


class Files:
    """A ledger in a file, and what happens to it."""

    def __init__(self, home: Path) -> None:
        self.home, self.folder, self.moves = home, home / "0", 0
        self.folder.mkdir()

    def store(self) -> Store:
        return SqliteStore(self.folder / "ledger.db")

    def crash(self) -> None:
        """Goes on with the files as they are while the ledger is open."""
        self.moves += 1
        after = self.home / str(self.moves)
        after.mkdir()
        for name in ("ledger.db", "ledger.db-wal"):
            if (self.folder / name).exists():
                shutil.copy(self.folder / name, after / name)
        self.folder = after

    def back_up(self) -> None:
        shutil.copy(self.folder / "ledger.db", self.home / "backup.db")

    def restore(self) -> Callable[[], object]:
        """Puts the older copy there, and says how to put back the newest."""
        path, newest = self.folder / "ledger.db", self.home / "newest.db"
        os.replace(path, newest)
        shutil.copy(self.home / "backup.db", path)
        return lambda: os.replace(newest, path)


class Cells:
    """The same in memory; a crash leaves a transaction that was never committed."""

    def __init__(self, home: Path) -> None:
        self.memory = self.backup = Memory()

    def store(self) -> Store:
        return MemoryStore(self.memory)

    def crash(self) -> None:
        self.memory.connection.execute("BEGIN")
        last = Entry.read(self.memory.book.last() or ())
        self.memory.book.append(replace(last, seq=last.seq + 1, key="lost"))

    def back_up(self) -> None:
        self.backup = Memory()
        self.memory.connection.backup(self.backup.connection)
        self.backup.commits = self.memory.commits

    def restore(self) -> Callable[[], object]:
        newest, self.memory = self.memory, self.backup
        return lambda: setattr(self, "memory", newest)


class LedgerMachine(RuleBasedStateMachine):
    """Drives a ledger in one kind of store, and the model beside it."""

    kind: ClassVar[type[Files | Cells]]

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp())
        self.witness = self.home / "data.witness"
        self.place = self.kind(self.home)
        self.model, self.pending = Model(), dict[int, Reservation]()
        self.seqs: list[int] = []
        self.backup: int | None = None
        self.ledger = self.opened()

    def opened(self) -> Ledger:
        return Ledger.open(self.place.store(), Budget(1), [Witness(self.witness)])

    @rule(analyst=ANALYSTS, amount=AMOUNTS, key=KEYS, body=BODIES)
    def ask(self, analyst: str, amount: Fraction, key: str | None, body: str) -> None:
        expected = self.model.ask(analyst, amount, key, body)
        try:
            found = self.ledger.reserve(Cost(Accounting.PURE, amount), analyst=analyst, body=body, key=key)
        except BudgetExceeded:
            assert expected == "refused"
        except Misconfigured:
            assert expected == "conflict"
        else:
            assert expected == ("fresh" if found.fresh else "again")
            if found.fresh:
                self.seqs.append(found.seq)
                self.pending[len(self.model.charges)] = found
            else:
                assert key is not None
                number = self.model.keys[analyst, key][1]
                assert (found.seq, found.answer) == (self.seqs[number - 1], self.model.answers.get(number))

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.pending)))
        reservation = self.pending.pop(number)
        self.model.answers[number] = f"answer {number}".encode()
        self.ledger.settle(reservation, self.model.answers[number], match=str(number % 3))

    @rule(analyst=ANALYSTS, amount=AMOUNTS)
    def allow(self, analyst: str, amount: Fraction) -> None:
        self.ledger.allow(analyst, Cost(Accounting.PURE, amount))
        self.model.limits[analyst] = amount

    @rule(closed=st.booleans())
    def stop_and_start(self, closed: bool) -> None:
        """An orderly end, or what a crash leaves. Either way, running questions are lost."""
        if not closed:
            self.place.crash()
        self.ledger.close()
        self.pending.clear()
        self.ledger = self.opened()

    @rule()
    def back_up(self) -> None:
        self.ledger.close()
        self.place.back_up()
        self.backup = len(self.model.charges)
        self.ledger = self.opened()

    @precondition(lambda self: self.backup is not None and self.backup < len(self.model.charges))
    @rule()
    def restore(self) -> None:
        """An older copy is refused; the newest one is served again."""
        self.ledger.close()
        put_back = self.place.restore()
        with pytest.raises(Misconfigured, match="older copy"):
            self.opened()
        put_back()
        self.ledger = self.opened()

    @invariant()
    def the_ledger_is_the_model(self) -> None:
        assert self.ledger.spent.amount == self.model.spent() <= 1
        for analyst in ("ann", "bob"):
            assert self.ledger.spent_by(analyst).amount == self.model.spent(analyst)

    def teardown(self) -> None:
        report = self.ledger.verify()
        assert report.ok
        assert len(report.unanswered) == len(self.model.charges) - len(self.model.answers)
        stored = [self.ledger.answer(seq) for seq in self.seqs]
        assert stored == [self.model.answers.get(number) for number in range(1, len(self.seqs) + 1)]
        found: Any = [answer.payload for match in "012" for answer in self.ledger.find_answers(match)]
        assert sorted(found) == sorted(self.model.answers.values())
        self.ledger.close()
        shutil.rmtree(self.home)


class InFiles(LedgerMachine):
    kind = Files


class InMemory(LedgerMachine):
    kind = Cells


TestLedgerInFiles = InFiles.TestCase
TestLedgerInFiles.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)
TestLedgerInMemory = InMemory.TestCase
TestLedgerInMemory.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)
