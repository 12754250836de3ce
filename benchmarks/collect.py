"""The local model: reports a second and error beside pure-ldp and multi-freq-ldpy, on one core.

    python benchmarks/collect.py

prints tables and writes them to benchmarks/results/collect.md. Rates are CPU time. Peers run in environments of their
own under benchmarks/.venvs/, made on first use, with fewer reports; what they fail at is a result.
"""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

import numpy as np

import lapwing as lw

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "collect.md"
VALUES, EPSILON, REPORTS, PEER_REPORTS, MANY = 32, 1, 2_000_000, 20_000, 10_000_000
XXHASH = "xxhash<4"  # both hash texts, which later ones refuse
PEERS = {
    "pure-ldp": ("collect_pure_ldp.py", ["pure-ldp==1.2.0", "scikit-learn", "statsmodels", XXHASH]),
    "multi-freq-ldpy": ("collect_multi_freq.py", ["multi-freq-ldpy==0.2.5", XXHASH]),
}
LACKING = {("pure-ldp", "subset selection")}
"""What a peer does not have, by its source: what a script here leaves out is not measured, which is something else."""
KINDS = (lw.collect.DirectEncoding, lw.collect.UnaryEncoding, lw.collect.LocalHashing, lw.collect.SubsetSelection)


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    truth = np.bincount(np.arange(PEER_REPORTS, dtype=np.int64) ** 2 % VALUES, minlength=VALUES) / PEER_REPORTS
    peers = {name: run_peer(name, script, needs) for name, (script, needs) in PEERS.items()}
    text = "\n".join([*heading(peers), *rates(peers), "", *errors(peers, truth), "", *large(), ""])
    RESULTS.write_text(text)
    print(text)


def heading(peers: dict[str, Any]) -> list[str]:
    versions = ", ".join(f"{name} {peer.get('version', 'not installed')}" for name, peer in peers.items())
    return [
        "# Collecting: speed and error",
        "",
        (
            f"`python benchmarks/collect.py`; {VALUES} values, epsilon = {EPSILON}, one core, CPU time; Python "
            f"{platform.python_version()}, numpy {np.__version__}, {versions}."
        ),
        "",
    ]


def rates(peers: dict[str, Any]) -> list[str]:
    rows = ["| reports a second, client / server | Lapwing | " + " | ".join(peers) + " | best peer to Lapwing |"]
    rows.append("|---|---|" + "---|" * len(peers) + "---|")
    for kind in KINDS:
        client, server = own_rates(kind)
        theirs = {name: peer.get("found", {}).get(kind.kind, {}) for name, peer in peers.items()}
        best = max((one["client"] for one in theirs.values() if "client" in one), default=None)
        ratio = "" if best is None else f"1 : {client / best:.0f}"
        cells = [cell(one, (name, kind.kind) in LACKING) for name, one in theirs.items()]
        rows.append(f"| {kind.kind} | {amount(client)} / {amount(server)} | " + " | ".join(cells) + f" | {ratio} |")
    _, hashed = own_rates(lw.collect.LocalHashing)
    return [*rows, "", f"Local hashing at the collector: {amount(hashed * VALUES)} pairs of report and value a second."]


def own_rates(kind: type[lw.collect.FrequencyProtocol]) -> tuple[float, float]:
    """The best of three."""
    protocol, values, found = kind(range(VALUES), epsilon=EPSILON), np.arange(REPORTS) % VALUES, []
    for _ in range(3):
        start = time.process_time()
        reports = protocol.respond(values)
        middle = time.process_time()
        protocol.count(reports.rows)
        found.append((REPORTS / (middle - start), REPORTS / (time.process_time() - middle)))
    return max(one for one, _ in found), max(two for _, two in found)


def errors(peers: dict[str, Any], truth: np.ndarray[Any, Any]) -> list[str]:
    rows = [
        f"| root mean square error of a share, {PEER_REPORTS:,} reports | theory | Lapwing | "
        + " | ".join(peers)
        + " |",
        "|---|---|---|" + "---|" * len(peers),
    ]
    for kind in KINDS:
        protocol = kind(range(VALUES), epsilon=EPSILON)
        values = np.arange(PEER_REPORTS, dtype=np.int64) ** 2 % VALUES
        runs = [protocol.estimate(protocol.respond(values)).shares for _ in range(20)]
        own = math.sqrt(np.mean((np.array(runs) - truth) ** 2))
        theory = math.sqrt(np.mean([protocol.variance(share) for share in truth]) / PEER_REPORTS)
        found = []
        for peer in peers.values():
            one = peer.get("found", {}).get(kind.kind, {})
            shares = one.get("shares")
            found.append("" if shares is None else f"{math.sqrt(np.mean((np.array(shares) - truth) ** 2)):.4f}")
        rows.append(f"| {kind.kind} | {theory:.4f} | {own:.4f} | " + " | ".join(found) + " |")
    return [*rows, "", "multi-freq-ldpy clips its shares at 0 and scales them to 1; the others are unbiased."]


def large() -> list[str]:
    """How long the collector takes for many reports, intervals included."""
    rows = [f"| {MANY:,} reports estimated, with intervals | seconds |", "|---|---|"]
    for kind in KINDS[:3]:
        protocol = kind(range(VALUES), epsilon=EPSILON)
        reports = protocol.respond(np.arange(MANY) % VALUES)
        start = time.process_time()
        protocol.estimate(reports).table()
        rows.append(f"| {kind.kind} | {time.process_time() - start:.2f} |")
    return rows


def amount(rate: float) -> str:
    return f"{float(f'{rate / 1e6:.3g}'):,g} M" if rate >= 1e5 else f"{rate / 1e3:.3g} k"


def cell(one: dict[str, Any], lacking: bool) -> str:
    if "failure" in one:
        return f"fails: {one['failure']}"
    if not one:
        return "not offered" if lacking else "not measured"
    return f"{amount(one['client'])} / {amount(one['server'])}"


def run_peer(name: str, script: str, needs: list[str]) -> dict[str, Any]:
    """What the peer measured in an environment of its own; empty if it cannot be installed."""
    home = HERE / ".venvs" / f"collect-{name}"
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
        done = subprocess.run([python, "-m", "pip", "install", "--quiet", *needs], check=False)
        if done.returncode:
            return {}
    command = [python, HERE / "peers" / script, str(VALUES), str(PEER_REPORTS), str(EPSILON)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-500:], file=sys.stderr)
        return {}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
