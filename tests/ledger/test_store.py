"""What every store guarantees, without any rule of the ledger: see the list in store.py."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import lapwing
from lapwing.errors import LedgerFailed, Misconfigured
from lapwing.ledger import Entry, EntryKind
from lapwing.ledger.entry import COLUMNS, follow
from lapwing.ledger.sqlite_book import MemoryStore
from lapwing.ledger.store import PAGE, AnswerRow, Book, Store
from lapwing.privacy import Accounting, Cost
from support.members import implementing, lacking, plant

NOTHING = Cost(Accounting.PURE, 0)


def following(book: Book, kind: EntryKind = EntryKind.RESERVE, **more: Any) -> Entry:
    last = book.last()
    return follow(None if last is None else Entry.read(last), kind, spent=NOTHING, own=NOTHING, **more)


def add(book: Book, kind: EntryKind = EntryKind.RESERVE, **more: Any) -> int:
    entry = following(book, kind, **more)
    book.append(entry)
    return entry.seq


def numbers(rows: Any) -> list[int]:
    return [row[0] for row in rows]


def test_every_store_is_held_to_its_word(held_to_its_word: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by looking: one that has the methods of a store and no line in STORES is named; one is planted."""
    assert lacking(implementing(Store, "lapwing"), held_to_its_word) == []
    assert lacking(held_to_its_word, implementing(Store, "lapwing")) == []
    plant(monkeypatch, type("TapeStore", (MemoryStore,), {}), module="lapwing.ledger.store")
    assert lacking(implementing(Store, "lapwing"), held_to_its_word) == ["TapeStore"]


def test_each_place_keeps_its_ledger_in_its_own_store(place: Any) -> None:
    assert type(place.store()).__name__ == place.keeps


@pytest.fixture
def store(place: Any) -> Any:
    """With a secret and the first entry."""
    made = place.store()
    made.prepare()
    with made.writing() as book:
        assert book.is_empty()
        book.create(b"secret")
        add(book, EntryKind.OPEN)
    yield made
    made.close()


def test_a_place_exists_when_it_was_made(place: Any) -> None:
    assert not place.store().exists()
    place.open()
    assert place.store().exists()


def test_rows_come_back_as_they_were_stored(store: Store) -> None:
    with store.writing() as book:
        entry = following(book, analyst="ann", key="k", body="b", note={"a": 1})
        book.append(entry)
    with store.reading() as book:
        assert not book.is_empty()
        assert book.salt() == b"secret"
        expected = tuple(getattr(entry, name) for name in COLUMNS)
        assert book.entry(2) == book.last() == book.with_key("ann", "k") == expected
        assert book.entry(3) is book.with_key("ann", "x") is book.with_key("bob", "k") is book.entry(0) is None
        assert book.find_damage() is None


def test_entries_are_found_by_number_kind_and_analyst(store: Store) -> None:
    with store.writing() as book:
        for kind, analyst in [
            (EntryKind.RESERVE, "ann"),
            (EntryKind.RESERVE, "bob"),
            (EntryKind.ALLOW, "ann"),
            (EntryKind.RESERVE, "ann"),
        ]:
            add(book, kind, analyst=analyst)
        add(book, EntryKind.SETTLE, analyst="ann")
        assert numbers(book.entries_of(EntryKind.RESERVE, "ann")) == [2, 5]  # its own writes too
        assert book.latest(EntryKind.RESERVE, "ann") == book.entry(5)
        assert book.latest(EntryKind.RESERVE, "eve") is None
        assert book.entries_of(EntryKind.VERSION, "") == []
        assert numbers(book.entries_from(4)) == [4, 5, 6]
        assert book.entries_from(7) == []
    with store.writing() as book:
        assert book.last_durable() == book.entry(5)


def test_pages_cover_all_entries_once(store: Store) -> None:
    with store.writing(durable=False) as book:
        for _ in range(PAGE + 2):
            add(book)
    with store.inspecting() as book:
        pages = [book.page(None), book.page(PAGE), book.page(2 * PAGE)]
        assert [len(page) for page in pages] == [PAGE, 3, 0]
        assert numbers(pages[0] + pages[1]) == list(range(1, PAGE + 4))
        assert numbers(book.page(None, 3)) == [1, 2, 3]
        assert numbers(book.page(2, 4)) == [3, 4]


