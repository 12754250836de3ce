"""How well an attacker with a clock tells two neighbours apart, with the time grid of the server and without it.

    python benchmarks/timing.py --answers 300 --time 0.5

Two servers hold the same rows, but one of them lacks one person: a heavy one, or one whom a CASE names. The same fresh
questions go to both in turns, and the attacker sees how long each answer takes, through the whole application. AUC is
the probability that of two answers, one of each server, the slower one is told: 0.5 is a coin, 1 is certainty. Beside
it stands the share of answers that were not ready at T and left later. Without the grid is the same server, whose
answers leave when they are ready.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import httpx
import numpy as np
import pyarrow as pa

from lapwing.opening import open_data
from lapwing.privacy import Budget
from lapwing.server.app import create_app
from lapwing.server.service import Outcome, Service
from lapwing.server.settings import ServeSettings

VICTIM = 7


class Ungridded(Service):
    """The same server, whose answers leave when they are ready."""

    def _go_on(self, *asked: Any) -> Any:
        reached = super()._go_on(*asked)
        return replace(reached, slot=None) if isinstance(reached, Outcome) else reached


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
    return pa.table({"person": ids, "cost": amount, "name": names})


def side(kind: type[Service], table: pa.Table, slot: float) -> Side:
    facts = {"unit": "person", "rows_per_unit": 10, "bounds": {"cost": (0, 100)}, "check": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        curator = open_data(table, name="t", budget=Budget(10**6), ledger=":memory:", **facts)
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


async def compare(name: str, kind: type[Service], options: argparse.Namespace, heavy: int) -> tuple[float, ...]:
    """AUC, the two medians and the share of overruns."""
    slot = options.time
    both = [side(kind, rows(options.rows, heavy, present=present), slot) for present in (True, False)]
    times: list[list[float]] = [[], []]
    for number in range(-3, options.answers):
        for which in (number % 2, 1 - number % 2):
            seconds = await both[which].seconds(question(name, number + 1000))
            if number >= 0:
                times[which].append(seconds)
    for one in both:
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
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--heavy", type=int, default=300_000, help="rows of the heavy person")
    parser.add_argument("--time", type=float, default=0.5, help="T, in seconds")
    options = parser.parse_args()
    print(
        f"| what the attacker looks for | leaves | AUC | with, ms | without, ms | later than T = {options.time:g} s |"
    )
    print("|---|---|---:|---:|---:|---:|")
    for name, heavy in (("one person with many rows", options.heavy), ("a person whom a CASE names", 1)):
        for kind, words in ((Ungridded, "when it is ready"), (Service, "on the grid")):
            found, present, absent, late = await compare(name, kind, options, heavy)
            share = f"{late:.1%}" if kind is Service else ""
            print(
                f"| {name} | {words} | {found:.2f} | {1000 * present:.1f} | {1000 * absent:.1f} | {share} |", flush=True
            )
    for name in ("a stored answer", "a refusal", "a preview"):
        found, present, absent = await at_once(name, options)
        print(f"| {name} | at once | {found:.2f} | {1000 * present:.2f} | {1000 * absent:.2f} | |", flush=True)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(
        f"\n{options.answers} answers of each neighbour; {options.rows:,} rows, {options.heavy:,} of the heavy person."
    )
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load} at the end.")


if __name__ == "__main__":
    asyncio.run(main())
