"""Ctrl-C: the engine stops at once, and what was charged stays charged. One process is a real one."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from lapwing.curator import load, open_data
from lapwing.engines import duckdb as duckdb_module
from lapwing.engines import interrupt as interrupt_module
from lapwing.engines.interrupt import _Watcher, interruptible
from lapwing.ledger import open_ledger, verify_ledger
from lapwing.privacy import Budget
from support.steps import acts_at

TOML = """
[budget]
epsilon = 1
[tables.t]
source = "t.parquet"
unit = "p"
rows_per_unit = 1
[tables.t.columns]
p = { type = "integer" }
v = { type = "integer" }
"""
ENDLESS = "SELECT COUNT(*) AS n FROM t a JOIN t b ON a.p = b.p AND a.v + b.v <> 7"
"""One unit with 200,000 rows: its join with itself has 4 * 10^10."""
PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\nfrom lapwing.cli.main import run; run()"
)


def test_the_work_gives_its_result_or_its_error() -> None:
    assert interruptible(lambda: 7, lambda: None) == 7
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0, lambda: None)


def test_work_stays_where_it_is_in_other_threads() -> None:
    found: list[str] = []
    name = "some thread"
    thread = threading.Thread(
        target=lambda: found.append(interruptible(lambda: threading.current_thread().name, lambda: None)), name=name
    )
    thread.start()
    thread.join()
    assert found == [name]


@pytest.fixture
def handler() -> Iterator[Callable[[Any], Any]]:
    """Sets what happens at an interrupt, and puts back what was."""
    before = signal.getsignal(signal.SIGINT)
    yield lambda handler: signal.signal(signal.SIGINT, handler)
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_stops_the_work_and_goes_on(handler: Any) -> None:
    """It is told to stop until it has heard, and not any more afterwards."""
    ended, told = threading.Event(), 0

    def work() -> None:
        signal.raise_signal(signal.SIGINT)
        ended.wait(timeout=60)
        raise ValueError("the engine's own word for it")

    def stop() -> None:
        nonlocal told
        told += 1
        if told == 3:
            ended.set()

    handler(signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        interruptible(work, stop)
    assert (told, signal.getsignal(signal.SIGINT)) == (3, signal.default_int_handler)
    assert signal.set_wakeup_fd(-1) == -1
    assert interruptible(lambda: 7, stop) == 7
    assert told == 3


def test_an_interrupt_is_not_lost_if_the_work_ends_in_time(handler: Any) -> None:
    seen: list[int] = []
    handler(lambda number, _: seen.append(number))
    with pytest.raises(KeyboardInterrupt):
        interruptible(lambda: signal.raise_signal(signal.SIGINT), lambda: None)
    assert seen == [signal.SIGINT]


def test_interrupts_that_are_ignored_stay_so(handler: Any) -> None:
    handler(signal.SIG_IGN)
    assert interruptible(lambda: signal.raise_signal(signal.SIGINT) or 7, lambda: None) == 7


def test_others_who_wait_for_signals_still_hear_them(handler: Any) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    handler(signal.default_int_handler)
    before = signal.set_wakeup_fd(writer)
    try:
        with pytest.raises(KeyboardInterrupt):
            interruptible(lambda: signal.raise_signal(signal.SIGINT), lambda: None)
        assert os.read(reader, 1) == bytes([signal.SIGINT])
    finally:
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)


def test_control_c_leaves_a_clean_and_charged_ledger(tmp_path: Path) -> None:
    """ledger:B1 a question over 4 * 10^10 rows is interrupted after its charge, and the next one is answered."""
    duckdb.execute(f"COPY (SELECT 1 AS p, range AS v FROM range(200000)) TO '{tmp_path / 't.parquet'}'")
    (tmp_path / "lapwing.toml").write_text(TOML)
    load(tmp_path / "lapwing.toml").close()
    command = [sys.executable, "-c", PROGRAM, "ask", ENDLESS, "--epsilon", "0.5", "--check", "0"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    place, seen = tmp_path / ".lapwing" / "ledger.db", tmp_path / "t.parquet.lapwing"
    ledger = open_ledger(place, Budget(epsilon=1), witness=(seen,))
    while not ledger.spent:
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert said.strip() == "Interrupted. What was charged stays charged: see `lapwing budget`."
    assert verify_ledger(place, witness=[seen]).ok
    assert [entry.kind for entry in ledger.entries()][-1] == "reserve"
    assert float(ledger.spent.amount) == 0.5
    ledger.close()
    curator = load(tmp_path / "lapwing.toml")
    assert curator.sql("SELECT COUNT(*) AS n FROM t", epsilon=0.5).cost
    curator.close()


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A watcher whose thread holds a signal in its hand, read but not acted upon, until the event is set."""
    go = threading.Event()

    def read(reader: int, many: int) -> bytes:
        numbers = os.read(reader, many)
        if signal.SIGINT in numbers:
            go.wait(timeout=60)
        return numbers

    class Late:
        """The module os, but slow to read."""

        def __getattr__(self, name: str) -> Any:
            return read if name == "read" else getattr(os, name)

    monkeypatch.setattr(interrupt_module, "os", Late())
    watcher = _Watcher()
    monkeypatch.setattr(interrupt_module, "_watcher", lambda _: watcher)
    yield go
    go.set()


