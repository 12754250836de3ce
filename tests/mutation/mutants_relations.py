"""The mistakes in sessions, joined answers, joins and rows for each unit."""

from __future__ import annotations

from mutant import Mutant

WATCHED = ("tests/curator/test_watch.py",)
JOINED = ("tests/answers/test_combine.py",)
RELATED = ("tests/sql/test_relations.py", "tests/plan/test_relations_neighbours.py")
TYPES = ("tests/sql/test_joined_types.py",)

RELATIONS: tuple[Mutant, ...] = (
    # sessions
    Mutant(
        "session: scores not in reaches",
        "score",
        "measure.sensitivity * measure.step",
        "measure.step",
        "a unit moves a score by more than 1",
        WATCHED,
    ),
    Mutant(
        "session: one run is charged",
        "Session.loss",
        "self.mechanism.loss * self.runs",
        "self.mechanism.loss",
        "later runs are free",
        WATCHED,
    ),
    Mutant(
        "session: every run takes the whole rho",
        "make_session",
        "price.pure_epsilon(runs, unit=_FINEST)",
        "price.pure_epsilon(1, unit=_FINEST)",
        "less noise than was paid for",
        WATCHED,
    ),
    Mutant(
        "session: new runs without end",
        "Watch._said",
        "self._run, self._more = (self.session.mechanism.start(), self._more - 1)",
        "self._run = self.session.mechanism.start()",
        "more answers than were paid for",
        WATCHED,
    ),
    Mutant(
        "session: it goes on after a failure",
        "Watch.above",
        "self._failed = True",
        "self._failed = False",
        "failures tell one bit each",
        WATCHED,
    ),
    Mutant(
        "session: a child goes on with it",
        "Watch._require_running",
        "self._born != Forks.count",
        "self._born == -1",
        "the same noise answers twice",
        WATCHED,
    ),
    Mutant(
        "session: sums that a unit lowers",
        "plan_watched",
        "interval.low < 0",
        "interval.high < 0",
        "scores move both ways under noise for one",
        WATCHED,
    ),
    # joined answers
    Mutant(
        "joined answers: the newest price alone",
        "combined",
        "[plan.prices.measures[i] for plan in plans]",
        "[plan.prices.measures[i] for plan in plans[:1]]",
        "the stated price is too low",
        JOINED,
    ),
    Mutant(
        "joined answers: keys that were selected",
        "check_combinable",
        "outline.domain is None",
        "outline.domain is None and (not outline.kinds)",
        "a mean over the answers that showed a group",
        JOINED,
    ),
    Mutant(
        "joined answers: the interval of the newest",
        "mean_error",
        "len(parts) == 1",
        "len(parts) >= 1",
        "intervals of another law",
        JOINED,
    ),
    # joins, and rows for each unit
    Mutant(
        "join: partners of other units",
        "_met",
        "[*(exp.EQ(this=a, expression=b) for a, b in zip(mine, yours, strict=True)), units]",
        "[*(exp.EQ(this=a, expression=b) for a, b in zip(mine, yours, strict=True)), *([] if mine else [units])]",
        "rows of two units in one",
        RELATED,
    ),
    Mutant(
        "join: many public partners",
        "_check_key",
        "any(exact.issuperset(key) for key in table.keys)",
        "exact",
        "a row meets a public row that is chosen for it",
        RELATED,
    ),
    Mutant(
        "join: whole numbers that are one real",
        "_is_exact",
        "b.bounds.magnitude <= _MOST_EXACT",
        "b.bounds.magnitude > 0",
        "keys that were told apart are compared as one",
        RELATED,
    ),
    Mutant(
        "join: several public rows a key",
        "_one_a_key",
        "query.group_by(*(key.copy() for key in keys), copy=False)",
        "query.group_by(*(key.copy() for key in keys), _column(_EACH, 'c0'), copy=False)",
        "one private row becomes many",
        TYPES,
    ),
    Mutant(
        "join: sides in types of their own",
        "_compared",
        "common((expression.type, other.type))",
        "expression.type",
        "the engine chooses in which type keys are equal",
        TYPES,
    ),
    Mutant(
        "engine: float32 as it is stored",
        "_exact",
        "stored == _SQL_TYPES[kind]",
        "stored != 'BIGINT'",
        "whole numbers above 2^24 are equal to their neighbours",
        TYPES,
    ),
    Mutant(
        "join: rows that are units meet others",
        "_check_sides",
        "not right.public and (left.by_row or right.by_row)",
        "not right.public and left.by_row and right.by_row",
        "a row meets rows of other units",
        RELATED,
    ),
    Mutant(
        "per unit: a choice among units inside",
        "per_unit",
        "groups.limit is not None or groups.order",
        "groups.order and groups.limit is None",
        "one unit decides whether another counts",
        RELATED,
    ),
    Mutant(
        "per unit: sums in the order of rows",
        "whole_steps",
        "cast(kept, exp.DType.BIGINT)",
        "cast(scaled.copy(), exp.DType.DOUBLE)",
        "a unit's total depends on where its rows stand",
        RELATED,
    ),
)
