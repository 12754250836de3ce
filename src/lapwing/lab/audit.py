"""Auditing: a valid lower bound on epsilon from many runs on two neighbours.

An event is chosen on the first 30 % of the runs and counted on the other 70 %.

Guarantee:  if the runs are independent and the claim is true, the audit rejects it with probability at most alpha.
            More: with probability at least 1 - alpha, every lower bound in the report is true.
Proof:      fix the training runs; they fix the events. Whether a test run hits an event depends on that run alone, so
            the hits are binomial, and report.py bounds either probability, each failing with probability at most
            alpha / (4 k) for k points of the claim: two directions, two bounds. By the union bound all 4 k hold at
            once with probability 1 - alpha. Then P[event | left] <= e^e P[event | right] + delta, for a mechanism
            that is (e, delta)-DP, gives e >= ln((low - delta) / high). This holds whatever the training runs were.
            The number of runs is fixed before the first one; a `Wealth` may stop early.
A rejection refutes the claim. The absence of one proves nothing: another event or other neighbours may break it, and a
leak with a probability far below 1 / runs is not seen.

Auditing in one run: many canaries, each in the data by the flip of a fair coin, and guesses which are in.
Guarantee:  if the mechanism is pure epsilon-DP for every single canary, and r is fixed beforehand, the number W of
            right guesses of r coins has P[W >= v] <= P[Binomial(r, q) >= v] for every v, where q = e^epsilon /
            (1 + e^epsilon). So p = `lower(W, r, alpha)` is at most q except with probability alpha, and then
            ln(p / (1 - p)) <= epsilon.
Proof:      fix the answer y, which fixes the guesses, and the coins of all canaries but i. By Bayes the odds that
            canary i is in are P[y | in] / P[y | out], between e^-epsilon and e^epsilon, so a guess about it is right
            with probability at most q. So given y and the earlier coins, each next guess is right with probability at
            most q, and W is at most a binomial in the stochastic order, guess by guess. Answers need not be
            independent. Several r, each at its share of alpha: the union bound. [SNJ23] has the theorem.
Groups:     one question with GROUP BY over groups that hold one canary each is such a mechanism: a canary is a unit of
            a table with groups_per_unit = 1. One answer then audits as many runs would.
[SNJ23] Steinke, Nasr, Jagielski: Privacy auditing with one (1) training run.
Checked by: tests/lab/test_audit.py, tests/lab/test_one_run.py
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Set, Sized
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from lapwing.arrays import Flags, Floats
from lapwing.errors import Misconfigured
from lapwing.lab.outputs import Event, Features, Outputs, choose_event, counts_of, features, keep, read_pair, same
from lapwing.lab.random_people import flip_coins
from lapwing.lab.report import Audit, Claim, Finding, Sketch, lower, read_claim, upper
from lapwing.lab.targets import open_experiment
from lapwing.numbers import Number, count, exact, flag, inside_unit, nonnegative, shown

TRAINING_SHARE = 0.3
RUNS = 30_000
ALPHA = 1e-3
SIDES = ("left", "right")
FIRST = 250
"""Runs of the first batch, which nothing is bet on; later batches double what was run so far."""
_BOLDEST = 0.95
_STAKES = 60
_NO_LISTS = (str, bytes, Mapping, Set, np.ndarray)

Step = Callable[[int], None]
"""Called with the number of runs done so far."""


def audit(
    mechanism: Callable[..., Any],
    neighbours: tuple[Any, Any],
    *,
    epsilon: Number | None = None,
    delta: Number = 0,
    rho: Number | None = None,
    mu: Number | None = None,
    claim: Any = None,
    runs: int = RUNS,
    alpha: float = ALPHA,
    many: bool = False,
    early: bool = False,
    step: Step | None = None,
) -> Audit:
    """Runs a mechanism on two neighbours and reports whether the runs refute its claim.

    `mechanism(data)` makes one release; an exception is an output like any other. With `many`, `mechanism(data, n)`
    returns a list or array of n independent releases. `early` stops at the first rejection, validly (`Wealth`).
    """
    if not callable(mechanism):
        raise Misconfigured("`mechanism` cannot be called. Pass a function of the data.")
    claimed = read_claim(claim, epsilon, delta, rho, mu)
    n, level = count(runs, "runs", least=10), float(inside_unit(alpha, "alpha"))
    left, right = read_pair(neighbours)
    draw = partial(_run_many if flag(many, "many") else _run_each, mechanism)
    wealth = Wealth(claimed, level) if flag(early, "early") else None
    samples: tuple[list[Any], list[Any]] = ([], [])
    # Without an early end, blocks of runs let both sides take turns.
    for size in (min(1000, n - start) for start in range(0, n, 1000)) if wealth is None else wealth.batches(n):
        for sample, data in zip(samples, (left, right), strict=True):
            sample.append(draw(data, size))
        if wealth is not None:
            wealth.play(_joined(samples[0]), _joined(samples[1]), size)
        if step is not None:
            step(sum(map(len, samples[0])))
        if wealth is not None and wealth.rejects:
            break
    outputs = _joined(samples[0]), _joined(samples[1])
    return _check(audit_outputs(*outputs, claimed, alpha=level) if wealth is None else wealth.report(), *outputs)


def _check(audit: Audit, left: Outputs, right: Outputs) -> Audit:
    """The audit, which says so if all outputs are the same; raises if nothing was released in any run."""
    if audit.rejected:
        return audit
    outputs = [*left, *right]
    first = outputs[0]
    if first is None or isinstance(first, Exception):
        if any(output is not None and not isinstance(output, Exception) for output in outputs):
            return audit
        raised = (None if output is None else f"raised {type(output).__qualname__}: {output}" for output in outputs)
        did = list(dict.fromkeys(words or "returned None" for words in raised))
        every = f"every run {did[0]}" if len(did) == 1 else f"no run returned a value; one {did[0]}, another {did[1]}"
        raise Misconfigured(
            f"{every}. So nothing was released that could be audited. Fix the function, or the neighbours passed to it."
        )
    return replace(audit, only=shown(first)) if all(same(first, output) for output in outputs) else audit


def audit_outputs(left: Outputs, right: Outputs, claim: Claim, *, alpha: float = ALPHA) -> Audit:
    """The same for outputs that exist already, of independent runs whose number was fixed beforehand."""
    training = int(len(left) * TRAINING_SHARE), int(len(right) * TRAINING_SHARE)
    seen = features(left, right, training)
    level = float(inside_unit(alpha, "alpha")) / (4 * len(claim.points))
    examined = [_examine(seen, training, point, way, level) for point in claim.points for way in (0, 1)]
    best, _ = max(examined, key=lambda pair: pair[1].excess)
    findings = tuple(finding for _, finding in examined)
    sides = [(seen.left, training[0]), (seen.right, training[1])]
    counts = [counts_of(side[best.feature][start:], best.edges) for side, start in sides]
    shares: list[Floats] = [c / max(c.sum(), 1) for c in counts]
    sketch = Sketch(seen.names[best.feature], best.edges, shares[0], shares[1], best.cells)
    return Audit(claim, min(len(left), len(right)), alpha, findings, sketch)


def _examine(
    seen: Features, training: tuple[int, int], point: tuple[float, float], way: int, level: float
) -> tuple[Event, Finding]:
    sides = (seen.left, seen.right) if way == 0 else (seen.right, seen.left)
    trained = training if way == 0 else training[::-1]
    event = choose_event(sides[0], sides[1], trained, point)
    tested = [event.holds(side[event.feature][start:]) for side, start in zip(sides, trained, strict=True)]
    (hits, rare_hits), (runs, rare_runs) = (int(test.sum()) for test in tested), map(len, tested)
    low, high = lower(hits, runs, level), upper(rare_hits, rare_runs, level)
    bound = math.log((low - point[1]) / high) if low > point[1] else -math.inf
    return event, Finding(point[0], point[1], bound, _words(seen, event), SIDES[way], low, high)


def _words(seen: Features, event: Event) -> str:
    return event.describe(seen.names[event.feature], seen.categories[event.feature])


def _run_each(mechanism: Callable[[Any], Any], data: Any, n: int) -> list[Any]:
    outputs = []
    for _ in range(n):
        try:
            output = mechanism(data)
        except Exception as error:  # noqa: BLE001 (whether it fails is part of the output)
            output = error
        outputs.append(keep(output))
    return outputs


def _run_many(mechanism: Callable[[Any, int], Any], data: Any, n: int) -> Outputs:
    returned = mechanism(data, n)
    rows: Any = returned if isinstance(returned, np.ndarray) and returned.ndim else None
    if isinstance(returned, Sized) and isinstance(returned, Iterable) and not isinstance(returned, _NO_LISTS):
        rows = list(returned)
    if rows is None or len(rows) != n:
        got = shown(returned) if rows is None else f"{len(rows)} outputs"
        raise Misconfigured(
            f"with `many`, `mechanism(data, {n})` must return a list or an array of {n} outputs. "
            f"It returned {got}. Return one output for each run, or leave out `many`."
        )
    return rows.copy() if rows is returned and rows.dtype != object else [keep(output) for output in rows]


def _joined(parts: list[Any]) -> Outputs:
    """One sample from its parts. Arrays of one type stay one."""
    kinds = {(part.dtype, part.shape[1:]) if isinstance(part, np.ndarray) else None for part in parts}
    if len(kinds) == 1 and None not in kinds:
        return np.concatenate(parts)
    return [output for part in parts for output in part]


class Wealth:
    """Stopping at the first rejection, validly: a bet against the claim.

    Runs come in pairs, one on each neighbour, in batches. For every point (e, d) of the claim and both directions a
    gambler bets that the event is more likely than the claim allows: with 1[X in E] - e^e 1[Y in E] - d as the payoff
    of a pair (X, Y), wealth is multiplied by 1 + stake * payoff. Event and stake of a batch are chosen by the batches
    before it. It gives no bound on epsilon beyond the verdict.

    Guarantee:  if runs are independent and the claim is true, the mean wealth ever reaches 1 / alpha with probability
                at most alpha, whatever the number of runs and whenever one stops.
    Proof:      given the past, E and the stake are fixed, and E[payoff] = P[E | x] - e^e P[E | y] - d <= 0. The payoff
                is at least -(e^e + d), and the stake at most 0.95 / (e^e + d), so no factor is negative. So each wealth
                is a nonnegative supermartingale that starts at 1, and so is the mean of all. Ville's inequality.
    Checked by: tests/lab/test_sequential.py
    """

    def __init__(self, claim: Claim, alpha: float) -> None:
        self._claim, self._alpha = claim, alpha
        self._bets = [(point, way) for point in claim.points for way in (0, 1)]
        self._logs = [0.0] * len(self._bets)
        self._events = ["none yet"] * len(self._bets)
        self.runs = 0

    @property
    def mean(self) -> float:
        """The wealth of all gamblers, per unit that they brought."""
        return math.exp(min(700.0, float(np.logaddexp.reduce(self._logs)) - math.log(len(self._logs))))

    @property
    def rejects(self) -> bool:
        return self.mean >= 1 / self._alpha

    def batches(self, runs: int) -> Iterator[int]:
        """The sizes of the batches, `runs` in all."""
        done = 0
        while done < runs:
            size = min(max(FIRST, done), runs - done)
            yield size
            done += size

    def play(self, left: Outputs, right: Outputs, size: int) -> None:
        """Bets on the last `size` runs, by the runs before them."""
        before = self.runs
        self.runs = before + size
        if not before:
            return
        seen = features(left, right, (before, before))
        for i, (point, way) in enumerate(self._bets):
            sides = (seen.left, seen.right) if way == 0 else (seen.right, seen.left)
            event = choose_event(sides[0], sides[1], (before, before), point)
            hits = [event.holds(side[event.feature]) for side in sides]
            stake = _stake(hits[0][:before].mean(), hits[1][:before].mean(), before, point)
            payoff = hits[0][before:] - math.exp(point[0]) * hits[1][before:] - point[1]
            self._logs[i] += float(np.log1p(stake * payoff).sum())
            self._events[i] = f"{_words(seen, event)}, more often on the {SIDES[way]}"

    def report(self) -> Audit:
        best = self._events[int(np.argmax(self._logs))]
        return Audit(self._claim, self.runs, self._alpha, (), None, wealth=self.mean, bet=best)


def _stake(likely: float, rare: float, runs: int, point: tuple[float, float]) -> float:
    """The stake with the largest expected log of wealth, by what was seen, a little pessimistic; 0 if none helps."""
    factor, delta = math.exp(point[0]), point[1]
    a = max(likely - 0.5 * math.sqrt(likely * (1 - likely) / runs), 0.0)
    b = min(rare + 0.5 * math.sqrt(max(rare * (1 - rare), 1 / runs) / runs), 1.0)
    stakes: Floats = np.linspace(0, _BOLDEST / (factor + delta), _STAKES)
    growth = (
        a * b * np.log1p(stakes * (1 - factor - delta))
        + a * (1 - b) * np.log1p(stakes * (1 - delta))
        + (1 - a) * b * np.log1p(-stakes * (factor + delta))
        + (1 - a) * (1 - b) * np.log1p(-stakes * delta)
    )
    return float(stakes[int(np.argmax(growth))])


PARTS = (1.0, 0.5, 0.1, 0.02)
"""The share of canaries that are guessed: all, or only the clearest."""
TABLE = "canaries"


@dataclass(frozen=True, slots=True)
class OneRun:
    """The result: of `guesses` guesses `right` were right, which shows `epsilon_lower`."""

    epsilon: float
    epsilon_lower: float
    canaries: int
    guesses: int
    right: int
    alpha: float

    @property
    def rejected(self) -> bool:
        return self.epsilon_lower > self.epsilon

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "rejected": self.rejected, "message": str(self)}

    def __str__(self) -> str:
        most = 1 / (1 + math.exp(-self.epsilon))
        share = self.right / self.guesses
        seen = f"{self.right:,} of {self.guesses:,} guesses about {self.canaries:,} canaries were right ({share:.1%})"
        rule = f"epsilon = {self.epsilon:.4g} allows {most:.1%} on average"
        if self.rejected:
            return (
                f"Rejected: epsilon = {self.epsilon:.4g} is not true. Epsilon is at least {self.epsilon_lower:.4g}.\n"
                f"{seen}; {rule}. One run, alpha = {self.alpha:g}"
            )
        return (
            f"No violation of epsilon = {self.epsilon:.4g} found with {self.canaries:,} canaries in one run, "
            f"alpha = {self.alpha:g}.\n{seen}; {rule}.\nThis does not show that the claim is true."
        )


def audit_one_run(mechanism: Callable[[Flags], Any], canaries: int, *, epsilon: Number, alpha: float = ALPHA) -> OneRun:
    """Audits a claim of pure DP with one run.

    `mechanism(present)` returns a score for each canary: the higher, the more the answer looks as if it were present.
    """
    m, level = count(canaries, "canaries", least=10), float(inside_unit(alpha, "alpha"))
    claimed = float(nonnegative(epsilon, "epsilon"))
    present = flip_coins(m)
    scores = np.asarray(mechanism(present.copy()), dtype=np.float64)
    if scores.shape != (m,):
        raise Misconfigured(f"the mechanism returned {scores.size} scores; return one for each of {m} canaries.")
    order = np.argsort(np.nan_to_num(scores), kind="stable")
    bounds = []
    for part in PARTS:
        half = max(1, int(part * m / 2))
        right = int(present[order[-half:]].sum()) + int((~present[order[:half]]).sum())
        p = lower(right, 2 * half, level / len(PARTS))
        bounds.append((math.log(p / (1 - p)) if p > 0 else -math.inf, 2 * half, right))
    bound, guesses, right = max(bounds)
    return OneRun(claimed, bound, m, guesses, right, level)


def audit_groups(aggregate: str = "COUNT(*)", *, epsilon: Number, groups: int = 10_000, alpha: float = ALPHA) -> OneRun:
    """Audits one aggregate of the curator by a single question over many groups, half of which hold a canary.

    The table is `canaries(person, grp, value)`, with two people of value 1 in each group beside the canary and
    `value` between 0 and 10; a canary has the value 10. So `aggregate` is COUNT(*), SUM(value), or any other that fits.
    """
    price = exact(epsilon, "epsilon")

    def ask(present: Flags) -> Any:
        import pyarrow as pa

        groups = np.arange(len(present))
        group = np.concatenate([groups, groups, groups[present]])
        value = np.concatenate([np.ones(2 * len(present)), np.full(int(present.sum()), 10.0)])
        table = pa.table({"person": np.arange(len(group)), "grp": group, "value": value})
        curator = open_experiment(
            table, name=TABLE, unit="person", rows_per_unit=1, groups_per_unit=1, bounds={"value": (0, 10)},
            values={"grp": groups.tolist()}, epsilon=price,
        )  # fmt: skip
        with closing(curator):
            question = f"SELECT grp, {aggregate} AS answer FROM {TABLE} GROUP BY grp"
            answer = curator.sql(question, epsilon=price).to_arrow().sort_by("grp")
        return answer["answer"].to_numpy(zero_copy_only=False)

    return audit_one_run(ask, groups, epsilon=price, alpha=alpha)
