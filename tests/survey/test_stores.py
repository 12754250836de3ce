"""What every store of reports promises. Another store is another line in STORES."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lapwing.errors import Misconfigured, StoreFailed
from lapwing.ledger.postgres_server import Link
from lapwing.postgres import read_address
from lapwing.survey.postgres_store import _MIX_EVERY, PostgresSurveyStore
from lapwing.survey.report_store import Invited, Kept, SurveyStore, hash_code, make_code, open_survey_store
from lapwing.survey.sqlite_store import _CHECKPOINT_EVERY, SqliteSurveyStore
from lapwing.survey.sqlite_store import _MIX_EVERY as _MIX_FILE_EVERY
from support.members import implementing, lacking, plant

SURVEY, KEY = "0" * 32, "k" * 26

Opener = Callable[[], SurveyStore]


def in_memory(_: Path) -> Opener:
    one = SqliteSurveyStore()
    return lambda: one


def in_sqlite(folder: Path) -> Opener:
    return lambda: SqliteSurveyStore(folder / "reports" / "survey.db")


STORES: dict[str, Callable[[Path], Opener]] = {"memory": in_memory, "sqlite": in_sqlite}
"""Each makes a way to open the same place again and again."""


@pytest.fixture
def database(ledger_server: Any) -> Iterator[Opener]:
    """The same in a database of a server that syncs."""
    address = read_address(ledger_server.url(ledger_server.new_database()))
    made: list[PostgresSurveyStore] = []

    def make() -> PostgresSurveyStore:
        made.append(PostgresSurveyStore(address, timeout=5))
        return made[-1]

    yield make
    for store in made:
        store.close()


KEPT_IN = {"memory": SqliteSurveyStore, "sqlite": SqliteSurveyStore, "postgres": PostgresSurveyStore}


@pytest.fixture(params=KEPT_IN)
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    if request.param == "postgres":
        found: Opener = request.getfixturevalue("database")
        return found
    return STORES[request.param](tmp_path)


@pytest.fixture
def store(opener: Opener) -> Iterator[SurveyStore]:
    made = opener()
    made.prepare(SURVEY, KEY)
    yield made
    made.close()


def test_every_store_is_held_to_its_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by looking: one that has the methods of a store and no line in KEPT_IN is named; one is planted."""
    tried = {kind.__name__ for kind in KEPT_IN.values()}
    assert lacking(implementing(SurveyStore, "lapwing"), tried) == []
    assert lacking(tried, implementing(SurveyStore, "lapwing")) == []
    plant(monkeypatch, type("RedisSurveyStore", (SqliteSurveyStore,), {}), module="lapwing.survey.report_store")
    assert lacking(implementing(SurveyStore, "lapwing"), tried) == ["RedisSurveyStore"]


def test_each_is_opened_in_its_own_store(opener: Opener, request: pytest.FixtureRequest) -> None:
    made = opener()
    assert type(made) is KEPT_IN[request.node.callspec.params["opener"]]
    made.close()


