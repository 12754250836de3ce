"""The mistakes in mechanisms, and in workloads."""

from __future__ import annotations

from mutant import Mutant

NOISE = ("tests/mechanisms/additive/test_laplace.py", "tests/mechanisms/additive/test_gaussian.py")
SOFT = ("tests/mechanisms/moments/test_mean.py", "tests/mechanisms/moments/test_moment_values.py")
KEYS = (
    "tests/mechanisms/keys/test_selection.py",
    "tests/mechanisms/keys/test_threshold.py",
    "tests/mechanisms/keys/test_weighted.py",
)

MECHANISMS: tuple[Mutant, ...] = (
    # mechanisms
    Mutant(
        "Laplace scale",
        "Laplace.__init__",
        "self.sensitivity / self.epsilon",
        "self.sensitivity / self.epsilon / 2",
        "half the noise",
        NOISE,
    ),
    Mutant(
        "a value spreads twice",
        "MomentsMechanism._set_noise",
        "rows * GRID",
        "rows * GRID // 2",
        "half the noise",
        SOFT,
    ),
    Mutant(
        "every noisy count at the threshold is shown",
        "CountThreshold.release",
        "sample_bernoulli(self.edge, at.size)",
        "True",
        "more than delta for a key of one unit",
        KEYS,
    ),
    Mutant(
        "permute-and-flip at the price of the exponential law",
        "GridQuantiles.flips",
        "self.rho is None",
        "True",
        "four times rho",
        ("tests/mechanisms/quantiles/test_grid_quantiles.py",),
    ),
    Mutant(
        "threshold one too low",
        "CountThreshold.release",
        "noisy > self.threshold",
        "noisy > self.threshold - 2",  # at the threshold itself the edge decides
        "off by one",
        KEYS,
    ),
    Mutant(
        "weights rounded up",
        "_weight",
        "math.isqrt(WeightedGaussian.one ** 2 // keys)",
        "math.isqrt(WeightedGaussian.one ** 2 // keys) + 1",
        "the l2 norm exceeds 1",
        KEYS,
    ),
    Mutant(
        "geometric step rounded up",
        "_probabilities",
        "(grown * last >> more) + scaled_delta",
        "(grown * last >> more) + scaled_delta + 1",
        "a ratio above e^epsilon",
        KEYS,
    ),
    # workloads
    Mutant(
        "twice the rho of every part",
        "_noise",
        "2 * mechanism.rho",
        "4 * mechanism.rho",
        "half the variance",
        ("tests/mechanisms/ranges/test_noisy_marginals.py",),
    ),
    Mutant(
        "contrasts taken for shorter",
        "_stretch",
        "sizes[i] * (sizes[i] - 1)",
        "sizes[i]",
        "the sensitivity of whole contrasts is larger",
        ("tests/mechanisms/ranges/test_noisy_marginals.py",),
    ),
    Mutant(
        "every table at the whole epsilon",
        "LaplaceMarginals.noise",
        "self.epsilon / len(self.measured)",
        "self.epsilon",
        "tables compose",
        ("tests/mechanisms/ranges/test_noisy_marginals.py",),
    ),
    Mutant(
        "forget the cells of a unit",
        "WorkloadKind.make_mechanism",
        "groups_per_unit * self.exact_sensitivity(step)",
        "self.exact_sensitivity(step)",
        "a unit in many cells is not covered",
        ("tests/plan/test_workload.py",),
    ),
    Mutant(
        "no limit of the cells of a unit",
        "_groups",
        "table.groups_per_unit < cells",
        "False",
        "a unit adds to more cells than it was made for",
        ("tests/plan/test_workload.py",),
    ),
    Mutant(
        "read again for nothing",
        "buy",
        "None if charge.fresh else _paid_before(ledger, one, charge)",
        "None",
        "one charge, two answers",
        ("tests/plan/test_workload.py", "tests/curator/test_curator.py"),
    ),
    Mutant(
        "a worse workload will do",
        "WorkloadKind.errors",
        "1 / _noisy(measure).mechanism.loss.amount",
        "Fraction(1)",
        "what was asked and paid for is not given",
        ("tests/plan/test_workload.py",),
    ),
)
