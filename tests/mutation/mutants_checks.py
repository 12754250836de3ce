"""The mistakes in checks of what limits cut: their noise, whom they count, their charge, and what is said of them."""

from __future__ import annotations

from mutant import Mutant

_CHECKING = "plan/units_exceeding.py"
_CELLS = "mechanisms/cells.py"
_CHECKS = "curator/checks.py"
_PLANNER = "curator/planner.py"
_LIMITS = "plan/contribution_limits.py"
_WORDS = "answers/clipping_notes.py"
COUNTS = ("tests/plan/test_units_exceeding.py",)
ASKED = ("tests/curator/test_check_price.py",)
LIMITS = ("tests/plan/test_contribution_limits.py",)

CHECKS: tuple[Mutant, ...] = (
    Mutant(
        "a check has noise for one count",
        _CHECKING,
        "plan_release(self, price, self.table, cells=self.many)",
        "plan_release(self, price, self.table)",
        "a unit changes m counts, and the noise is for one",
        COUNTS,
    ),
    Mutant(
        "counts of a check share their noise",
        _CELLS,
        "self.noise.draw(c.size).astype(object)",
        "self.noise.draw(1).astype(object)",
        "differences of the counts are exact",
        COUNTS,
    ),
    Mutant(
        "a check counts rows",
        _CHECKING,
        "    return query.group_by(named(UNIT), copy=False)\n\n\ndef _rows_flagged",
        "    return query.group_by(named(UNIT), named(_MANY), copy=False)\n\n\ndef _rows_flagged",
        "a unit with groups of different sizes counts several times",
        COUNTS,
    ),
    Mutant(
        "a check adds up reals",
        _CHECKING,
        'aliased(whole_steps(_column(field), source), f"v{i}")',
        'aliased(number(value(_column(field), source)), f"v{i}")',
        "totals are unclipped, and depend on the order of rows",
        COUNTS,
    ),
    Mutant(
        "a check sees rows of other keys",
        _CHECKING,
        "    if not target.domain:\n        return rows\n",
        "    if target.domain is not None or not target.domain:\n        return rows\n",
        "units beyond limits that the answer does not have",
        COUNTS,
    ),
    Mutant(
        "a check of other limits serves",
        _CHECKS,
        "if (result := decode_check(one.payload)).covers(target)]",
        "if (result := decode_check(one.payload)).over]",
        "limits that were never checked are told of",
        ASKED,
    ),
    Mutant(
        "any check serves",
        _CHECKS,
        "if WORSE * result.loss.amount >= price.amount]",
        "if result.loss.amount]",
        "a cheap check spoils it for others",
        ASKED,
    ),
    Mutant(
        "a check is on top of the price",
        _PLANNER,
        "        return made(terms, check.taken), lesser, check, view\n",
        "        return made(terms), lesser, check, view\n",
        "a question costs more than was named",
        ASKED,
    ),
    Mutant(
        "asking again pays for what the check took",
        _PLANNER,
        "partial(made, least, check.price.amount)",
        "None",
        "the same question is charged twice",
        ASKED,
    ),
    Mutant(
        "a check is charged though the answer does not fit",
        "curator/purchase.py",
        "ledger.reserve_all([one.charge for one in purchases], analyst=analyst)",
        "tuple(ledger.reserve_all([one.charge], analyst=analyst)[0] for one in purchases)",
        "a refused question is charged",
        ASKED,
    ),
    Mutant(
        "a check is paid for a key that buys nothing",
        "curator/pipeline.py",
        "            if charge.key is None or not self._ledger.knows_key(request.analyst, charge.key):\n",
        "            if True:\n",
        "a retry after new data is told as one of another question",
        ASKED,
    ),
    Mutant(
        "a check is forgotten by a retry",
        _CHECKS,
        "if mine and (charge.analyst, charge.key)",
        "if not mine and (charge.analyst, charge.key)",
        "a retry pays more than once",
        ASKED,
    ),
    Mutant(
        "a filter is not said to be one",
        _WORDS,
        "    if question.where is not None:\n",
        "    if question.having is not None:\n",
        "an upper bound is told as a count",
        ASKED,
    ),
    Mutant(
        "noise is told as a sign",
        _WORDS,
        "for words, count in over if count > error]",
        "for words, count in over if count > 0]",
        "limits are said to cut what they may not",
        ASKED,
    ),
    Mutant(
        "counts of units are said to have a limit on rows",
        _LIMITS,
        "    capped = any(_surplus(a) is not Surplus.NONE and",
        "    capped = any(",
        "answers say that something is left out which is not",
        LIMITS,
    ),
    Mutant(
        "a limit that binds is not said",
        _LIMITS,
        "    if has_one_row(table):\n",
        "    if not has_one_row(table):\n",
        "an answer hides what it left out",
        LIMITS,
    ),
)
