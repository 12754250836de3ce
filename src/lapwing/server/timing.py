"""When an answer is sent: at T, 2T, 4T, ... after its turn began, so that timing does not reveal query duration.

T is the declared `answer_time` of a table, times the passes of the plan over the rows, times its steps
(plan/question.py). It is never measured. An answer that is not ready at T is sent at 2T, and so on: what leaks is
at most how often the work overran, and the steward declares a T that it rarely does. An analyst can choose work that
ends near T, so one unit must not add much: a question has at most 400 operators, and the declared rows of one unit add
a few thousandths of T.

A turn ends when its answer is sent. All charges of a request are made when its turn begins; each search for bounds or
limits takes a T of its own and is stored at its end. Failures while rows are read are sent on the same grid.

Guarantee:  a charged answer leaves T 2^k after its turn began, for some k. As long as the work of all turns takes less
            than T each, the times of charges and answers are functions of when requests came, of their plans and of
            declared facts alone.
Proof:      `leave_at` has no other values, and T has no other arguments: it is known before rows are read. A turn
            begins when a request comes or when another turn ends (limits.py), and that is when its answer leaves: by
            induction over turns, at such times. What is sent is made of the ledger as it was at such times too: the
            step that reads rows looks nothing up (curator/purchase.py).
At once:    what read no rows leaves when it is ready: refusals, previews, and stored answers, which their price of 0
            reveals anyway. They depend on the question, the ledger and released numbers.
Checked by: tests/server/test_timing.py, benchmarks/timing.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lapwing.answers.answer import Release
from lapwing.answers.computed import Computed
from lapwing.answers.marginals import MarginalTables
from lapwing.curator.batch_answer import Batch, BatchPreview
from lapwing.curator.preview import Preview
from lapwing.curator.purchase import BeforeCharge
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import Table
from lapwing.plan.plan import Plan
from lapwing.plan.question import operators, steps
from lapwing.plan.units_exceeding import check_target

SLOTS = 7
"""If an answer is not ready at T 2^6, its request ends; the work continues."""
MOST_OPERATORS = 400
"""Of one question that is served, as plan/question.py counts them."""

ServedAnswer = Release | Computed | Batch | MarginalTables


def leave_at(elapsed: float, slot: float) -> float:
    """Seconds after its request at which an answer leaves that was ready after `elapsed`: the next of T, 2T, 4T, ..."""
    at = slot
    while at < elapsed:
        at *= 2
    return at


def longest(slot: float) -> float:
    """Seconds after which a request ends, whether its answer is ready or not."""
    return slot * float(2 ** (SLOTS - 1))


def slot_of(
    work: ServedAnswer | Preview | BatchPreview | BeforeCharge, times: Mapping[str, float], usual: float
) -> float:
    """T of an answer, a preview or a charge: the time of its slowest table for every pass and every step."""
    parts = list(_parts(work))
    slowest = max((_table_time(plan.table, times, usual) for plan, _ in parts), default=usual)
    return slowest * max(1, sum((passes(plan) + more) * steps(plan.question) for plan, more in parts))


def pass_time(plan: Plan, times: Mapping[str, float], usual: float) -> float:
    """T of one pass of a plan over the rows."""
    return _table_time(plan.table, times, usual) * steps(plan.question)


def check_operators(work: Preview | BatchPreview | BeforeCharge, questions: int) -> None:
    """Refuses more operators than this many questions may have."""
    count, most = sum(operators(plan.question) for plan, _ in _parts(work)), questions * MOST_OPERATORS
    if count > most:
        refuse(
            "too-large",
            "the question",
            f"it has {count:,} operators, sub-queries written out, and a server takes {most:,}: with more, the time of "
            "an answer could tell of one person.",
            "Ask for its parts, each as a question of its own.",
        )


def _table_time(table: Table, times: Mapping[str, float], usual: float) -> float:
    return max((times.get(base.name, usual) for base in table.bases if not base.public), default=usual)


def passes(plan: Plan) -> int:
    """How often a plan reads the rows: once for all sums over units, and once for every measure of its own query."""
    apart = sum(measure.kind.apart for measure in plan.measures)
    return apart + (plan.selection is not None or apart < len(plan.measures))


def _parts(work: ServedAnswer | Preview | BatchPreview | BeforeCharge) -> Iterable[tuple[Plan, int]]:
    """Each plan once, and how many more passes find and check what it needs."""
    match work:
        case Release():
            yield work.plan, len(work.found) + (work.check is not None)
        case MarginalTables():
            yield from _parts(work.release)
        case Computed():
            yield from _once(work.parts)
        case Batch():
            yield from _once(work.releases)
        case Preview():
            yield work.plan, len(work.missing) + (work.check is not None or work.checked is not None)
        case BatchPreview():
            for preview in {id(p.plan.measures): p for p in work.previews}.values():  # of one plan
                is_checked = bool(work.check) and check_target(preview.plan.outline) is not None
                yield preview.plan, is_checked or preview.checked is not None
        case BeforeCharge():
            first, *rest = work.plans
            yield from ((first, work.more), *((plan, 0) for plan in rest))


def _once(releases: Iterable[Release]) -> Iterable[tuple[Plan, int]]:
    """Questions that were answered by one charge are read off one plan."""
    for release in {release.entry: release for release in releases}.values():
        yield from _parts(release)