def test_a_signal_that_is_read_late_does_not_stop_the_next_question(
    handler: Any, late: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first question is over before the thread acts upon its signal; the second neither stops nor hears it."""
    drain, told = _Watcher._drain, []

    def drained(watcher: _Watcher) -> None:
        late.set()
        drain(watcher)

    monkeypatch.setattr(_Watcher, "_drain", drained)
    handler(signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        interruptible(lambda: signal.raise_signal(signal.SIGINT), lambda: told.append(1))
    assert late.is_set()
    assert interruptible(lambda: 7, lambda: told.append(2)) == 7
    assert told == []


def test_one_signal_interrupts_once_and_others_stay_heard(handler: Any) -> None:
    """Questions one after the other, each with its own signal or none: each gets what was sent to it."""
    handler(signal.default_int_handler)
    seen = []
    for sent in (True, False, False, True, True, False):
        try:
            interruptible(lambda: signal.raise_signal(signal.SIGINT) if sent else None, lambda: None)  # noqa: B023
            seen.append(False)
        except KeyboardInterrupt:
            seen.append(True)
    assert seen == [True, False, False, True, True, False]


def test_what_is_stopped_was_heard_and_nothing_is_stopped_outside() -> None:
    """The thread acts only for the question that runs."""
    watcher, calls = _Watcher(), []

    def stop() -> None:
        calls.append(watcher._ticket is not None and watcher._ticket.heard)
        watcher._ticket = None

    with watcher.calling(stop) as ticket:
        watcher._stop()
        assert ticket.heard
    assert calls == [True]
    watcher._stop()
    with watcher.calling(lambda: calls.append(False)) as ticket:
        assert not ticket.heard
    assert calls == [True]


def test_a_handler_may_ask_while_a_question_runs(handler: Any) -> None:
    """The inner question gets the interrupt that is sent to it, and the outer one its own."""
    told: list[str] = []
    ended = threading.Event()

    def inner() -> None:
        signal.raise_signal(signal.SIGINT)

    def work() -> str:
        with pytest.raises(KeyboardInterrupt):
            interruptible(inner, lambda: told.append("inner"))
        signal.raise_signal(signal.SIGINT)
        ended.wait(timeout=60)
        return "done"

    handler(signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        interruptible(work, lambda: (told.append("outer"), ended.set())[0])
    assert "outer" in told
    assert (signal.getsignal(signal.SIGINT), signal.set_wakeup_fd(-1)) == (signal.default_int_handler, -1)


@pytest.mark.parametrize("inner", [lambda: None, lambda: signal.raise_signal(signal.SIGINT)], ids=["asks", "stopped"])
@pytest.mark.parametrize("outer", [lambda: None, lambda: signal.raise_signal(signal.SIGINT)], ids=["asks", "stopped"])
def test_a_handler_may_ask_at_any_step_of_a_question(
    outer: Callable[[], Any], inner: Callable[[], Any], handler: Any
) -> None:
    """A question inside the end of another waited for a lock that the outer one held, for ever."""
    handler(signal.default_int_handler)

    def ask(work: Callable[[], Any]) -> bool:
        try:
            interruptible(work, lambda: None)
        except KeyboardInterrupt:
            return True
        return False

    for step in itertools.count():
        stopped: list[bool] = []
        acted = acts_at(step, interrupt_module, lambda: ask(outer), lambda: stopped.append(ask(inner)))  # noqa: B023
        assert stopped == ([ask(inner)] if acted else [])
        assert ask(lambda: None) is False
        assert (signal.getsignal(signal.SIGINT), signal.set_wakeup_fd(-1)) == (signal.default_int_handler, -1)
        if not acted:
            break
    assert step > 100


@pytest.mark.slow
def test_real_signals_never_stop_the_next_question(handler: Any) -> None:
    """A signal at about the end of a question of the engine: it is interrupted or not, and the next one is answered."""
    handler(signal.default_int_handler)
    connection, main = duckdb.connect(), threading.get_ident()
    long, short = "SELECT sum(sqrt(range)) FROM range(3000000)", "SELECT sum(range) FROM range(1000000)"

    def ask(text: str) -> Any:
        with connection.cursor() as cursor:
            return interruptible(lambda: cursor.execute(text).fetchone(), cursor.interrupt)

    interrupted = 0
    for round_ in range(300):
        sender = threading.Timer(round_ % 30 / 1000, signal.pthread_kill, (main, signal.SIGINT))
        try:
            sender.start()
            ask(long)
            sender.join()
        except KeyboardInterrupt:
            interrupted += 1
        sender.join()
        assert ask(short) == (499999500000,)
    assert interrupted == 300


def test_an_interrupt_while_a_csv_file_is_loaded_is_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handler: Any
) -> None:
    """DuckDB has an error of its own for it, which would be a traceback."""
    handler(signal.default_int_handler)
    (tmp_path / "t.csv").write_text("p\n1\n")
    rows, begun = pa.table({"p": ["1"] * 1_000_000}), threading.Event()

    def endless(_: Path) -> Iterator[pa.Table]:
        while True:
            yield rows
            begun.set()

    def interrupt() -> None:
        begun.wait(timeout=60)
        time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(duckdb_module, "read_csv_rows", endless)
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        open_data(tmp_path / "t.csv", unit=None, budget=Budget(epsilon=1))
    thread.join()
