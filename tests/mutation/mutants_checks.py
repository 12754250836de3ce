"""The mistakes in checks of what limits cut: their noise, whom they count, their charge, and what is said of them."""

from __future__ import annotations

from mutant import Mutant

COUNTS = ("tests/plan/test_units_exceeding.py",)
ASKED = ("tests/curator/test_check_price.py",)
LIMITS = ("tests/plan/test_contribution_limits.py",)

CHECKS: tuple[Mutant, ...] = (
    Mutant(
        "a check has noise for one count",
        "UnitsExceeding.plan",
        "plan_release(self, price, self.limits.table, cells=self.many)",
        "plan_release(self, price, self.limits.table)",
        "a unit changes m counts, and the noise is for one",
        COUNTS,
    ),
    Mutant(
        "counts of a check share their noise",
        "NoisyCells.release",
        "self.noise.draw(c.size)",
        "self.noise.draw(1)",
        "differences of the counts are exact",
        COUNTS,
    ),
    Mutant(
        "a check counts rows",
        "_units_flagged",
        "query.group_by(named(UNIT), copy=False)",
        "query.group_by(named(UNIT), named(_MANY), copy=False)",
        "a unit with groups of different sizes counts several times",
        COUNTS,
    ),
    Mutant(
        "a check adds up reals",
        "_listed_rows",
        "whole_steps(_column(field), source)",
        "number(value(_column(field), source))",
        "totals are unclipped, and depend on the order of rows",
        COUNTS,
    ),
    Mutant(
        "a check sees rows of other keys",
        "_listed_rows",
        "listed(unit_rows(target.limits.table, [*columns] or [exp.Literal.number(1)]), target.keys, target.domain)",
        "unit_rows(target.limits.table, [*columns] or [exp.Literal.number(1)])",
        "units beyond limits that the answer does not have",
        COUNTS,
    ),
    Mutant(
        "a check of other limits serves",
        "find_check",
        "(result := decode_check(one.payload)).covers(target)",
        "(result := decode_check(one.payload)).over",
        "limits that were never checked are told of",
        ASKED,
    ),
    Mutant(
        "any check serves",
        "find_check",
        "WORSE * result.loss.amount >= price.amount",
        "result.loss.amount",
        "a cheap check spoils it for others",
        ASKED,
    ),
    Mutant(
        "a check is on top of the price",
        "Planner._checked",
        "made(terms, check.taken)",
        "made(terms)",
        "a question costs more than was named",
        ASKED,
    ),
    Mutant(
        "asking again pays for what the check took",
        "Planner._checked",
        "partial(made, least, check.price.amount)",
        "None",
        "the same question is charged twice",
        ASKED,
    ),
    Mutant(
        "a check is charged though the answer does not fit",
        "buy",
        "ledger.reserve_all([one.charge for one in purchases], analyst=analyst)",
        "tuple(ledger.reserve_all([one.charge], analyst=analyst)[0] for one in purchases)",
        "a refused question is charged",
        ASKED,
    ),
    Mutant(
        "a check is paid for a key that buys nothing",
        "Pipeline._pay",
        "charge.key is None or not self._ledger.knows_key(request.analyst, charge.key)",
        "True",
        "a retry after new data is told as one of another question",
        ASKED,
    ),
    Mutant(
        "a check is forgotten by a retry",
        "find_check",
        "mine and (charge.analyst, charge.key) == (request.analyst, mine)",
        "not mine and (charge.analyst, charge.key) == (request.analyst, mine)",
        "a retry pays more than once",
        ASKED,
    ),
    Mutant(
        "a filter is not said to be one",
        "cut_note",
        "question.where is not None",
        "question.having is not None",
        "an upper bound is told as a count",
        ASKED,
    ),
    Mutant(
        "noise is told as a sign",
        "cut_note",
        "count > error",
        "count > 0",
        "limits are said to cut what they may not",
        ASKED,
    ),
    Mutant(
        "counts of units are said to have a limit on rows",
        "limits_of",
        "_surplus(a) is not Surplus.NONE and _total_field(table, a) is None",
        "_total_field(table, a) is None",
        "answers say that something is left out which is not",
        LIMITS,
    ),
    Mutant(
        "a limit that binds is not said",
        "limits_of",
        "has_one_row(table)",
        "not has_one_row(table)",
        "an answer hides what it left out",
        LIMITS,
    ),
)
