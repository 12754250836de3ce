"""When an answer leaves: at T, 2T, 4T, ... after its turn began, so that timing does not reveal query duration.

service.py waits for these times.

T is what the steward declares as `answer_time` of a table, times the passes that the plan makes over the rows, times
its steps (plan/operator_count.py). It is never measured. An answer that is not ready at T leaves at 2T, and
so on, so that what leaks is at most how often the work overran, and the steward declares a T that it hardly ever does.
Whoever asks chooses the work, and can choose it so that it ends near T: then one unit must not be able to add much. A
question has at most 400 operators, and what one unit's declared rows add is a few thousandths of T.

Its time begins with its turn, and a turn ends when its answer leaves. All charges of a request are made when its turn
begins; if bounds or limits are searched for first, each search takes a T of its own, is stored at its end, and what
follows it comes on time. What fails while rows are read leaves on the same grid.

Guarantee:  a charged answer leaves T 2^k after its turn began, for some k. As long as the work of all turns takes less
            than T each, the times of charges and answers are functions of when requests came, of their plans and of
            declared facts alone.
Proof:      `leave_at` has no other values, and T has no other arguments: it is known before rows are read. A turn
            begins when a request comes or when another turn ends (limits.py), and that is when its answer leaves: by
            induction over turns, at such times. What is sent is made of the ledger as it was at such times too: the
            step that reads rows looks nothing up (curator/stages.py).
At once:    what read no rows leaves when it is ready: refusals, previews, and stored answers, which their price of 0
            tells anyway. Their work is done on the question, the ledger and released numbers.
Checked by: tests/server/test_timing.py, benchmarks/timing.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lapwing.answers.answer import Release
from lapwing.answers.computed import Computed
from lapwing.answers.marginals import MarginalTables
from lapwing.curator.batch_answer import Batch, BatchPreview
from lapwing.curator.preview import Preview
from lapwing.curator.stages import BeforeCharge
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import Table
from lapwing.plan.operator_count import operators, steps
from lapwing.plan.plan import Plan
from lapwing.plan.units_exceeding import check_target

SLOTS = 7
"""An answer that is not ready at T 2^6 is told later: the request ends, and the work goes on."""
MOST_OPERATORS = 400
"""Of one question that is served, as plan/operator_count.py counts them."""

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
    found: ServedAnswer | Preview | BatchPreview | BeforeCharge, times: Mapping[str, float], usual: float
) -> float:
    """T of an answer, of what a preview is of, or of what is about to be charged: the time of its slowest table, once
    for every pass over the rows and every step of its operators."""
    parts = list(_parts(found))
    slowest = max((_table_time(plan.table, times, usual) for plan, _ in parts), default=usual)
    return slowest * max(1, sum((passes(plan) + more) * steps(plan.question) for plan, more in parts))


def pass_time(plan: Plan, times: Mapping[str, float], usual: float) -> float:
    """T of one pass of a plan over the rows: that of the slowest table, once for every step of its operators."""
    return _table_time(plan.table, times, usual) * steps(plan.question)


def check_operators(found: Preview | BatchPreview | BeforeCharge, questions: int) -> None:
    """Refuses more operators than this many questions may have."""
    many, most = sum(operators(plan.question) for plan, _ in _parts(found)), questions * MOST_OPERATORS
    if many > most:
        refuse(
            "too-large",
            "the question",
            f"it has {many:,} operators, sub-queries written out, and a server takes {most:,}: with more, the time of "
            "an answer could tell of one person.",
            "Ask for its parts, each as a question of its own.",
        )


def _table_time(table: Table, times: Mapping[str, float], usual: float) -> float:
    return max((times.get(base.name, usual) for base in _private(table)), default=usual)


def passes(plan: Plan) -> int:
    """How often a plan reads the rows: once for all sums over units, and once for every measure of its own query."""
    apart = sum(measure.kind.apart for measure in plan.measures)
    return apart + (plan.selection is not None or apart < len(plan.measures))


def _private(table: Table) -> Iterable[Table]:
    return (base for base in table.bases if not base.public)


def _parts(found: ServedAnswer | Preview | BatchPreview | BeforeCharge) -> Iterable[tuple[Plan, int]]:
    """Each plan once, and how many more passes find and check what it needs."""
    match found:
        case Release():
            yield found.plan, len(found.found) + (found.check is not None)
        case MarginalTables():
            yield from _parts(found.release)
        case Computed():
            yield from _once(found.parts)
        case Batch():
            yield from _once(found.releases)
        case Preview():
            yield found.plan, len(found.missing) + (found.check is not None or found.checked is not None)
        case BatchPreview():
            for one in {id(one.plan.measures): one for one in found.previews}.values():  # read off one plan
                is_checked = bool(found.check) and check_target(one.plan.outline) is not None
                yield one.plan, is_checked or one.checked is not None
        case BeforeCharge():
            first, *rest = found.plans
            yield from ((first, found.more), *((plan, 0) for plan in rest))


def _once(releases: Iterable[Release]) -> Iterable[tuple[Plan, int]]:
    """Questions that were answered by one charge are read off one plan."""
    for release in {release.entry: release for release in releases}.values():
        yield from _parts(release)
