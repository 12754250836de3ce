"""Children that are killed in the middle of a question, and children that race for one budget.

    python -m support.crash kill FOLDER       one child per step, each killed there with SIGKILL; prints what each sent
    python -m support.crash ask FOLDER        asks one question; prints the answer and its price
    python -m support.crash race FOLDER N     N children ask until the budget refuses; prints what each was granted
    python -m support.crash teams FOLDER N    N children of four analysts in two teams ask with the same retry keys
                                              until refused; the first is killed; prints what each was sent

The program imports everything once and forks before any file is opened, so that a child is cheap.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import lapwing.curator.private_data as private_data_module
from lapwing.curator import Curator
from lapwing.errors import BudgetExceeded, LapwingError
from lapwing.ledger import Ledger
from support.visits import open_visits

QUESTION = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"


def die(*_: Any, **__: Any) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit  # not reached


def _after(target: Any, name: str) -> None:
    """Kills the process as soon as the function has done its work."""
    inner = getattr(target, name)

    def killed(*args: Any, **kwargs: Any) -> NoReturn:
        inner(*args, **kwargs)
        die()

    setattr(target, name, killed)


STEPS: dict[str, Callable[[Curator], None]] = {
    "before reserve": lambda _: setattr(Ledger, "reserve_all", die),
    "after reserve": lambda _: _after(Ledger, "reserve_all"),
    "before cells": lambda curator: setattr(curator._engine, "fetch", die),
    "after cells": lambda curator: _after(curator._engine, "fetch"),
    "after release": lambda _: _after(private_data_module, "release"),
    "before settle": lambda _: setattr(Ledger, "settle_all", die),
    "after settle": lambda _: _after(Ledger, "settle_all"),
    "nothing": lambda _: None,
}


def child(work: Callable[[], object]) -> tuple[int, int]:
    """Runs the work in a forked process; its id and where it writes its result."""
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read
    os.write(write, json.dumps(work()).encode())
    os._exit(0)


def result(pid: int, read: int) -> dict[str, Any]:
    with os.fdopen(read) as pipe:
        sent = pipe.read()
    status = os.waitpid(pid, 0)[1]
    return {"killed": os.WIFSIGNALED(status), "sent": json.loads(sent) if sent else None}


def open_in(path: Path) -> Curator:
    """On the ledger beside the data, or on the one whose address is there."""
    address = path.with_name("ledger.url")
    return open_visits(path, **({"ledger": address.read_text()} if address.exists() else {}))


def asked_once(path: Path, step: str) -> object:
    curator = open_in(path)
    STEPS[step](curator)
    return curator.sql(QUESTION, epsilon=0.1, key=step, refresh=True).to_arrow().to_pylist()


def asked_until_refused(path: Path, number: int) -> object:
    curator, granted = open_in(path), 0
    while True:
        try:
            curator.sql(QUESTION, epsilon=0.1, analyst=f"analyst {number}", refresh=True)
        except BudgetExceeded:
            return granted
        granted += 1


def asked_in_team(path: Path, number: int) -> object:
    """Keys in order until the budget refuses; whoever finds a key without an answer goes on to the next."""
    curator, sent = open_in(path), []
    analyst = f"p{number % 4}@team{number % 2}"
    for turn in range(100):
        if (number, turn) == (0, 1):
            _after(Ledger, "reserve_all")
        try:
            rows = curator.sql(QUESTION, epsilon=0.1, analyst=analyst, key=f"k{turn}", refresh=True).to_arrow()
        except BudgetExceeded:
            break
        except LapwingError as error:
            sent.append([analyst, f"k{turn}", str(error)])
        else:
            sent.append([analyst, f"k{turn}", rows.to_pylist()])
    return sent


def main(kind: str, folder: str, count: str = "8") -> None:
    path = Path(folder) / "visits.parquet"
    if kind == "ask":
        answer = open_in(path).sql(QUESTION, epsilon=0.1, analyst="bob")
        found: object = [answer.to_arrow().to_pylist(), float(answer.cost.amount)]
    elif kind == "kill":
        found = {step: result(*child(lambda step=step: asked_once(path, step))) for step in STEPS}
    else:
        work = asked_in_team if kind == "teams" else asked_until_refused
        first = [result(*child(lambda: work(path, 0)))] if kind == "teams" else []  # dead before the others ask
        children = [child(lambda n=n: work(path, n)) for n in range(len(first), int(count))]
        found = first + [result(*one) for one in children]
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