def nonce(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_the_first_report_with_a_nonce_stands(store: SurveyStore) -> None:
    """threat:A33 duplicates are refused; the same message again is harmless."""
    assert store.add(nonce(1), b"a") is Kept.STORED
    assert store.add(nonce(1), b"a") is Kept.ALREADY
    assert store.add(nonce(1), b"b") is Kept.NONCE_TAKEN
    assert store.add(nonce(2), b"a") is Kept.STORED
    assert store.reports() == [b"a", b"a"]
    assert store.count() == 2


def test_an_invitation_is_spent_with_its_report(store: SurveyStore) -> None:
    codes = [make_code() for _ in range(3)]
    store.invite(map(hash_code, codes))
    assert store.invited() == Invited(3, 0)
    assert store.add(nonce(1), b"a", hash_code("a" * 26)) is Kept.INVITATION_UNKNOWN
    assert store.add(nonce(1), b"a", hash_code(codes[0])) is Kept.STORED
    assert store.add(nonce(1), b"a", hash_code(codes[0])) is Kept.ALREADY
    assert store.add(nonce(2), b"a", hash_code(codes[0])) is Kept.INVITATION_USED
    assert store.add(nonce(1), b"b", hash_code(codes[1])) is Kept.NONCE_TAKEN
    assert store.invited() == Invited(3, 1)
    assert store.reports() == [b"a"]


def test_invitations_that_are_made_again_stay_used(store: SurveyStore) -> None:
    store.invite([b"h"])
    store.add(nonce(1), b"a", b"h")
    store.invite([b"h", b"i"])
    assert store.invited() == Invited(2, 1)
    assert store.add(nonce(2), b"a", b"h") is Kept.INVITATION_USED


def test_reports_come_back_without_their_order_of_arrival(store: SurveyStore) -> None:
    for number in (5, 1, 9, 3):
        store.add(nonce(number), bytes([number]))
    assert store.reports() == [b"\x01", b"\x03", b"\x05", b"\x09"]


def test_the_key_of_the_results_stays_the_same(opener: Opener, store: SurveyStore) -> None:
    assert opener().prepare(SURVEY, "another") == KEY
    assert opener().survey() == SURVEY


def test_a_store_with_reports_is_not_given_to_another_survey(opener: Opener, store: SurveyStore) -> None:
    assert opener().prepare("1" * 32, "another") == KEY
    store.prepare(SURVEY, KEY)
    store.add(nonce(1), b"a")
    with pytest.raises(Misconfigured, match="undo the change"):
        opener().prepare("1" * 32, "another")
    assert opener().survey() == SURVEY


def test_of_many_threads_with_one_nonce_one_stores(store: SurveyStore) -> None:
    store.invite([b"h"])
    found: list[Kept] = []

    def send(number: int) -> None:
        found.append(store.add(nonce(7), b"same"))
        found.append(store.add(nonce(100 + number), b"other", b"h"))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found.count(Kept.STORED) == 2
    assert found.count(Kept.ALREADY) == found.count(Kept.INVITATION_USED) == 7
    assert store.count() == 2


def test_codes_are_never_the_same() -> None:
    codes = {make_code() for _ in range(1000)}
    assert len(codes) == 1000
    assert all(len(code) == 26 for code in codes)
    assert len({hash_code(code) for code in codes}) == 1000


def test_reports_in_memory_are_in_no_file_and_in_one_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(SqliteSurveyStore()) as store:
        assert store.name == "memory"
        assert store.add(nonce(1), b"a") is Kept.STORED  # before it is bound, as simulated people do
    assert store.reports() == [b"a"]
    assert SqliteSurveyStore().count() == 0
    assert list(tmp_path.iterdir()) == []


def test_a_path_is_never_taken_for_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports that were to be kept are not lost with the process."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreFailed, match="not on a local disk"):
        open_survey_store(tmp_path / "survey.toml", ":memory:").prepare(SURVEY, KEY)


# What only a file can suffer.


def _send(path: Path, start: int) -> int:
    kept = SqliteSurveyStore(path)
    kept.prepare(SURVEY, KEY)
    stored = [kept.add(nonce(number), b"r", bytes([number])) for number in range(start, start + 60)]
    kept.close()
    return stored.count(Kept.STORED)


def test_processes_that_share_a_file_store_each_report_once(tmp_path: Path) -> None:
    path = tmp_path / "survey.db"
    with closing(SqliteSurveyStore(path)) as kept:
        kept.prepare(SURVEY, KEY)
        kept.invite(bytes([number]) for number in range(100))
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            stored = pool.starmap(_send, [(path, 0), (path, 30)])
        assert sum(stored) == 90
        assert kept.count() == 90
        assert kept.invited() == Invited(100, 90)


def test_reports_survive_the_end_of_the_process(tmp_path: Path) -> None:
    with closing(SqliteSurveyStore(tmp_path / "survey.db")) as kept:
        kept.prepare(SURVEY, KEY)
        for number in range(_CHECKPOINT_EVERY + 3):
            kept.add(nonce(number), b"r")
        with closing(sqlite3.connect(tmp_path / "survey.db")) as other:
            assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert kept._connection is not None
        assert kept._connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    with closing(SqliteSurveyStore(tmp_path / "survey.db")) as again:
        assert again.count() == _CHECKPOINT_EVERY + 3


def test_the_file_is_its_owners_and_holds_nonces_and_reports_only(tmp_path: Path) -> None:
    """No time, no address, no order, and invitations as hashes that no report is connected with."""
    path, code = tmp_path / "survey.db", make_code()
    with closing(SqliteSurveyStore(path)) as kept:
        kept.prepare(SURVEY, KEY)
        kept.invite([hash_code(code)])
        kept.add(nonce(3), b"report", hash_code(code))
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    with closing(sqlite3.connect(path)) as shell:
        tables = dict(shell.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'"))
        columns = {name: [row[1] for row in shell.execute(f"PRAGMA table_info({name})")] for name in tables}
        assert columns == {
            "survey": ["one", "id", "key"],
            "reports": ["nonce", "report"],
            "invitations": ["hash", "used"],
        }
        assert all("WITHOUT ROWID" in tables[name] for name in ("reports", "invitations"))
    assert code.encode() not in path.read_bytes()


def written(path: Path, names: list[bytes]) -> list[bytes]:
    """Names in the order in which a file holds them: SQLite fills a page from its end."""
    data = path.read_bytes()
    return sorted(names, key=lambda name: -data.index(name))


def test_a_file_that_is_closed_tells_no_order_and_connects_nothing(tmp_path: Path) -> None:
    """Neither where rows stand in a page nor the log says who came when, or with which invitation."""
    path = tmp_path / "survey.db"
    names, codes = ([os.urandom(size) for _ in range(9)] for size in (16, 32))
    with closing(SqliteSurveyStore(path)) as kept:
        kept.prepare(SURVEY, KEY)
        kept.invite(codes)
        for name, code in zip(names, codes, strict=True):
            assert kept.add(name, b"r", code) is Kept.STORED
        assert all(name in Path(f"{path}-wal").read_bytes() for name in names)  # this is why
    assert not Path(f"{path}-wal").exists()
    assert written(path, names) == sorted(names)
    assert written(path, codes) == sorted(codes)
    with closing(SqliteSurveyStore(path)) as again:
        assert again.count() == 9
        assert again.invited() == Invited(9, 9)


def test_a_file_is_mixed_while_reports_arrive(tmp_path: Path) -> None:
    """The log starts again after it: of the commits before, nothing is left in it."""
    path, names = tmp_path / "survey.db", [os.urandom(16) for _ in range(_MIX_FILE_EVERY)]
    with closing(SqliteSurveyStore(path)) as kept:
        kept.prepare(SURVEY, KEY)
        for name in names:
            kept.add(name, b"r")
        assert written(path, names) == sorted(names)
        kept.add(os.urandom(16), b"r")
        assert Path(f"{path}-wal").stat().st_size < 3 * 4096


def test_what_a_killed_process_left_is_mixed_at_the_next_start(tmp_path: Path) -> None:
    path, names = tmp_path / "survey.db", [os.urandom(16) for _ in range(9)]
    killed = SqliteSurveyStore(path)
    killed.prepare(SURVEY, KEY)
    for name in names:
        killed.add(name, b"r")
    assert killed._connection is not None
    killed._connection.close()
    assert written(path, names) == names
    with closing(SqliteSurveyStore(path)) as again:
        again.prepare(SURVEY, KEY)
        assert written(path, names) == sorted(names)


def test_a_store_that_was_given_away_takes_nothing_more(tmp_path: Path) -> None:
    first, second = (SqliteSurveyStore(tmp_path / "survey.db") for _ in range(2))
    with closing(first), closing(second):
        first.prepare(SURVEY, KEY)
        second.prepare("1" * 32, KEY)
        with pytest.raises(StoreFailed, match="Nothing was kept"):
            first.add(nonce(1), b"a")
        assert second.count() == 0


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE t (x)")
    with pytest.raises(Misconfigured, match="another program"):
        SqliteSurveyStore(tmp_path / "other.db").prepare(SURVEY, KEY)
    (tmp_path / "text.db").write_text("this is no database, but a text of some length\n" * 40)
    with pytest.raises(StoreFailed, match="no store of a survey"):
        SqliteSurveyStore(tmp_path / "text.db").prepare(SURVEY, KEY)
    (tmp_path / "folder.db").mkdir()
    with pytest.raises(StoreFailed):
        SqliteSurveyStore(tmp_path / "folder.db").prepare(SURVEY, KEY)


# What only a server can suffer.


def rows(store: Any, statement: str) -> list[Any]:
    with psycopg.connect(**store._address.parameters) as shell:
        return shell.execute(statement).fetchall()  # type: ignore[arg-type]


def test_a_server_that_loses_reports_is_refused(postgres: Any) -> None:
    store = PostgresSurveyStore(read_address(postgres.url(postgres.new_database())))
    with pytest.raises(Misconfigured, match=r"cannot keep reports: it has fsync off.*Set fsync = on"):
        store.prepare(SURVEY, KEY)


def test_a_table_that_was_mixed_tells_no_order_and_connects_nothing(database: Any) -> None:
    """The transaction and the place of a row say nothing about who came when, or with which invitation."""
    store = database()
    store.prepare(SURVEY, KEY)
    store.invite(bytes([number]) for number in range(4))
    for number, code in ((3, 0), (1, 2), (2, 1)):
        assert store.add(nonce(number), b"r", bytes([code])) is Kept.STORED
    linked = """SELECT count(*) FROM lapwing_survey.reports r JOIN lapwing_survey.invitations i ON r.xmin = i.xmin"""
    assert rows(store, linked) == [(3,)]  # this is why
    store.close()
    assert rows(store, linked) == [(12,)]
    for table, name in (("reports", "nonce"), ("invitations", "hash")):
        found = rows(store, f"SELECT {name}, xmin::text FROM lapwing_survey.{table} ORDER BY ctid")
        assert [row[0] for row in found] == sorted(row[0] for row in found)
        assert len({row[1] for row in found}) == 1
    columns = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'lapwing_survey'"
    assert set(rows(store, columns)) == {
        *(("survey", name) for name in ("one", "id", "key")),
        *(("reports", name) for name in ("nonce", "report")),
        *(("invitations", name) for name in ("hash", "used")),
    }
    assert store.invited() == Invited(4, 3)


def test_rows_are_mixed_while_reports_arrive(database: Any) -> None:
    store = database()
    store.prepare(SURVEY, KEY)
    for number in range(_MIX_EVERY, 0, -1):
        store.add(nonce(number), b"r")
    assert rows(store, "SELECT count(DISTINCT xmin::text) FROM lapwing_survey.reports") == [(1,)]
    assert store.count() == _MIX_EVERY


@pytest.mark.parametrize("arrived", [True, False])
def test_a_connection_lost_in_the_commit_is_looked_up(
    database: Any, monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    store = database()
    store.prepare(SURVEY, KEY)
    inner = Link.commit

    def lose(self: Link) -> None:
        monkeypatch.setattr(Link, "commit", inner)
        if arrived:
            inner(self)
        self.close()
        raise psycopg.OperationalError("lost")

    monkeypatch.setattr(Link, "commit", lose)
    if arrived:
        assert store.add(nonce(1), b"a") is Kept.STORED
    else:
        with pytest.raises(StoreFailed, match="Nothing was kept: send again"):
            store.add(nonce(1), b"a")
        assert store.add(nonce(1), b"a") is Kept.STORED
    assert store.add(nonce(1), b"a") is Kept.ALREADY


def test_a_server_that_restarts_is_found_again(database: Any, ledger_server: Any) -> None:
    store = database()
    store.prepare(SURVEY, KEY)
    store.add(nonce(1), b"a")
    ledger_server.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lapwing survey'"
    )
    assert store.add(nonce(2), b"a") is Kept.STORED
    assert store.count() == 2


def test_a_database_that_was_given_away_takes_nothing_more(database: Any) -> None:
    first, second = database(), database()
    first.prepare(SURVEY, KEY)
    second.prepare("1" * 32, KEY)
    with pytest.raises(StoreFailed, match="Nothing was kept"):
        first.add(nonce(1), b"a")
    assert second.count() == 0


def test_an_address_opens_a_database(ledger_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """threat:A13: with a password it is refused, and not repeated."""
    url = ledger_server.url(ledger_server.new_database())
    with pytest.raises(Misconfigured, match="holds a password") as caught:
        open_survey_store(tmp_path / "survey.toml", url)
    assert ledger_server.password not in str(caught.value)
    monkeypatch.setenv("PGPASSWORD", ledger_server.password)
    open_url = url.replace(f":{ledger_server.password}", "")
    with pytest.raises(Misconfigured, match="there are no reports yet"):
        open_survey_store(tmp_path / "survey.toml", open_url, exists=True)
    with closing(open_survey_store(tmp_path / "survey.toml", open_url)) as store:
        assert store.prepare(SURVEY, KEY) == KEY
        assert store.add(nonce(1), b"a") is Kept.STORED
    with closing(open_survey_store(tmp_path / "survey.toml", open_url, exists=True)) as store:
        assert store.reports() == [b"a"]
