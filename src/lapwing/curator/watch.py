"""A sparse-vector session over questions: is this count or sum above the threshold? Only "above" is paid for.

[VW21] Vadhan, Wang: Concurrent composition of differential privacy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from threading import RLock
from typing import Any, NoReturn

from lapwing.errors import Halted, LapwingError, Misconfigured
from lapwing.expressions.expression import Slot
from lapwing.expressions.refusal import refuse
from lapwing.expressions.table import Table
from lapwing.mechanisms.scores import at_least
from lapwing.mechanisms.sparse.vector import GeometricSparse
from lapwing.noise.bits import Forks
from lapwing.numbers import Number, count, flag, inside_unit
from lapwing.plan.add_noise import Arranged
from lapwing.plan.plan import Plan, make_plan
from lapwing.plan.question import Question
from lapwing.privacy.budget import Cost
from lapwing.privacy.loss import Loss

Look = Callable[[Arranged], bool]
"""What a session does with exact cells: it says one bit of them."""

_FINEST = Fraction(1, 2**64)


@dataclass(frozen=True, slots=True)
class Session:
    """What a session is made of: `runs` runs of one mechanism, each of which starts when the one before has halted.

    Pure and basic budgets add up epsilons, and one run with all answers is the most exact. Under zCDP c runs with one
    answer each cost c epsilon^2 / 2, so each takes sqrt(2 rho / c), while the noise of one run would grow with c: from
    ten questions on that is more exact (ten answers among a hundred: margins of 191 and 268 at rho = 0.0229).
    """

    mechanism: GeometricSparse
    runs: int
    queries: int
    """How many questions below are expected in all."""

    @property
    def answers(self) -> int:
        return self.runs * self.mechanism.answers

    @property
    def loss(self) -> Loss:
        return self.mechanism.loss * self.runs

    def error(self, confidence: Number = 0.95) -> int | float:
        """The margin, in reaches, that makes all answers right: each run may fail with its part of the probability.

        It is hardest when the questions below are spread evenly over the runs (mechanisms/sparse/crossing.py).
        """
        outside = (1 - inside_unit(confidence, "confidence")) / self.runs
        return self.mechanism.error(1 - outside, queries=-(-self.queries // self.runs))


class Watch:
    """Answers whether one count or sum after another is above a threshold, until enough of them were.

    Use:        for many counts or sums of which few are above, as in "tell me when a site passes 100 cases".
    Law:        a question's cell, in the units of its answer, becomes the score (cell - threshold) / sensitivity: by
                the most that one unit adds to it. GeometricSparse says whether the score is above 0: one run for all
                answers, or under zCDP a new run after each "above" (see Session).
    Guarantee:  the loss of all runs together, each pure DP with the mechanism's epsilon, for adding or removing one
                unit, however many questions are below and however they are chosen. It is paid in full at the start.
    Proof:      the cell is a sum over units, and each adds at most the sensitivity in absolute value (total.py,
                plan.py); with `signed` off every question's interval starts at 0 or above, so that each adds at least
                0. Threshold and sensitivity are public, so a score moves by at most 1, and without `signed` all scores
                move the same way: what GeometricSparse asks for, monotone or not.
                Other questions may be asked meanwhile, and depend on this session's answers. Let P and Q be the laws
                of one run's answers on two neighbours: for every list of questions their ratio is at most e^eps
                either way. So P1 = (e^eps P - Q) / (e^eps - 1) and Q1 = (e^eps Q - P) / (e^eps - 1) are not negative,
                and like P and Q they never look ahead to later questions. P = (e^eps P1 + Q1) / (e^eps + 1) and
                Q = (P1 + e^eps Q1) / (e^eps + 1): a run is one randomized response at its start, charged by then, and
                from there on a function of that bit. So every budget adds it up as any pure loss. When the next run
                starts depends on answers only. [VW21]
    Error:      `margin(question)`: all answers are right if the true ones are that far from the threshold.
    Failure:    whatever fails while rows are read is reported by one constant sentence and ends the session, so that
                at most one failure is ever seen. The price stays charged.
    Checked by: tests/curator/test_watch.py
    """

    def __init__(
        self,
        session: Session,
        threshold: Fraction,
        paid: tuple[Cost, int],
        *,
        read: Callable[[Any], Question],
        unchanged: Callable[[Table], bool],
        ready: Callable[[Plan], Callable[[Look], bool]],
    ) -> None:
        self.session = session
        self._run, self._more = session.mechanism.start(), session.runs - 1
        self.threshold = threshold
        self.cost, self.entry = paid
        self._read, self._unchanged, self._ready = read, unchanged, ready
        self._lock, self._born, self._failed = RLock(), Forks.count, False
        self._asking = False

    @property
    def left(self) -> int:
        """How many times it can still say "above"."""
        return 0 if self._failed else self._run.left + self._more * self.session.mechanism.answers

    @property
    def halted(self) -> bool:
        """Whether it answers no more questions."""
        return self.left == 0

    def above(self, question: Any) -> bool:
        """Whether the answer, with noise, reaches the threshold, with noise. In SQL or as an Ibis expression.

        A question that cannot be watched is refused; the session continues.
        """
        self._require_running()
        plan = self._planned(question)
        looked = self._ready(plan)
        with self._lock:
            self._require_running()
            if self._asking:  # a signal handler: the lock keeps other threads out
                raise Halted("This session is in the middle of a question. Ask again after it.")
            if not self._unchanged(plan.table):
                raise Misconfigured(CHANGED)
            try:
                self._asking = True
                return looked(lambda cells: self._said(score(plan, cells, self.threshold)))
            except BaseException as error:  # an interrupt too: how far the answer had come is unknown
                self._failed = True
                if isinstance(error, LapwingError):
                    error.charged = self.cost
                raise
            finally:
                self._asking = False

    def margin(self, question: Any, confidence: Number = 0.95) -> float:
        """All answers of the session are right with this probability if the true ones are so far from the threshold.

        In the units of this question's answer, for as many questions below as the session was made for. Free.
        """
        measure = self._planned(question).measures[0]
        return at_least(Fraction(self.session.error(confidence)) * measure.sensitivity * measure.step)

    def __reduce__(self) -> NoReturn:
        raise Misconfigured(
            "A session cannot be copied or pickled: its copy would give again the answers that were paid for once. "
            "Start another with curator.watch(...), and pay for it."
        )

    def __str__(self) -> str:
        return f"{self.left} of {self.session.answers} answers above left; price {self.cost}; entry {self.entry}"

    def _said(self, value: Fraction) -> bool:
        said = self._run.above(value)
        if self._run.halted and self._more:
            self._run, self._more = self.session.mechanism.start(), self._more - 1
        return said

    def _planned(self, question: Any) -> Plan:
        return plan_watched(self._read(question), self.session.mechanism)

    def _require_running(self) -> None:
        if self._born != Forks.count:  # before the lock, which a thread of the parent may have held
            raise Halted(f"This session belongs to the process that started it. {_AGAIN}")
        if self._failed:
            raise Halted(f"This session ended when a question failed; its price stays charged. {_AGAIN}")
        if self.halted:
            raise Halted(f'This session has said "above" as often as was paid for. {_AGAIN}')


CHANGED = (
    "The data changed without a new version, so this question is not answered and cost nothing. "
    "The price of the session stays charged. Have the steward declare a new `version` for the table."
)
_AGAIN = "Start another with curator.watch(...), and pay for it."


def make_session(price: Loss, *, answers: int, queries: int, signed: bool) -> Session:
    """The session at this price. Draws noise, so that what cannot be drawn is said before the charge.

    Under zCDP each run takes the largest pure epsilon, a multiple of 2^-64, with runs * epsilon^2 / 2 <= rho.
    """
    times, below = count(answers, "answers"), count(queries, "queries")
    runs = times if price.power > 1 else 1
    strength = price.pure_epsilon(runs, unit=_FINEST)
    if not strength:
        raise Misconfigured(f"the price is {price}; that is too small for any noise. Name a larger one.")
    mechanism = GeometricSparse(
        threshold=0,
        epsilon=strength,
        answers=times // runs,
        queries=-(-below // runs),
        monotone=not flag(signed, "signed"),
        reals=True,
    )
    mechanism.start()
    mechanism.crossing.draw_noise()
    return Session(mechanism, runs, below)


def plan_watched(question: Question, mechanism: GeometricSparse) -> Plan:
    """The plan that reads a question's one cell; raises Refused if it cannot be watched.

    Its step is fine against noise at the session's whole epsilon, and so against the session's. Its own noise is never
    drawn.
    """
    if question.keys:
        why = "a session watches one number at a time."
        refuse("not-watchable", "GROUP BY", why, "Leave GROUP BY out, and ask for each group with WHERE.")
    outputs = question.outputs
    if len(outputs) != 1 or len(question.aggregates) != 1 or not isinstance(outputs[0].expression, Slot):
        why = "a session watches one COUNT or SUM by itself."
        refuse("not-watchable", "SELECT", why, "Select one of them, without arithmetic.")
    if question.having is not None or question.limit is not None:
        refuse("not-watchable", "HAVING or LIMIT", "a session says only whether the answer is above.", "Leave it out.")
    plan = make_plan(question, mechanism.loss)
    interval = plan.measures[0].kind.unit_interval
    asked = question.aggregates[0].words()
    if interval is None:
        refuse("not-watchable", asked, "a session watches counts and sums only.", "Ask for one COUNT or SUM.")
    if mechanism.monotone and interval.low < 0:
        refuse(
            "not-watchable",
            asked,
            "one unit may lower it, and this session was started for answers that units only raise.",
            "Start a session with signed=True, or clip it, SUM(CLIP(..., 0, 100)), which counts negative numbers as 0.",
        )
    return plan


def score(plan: Plan, cells: Arranged, threshold: Fraction) -> Fraction:
    """How far the exact answer is above the threshold, in reaches. Private: it goes into the run and nowhere else."""
    measure = plan.measures[0]
    return (int(cells.cells[0][0][0]) * measure.step - threshold) / (measure.sensitivity * measure.step)
