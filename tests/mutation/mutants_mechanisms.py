"""The mistakes in mechanisms, and in workloads."""

from __future__ import annotations

from mutant import Mutant

NOISE = ("tests/mechanisms/additive/test_laplace.py", "tests/mechanisms/additive/test_gaussian.py")
SOFT = ("tests/mechanisms/moments/test_mean.py", "tests/mechanisms/moments/test_values.py")
KEYS = (
    "tests/mechanisms/keys/test_selection.py",
    "tests/mechanisms/keys/test_threshold.py",
    "tests/mechanisms/keys/test_weighted.py",
)

MECHANISMS: tuple[Mutant, ...] = (
    # mechanisms
    Mutant(
        "Laplace scale",
        "mechanisms/additive/laplace.py",
        "return self.sensitivity / self.epsilon",
        "return self.sensitivity / self.epsilon / 2",
        "half the noise",
        NOISE,
    ),
    Mutant(
        "a value spreads twice",
        "mechanisms/moments/mean.py",
        "noise_for(epsilon, rho, rows * GRID)",
        "noise_for(epsilon, rho, rows * GRID // 2)",
        "half the noise",
        SOFT,
    ),
    Mutant(
        "every noisy count at the threshold is shown",
        "mechanisms/keys/threshold.py",
        "keep[at] = sample_bernoulli(self.edge, at.size)",
        "keep[at] = True",
        "more than delta for a key of one unit",
        KEYS,
    ),
    Mutant(
        "permute-and-flip at the price of the exponential law",
        "mechanisms/quantiles/grid_quantiles.py",
        "        return self.rho is None",
        "        return True",
        "four times rho",
        ("tests/mechanisms/quantiles/test_grid_quantiles.py",),
    ),
    Mutant(
        "threshold one too low",
        "mechanisms/keys/threshold.py",
        "keep = (held > 0) & (noisy > self.threshold)",
        "keep = (held > 0) & (noisy > self.threshold - 2)",  # at the threshold itself the edge decides
        "off by one",
        KEYS,
    ),
    Mutant(
        "weights rounded up",
        "mechanisms/keys/weighted.py",
        "    return math.isqrt(WeightedGaussian.one**2 // keys)",
        "    return math.isqrt(WeightedGaussian.one**2 // keys) + 1",
        "the l2 norm exceeds 1",
        KEYS,
    ),
    Mutant(
        "geometric step rounded up",
        "mechanisms/keys/selection.py",
        "step = min((grown * last >> more) + scaled_delta,",
        "step = min((grown * last >> more) + scaled_delta + 1,",
        "a ratio above e^epsilon",
        KEYS,
    ),
    # workloads
    Mutant(
        "twice the rho of every part",
        "mechanisms/ranges/marginals.py",
        "/ (2 * mechanism.rho * share)",
        "/ (4 * mechanism.rho * share)",
        "half the variance",
        ("tests/mechanisms/ranges/test_marginals.py",),
    ),
    Mutant(
        "contrasts taken for shorter",
        "mechanisms/ranges/marginals.py",
        "return math.prod(sizes[i] * (sizes[i] - 1) for i in part)",
        "return math.prod(sizes[i] for i in part)",
        "the sensitivity of whole contrasts is larger",
        ("tests/mechanisms/ranges/test_marginals.py",),
    ),
    Mutant(
        "every table at the whole epsilon",
        "mechanisms/ranges/laplace_marginals.py",
        "Laplace(epsilon=self.epsilon / len(self.measured), sensitivity",
        "Laplace(epsilon=self.epsilon, sensitivity",
        "tables compose",
        ("tests/mechanisms/ranges/test_marginals.py",),
    ),
    Mutant(
        "forget the cells of a unit",
        "plan/workload.py",
        "groups_per_unit * self.exact_sensitivity(step)",
        "self.exact_sensitivity(step)",
        "a unit in many cells is not covered",
        ("tests/plan/test_workload.py",),
    ),
    Mutant(
        "no limit of the cells of a unit",
        "sql/workload.py",
        "return min(cells, table.groups_per_unit), table.groups_per_unit < cells",
        "return min(cells, table.groups_per_unit), False",
        "a unit adds to more cells than it was made for",
        ("tests/plan/test_workload.py",),
    ),
    Mutant(
        "read again for nothing",
        "curator/purchase.py",
        "    if reservation.fresh:",
        "    if True:",
        "one charge, two answers",
        ("tests/plan/test_workload.py", "tests/curator/test_curator.py"),
    ),
    Mutant(
        "a worse workload will do",
        "plan/workload.py",
        "return [1 / _noisy(measure).mechanism.loss.amount]",
        "return [Fraction(1)]",
        "what was asked and paid for is not given",
        ("tests/plan/test_workload.py",),
    ),
)
