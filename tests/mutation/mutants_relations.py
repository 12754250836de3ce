"""The mistakes in sessions, joined answers, joins and rows for each unit."""

from __future__ import annotations

from mutant import Mutant

WATCHED = ("tests/curator/test_watch.py",)
JOINED = ("tests/answers/test_combine.py",)
RELATED = ("tests/sql/test_relations.py", "tests/plan/test_relations_neighbours.py")
TYPES = ("tests/sql/test_joined_types.py",)
_ENGINE = "engines/duckdb.py"
_WATCH = "curator/watch.py"
_COMBINE = "answers/combine.py"
_JOINS = "sql/joins.py"
_PER_UNIT = "sql/per_unit.py"
_DERIVED = "plan/derived_rows.py"

RELATIONS: tuple[Mutant, ...] = (
    # sessions
    Mutant(
        "session: scores not in reaches",
        _WATCH,
        " / (measure.sensitivity * measure.step)",
        " / measure.step",
        "a unit moves a score by more than 1",
        WATCHED,
    ),
    Mutant(
        "session: one run is charged",
        _WATCH,
        "return self.mechanism.loss * self.runs",
        "return self.mechanism.loss",
        "later runs are free",
        WATCHED,
    ),
    Mutant(
        "session: every run takes the whole rho",
        _WATCH,
        "price.pure_epsilon(runs, unit=_FINEST)",
        "price.pure_epsilon(1, unit=_FINEST)",
        "less noise than was paid for",
        WATCHED,
    ),
    Mutant(
        "session: new runs without end",
        _WATCH,
        "self._run, self._more = self.session.mechanism.start(), self._more - 1",
        "self._run = self.session.mechanism.start()",
        "more answers than were paid for",
        WATCHED,
    ),
    Mutant(
        "session: it goes on after a failure",
        _WATCH,
        "self._failed = True",
        "self._failed = False",
        "failures tell one bit each",
        WATCHED,
    ),
    Mutant(
        "session: a child goes on with it",
        _WATCH,
        "if self._born != Forks.count:",
        "if self._born == -1:",
        "the same noise answers twice",
        WATCHED,
    ),
    Mutant(
        "session: sums that a unit lowers",
        _WATCH,
        "if mechanism.monotone and interval.low < 0:",
        "if mechanism.monotone and interval.high < 0:",
        "scores move both ways under noise for one",
        WATCHED,
    ),
    # joined answers
    Mutant(
        "joined answers: the newest price alone",
        _COMBINE,
        "_summed([plan.prices.measures[i] for plan in plans])",
        "_summed([plan.prices.measures[i] for plan in plans[:1]])",
        "the stated price is too low",
        JOINED,
    ),
    Mutant(
        "joined answers: keys that were selected",
        _COMBINE,
        "    if outline.domain is None:\n        refuse(",
        "    if outline.domain is None and not outline.kinds:\n        refuse(",
        "a mean over the answers that showed a group",
        JOINED,
    ),
    Mutant(
        "joined answers: the interval of the newest",
        "mechanisms/additive/mean_noise.py",
        "    if len(parts) == 1:",
        "    if len(parts) >= 1:",
        "intervals of another law",
        JOINED,
    ),
    # joins, and rows for each unit
    Mutant(
        "join: partners of other units",
        _DERIVED,
        "for a, b in zip(mine, yours, strict=True)), units]",
        "for a, b in zip(mine, yours, strict=True)), *([] if mine else [units])]",
        "rows of two units in one",
        RELATED,
    ),
    Mutant(
        "join: many public partners",
        _JOINS,
        "if any(exact.issuperset(key) for key in table.keys):",
        "if exact:",
        "a row meets a public row that is chosen for it",
        RELATED,
    ),
    Mutant(
        "join: whole numbers that are one real",
        _JOINS,
        "b.bounds.magnitude <= _MOST_EXACT",
        "b.bounds.magnitude > 0",
        "keys that were told apart are compared as one",
        RELATED,
    ),
    Mutant(
        "join: several public rows a key",
        _DERIVED,
        "for key in keys), copy=False)\n    return exp.Subquery(this=query",
        "for key in keys), _column(_EACH, 'c0'), copy=False)\n    return exp.Subquery(this=query",
        "one private row becomes many",
        TYPES,
    ),
    Mutant(
        "join: sides in types of their own",
        _DERIVED,
        "return typed(expression, common((expression.type, other.type)), _read(side))",
        "return typed(expression, expression.type, _read(side))",
        "the engine chooses in which type keys are equal",
        TYPES,
    ),
    Mutant(
        "engine: float32 as it is stored",
        _ENGINE,
        "return column if stored == _SQL_TYPES[kind] else",
        "return column if stored != 'BIGINT' else",
        "whole numbers above 2^24 are equal to their neighbours",
        TYPES,
    ),
    Mutant(
        "join: rows that are units meet others",
        _JOINS,
        "if not right.public and (left.by_row or right.by_row):",
        "if not right.public and left.by_row and right.by_row:",
        "a row meets rows of other units",
        RELATED,
    ),
    Mutant(
        "per unit: a choice among units inside",
        _PER_UNIT,
        "if groups.limit is not None or groups.order:",
        "if groups.order and groups.limit is None:",
        "one unit decides whether another counts",
        RELATED,
    ),
    Mutant(
        "per unit: sums in the order of rows",
        _DERIVED,
        "cast(kept, exp.DType.BIGINT))",
        "cast(scaled.copy(), exp.DType.DOUBLE))",
        "a unit's total depends on where its rows stand",
        RELATED,
    ),
)
