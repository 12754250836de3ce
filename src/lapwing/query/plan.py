"""From a question and a price to a plan: limits, steps, noise, cost and error, all before any row is read.

Price, noise, keys, types and order are functions of the question and of declared facts only.

Sensitivity. One unit adds to at most `groups` cells of each measure an integer in [low, high] (aggregates.py), and
nothing else: rows of no unit are dropped, groups beyond the limit are dropped per unit (bounding.py). Adding or
removing one unit therefore changes the cells of a measure by at most groups * reach in the l1 norm and
sqrt(groups) * reach in the l2 norm, reach = max(|low|, |high|). Each measure is released by a mechanism made for
exactly that, at its share of the price; shares add up to the price (sequential composition).
Checked by: tests/query/test_neighbours.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from lapwing.errors import Misconfigured
from lapwing.mechanisms.gaussian import Gaussian
from lapwing.mechanisms.grid import Grid
from lapwing.mechanisms.laplace import Laplace
from lapwing.privacy.budget import Budget
from lapwing.privacy.loss import ZCDP, Approximate, Loss, Pure
from lapwing.query.aggregates import FUNCTIONS, SUM, Function, steps
from lapwing.query.catalog import Table
from lapwing.query.expression import Call, Column, walk
from lapwing.query.question import Aggregate, Question
from lapwing.query.types import Interval, Type, Value
from lapwing.query.verdict import Refusal, Stop, refuse
from lapwing.rational import root_up

MOST_CELLS = 1_000_000
MOST_REACH = 10**24  # in steps: the parts of 10^13 units add up within the 38 digits of the engine
_MOST_BITS = 48  # of the noise, in steps
FINEST_STEP = Fraction(1, 2**900)  # so that a step and its inverse are ordinary float64 numbers

Noise = Laplace | Gaussian


@dataclass(frozen=True, slots=True)
class Measure:
    """One aggregate as it will be released: integer cells in steps, clipped per unit, and their noise."""

    aggregate: Aggregate
    step: Fraction
    low: int
    high: int
    noise: Noise

    @property
    def function(self) -> Function:
        return FUNCTIONS[self.aggregate.name]

    @property
    def reach(self) -> int:
        """The most that one unit changes one cell by, in steps."""
        return max(abs(self.low), abs(self.high))

    def error(self, confidence: Fraction, *, simultaneous: int = 1) -> Fraction:
        """Half the width of the interval, in the units of the answer."""
        return self.noise.error(confidence, simultaneous=simultaneous) * self.step


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is decided before rows are read."""

    question: Question
    measures: tuple[Measure, ...]
    groups: int
    """How many groups one unit may count in."""
    limit_groups: bool
    """Whether some unit could be in more groups than that, so that the engine must choose among them."""
    domain: tuple[tuple[Value, ...], ...]
    """The declared values of each key, in declared order."""
    loss: Loss

    @property
    def table(self) -> Table:
        return self.question.table

    @property
    def cells(self) -> int:
        """How many rows the answer has before sorting and limiting."""
        return math.prod(len(values) for values in self.domain)

    def identity(self) -> str:
        """Everything that the cells and their noise are made by: equal texts mean the same paid request.

        Unlike `Question.canonical` it keeps the order of keys and aggregates, in which an answer is stored, and the
        limits, bounds and values that were declared when it was asked.
        """
        keys = [
            (key.name, [repr(value) for value in values])
            for key, values in zip(self.question.keys, self.domain, strict=True)
        ]
        measures = [(m.aggregate.canonical(), str(m.step), m.low, m.high, str(m.noise)) for m in self.measures]
        limits = (self.table.unit, self.table.version, self.groups, self.limit_groups)
        return repr((self.question.canonical(), keys, measures, limits, str(self.loss)))


def make_plan(question: Question, loss: Loss) -> Plan | Refusal:
    """The plan of a question at this price, or why there is none."""
    try:
        return _plan(question, loss)
    except Stop as stop:
        return stop.refusal


def price_of(budget: Budget, epsilon: Fraction) -> Loss:
    """What a question asked at this epsilon may lose, in the currency of the budget."""
    return budget.price(epsilon=epsilon)