def test_answers_are_found_by_charge_and_by_match(store: Store) -> None:
    made = [AnswerRow(2, 6, "m", "b", b"x"), AnswerRow(4, 7, "m", "a", b"y"), AnswerRow(3, 8, "m", "b", b"z")]
    with store.writing() as book:
        for kind in [EntryKind.RESERVE] * 4 + [EntryKind.SETTLE] * 4:
            add(book, kind)
        assert book.stamp("m")[1:] == (None, None)
        for answer in [*made, AnswerRow(5, 9, None, "", b"")]:
            book.add_answer(answer)
        add(book, EntryKind.VERSION)
    with store.reading() as book:
        assert [book.answer(seq) for seq in (2, 4, 3)] == made
        assert book.answer(9) is None
        assert book.matching("m") == [4, 3, 2]
        assert book.offers("m") == [(4, "a"), (3, "b")]
        assert book.matching("n") == book.offers("n") == []
        first = book.entry(1)
        assert first is not None
        assert book.stamp("m") == (first[-1], 8, 10)
        assert book.answered() == [(2, 6), (3, 8), (4, 7), (5, 9)]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_transaction_that_fails_leaves_nothing(store: Store, error: type[BaseException]) -> None:
    before = store.state

    def fail(book: Book) -> None:
        add(book, analyst="ann", key="k")
        add(book, EntryKind.SETTLE)
        book.add_answer(AnswerRow(2, 3, "m", "t", b"x"))
        raise error

    with pytest.raises(error), store.writing() as book:
        fail(book)
    assert store.state == before
    with store.writing() as book:
        assert numbers(book.page(None)) == [1]
        assert book.with_key("ann", "k") is book.latest(EntryKind.RESERVE, "ann") is book.answer(2) is None
        assert book.offers("m") == book.answered() == []
        assert add(book, analyst="ann", key="k") == 2


def test_creating_that_fails_leaves_an_empty_place(place: Any) -> None:
    store = place.store()
    store.prepare()

    def fail(book: Book) -> None:
        book.create(b"lost")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), store.writing() as book:
        fail(book)
    with store.writing() as book:
        assert book.is_empty()
        book.create(b"kept")
        add(book, EntryKind.OPEN)
    with store.reading() as book:
        assert book.salt() == b"kept"


def test_only_the_next_entry_and_the_first_answer_are_taken(store: Store) -> None:
    """ledger:B4."""
    with store.writing() as book:
        add(book, analyst="ann", key="k")
        add(book, EntryKind.SETTLE)
        book.add_answer(AnswerRow(2, 3, None, "", b"first"))
    for wrong in (
        lambda book: book.append(replace(following(book), seq=2)),
        lambda book: book.append(replace(following(book), seq=9)),
        lambda book: book.append(following(book, analyst="ann", key="k")),
        lambda book: book.add_answer(AnswerRow(2, 3, None, "", b"second")),
    ):
        with pytest.raises(LedgerFailed), store.writing() as book:
            wrong(book)
    with store.reading() as book:
        assert numbers(book.page(None)) == [1, 2, 3]
        assert book.answer(2) == AnswerRow(2, 3, None, "", b"first")


def test_another_connection_sees_what_was_committed(place: Any, store: Store) -> None:
    other, states = place.store(), [store.state]
    for here in (store, other, store):
        with here.writing(durable=False) as book:
            add(book)
        states.append(store.state)
    assert len(set(states)) == 4
    assert store.state == states[-1]
    store.sync()
    with other.reading() as book:
        assert numbers(book.page(None)) == [1, 2, 3, 4]
    other.close()


def test_writers_take_turns(place: Any, store: Store) -> None:
    """ledger:B2: the second one begins when the first has ended, and reads what it wrote."""
    inside, order = Event(), []

    def second() -> None:
        inside.wait()
        with place.store(30).writing() as book:
            order.append(("second", add(book)))

    thread = Thread(target=second)
    thread.start()
    with store.writing() as book:
        inside.set()
        thread.join(0.05)
        order.append(("first", add(book)))
    thread.join()
    assert order == [("first", 2), ("second", 3)]


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="the system has no such signal")
def test_whoever_interrupts_a_transaction_is_refused(store: Store) -> None:
    said: list[str] = []

    def handler(*_: object) -> None:
        with pytest.raises(LedgerFailed, match="interrupted another question") as caught, store.reading():
            pass
        said.append(str(caught.value))

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with store.writing() as book:
            signal.raise_signal(signal.SIGALRM)
            add(book)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(said) == 1
    with store.reading() as book:
        assert numbers(book.page(None)) == [1, 2]


def test_a_closed_store_says_so(store: Store) -> None:
    store.close()
    store.close()
    for use in (store.reading, store.writing, store.inspecting):
        with pytest.raises(Misconfigured, match="closed"), use():
            pass


def test_the_rules_know_no_store() -> None:
    """SQLite and psycopg are named in their own files, and a store only where a path or a frame gets its ledger."""
    files = {path: path.read_text() for path in Path(lapwing.__file__).parent.rglob("*.py")}
    named = {path.name for path, text in files.items() if "sqlite3" in text}
    assert named == {"sqlite.py", "sqlite_book.py", "sqlite_store.py"}  # the last keeps the reports of a survey
    room = {path.name for path, text in files.items() if path.parent.name == "ledger" and "import psycopg" in text}
    assert room == {"postgres.py", "postgres_server.py"}
    stores = ("lapwing.ledger.sqlite", "lapwing.ledger.postgres")
    users = {path.relative_to(path.parents[1]) for path, text in files.items() if any(name in text for name in stores)}
    own = {"sqlite.py", "postgres.py", "postgres_server.py", "postgres_book.py"}
    surveys = {Path("survey/postgres_store.py")}  # connections to a server are the same; it has no ledger
    assert {path for path in users if path.name not in own} == {Path("ledger/open.py")} | surveys
