"""Fixtures for all tests."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Any

import pytest

from lapwing.engines import duckdb
from lapwing.engines.engine import StoredTypes
from lapwing.engines.source import Frame, Parquet, Source
from lapwing.ledger.open import _Known
from lapwing.noise.bits import SystemBits
from support.tape import SeededBits

if TYPE_CHECKING:
    from support.postgres import PostgresServer


SLOW_ON_SPARK = {
    "test_neighbours_differ_by_no_more_than_the_plan_says",
    "test_neighbours_of_joins_and_unions_differ_by_no_more_than_the_plan_says",
    "test_neighbours_differ_by_no_more_than_the_plan_says_whatever_limits_are_chosen",
    "test_a_connect_server_gives_the_same_cells",
    "test_odd_values_in_compiled_queries_give_the_cells_of_duckdb",
}
"""What takes long in the JVM; DuckDB and PostgreSQL have the same in every run."""
SLOW = {
    "test_what_analysts_ask_runs[flights_curator]",
    "test_the_estimate_sharpens_as_the_class_answers",
    "test_estimates_from_a_real_browser_cover_the_truth",
    "test_flights_by_plane_say_how_many_planes_were_cut",
}
"""What takes more than ten seconds, and repeats on more data or in a browser what others test."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests have no limit of time. Tests of Spark come first, so that one worker has them all."""
    for item in items:
        if item.name in SLOW or (_is_of_spark(item) and getattr(item, "originalname", "") in SLOW_ON_SPARK):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow") is not None:
            item.add_marker(pytest.mark.timeout(0))
        if _is_of_spark(item):  # pyspark leaves it to the garbage collector to close a socket
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
    items.sort(key=lambda item: not _is_of_spark(item))


def pytest_collection_finish() -> None:
    """Modules and tests stay for ever: no collection of garbage looks at them again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Sockets that Spark's client forgot are collected here, where they are known to be its own."""
    yield
    if _is_of_spark(item):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def _is_of_spark(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    hosts = () if call is None else (call.params.get(name) for name in ("host", "suite_host", "place"))
    return any(str(name).startswith("spark") for name in (*getattr(item, "fixturenames", ()), *hosts))


@pytest.fixture(autouse=True)
def own_populations() -> Iterator[None]:
    """Every test is a process of its own to frames: a name is not known from another test."""
    _Known.by_name.clear()
    yield
    _Known.by_name.clear()


@pytest.fixture(scope="session", autouse=True)
def types_read_once() -> Iterator[None]:
    """The types of a frame follow from its Arrow schema, those of a Parquet file from the file, and thousands of tests
    open the same few. DuckDB is started to describe them, twice for each opening, which takes 20 ms each time.

    Tests of reading types import the function itself."""
    described = duckdb.stored_types
    known: dict[Any, StoredTypes] = {}

    def stored_types(source: Source, *, guess: bool = False) -> StoredTypes:
        key = _content(source)
        if key is None:
            return described(source, guess=guess)
        if key not in known:
            known[key] = described(source, guess=guess)
        return copy(known[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb, "stored_types", stored_types)
        yield


def _content(source: Source) -> Any:
    """What the types of a source follow from; None if it is not known."""
    if isinstance(source, Frame):
        return source.data.schema.serialize().to_pybytes()
    # False for names that no file can have
    if isinstance(source, Parquet) and not source.parts and os.path.isfile(source.path):
        found = source.path.stat()
        return source.path.resolve(), found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    return None


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> SeededBits:
    """Every draw of this test comes from one fixed stream, so that it passes for ever or fails for ever."""
    source = SeededBits(20_150)
    monkeypatch.setattr(SystemBits, "words", lambda _, count, width: source.words(count, width))
    monkeypatch.setattr(SystemBits, "integer", lambda _, width: source.integer(width))
    return source


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for tests that do not care about a crash of the machine."""
    from support.postgres import running

    with running(fsync="off", full_page_writes="off", max_connections="200") as server:
        yield server


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A Spark session on this machine."""
    from support.spark import running

    with running() as session:
        yield session


@pytest.fixture(scope="session")
def ledger_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server that can keep a ledger: it syncs."""
    from support.postgres import running

    with running(max_connections="200") as server:
        yield server
