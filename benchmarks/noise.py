"""Noise: exact draws beside numpy, OpenDP and diffprivlib, on one core.

    python benchmarks/noise.py

prints one table and writes it to benchmarks/results/noise.md. Throughput is CPU time, best of several rounds in which
Lapwing and numpy take turns. Peers run in environments of their own under benchmarks/.venvs/, made on first use,
with fewer samples. numpy is neither exact nor secure: it draws floats from a generator that can be predicted.
"""

from __future__ import annotations

import gc
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from statistics import median

import numpy as np
from scipy.stats import spearmanr

from lapwing.mechanisms.additive.gaussian import Gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.noise import sample_choice, sample_heads

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "noise.md"
SAMPLES = 2_000_000
ROUNDS = 9
SCALES = (10, 10**6)
PEERS = {
    "OpenDP": ("with_opendp.py", ["opendp==0.16.*"]),
    "diffprivlib": ("with_diffprivlib.py", ["diffprivlib==0.6.6", "scikit-learn<1.9"]),
}

HEAD = ("", "Lapwing", "numpy", "OpenDP", "diffprivlib", "to numpy", "to OpenDP", "to diffprivlib", "target", "")

Mechanism = Laplace | Gaussian
Rates = dict[str, float]
"""Draws per second by case, such as "Laplace, scale 10"."""


@dataclass(frozen=True, slots=True)
class Peer:
    """What a peer's environment measured, or why it could not."""

    rates: Rates = field(default_factory=dict)
    version: str = ""
    failure: str = ""


def main() -> None:
    pin_to_one_core()
    own, numpy_rates = throughput()
    peers = {name: run_peer(name, script, needs) for name, (script, needs) in PEERS.items()}
    rows = [throughput_row(case, own, numpy_rates, peers) for case in own]
    rows += [scalar_row(), first_row(), *choice_rows(), *correlation_rows()]
    text = "\n".join([*heading(peers), "", *aligned([HEAD, *rows]), ""])
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(text)
    print(text)


def pin_to_one_core() -> None:
    """This process and all that it starts."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def mechanism(kind: str, scale: int | Fraction) -> Mechanism:
    return Laplace(epsilon=1 / Fraction(scale)) if kind == "Laplace" else Gaussian(rho=1 / (2 * Fraction(scale) ** 2))


def case_name(kind: str, scale: int) -> str:
    return f"{kind}, scale {scale:,}"


# Many at a time


def throughput() -> tuple[Rates, Rates]:
    """Draws per second of Lapwing and of numpy, in turns."""
    values, rng = np.zeros(SAMPLES, np.int64), np.random.default_rng()
    own, theirs = {}, {}
    for kind in ("Laplace", "Gaussian"):
        floats = rng.laplace if kind == "Laplace" else rng.normal
        for scale in SCALES:
            exact = mechanism(kind, scale)
            best = best_times([lambda m=exact: m(values), lambda f=floats, s=scale: f(0.0, s, SAMPLES)])
            own[case_name(kind, scale)], theirs[case_name(kind, scale)] = (SAMPLES / seconds for seconds in best)
    return own, theirs


def best_times(acts: list[Callable[[], object]]) -> list[float]:
    """The least CPU time of each act, over rounds in which they take turns."""
    return [min(times) for times in zip(*([cpu(act) for act in acts] for _ in range(ROUNDS + 1)), strict=True)]


def cpu(act: Callable[[], object]) -> float:
    start = time.process_time_ns()
    act()
    return (time.process_time_ns() - start) / 1e9


# Peers


def run_peer(name: str, script: str, needs: list[str]) -> Peer:
    """Runs the peer's script in its environment. A peer that does not install or run is reported, not dropped."""
    try:
        python = environment(name, needs)
        done = subprocess.run([python, HERE / "peers" / script], capture_output=True, text=True, check=True)
    except subprocess.CalledProcessError as failed:
        lines = (failed.stderr or failed.stdout or "").strip().splitlines()
        return Peer(failure=lines[-1] if lines else f"exit {failed.returncode}")
    found = json.loads(done.stdout.splitlines()[-1])
    return Peer(found["rates"], found["version"])


def environment(name: str, needs: list[str]) -> Path:
    """The peer's Python, installed on first use."""
    home = HERE / ".venvs" / name.lower()
    python, ready = home / "bin" / "python", home / ".ready"
    if not ready.exists() or ready.read_text() != "\n".join(needs):
        print(f"Installing {name} into {home} (once)", file=sys.stderr)
        venv.create(home, clear=True, with_pip=True)
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *needs]
        subprocess.run(command, capture_output=True, text=True, check=True)
        ready.write_text("\n".join(needs))
    return python


# One at a time


def scalar_row() -> tuple[str, ...]:
    """CPU time of one draw once its table exists: the worst of the cases, each the best of several loops."""
    worst = max(min(cpu(lambda m=warm: scalars(m)) / 5000 for _ in range(5)) for warm in warm_mechanisms())
    return row("one value, table ready", f"{worst * 1e6:.1f} us", "<= 30 us", worst <= 30e-6)