def _plan(question: Question, loss: Loss) -> Plan:
    table = question.table
    _check_above(question)
    domain = tuple(_declared(table, key) for key in question.keys)
    cells = math.prod(len(values) for values in domain)
    if cells > MOST_CELLS:
        refuse(
            "GROUP BY",
            f"the declared keys make {cells:,} groups; at most {MOST_CELLS:,} are answered at once.",
            "Group by fewer columns, or by columns with fewer values.",
        )
    most = 1 if table.by_row else cells
    groups = most if table.groups_per_unit is None else min(most, table.groups_per_unit)
    share = _share(loss, len(question.aggregates))
    measures = tuple(_measure(table, aggregate, groups, share) for aggregate in question.aggregates)
    return Plan(question, measures, groups, groups < most, domain, loss)


def _check_above(question: Question) -> None:
    """Refuses before the charge what post-processing could not compute after it."""
    expressions = [*(output.expression for output in question.outputs), *(by.expression for by in question.order)]
    for part in (part for expression in expressions for part in walk(expression) if isinstance(part, Call)):
        if part.operator.compute is None:
            refuse(f"`{part.operator.name}`", "it is not computed from released numbers.", _ARITHMETIC)
        if any(argument.type is None for argument in part.arguments):
            refuse("NULL", "nothing is computed from it here.", "Leave it out.")


_ARITHMETIC = "Use arithmetic here, or compute it from the answer, which costs nothing."


def _declared(table: Table, key: Column) -> tuple[Value, ...]:
    values = table.field(key.name).values
    if key.type is Type.REAL:
        refuse(f"GROUP BY `{key.name}`", "reals are no keys: 0.0 and -0.0 are one number.", "Declare it as integer.")
    if not values:
        refuse(
            f"GROUP BY `{key.name}`",
            "its values are not public, and a value that appears only if somebody is there would expose them.",
            f'Have the steward declare them: values = ["...", "..."] for `{key.name}`.',
        )
    return values


def _share(loss: Loss, parts: int) -> Pure | ZCDP:
    """An equal share of the price for each measure; the shares add up to the price."""
    match loss:
        case Pure():
            return Pure(loss.epsilon / parts)
        case ZCDP(delta=delta) if not delta:
            return ZCDP(loss.rho / parts)
        case Approximate(delta=delta) if not delta:
            return Pure(loss.epsilon / parts)
        case _:
            refuse("the price", f"({loss}) is of a kind that these aggregates do not use.", "Leave `delta` out.")


def _measure(table: Table, aggregate: Aggregate, groups: int, share: Pure | ZCDP) -> Measure:
    function = FUNCTIONS[aggregate.name]
    total = function.total(table, aggregate.argument)
    if not total.reach:
        refuse(aggregate.words(), "it is 0 whatever the rows hold.", "Leave it out.")
    step = _step(function, aggregate, total, groups, share)
    low, high = steps(total, step)
    reach = max(abs(low), abs(high))
    if reach > MOST_REACH or not FINEST_STEP <= step <= 1 / FINEST_STEP:
        refuse(
            aggregate.words(),
            "one unit's part may be so large or so small that sums are no longer exact.",
            "Have the steward declare bounds and rows_per_unit of ordinary size.",
        )
    return Measure(aggregate, step, low, high, _noise(share, groups, reach))


def _step(function: Function, aggregate: Aggregate, total: Interval, groups: int, share: Pure | ZCDP) -> Fraction:
    """A power of two, so fine that rounding to it drowns in the noise.

    Whole numbers go in steps of 1; in larger ones only if their noise could not be drawn otherwise.
    """
    if function is not SUM:
        return Fraction(1)
    strength = share.epsilon if isinstance(share, Pure) else Fraction(math.sqrt(2 * share.rho))
    scale = groups * total.reach / strength
    if function.whole(aggregate.argument):
        return Fraction(1 << max(0, math.floor(scale).bit_length() - _MOST_BITS))
    return Grid.fine(scale, total.reach, 1).step


def _noise(share: Pure | ZCDP, groups: int, reach: int) -> Noise:
    noise: Noise
    match share:
        case Pure():
            noise = Laplace(epsilon=share.epsilon, sensitivity=groups * reach)
        case ZCDP():
            noise = Gaussian(rho=share.rho, sensitivity=root_up(groups) * reach)
    try:
        noise.draw(0)
    except Misconfigured:
        refuse("`epsilon`", f"noise for {share} cannot be drawn: it is too large or too small.", "Choose another one.")
    return noise
