"""Programs that the tests run as processes of their own, and that fork and kill freely.

Each line of the input is a JSON list [function, argument, ...]. A forked child runs it and prints the result as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from lapwing.errors import BudgetExceeded, LapwingError
from lapwing.ledger import Ledger, Reservation, open_ledger, sqlite, verify_ledger
from lapwing.ledger.postgres_server import Link
from lapwing.privacy import Accounting, Budget, Cost

STEPS = ("execute", "flock", "fdatasync", "fsync", "replace", "open", "write", "pwrite", "read")


def paths(folder: str) -> tuple[Path | str, Path]:
    """The ledger and its witness; a file with an address stands for a ledger in a database."""
    address = Path(folder) / "ledger.url"
    place = address.read_text() if address.exists() else Path(folder) / "ledger.db"
    return place, Path(folder) / "data.witness"


def open_in(folder: str, total: int) -> Ledger:
    path, witness = paths(folder)
    return open_ledger(path, Budget(total), witness=witness, timeout=60)


def charge(ledger: Ledger, amount: Fraction, who: str = "ann", **more: Any) -> Reservation:
    return ledger.reserve(Cost(Accounting.PURE, amount), analyst=who, body=more.pop("body", "question"), **more)


def child(action: Callable[[], int]) -> int:
    """Forks; the child does the action and ends with the code that it returns."""
    process = os.fork()
    if process:
        return process
    code = 250
    try:
        code = action()
    except Exception:  # noqa: BLE001
        traceback.print_exc()
    finally:
        os._exit(code)


def ended(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def race(folder: str, parts: str, processes: str) -> dict[str, Any]:
    """Processes that open a ledger that does not exist yet, all at once, and ask until the budget is full."""
    ready, go = os.pipe()

    def ask() -> int:
        os.close(go)
        os.read(ready, 1)
        granted = 0
        with open_in(folder, 1) as ledger:
            while True:
                try:
                    reservation = charge(ledger, Fraction(1, int(parts)), f"analyst {os.getpid()}")
                except BudgetExceeded:
                    return granted
                granted += 1
                ledger.settle(reservation, b"answer")

    children = [child(ask) for _ in range(int(processes))]
    os.close(go)
    codes = [ended(process) for process in children]
    path, witness = paths(folder)
    report = verify_ledger(path, witness=[witness])
    return {"granted": codes, "ok": report.ok, "entries": report.entries, "notes": report.notes}


def answer_for_ever(folder: str, log: Path) -> int:
    """Asks and answers until killed. Sends an answer, a line in the log, only after `settle`, as a server does."""
    with open_in(folder, 10**6) as ledger, open(log, "ab", buffering=0) as sent:
        while True:
            key = f"{os.getpid()} {time.monotonic_ns()}"
            reservation = charge(ledger, Fraction(1, 10), key=key)
            ledger.settle(reservation, f"answer to {key}".encode(), match=key)
            sent.write(f"{reservation.seq} {key}\n".encode())


def audit_sent(folder: str, log: Path) -> str | None:
    """What is wrong after a crash: an answer without its charge, a broken chain, a retry that is not the old answer."""
    with open_in(folder, 10**6) as ledger:
        report = ledger.verify()
        if not report.ok:
            return str(report)
        charges = [entry for entry in ledger.entries() if entry.kind == "reserve"]
        if ledger.spent.amount != Fraction(len(charges), 10):
            return "the charges do not add up"
        known = {(entry.seq, entry.key) for entry in charges}
        lines = [line.split(" ", 1) for line in log.read_text().splitlines()] if log.exists() else []
        if not {(int(seq), key) for seq, key in lines} <= known:
            return "an answer was sent without a charge"
        before = ledger.spent
        for _, key in lines[-3:]:
            again = charge(ledger, Fraction(1, 10), key=key)
            if again.fresh or again.answer != f"answer to {key}".encode():
                return "a retry did not give the stored answer"
        for entry in charges[-3:]:
            if charge(ledger, Fraction(1, 10), key=entry.key).fresh:
                return "a lost charge was served again"
        if ledger.spent != before:
            return "a retry was charged"
    return None


def kill_at_random(folder: str, rounds: str) -> dict[str, Any]:
    """Kills two processes that share a ledger, again and again, at moments that sweep over their life."""
    log, problems = Path(folder) / "sent", []
    sqlite.CHECKPOINT_EVERY = 5
    log.touch()
    for number in range(int(rounds)):
        before = log.stat().st_size
        children = [child(lambda: answer_for_ever(folder, log)) for _ in range(2)]
        while number % 2 and log.stat().st_size == before:  # every other round lives until it has sent something
            time.sleep(0.001)
        time.sleep(0.0037 * (number % 17))
        for process in children:
            os.kill(process, signal.SIGKILL)
        codes = [ended(process) for process in children]
        problems += [f"a process ended by itself: {codes}"] if codes != [-signal.SIGKILL] * 2 else []
        problems += filter(None, [audit_sent(folder, log)])
    path, _ = paths(folder)
    return {"problems": problems, "sent": len(log.read_text().splitlines()), "entries": verify_ledger(path).entries}


def kill_at_every_step(folder: str) -> dict[str, Any]:
    """Kills a process before and after each call that touches a file while it charges and answers one question."""
    log, problems, kills = Path(folder) / "sent", [], 0
    sqlite.CHECKPOINT_EVERY = 2
    open_in(folder, 10**6).close()

    def until(step: int) -> int:
        calls = 0

        def count(frame: Any, event: str, called: object) -> None:
            nonlocal calls
            sent = event in ("call", "return") and frame.f_code is Link.execute.__code__
            if sent or (event in ("c_call", "c_return") and getattr(called, "__name__", "") in STEPS):
                calls += 1
                if calls == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        with open_in(folder, 10**6) as ledger, open(log, "ab", buffering=0) as sent:
            key = f"{os.getpid()} {time.monotonic_ns()}"
            sys.setprofile(count)
            reservation = charge(ledger, Fraction(1, 10), key=key)
            ledger.settle(reservation, f"answer to {key}".encode(), match=key)
            sent.write(f"{reservation.seq} {key}\n".encode())
            sys.setprofile(None)
        return 0

    while ended(child(partial(until, kills + 1))) == -signal.SIGKILL:
        kills += 1
        problems += filter(None, [audit_sent(folder, log)])
    problems += filter(None, [audit_sent(folder, log)])
    with open_in(folder, 10**6) as ledger:
        unanswered = len(ledger.verify().unanswered)
    return {"problems": problems, "kills": kills, "unanswered": unanswered, "sent": len(log.read_text().splitlines())}


CREATING = (*STEPS, "connect", "mkdir", "stat", "close")


def usable(folder: str) -> str | None:
    """What is wrong with a ledger that should open, take a charge and be whole."""
    path, witness = paths(folder)
    try:
        with open_in(folder, 1) as ledger:
            charge(ledger, Fraction(1, 10))
            if ledger.spent.amount != Fraction(1, 10):
                return "something was spent before it was ever used"
        report = verify_ledger(path, witness=[witness])
    except LapwingError as error:
        return f"{type(error).__name__}: {error}"
    return None if report.ok and not report.notes[1:] else str(report)


def kill_while_created(folder: str) -> dict[str, Any]:
    """Kills a process before and after each call that touches a file while it creates a ledger."""
    problems, kills = [], 0

    def until(step: int) -> int:
        calls = 0

        def count(frame: object, event: str, called: object) -> None:
            nonlocal calls
            if event in ("c_call", "c_return") and getattr(called, "__name__", "") in CREATING:
                calls += 1
                if calls == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(count)
        open_in(f"{folder}/{step}/new", 1)
        sys.setprofile(None)
        return 0

    def place(step: int) -> str:
        os.mkdir(f"{folder}/{step}")
        os.mkdir(f"{folder}/{step}/new")
        return f"{folder}/{step}/new"

    while place(kills + 1) and ended(child(partial(until, kills + 1))) == -signal.SIGKILL:
        kills += 1
        problems += [f"after {kills} steps: {problem}" for problem in [usable(f"{folder}/{kills}/new")] if problem]
    return {"problems": problems, "kills": kills}


def full_while_created(folder: str) -> dict[str, Any]:
    """Creates ledgers where each file may have so many bytes only, and where each call in turn finds a full disk."""
    refusals, problems, finished = [], [], 0

    def attempt(name: str, failing: Callable[[], None], repaired: Callable[[], None]) -> bool:
        os.mkdir(f"{folder}/{name}")
        failing()
        try:
            open_in(f"{folder}/{name}", 1).close()
            done = True
        except LapwingError as error:
            refusals.append(str(error))
            done = False
        finally:
            repaired()
        problem = usable(f"{folder}/{name}")
        problems.extend([f"{name}: {problem}"] if problem else [])
        return done

    def limited(size: int) -> Callable[[], None]:
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    for size in range(0, 10**6, 1500):
        if attempt(f"size {size}", limited(size), limited(resource.RLIM_INFINITY)):
            finished += 1
            break
    for name in ("fsync", "fdatasync", "replace", "open"):
        inner, calls = getattr(os, name, os.fsync), 0

        def full(*arguments: Any, limit: int, inner: Any = inner, **more: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == limit:
                raise OSError(28, "No space left on device")
            return inner(*arguments, **more)

        for limit in range(1, 1000):
            calls = 0
            broken = partial(setattr, os, name, partial(full, limit=limit))
            if attempt(f"{name} {limit}", broken, partial(setattr, os, name, inner)) and calls < limit:
                finished += 1
                break
    return {"refusals": refusals, "problems": problems, "finished": finished}


def fork_in_use(folder: str) -> dict[str, Any]:
    """A ledger opened before a fork, used on both sides, closed by the parent first."""
    ledger = open_in(folder, 1)
    charge(ledger, Fraction(1, 10))
    waiting, go = os.pipe()

    def use() -> int:
        charge(ledger, Fraction(1, 10))
        os.read(waiting, 1)
        charge(ledger, Fraction(1, 10))
        return 7

    process = child(use)
    charge(ledger, Fraction(1, 10))
    ledger.close()
    os.write(go, b"x")
    code = ended(process)
    path, witness = paths(folder)
    report = verify_ledger(path, witness=[witness])
    with open_in(folder, 1) as again:
        return {"code": code, "spent": str(again.spent.amount), "ok": report.ok}


def fork_in_memory() -> dict[str, Any]:
    """A ledger in memory and a fork: a child that could use it would have a second budget."""
    ledger = open_ledger(None, Budget(1))
    charge(ledger, Fraction(1, 2))

    def use() -> int:
        try:
            charge(ledger, Fraction(1, 2))
        except LapwingError as error:
            return 7 if "forked" in str(error) else 8
        return 9

    code = ended(child(use))
    charge(ledger, Fraction(1, 2))
    return {"code": code, "spent": str(ledger.spent.amount)}


def fork_in_memory_under_load(folder: str) -> dict[str, Any]:
    """Forks while threads charge ledgers in memory: no child inherits a lock of SQLite that it needs for its own."""
    from threading import Event, Thread

    ledgers, stop = [open_ledger(None, Budget(10**6)) for _ in range(3)], Event()

    def ask(ledger: Ledger) -> None:
        while not stop.is_set():
            charge(ledger, Fraction(1, 10))

    def once(number: int) -> int:
        ledgers.clear()  # their connections are the parent's
        with open_ledger(f"{folder}/{number}.db", Budget(1)) as own:
            charge(own, Fraction(1, 10))
        return 7

    threads = [Thread(target=ask, args=(ledger,)) for ledger in ledgers]
    for thread in threads:
        thread.start()
    codes = [ended(child(partial(once, number))) for number in range(5)]
    stop.set()
    for thread in threads:
        thread.join()
    return {"codes": codes, "ok": [ledger.verify().ok for ledger in ledgers]}


def fork_under_load(folder: str) -> dict[str, Any]:
    """Forks while other threads charge: nothing hangs, and both sides may go on."""
    from threading import Event, Thread

    ledger, stop = open_in(folder, 1000), Event()

    def ask() -> None:
        while not stop.is_set():
            charge(ledger, Fraction(1, 10))

    def once() -> int:
        charge(ledger, Fraction(1, 10), "child")
        return 7

    threads = [Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    codes = [ended(child(once)) for _ in range(5)]
    stop.set()
    for thread in threads:
        thread.join()
    report = ledger.verify()
    return {"codes": codes, "ok": report.ok, "child": str(ledger.spent_by("child").amount)}


def fork_without_care(folder: str, care: str) -> dict[str, Any]:
    """What SQLite does if a child opens a connection while it has inherited one: the reason for sqlite.py's rule."""
    file = Path(folder) / "plain.db"

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(file, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        return connection

    parent = connect()
    parent.execute("CREATE TABLE charge (n)")
    if care == "close":
        parent.close()
    (told, tell), (waiting, go) = os.pipe(), os.pipe()

    def use() -> int:
        mine = connect()
        mine.execute("INSERT INTO charge VALUES (1)")
        os.write(tell, b"x")
        os.read(waiting, 1)
        mine.execute("INSERT INTO charge VALUES (2)")
        return 0

    process = child(use)
    os.read(told, 1)
    if care == "close":
        parent = connect()
    parent.close()
    os.write(go, b"x")
    ended(process)
    return {"charges": connect().execute("SELECT n FROM charge").fetchall()}


def without_space(folder: str, limit: str) -> dict[str, Any]:
    """A limit on the size of files, as a disk that is full. The first `limit` bytes may be written."""
    granted, refusal = 0, ""
    with open_in(folder, 10**6) as ledger:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
        try:
            for _ in range(10_000):
                charge(ledger, Fraction(1, 10), note={"question": "x" * 3000})
                granted += 1
        except LapwingError as error:
            refusal = f"{type(error).__name__}: {error}"
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        after = charge(ledger, Fraction(1, 10)).fresh
    path, witness = paths(folder)
    report = verify_ledger(path, witness=[witness])
    return {"granted": granted, "refusal": refusal, "after": after, "entries": report.entries, "ok": report.ok}


def without_rights(folder: str) -> dict[str, Any]:
    """A user who may read the folder but not write to it; the super-user becomes nobody first."""
    for name in Path(folder).iterdir():
        name.chmod(0o444)
    Path(folder).chmod(0o555)
    if os.geteuid() == 0:
        os.setuid(65534)
    results = {}
    for name, total in (("old", 1), ("new", 1)):
        path, witness = Path(folder) / f"{name}.db", Path(folder) / f"{name}.witness"
        try:
            open_ledger(path, Budget(total), witness=witness)
        except LapwingError as error:
            results[name] = f"{type(error).__name__}: {error}"
    return results


def hold_lock(path: str) -> dict[str, Any]:
    """Leaves a process behind that holds the write lock of a ledger until it is killed."""
    (told, tell) = os.pipe()

    def hold() -> int:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        os.write(tell, b"x")
        time.sleep(60)
        return 0

    process = child(hold)
    os.read(told, 1)
    return {"process": process}


def charge_for_ever(folder: str, log: Path) -> int:
    """Charges until killed, whatever happens to the server; a line in the log for each charge that was acknowledged."""
    path, witness = paths(folder)
    with open_ledger(path, Budget(10**6), witness=witness, timeout=20) as ledger, open(log, "ab", buffering=0) as made:
        while True:
            key = f"{os.getpid()} {time.monotonic_ns()}"
            try:
                reservation = charge(ledger, Fraction(1, 10), key=key)
                made.write(f"charged {reservation.seq} {key}\n".encode())
            except LapwingError as error:
                fate = "free" if error.charged is None else "doubt"
                made.write(f"{fate} 0 {key}\n".encode())


def load(folder: str, processes: str) -> dict[str, Any]:
    """Leaves processes behind that charge until they are killed."""
    log = Path(folder) / "made"
    log.touch()
    pids = [child(partial(charge_for_ever, folder, log)) for _ in range(int(processes))]
    return {"pids": pids}


def answer_line(line: str) -> int:
    name, *arguments = json.loads(line)
    try:
        result = globals()[name](*arguments)
    except Exception:  # noqa: BLE001
        result = {"failed": traceback.format_exc()}
    print(json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    for request in sys.stdin:
        if code := ended(child(partial(answer_line, request))):
            print(json.dumps({"failed": f"ended with code {code}"}), flush=True)
