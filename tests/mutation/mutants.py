"""The mistakes: one changed line each, in the code that privacy rests on.

A test checks that every line to be changed is there exactly once, so that the list keeps up with the code.
"""

from __future__ import annotations

from dataclasses import dataclass

PLAN = ("tests/query/test_plan.py",)
CELLS = ("tests/query/test_bounding.py", "tests/query/test_neighbours.py")
WHOLE = ("tests/test_curator.py", "tests/query/test_stored.py", "tests/query/test_gate.py")
LEDGER = ("tests/ledger",)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed line."""

    name: str
    file: str
    before: str
    after: str
    why: str
    tests: tuple[str, ...]

    def applied(self, text: str) -> str:
        """The text with the mistake in it."""
        if text.count(self.before) != 1:
            raise ValueError(f"{self.name}: the line is in {self.file} {text.count(self.before)} times, not once")
        return text.replace(self.before, self.after)


NOISE = ("tests/mechanisms/test_laplace.py", "tests/mechanisms/test_gaussian.py")
SOFT = ("tests/mechanisms/test_moments.py", "tests/mechanisms/test_soft_values.py")
WATCHED = ("tests/query/test_watch.py",)
JOINED = ("tests/query/test_combine.py",)
RELATED = ("tests/query/test_relations.py", "tests/query/test_relations_neighbours.py")
KEYS = (
    "tests/mechanisms/test_keys.py",
    "tests/mechanisms/test_keys_threshold.py",
    "tests/mechanisms/test_keys_weighted.py",
)

_PLAN, _MEASURES = "query/plan.py", "query/measures.py"
_BOUNDING, _RELEASE = "query/bounding.py", "query/release.py"
_CURATOR, _ANSWERING, _VAULT = "curator/curator.py", "curator/answering.py", "curator/vault.py"
_AGGREGATES, _SHAPES = "query/aggregates.py", "query/shapes.py"
_CONTRIBUTIONS = "query/contributions.py"
_FINDING, FINDING = "query/finding.py", ("tests/query/test_finding.py", "tests/query/test_automatic.py")
_WATCH, _COMBINE, _JOINS, _PER_UNIT = "query/watch.py", "query/combine.py", "query/joins.py", "query/per_unit.py"
_DERIVED = "query/derived_rows.py"

MUTANTS: tuple[Mutant, ...] = (
    # how much noise
    Mutant(
        "halve the scale of Laplace",
        _MEASURES,
        "sensitivity=groups * reach)",
        "sensitivity=groups * reach / 2)",
        "half the noise",
        PLAN + CELLS,
    ),
    Mutant(
        "halve the scale of Gauss",
        _MEASURES,
        "sensitivity=root_up(groups) * reach)",
        "sensitivity=root_up(groups) * reach / 2)",
        "half the noise",
        PLAN + CELLS,
    ),
    Mutant(
        "forget the groups, pure",
        _MEASURES,
        "sensitivity=groups * reach)",
        "sensitivity=reach)",
        "a unit in many groups is not covered",
        PLAN + CELLS,
    ),
    Mutant(
        "forget the groups, zCDP",
        _MEASURES,
        "sensitivity=root_up(groups) * reach)",
        "sensitivity=reach)",
        "a unit in many groups is not covered",
        PLAN + CELLS,
    ),
    Mutant(
        "choose the best groups as if a unit had one row",
        _MEASURES,
        "TopK(k=best.many, epsilon=epsilon, sensitivity=reach,",
        "TopK(k=best.many, epsilon=epsilon, sensitivity=1,",
        "a unit with many rows is not covered",
        ("tests/query/test_best.py",),
    ),
    Mutant(
        "choose the best groups as if no part were negative",
        _MEASURES,
        "monotone = interval.low >= 0 or interval.high <= 0",
        "monotone = True",
        "half the noise",
        ("tests/query/test_best.py",),
    ),
    Mutant(
        "swap l2 for l1",
        _MEASURES,
        "noise = Laplace(epsilon=share.epsilon, sensitivity=groups * reach)",
        "noise = Laplace(epsilon=share.epsilon, sensitivity=root_up(groups) * reach)",
        "Laplace noise for the l2 norm",
        PLAN + CELLS,
    ),
    Mutant(
        "share the price twice, pure",
        _PLAN,
        "return Pure(loss.epsilon / parts)\n        case ZCDP",
        "return Pure(loss.epsilon)\n        case ZCDP",
        "every aggregate takes the whole price",
        PLAN,
    ),
    Mutant(
        "share the price twice, zCDP",
        _PLAN,
        "return ZCDP(loss.rho / parts)",
        "return ZCDP(loss.rho)",
        "every aggregate takes the whole price",
        PLAN,
    ),
    Mutant(
        "keys for free",
        _PLAN,
        "return len(self.shapes) + (self.domain is None and self.counted is None)",
        "return len(self.shapes)",
        "the selection of keys is not paid for",
        ("tests/query/test_release.py",),
    ),
    Mutant(
        "charge the first part only",
        _PLAN,
        "        return reduce(add, parts)",
        "        return parts[0]",
        "a plan costs less than its parts",
        PLAN + WHOLE,
    ),
    Mutant(
        "largest absolute value",
        _SHAPES,
        "return max(map(abs, self.steps(step)))",
        "return self.steps(step)[1]",
        "negative values are not covered",
        PLAN + CELLS,
    ),
    Mutant(
        "round the interval inward",
        _SHAPES,
        "math.floor(self.interval.low / step), math.ceil(self.interval.high / step)",
        "math.ceil(self.interval.low / step), math.floor(self.interval.high / step)",
        "a unit adds more than the steps say",
        PLAN,
    ),
    Mutant(
        "rows per unit minus one",
        _AGGREGATES,
        "    return table.row_limit\n",
        "    return max(1, table.row_limit - 1)\n",
        "off by one",
        (*PLAN, "tests/query/test_bounding.py"),
    ),
    Mutant(
        "one row of a soft unit",
        _SHAPES,
        'return self.rows * GRID\n\n    def __str__(self) -> str:\n        return f"values',
        'return GRID\n\n    def __str__(self) -> str:\n        return f"values',
        "only one row is covered",
        PLAN + CELLS,
    ),
    Mutant(
        "units count twice",
        _AGGREGATES,
        "return Total(_argument(aggregate), False, ONE)",
        "return Total(_argument(aggregate), False, ONE.times(2))",
        "off by one",
        PLAN,
    ),
    # what one unit adds
    Mutant(
        "drop the clip of totals",
        _CONTRIBUTIONS,
        "else cut(mine[0], low, high))",
        "else mine[0])",
        "a heavy unit adds all its rows",
        CELLS,
    ),
    Mutant(
        "drop the clip of sums",
        _CONTRIBUTIONS,
        "default=cut(total.copy(), low, high))",
        "default=total.copy())",
        "a heavy unit adds all its values",
        CELLS,
    ),
    Mutant(
        "a soft unit is not scaled down",
        _CONTRIBUTIONS,
        "scaled.append(exp.Case(ifs=[exp.If(this=fits, true=cell.copy())], default=floor_))",
        "scaled.append(cell.copy())",
        "heavy units weigh more",
        CELLS,
    ),
    Mutant(
        "soft weight without limit",
        _CONTRIBUTIONS,
        'weight = exp.Anonymous(this="LEAST", expressions=[held.copy(), limit])',
        "weight = held.copy()",
        "heavy units weigh more",
        CELLS,
    ),
    Mutant(
        "histogram weight without limit",
        _BOUNDING,
        "weight = exp.Mul(this=named(_TIMES), expression=exp.Paren(this=share))",
        "weight = exp.Mul(this=named(_TIMES), expression=one.copy())",
        "a heavy unit moves every rank",
        CELLS,
    ),
    Mutant(
        "any number of different values",
        _BOUNDING,
        "exp.LTE(this=named(_HELD), expression=exp.Literal.number(measure.shape.rows))",
        "exp.true()",
        "a unit brings all its values",
        CELLS,
    ),
    Mutant(
        "a quantile for every group at the full price",
        _MEASURES,
        '{"epsilon": share.epsilon / groups}',
        '{"epsilon": share.epsilon}',
        "a unit in many groups is not covered",
        ("tests/query/test_release.py",),
    ),
    Mutant(
        "drop the group limit",
        _BOUNDING,
        "exp.LTE(this=named(_PLACE), expression=exp.Literal.number(plan.groups))",
        "exp.true()",
        "a unit counts in every group",
        CELLS,
    ),
    Mutant(
        "one group too many",
        _BOUNDING,
        "exp.Literal.number(plan.groups))",
        "exp.Literal.number(plan.groups + 1))",
        "off by one",
        CELLS,
    ),
    Mutant(
        "no choice among rows",
        _BOUNDING,
        "    if not _among_rows(plan):\n        return rows\n",
        "    if plan.groups:\n        return rows\n",
        "a unit with few rows in a group counts in every group",
        CELLS,
    ),
    Mutant(
        "choose among all units",
        _BOUNDING,
        "_numbered(number, [named(_UNIT)], order)",
        "_numbered(number, [], order)",
        "one unit's groups depend on the others",
        CELLS,
    ),
    Mutant(
        "rows of no unit count",
        _BOUNDING,
        "        query = _where(query, exp.Not(this=exp.Is(this=unit.copy(), expression=exp.Null())))\n",
        "        pass\n",
        "all rows without a unit are one unit",
        ("tests/query/test_bounding.py",),
    ),
    Mutant(
        "total over all units",
        _BOUNDING,
        "return query.group_by(named(_UNIT), *_keys(plan), copy=False)",
        "return query.group_by(*_keys(plan), copy=False)",
        "rows of all units are one unit's",
        CELLS,
    ),
    Mutant(
        "keys outside the list",
        _BOUNDING,
        "        query = query.where(listed(key, values), copy=False)\n",
        "        pass\n",
        "a group that nobody declared",
        CELLS,
    ),
    Mutant(
        "weights of a lone key",
        _BOUNDING,
        "true=exp.Literal.number(plan.selection.weight(k)))",
        "true=exp.Literal.number(plan.selection.weight(1)))",
        "a unit with many keys weighs too much",
        CELLS,
    ),
    # noise is added
    Mutant(
        "no noise",
        _RELEASE,
        "c.astype(object) + noise.draw(c.size).astype(object)",
        "c.astype(object)",
        "exact answers",
        ("tests/query/test_release.py",),
    ),
    Mutant(
        "one noise for all",
        _RELEASE,
        "noise.draw(c.size)",
        "noise.draw(1).repeat(c.size)",
        "differences of groups are exact",
        ("tests/test_curator.py", "tests/query/test_gate.py"),
    ),
    Mutant(
        "show every key",
        _RELEASE,
        "keep = plan.selection.keep(arranged.units)",
        "keep = arranged.units > 0",
        "a key of one person is shown",
        WHOLE,
    ),
    Mutant(
        "counts without noise",
        _RELEASE,
        "keep, counts = shown.keep, shown.counts",
        "keep, counts = shown.keep, arranged.units[shown.keep]",
        "exact counts of the shown keys",
        ("tests/query/test_release.py",),
    ),
    # the charge
    Mutant(
        "read before the charge",
        _ANSWERING,
        "        cost = self._ledger.budget.cost(plan.loss)\n        body, note =",
        "        cost = self._ledger.budget.cost(plan.loss)\n        self._vault.released(plan)\n        body, note =",
        "rows are read before the charge is durable",
        ("tests/test_curator.py",),
    ),
    Mutant(
        "charge nothing",
        _ANSWERING,
        "self._ledger.reserve(cost, analyst",
        "self._ledger.reserve(nothing(cost), analyst",
        "answers are free",
        ("tests/test_curator.py",),
    ),
    Mutant(
        "any stored answer will do",
        _ANSWERING,
        "if made.is_as_good_as(plan, level) and (best is None",
        "if (best is None",
        "a worse answer is given as a better one",
        ("tests/query/test_stored.py",),
    ),
    Mutant(
        "stored answers for any version",
        _PLAN,
        "limits = (self.table.unit, self.table.version, ",
        "limits = (self.table.unit, ",
        "an old answer for new data",
        ("tests/query/test_stored.py", "tests/query/test_plan.py"),
    ),
    Mutant(
        "stored answers for any bounds",
        _PLAN,
        "shapes = [repr((type(shape).__name__, str(shape), shape.cells)) for shape in self.shapes]",
        "shapes = [type(shape).__name__ for shape in self.shapes]",
        "an answer made under another policy",
        ("tests/query/test_stored.py",),
    ),
    Mutant(
        "skip the version check",
        _CURATOR,
        "        self._vault.check(ready.plan.table)\n",
        "",
        "changed data are served",
        ("tests/test_curator.py",),
    ),
    # what is found privately
    Mutant(
        "count a unit on one side",
        _FINDING,
        "return 1 if self.table.by_row else 2",
        "return 1",
        "a unit with values of both signs is paid once",
        FINDING,
    ),
    Mutant(
        "find bounds of any version",
        _FINDING,
        '("bounds", table.name, table.version, ',
        '("bounds", table.name, ',
        "bounds of older data are used",
        FINDING,
    ),
    Mutant(
        "find for any rows",
        _FINDING,
        "facts = (asked.canonical(), types, ",
        "facts = (types, ",
        "a limit of another question is used",
        FINDING,
    ),
    Mutant(
        "keep rows of no unit in findings",
        _FINDING,
        "    return query.where(exp.Not(this=exp.Is(this=unit.copy(), expression=exp.Null())), copy=False)",
        "    return query",
        "rows of nobody count as one unit of any size",
        FINDING,
    ),
    Mutant(
        "find without the whole price",
        _CURATOR,
        "            check_room(self._ledger, self._ledger.budget.cost(ready.plan.loss) + ready.to_pay, analyst)\n",
        "",
        "a question that does not fit is charged for findings",
        FINDING,
    ),
    Mutant(
        "answer at the full price after a finding",
        "curator/search.py",
        "taken=(len(self._own) + missing) * self.cost_of_each.amount",
        "taken=Fraction(0)",
        "more than the price is charged",
        FINDING,
    ),
    Mutant(
        "tell the cause",
        _VAULT,
        "        raise EngineFailed(incident)  # outside",
        "        raise EngineFailed(kind)  # outside",
        "the kind of failure tells about the data",
        ("tests/query/test_release.py",),
    ),
    # sessions
    Mutant(
        "session: scores not in reaches",
        _WATCH,
        " / (measure.reach * measure.step)",
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
        "math.floor(2 * rho / times * 4**_ROOT_BITS)",
        "math.floor(2 * rho * 4**_ROOT_BITS)",
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
        "if mechanism.monotone and shape.interval.low < 0:",
        "if mechanism.monotone and shape.interval.high < 0:",
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
        "    if outline.domain is None:\n        return Refusal(",
        "    if outline.domain is None and not outline.shapes:\n        return Refusal(",
        "a mean over the answers that showed a group",
        JOINED,
    ),
    Mutant(
        "joined answers: the interval of the newest",
        _COMBINE,
        "    if len(parts) == 1:",
        "    if len(parts) >= 1:",
        "intervals of another law",
        JOINED,
    ),
    # joins, and rows for each unit
    Mutant(
        "join: partners of other units",
        _DERIVED,
        "    if source.by_unit:",
        "    if source.by_unit and not source.on:",
        "rows of two units in one",
        RELATED,
    ),
    Mutant(
        "join: many public partners",
        _JOINS,
        "if not any(names.issuperset(key) for key in table.keys):",
        "if not names:",
        "one private row becomes many",
        RELATED,
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
    # mechanisms
    Mutant(
        "Laplace scale",
        "mechanisms/laplace.py",
        "return self.sensitivity / self.epsilon",
        "return self.sensitivity / self.epsilon / 2",
        "half the noise",
        NOISE,
    ),
    Mutant(
        "a value spreads twice",
        "mechanisms/moments.py",
        "noise_of(epsilon, rho, rows * GRID)",
        "noise_of(epsilon, rho, rows * GRID // 2)",
        "half the noise",
        SOFT,
    ),
    Mutant(
        "every noisy count at the threshold is shown",
        "mechanisms/keys_threshold.py",
        "keep[at] = sample_bernoulli(self.edge, at.size)",
        "keep[at] = True",
        "more than delta for a key of one unit",
        KEYS,
    ),
    Mutant(
        "permute-and-flip at the price of the exponential law",
        "mechanisms/grid_quantiles.py",
        "        return self.rho is None",
        "        return True",
        "four times rho",
        ("tests/mechanisms/test_grid_quantiles.py",),
    ),
    Mutant(
        "threshold one too low",
        "mechanisms/keys_threshold.py",
        "keep = (held > 0) & (noisy > self.threshold)",
        "keep = (held > 0) & (noisy > self.threshold - 2)",  # at the threshold itself the edge decides
        "off by one",
        KEYS,
    ),
    Mutant(
        "weights rounded up",
        "mechanisms/keys_weighted.py",
        "    return math.isqrt(WeightedGaussian.one**2 // keys)",
        "    return math.isqrt(WeightedGaussian.one**2 // keys) + 1",
        "the l2 norm exceeds 1",
        KEYS,
    ),
    Mutant(
        "geometric step rounded up",
        "mechanisms/keys.py",
        "step = min((grown * last >> more) + slip,",
        "step = min((grown * last >> more) + slip + 1,",
        "a ratio above e^epsilon",
        KEYS,
    ),
    # many counts from one strategy
    Mutant(
        "twice the rho of every part",
        "mechanisms/marginals.py",
        "/ (2 * mechanism.rho * share)",
        "/ (4 * mechanism.rho * share)",
        "half the variance",
        ("tests/mechanisms/test_marginals.py",),
    ),
    Mutant(
        "contrasts taken for shorter",
        "mechanisms/marginals.py",
        "return math.prod(sizes[i] * (sizes[i] - 1) for i in part)",
        "return math.prod(sizes[i] for i in part)",
        "the sensitivity of whole contrasts is larger",
        ("tests/mechanisms/test_marginals.py",),
    ),
    Mutant(
        "every table at the whole epsilon",
        "mechanisms/laplace_marginals.py",
        "Laplace(epsilon=self.epsilon / len(self.measured), sensitivity",
        "Laplace(epsilon=self.epsilon, sensitivity",
        "tables compose",
        ("tests/mechanisms/test_marginals.py",),
    ),
    Mutant(
        "forget the cells of a unit",
        "query/strategy.py",
        "return self.outline.groups * self.outline.shapes[0].reach(Fraction(1))",
        "return self.outline.shapes[0].reach(Fraction(1))",
        "a unit in many cells is not covered",
        ("tests/query/test_strategy.py",),
    ),
    Mutant(
        "no limit of the cells of a unit",
        "query/strategy.py",
        "return min(cells, table.groups_per_unit), table.groups_per_unit < cells",
        "return min(cells, table.groups_per_unit), False",
        "a unit adds to more cells than it was made for",
        ("tests/query/test_strategy.py",),
    ),
    Mutant(
        "read again for nothing",
        "curator/charging.py",
        "    if not reservation.fresh:",
        "    if False:",
        "one charge, two answers",
        ("tests/query/test_strategy.py", "tests/test_curator.py"),
    ),
    Mutant(
        "a worse strategy will do",
        "curator/strategies.py",
        "if found.strategy.price >= strategy.price and (",
        "if (",
        "what was asked and paid for is not given",
        ("tests/query/test_strategy.py",),
    ),
)
