"""How well an attacker with a clock tells two neighbours apart, with the time grid of the server and without it.

    python benchmarks/timing.py --answers 300 --time 1
    python benchmarks/timing.py --answers 300 --time 1 --time 2 --only hostile --rows 3000000
    python benchmarks/timing.py --answers 300 --time 1 --time 2 --only hostile --engine postgres
    python benchmarks/timing.py --only cpu

Two servers hold the same rows, but one of them lacks one person: a heavy one, or one whom a CASE names. The same fresh
questions go to both in turns, and the attacker sees how long each answer takes, through the whole application. AUC is
the probability that of two answers, one of each server, the slower one is told: 0.5 is a coin, 1 is certainty. Beside
it stands the share of answers that were not ready at T and left later. Without the grid is the same server, whose
answers leave when they are ready.

The hostile question is the heaviest that a server takes at T: operators that cost most under CASE WHEN name = 'n7', for
a person with all the rows that are declared, each with a long text; and as many on all rows as bring the answer near T,
tuned on a name that is absent. `--only cpu` shows what such a person adds, in CPU time, at every number of operators.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys
import tempfile
import time
import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa

from lapwing.curator import Curator, open_data
from lapwing.plan.question import A_STEP, operators, steps
from lapwing.privacy import Budget
from lapwing.server.app import create_app
from lapwing.server.service import Service
from lapwing.server.settings import ServeSettings

VICTIM, ABSENT = 7, 8
ROWS_PER_UNIT = 10
MOST = A_STEP // ROWS_PER_UNIT - 1
"""Operators of the heaviest question that has one step."""
NEAR = 0.98
"""How much of T the hostile question takes, at most, without the person."""
HOSTILE = "a person whom a CASE names, hostile"
sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))


class Ungridded(Service):
    """The same server, whose answers leave when they are ready."""

    async def _wait_until(self, moment: float) -> None:
        """Waits for no place of the grid."""


@dataclass
class Side:
    """One of two neighbours."""

    service: Service
    client: httpx.AsyncClient

    async def seconds(self, body: dict[str, Any], path: str = "/v1/ask") -> float:
        began = time.perf_counter()
        await self.client.post(path, json=body)
        return time.perf_counter() - began


def rows(many: int, heavy: int, *, present: bool) -> pa.Table:
    """Rows of many people, with or without the one that the attacker asks about."""
    people = np.arange(many) % (many // 3) + 100
    ids = np.concatenate([people, np.full(heavy, VICTIM)]) if present else people
    amount = (ids * 2654435761 % 1000) / 10
    names = pa.array(np.char.add("n", ids.astype(str)))
    note = np.full(len(ids), "x", dtype=object)
    note[len(people) :][:ROWS_PER_UNIT] = [_long_text(row) for row in range(len(note[len(people) :][:ROWS_PER_UNIT]))]
    order = np.random.default_rng(1).permutation(len(ids))  # the rows of a person are not next to each other
    return pa.table({"person": ids, "cost": amount, "name": names, "note": note}).take(order)


def _long_text(row: int) -> str:
    """A text on which functions take long; no two are alike."""
    return "".join(np.random.default_rng(row).choice(list("abé"), 1500))


def opened(table: pa.Table, server: Any = None) -> Curator:
    """A curator over these rows, in memory or in a database of their own."""
    facts = {"unit": "person", "rows_per_unit": ROWS_PER_UNIT, "bounds": {"cost": (0, 100)}, "check": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if server is None:
            return open_data(table, name="t", budget=Budget(10**6), ledger=":memory:", **facts)
        database = server.new_database()
        with server.connect(database) as connection:
            connection.execute("CREATE TABLE t (person bigint, cost float8, name text, note text)")
            with connection.cursor().copy("COPY t FROM STDIN") as copy:
                for row in table.to_pylist():
                    copy.write_row(tuple(row.values()))
            connection.execute("ANALYZE t")
        ledger = Path(tempfile.mkdtemp()) / "ledger.db"
        return open_data(server.url(database), table="t", name="t", budget=Budget(10**6), ledger=ledger, **facts)


def side(kind: type[Service], table: pa.Table, slot: float, server: Any = None) -> Side:
    curator = opened(table, server)
    service = kind(curator, ServeSettings(rate=10**6, burst=10**6), {"t": slot})
    token, _ = service.tokens.add("ann", "analyst")
    transport = httpx.ASGITransport(app=create_app(service))
    headers = {"Authorization": f"Bearer {token}"}
    return Side(service, httpx.AsyncClient(transport=transport, base_url="http://t", headers=headers, timeout=600))


def auc(one: list[float], other: list[float]) -> float:
    """How often the larger of two is told, whichever of the two lists is the slower."""
    ranks = np.argsort(np.argsort(np.concatenate([one, other]))) + 1
    larger = (ranks[: len(one)].sum() - len(one) * (len(one) + 1) / 2) / (len(one) * len(other))
    return float(max(larger, 1 - larger))


def on_all_rows(many: int) -> str:
    """A condition of at most this many operators, whose time varies little."""
    found = []
    while (here := min((many + 3) // 3, 18)) > 1:  # functions, which count 3; beside them ||, = and OR
        inner = f"name || '{many}'"
        for number in range(here - 1):
            inner = f"{('UPPER', 'LOWER')[number % 2]}({inner})"
        found.append(f"{inner} = ''")
        many -= 3 * here
    return " OR ".join(found or ["name = ''"])


def hostile(number: int, many: int, everywhere: int, person: int = VICTIM) -> str:
    """A fresh question of at most this many operators, of which some work on all rows and all others on those of one
    person: a pattern that makes the matcher build a state for each character."""
    length = max(1, (many - everywhere - 6) // 8 - 3)
    branch = f"CASE WHEN name = 'n{person}' THEN REGEXP_MATCHES(note, 'a.{{{length}}}c') ELSE cost < {100 + number} END"
    return f"SELECT COUNT(*) AS n FROM t WHERE {branch} OR {on_all_rows(everywhere)}"


async def tuned(options: argparse.Namespace, slot: float, server: Any) -> int:
    """How many operators on all rows bring an answer about a person who is absent nearest to T."""
    one = side(Ungridded, rows(options.rows, 0, present=False), slot, server)
    found, near = 0, 0.0
    for everywhere in range(0, MOST - 37, 6):
        asked = [{"sql": hostile(number, MOST, everywhere, ABSENT), "epsilon": 1e-3} for number in range(6)]
        assert operators(one.service.curator._planner.read(asked[0]["sql"])) <= MOST
        median = float(np.median([await one.seconds(body) for body in asked][1:]))
        if median > NEAR * slot:
            break
        found, near = everywhere, median
    await one.client.aclose()
    one.service.close()
    if not near:  # even without them it takes longer than T
        options.rows //= 2
        return await tuned(options, slot, server)
    print(f"\n{MOST} operators, {found} of them on all rows: {near:.2f} s without the person.\n")
    return found


def cpu(options: argparse.Namespace, server: Any) -> None:
    """What the rows of one person add to the work, as a part of T = 1 s for each step."""
    both = [opened(rows(options.rows, ROWS_PER_UNIT, present=present), server) for present in (True, False)]
    print("| operators | steps | with, ms | without, ms | of T |\n|---:|---:|---:|---:|---:|")
    for many in (50, MOST, 199, 399):
        asked = both[0]._planner.read(hostile(0, many, 0))
        found: list[list[float]] = [[], []]
        for number in range(12):
            for curator, times in zip(both, found, strict=True):
                began = spent(server)
                curator.sql(hostile(number, many, 0), epsilon=1e-3)
                times.append(spent(server) - began)
        present, absent = (float(np.median(times[2:])) for times in found)
        more = f"{1000 * present:.1f} | {1000 * absent:.1f} | {(present - absent) / steps(asked):.1%}"
        print(f"| {operators(asked)} | {steps(asked)} | {more} |", flush=True)
    for curator in both:
        curator.close()


def spent(server: Any) -> float:
    """CPU seconds so far, of this process or of those of a database."""
    if server is None:
        return time.process_time()
    parent = server.process.pid
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return sum(int(Path(f"/proc/{one}/schedstat").read_text().split()[0]) for one in children) / 1e9


def question(name: str, number: int) -> dict[str, Any]:
    """A fresh question each time."""
    below = f"cost < {100 + number}"
    match name:
        case "one person with many rows":
            sql = f"SELECT SUM(cost) AS s, COUNT(*) AS n FROM t WHERE {below}"
        case _:
            slow = "UPPER(LOWER(UPPER(LOWER(TRIM(name)))))"
            sql = f"SELECT COUNT(*) AS n FROM t WHERE CASE WHEN name = 'n{VICTIM}' THEN {slow} <> '' ELSE {below} END"
    return {"sql": sql, "epsilon": 0.01}


async def compare(
    name: str, kind: type[Service], options: argparse.Namespace, heavy: int, slot: float, everywhere: int = 0
) -> tuple[float, ...]:
    """AUC, the two medians and the share of overruns."""
    server = options.server if name == HOSTILE else None
    answers = options.answers if kind is Service else options.ready
    times: list[list[float]] = [[], []]
    for half in (0, 1):  # two servers on the same rows differ by where they lie in memory: each is opened first once
        both = {
            which: side(kind, rows(options.rows, heavy, present=not which), slot, server) for which in (half, 1 - half)
        }
        for number in range(-3, answers // 2):
            fresh = 1000 + number + half * answers
            body = question(name, fresh)
            if name == HOSTILE:
                body = {"sql": hostile(fresh, MOST, everywhere), "epsilon": 1e-6}
            for which in (number % 2, 1 - number % 2):
                seconds = await both[which].seconds(body)
                if number >= 0:
                    times[which].append(seconds)
        for one in both.values():
            await one.client.aclose()
            one.service.close()
    late = float(np.mean(np.concatenate(times) > 1.5 * slot))
    return auc(*times), float(np.median(times[0])), float(np.median(times[1])), late


async def at_once(name: str, options: argparse.Namespace) -> tuple[float, ...]:
    """The same for what leaves at once: a stored answer, a refusal, a preview."""
    both = [side(Service, rows(options.rows, options.heavy, present=present), 0.01) for present in (True, False)]
    stored = question("one person with many rows", 0)
    body, path = {
        "a stored answer": (stored, "/v1/ask"),
        "a refusal": ({"sql": "SELECT name FROM t", "epsilon": 1}, "/v1/ask"),
        "a preview": (question("one person with many rows", 1), "/v1/preview"),
    }[name]
    for one in both:
        await one.seconds(stored)
        await one.seconds(body, path)
    times: list[list[float]] = [[], []]
    for number in range(options.answers):
        for which in (number % 2, 1 - number % 2):
            times[which].append(await both[which].seconds(body, path))
    for one in both:
        await one.client.aclose()
        one.service.close()
    return auc(*times), float(np.median(times[0])), float(np.median(times[1]))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=300, help="answers of each neighbour")
    parser.add_argument(
        "--ready", type=int, default=60, help="answers that leave when they are ready, of each neighbour"
    )
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--heavy", type=int, default=300_000, help="rows of the heavy person")
    parser.add_argument("--time", type=float, action="append", help="T, in seconds; several are measured in turn")
    parser.add_argument("--only", choices=["usual", "hostile", "cpu"])
    parser.add_argument("--engine", choices=["duckdb", "postgres"], default="duckdb", help="for hostile and cpu")
    options = parser.parse_args()
    with ExitStack() as stack:
        options.server = None
        if options.engine == "postgres":
            from support.postgres import running

            options.server = stack.enter_context(running(fsync="off", max_parallel_workers_per_gather="0"))
        if options.only == "cpu":
            cpu(options, options.server)
        else:
            for slot in options.time or [1.0]:
                await table(options, slot)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(
        f"\n{options.answers} answers of each neighbour; {options.rows:,} rows, {options.heavy:,} of the heavy person."
    )
    print(f"{options.engine}, Python {platform.python_version()}, {os.cpu_count()} cores, load {load} at the end.")


async def table(options: argparse.Namespace, slot: float) -> None:
    asked = [("one person with many rows", options.heavy), ("a person whom a CASE names", 1)]
    asked = [] if options.only == "hostile" else asked
    everywhere = 0
    if options.only != "usual":
        asked.append((HOSTILE, ROWS_PER_UNIT))
        everywhere = await tuned(options, slot, options.server)
    print(f"| what the attacker looks for | leaves | AUC | with, ms | without, ms | later than T = {slot:g} s |")
    print("|---|---|---:|---:|---:|---:|", flush=True)
    for name, heavy in asked:
        for kind, words in ((Ungridded, "when it is ready"), (Service, "on the grid")):
            found, present, absent, late = await compare(name, kind, options, heavy, slot, everywhere)
            share = f"{late:.1%}" if kind is Service else ""
            print(
                f"| {name} | {words} | {found:.2f} | {1000 * present:.1f} | {1000 * absent:.1f} | {share} |", flush=True
            )
    if options.only == "hostile":
        return
    for name in ("a stored answer", "a refusal", "a preview"):
        found, present, absent = await at_once(name, options)
        print(f"| {name} | at once | {found:.2f} | {1000 * present:.2f} | {1000 * absent:.2f} | |", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