def warm_mechanisms() -> list[Mechanism]:
    found = [mechanism(kind, scale) for kind in ("Laplace", "Gaussian") for scale in (10, 1000, 10**6)]
    for warm in found:
        warm(0)
    return found


def scalars(warm: Mechanism, count: int = 5000) -> None:
    for _ in range(count):
        warm(0)


def first_row() -> tuple[str, ...]:
    """The first draw at a scale that was never used, table and all: the worst of the cases, each the median of 15."""
    cases = [(kind, scale) for kind in ("Laplace", "Gaussian") for scale in (10, 1000, 10**6)]
    worst = max(median(first_time(kind, scale + Fraction(1, 7 + i)) for i in range(15)) for kind, scale in cases)
    return row("one value, first at its scale", f"{worst * 1e3:.1f} ms", "<= 10 ms", worst <= 10e-3)


def first_time(kind: str, scale: Fraction) -> float:
    fresh = mechanism(kind, scale)
    return cpu(lambda: fresh(0))


def choice_rows() -> list[tuple[str, ...]]:
    exponents = np.random.default_rng(1).integers(0, 1000, 10**6)
    exponents[0] = 0
    rows = []
    for name, choose in (("exponential", sample_choice), ("permute-and-flip", sample_heads)):
        seconds = median(cpu(lambda c=choose: c(exponents, Fraction(1, 100))) for _ in range(ROUNDS))
        rows.append(row(f"choice of 10^6, {name}", f"{seconds * 1e3:.0f} ms", "< 100 ms", seconds < 0.1))
    return rows


def correlation_rows() -> list[tuple[str, ...]]:
    """The median of three runs and the largest, by which the target is judged."""
    cases = (("Laplace", 10), ("Laplace", 1000), ("Gaussian", 10), ("Gaussian", 1000))
    rows = []
    for kind, scale in cases:
        found = sorted((rank_correlation(mechanism(kind, scale)) for _ in range(3)), key=abs)
        name = f"rank correlation of time and size, {case_name(kind, scale)}"
        rows.append(row(name, f"{median(found):+.3f}, most {found[-1]:+.3f}", "within 0.05", abs(found[-1]) < 0.05))
    return rows


def rank_correlation(warm: Mechanism, count: int = 20_000) -> float:
    """Spearman's, of the time that a draw takes and its absolute value, over scalar draws timed one by one."""
    scalars(warm, 100)
    times, noise = np.empty(count), np.empty(count)
    gc.disable()
    for i in range(count):
        start = time.perf_counter_ns()
        drawn = warm(0)
        times[i] = time.perf_counter_ns() - start
        noise[i] = abs(drawn)
    gc.enable()
    return float(spearmanr(times, noise).statistic)


# The table


def throughput_row(case: str, own: Rates, numpy_rates: Rates, peers: dict[str, Peer]) -> tuple[str, ...]:
    rates = {"numpy": numpy_rates[case], **{name: peer.rates.get(case, 0.0) for name, peer in peers.items()}}
    ratios = {name: own[case] / rate if rate else 0.0 for name, rate in rates.items()}
    least = {"numpy": 2.0, "OpenDP": 1000.0} if case.endswith("scale 10") else {"numpy": 1.0}
    target = ", ".join(f">= {times:,.0f} {name}" for name, times in least.items())
    met = all(ratios[name] >= times for name, times in least.items())
    seen = all(rates[name] for name in least)
    shown = [per_second(own[case]), *map(per_second, rates.values()), *map(times_faster, ratios.values())]
    return (case, *shown, target, verdict(met) if seen else "not measured")


def row(name: str, measured: str, target: str, met: bool) -> tuple[str, ...]:
    """A row that no peer takes part in."""
    return (name, measured, *[""] * 6, target, verdict(met))


def per_second(rate: float) -> str:
    for unit, name in ((1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")):
        if rate >= unit:
            return f"{rate / unit:.3g} {name}"
    return f"{rate:.2g} /s" if rate else "failed"


def times_faster(ratio: float) -> str:
    return "" if not ratio else f"{ratio:,.1f}x" if ratio < 100 else f"{ratio:,.0f}x"


def verdict(met: bool) -> str:
    return "met" if met else "missed"


def heading(peers: dict[str, Peer]) -> list[str]:
    versions = {"Lapwing": version("lapwing"), "numpy": version("numpy")}
    versions |= {name: peer.version or f"not measured ({peer.failure})" for name, peer in peers.items()}
    where = f"{processor()}, Python {platform.python_version()}"
    return [
        "# Noise",
        "",
        f"{SAMPLES:,} integers at once on one core ({where}); peers with fewer samples. CPU time, best of {ROUNDS}.",
        ", ".join(f"{name} {number}" for name, number in versions.items()) + ".",
    ]


def version(package: str) -> str:
    return importlib.metadata.version(package)


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """A Markdown table whose columns line up as plain text."""
    widths = [max(len(cells[i]) for cells in rows) for i in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(cells, widths, strict=True)) + " |" for cells in rows]
    return [lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]]


if __name__ == "__main__":
    main()
