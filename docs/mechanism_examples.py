"""A few lines of code for each mechanism, and its picture, for its page (docs/make_mechanisms.py). A test runs them."""

from __future__ import annotations

CODE = {
    "AboveThreshold": """
run = lw.AboveThreshold(threshold=100, epsilon=1).start()
for count in (40, 75, 160):
    print(run.above(count))
""",
    "AutoBounds": """
search = lw.mechanisms.AutoBounds(epsilon=1, first=0, last=20)
# 500 values below 2^3, 300 below 2^4, 200 below 2^5
print(search([3, 4, 5], [500, 300, 200]))
print(search.error(0.95))
""",
    "BestOf": """
tries = [lw.Laplace(epsilon=0.5), lw.Laplace(epsilon=0.1)]
print(lw.mechanisms.BestOf(tries, score=lambda answer: -abs(answer - 50), stop=0.1)(50))
""",
    "BinaryCounter": """
counter = lw.mechanisms.BinaryCounter(horizon=1023, epsilon=1)
run = counter.start()
print([run.add(increment) for increment in (3, 1, 4, 1, 5)])
print(counter.error(1023))
""",
    "Exponential": """
prices, revenue = [1.0, 1.1, 4.1], [4.0, 1.1, 4.1]
auction = lw.Exponential(epsilon=1, sensitivity=4.2)
print(auction.choose(prices, revenue), auction.probabilities(revenue))
""",
    "Gaussian": """
noisy = lw.Gaussian(epsilon=1, delta=1e-6, sensitivity=3, size=3)
print(noisy([120, 95, 30]), noisy.error(0.95))
print(lw.Gaussian(rho=0.1)(50))
""",
    "GaussianThreshold": """
selection = lw.mechanisms.GaussianThreshold(epsilon=1, delta=1e-5, keys_per_unit=16)
print(selection.half())  # a key of this many units is shown with probability 1/2
""",
    "GeometricSparse": """
sparse = lw.mechanisms.GeometricSparse(threshold=100, epsilon=1, queries=99)
run = sparse.start()
print(run.above(60), run.above(180), sparse.error())
""",
    "GridQuantiles": """
ages = lw.mechanisms.GridQuantiles(epsilon=1, at=[0.5], bounds=(0, 120), cells=120)
print(ages([20, 35, 50, 65], [400, 300, 200, 100]))
""",
    "Laplace": """
noisy = lw.Laplace(epsilon=0.1, sensitivity=1)
print(noisy(50), "within", noisy.error(0.95))
print(noisy([3, 14, 15, 92]))
""",
    "LaplaceMarginals": """
tables = lw.mechanisms.LaplaceMarginals(sizes=(2, 3), ways=2, epsilon=1)
print(tables.standard_error((0, 1)), tables.loss)
""",
    "LaplaceThreshold": """
selection = lw.mechanisms.LaplaceThreshold(epsilon=1, delta=1e-5)
print(selection.half())  # a key of this many units is shown with probability 1/2
""",
    "Marginals": """
tables = lw.mechanisms.Marginals(sizes=(10, 10, 10), ways=2, rho=0.5)
print(tables.standard_error((0, 1)), tables.loss)
""",
    "Mean": """
mean = lw.mechanisms.Mean(epsilon=1, bounds=(0, 100))
print(mean([31, 52, 44, 38] * 250))
print(mean.error(0.95, rows=1000))
""",
    "NoisyMax": """
best = lw.NoisyMax(epsilon=1, monotone=True)   # counts only grow when somebody is added
print(best.choose(["Emma", "Noah", "Olivia"], [20445, 19750, 19678]))
""",
    "NumericSparse": """
sparse = lw.mechanisms.NumericSparse(threshold=100, epsilon=1, answers=1)
run = sparse.start()
print(run.answer(20), run.answer(300), sparse.value_error(0.95))
""",
    "PairMoments": """
pair = lw.mechanisms.PairMoments(epsilon=1, x_bounds=(0, 100), y_bounds=(0, 200))
print(pair([10, 20, 30, 40] * 250, [25, 40, 65, 80] * 250))
""",
    "PermuteAndFlip": """
choice = lw.mechanisms.PermuteAndFlip(epsilon=1)
print(choice.choose(["red", "green", "blue"], [120, 90, 85]))
print(choice.error(candidates=3))
""",
    "PrefixSums": """
sums = lw.mechanisms.PrefixSums(size=1024, rho=0.5)
print(sums.prefix_rmse, sums.loss)
""",
    "ProposeTestRelease": """
release = lw.mechanisms.ProposeTestRelease(proposed=10, epsilon=1, delta=1e-6)
# None if the data are too near to others with a larger sensitivity
print(release(500, 40))
print(release.needed_distance(0.95))
""",
    "ProposedMedian": """
median = lw.mechanisms.ProposedMedian(
    proposed=2, epsilon=1, delta=1e-6, bounds=(0, 1000), step=1
)
print(median(list(range(400, 601))), median.error(0.95))
""",
    "Quantile": """
median = lw.mechanisms.Quantile(epsilon=1, at=0.5, bounds=(0, 120))
print(median([20, 35, 50, 65] * 100), median.error(0.95))
""",
    "Quantiles": """
quartiles = lw.mechanisms.Quantiles(epsilon=1, at=[0.25, 0.5, 0.75], bounds=(0, 120))
print(quartiles([20, 35, 50, 65] * 100))
""",
    "RandomizedResponse": """
coins = lw.RandomizedResponse.two_coins(answers=["no", "yes"])
answers = coins.respond(["yes"] * 300 + ["no"] * 700)
print(coins.estimate(answers)["yes"])
""",
    "Ranges": """
ranges = lw.mechanisms.Ranges(size=1024, epsilon=1)
print(ranges.range_rmse, ranges.loss)
""",
    "SmoothMedian": """
median = lw.mechanisms.SmoothMedian(epsilon=1, bounds=(0, 1000), step=1)
print(median(list(range(1001))))
""",
    "SmoothSensitivity": """
smooth = lw.mechanisms.SmoothSensitivity(epsilon=1, cap=1000, step=1)
print(smooth(500, lambda distance: min(1000, 1 + distance)))
""",
    "Sparse": """
sparse = lw.mechanisms.Sparse(threshold=100, epsilon=1, answers=3)
run = sparse.start()
print([run.above(count) for count in (20, 400, 30, 500)], run.left)
""",
    "StableMode": """
mode = lw.mechanisms.StableMode(epsilon=1, delta=1e-6)
print(mode.choose(["flu", "cold"], [900, 100]))  # None if the lead is too small
""",
    "ToeplitzCounter": """
counter = lw.mechanisms.ToeplitzCounter(horizon=1023, rho=0.5)
run = counter.start()
print([run.add(increment) for increment in (3, 1, 4, 1, 5)])
""",
    "TopK": """
top = lw.mechanisms.TopK(k=2, epsilon=1, monotone=True)
print(top.choose(["a", "b", "c", "d"], [500, 480, 90, 20]))
""",
    "TruncatedGeometric": """
selection = lw.mechanisms.TruncatedGeometric(epsilon=1, delta=1e-5)
print(selection.half(), selection.probability(20))
""",
    "Variance": """
variance = lw.mechanisms.Variance(epsilon=1, bounds=(0, 100))
print(variance([31, 52, 44, 38] * 250))
""",
    "WeightedGaussian": """
selection = lw.mechanisms.WeightedGaussian(epsilon=1, delta=1e-5, keys_per_unit=50)
print(selection.half())
""",
}
"""Lines that run after `import lapwing as lw`."""

PICTURES = {
    "additive.png": ("Noise on a count and the privacy loss of its outcomes", ("Laplace", "Gaussian")),
    "choice.png": (
        "How often each candidate is chosen, by its distance to the best",
        ("Exponential", "PermuteAndFlip", "NoisyMax", "TopK", "BestOf", "StableMode"),
    ),
    "protocols.png": ("Error of a share by number of values", ("RandomizedResponse",)),
    "sparse_vector.png": (
        "Margins of sparse vector",
        ("AboveThreshold", "Sparse", "NumericSparse", "GeometricSparse"),
    ),
    "keys.png": (
        "Units needed before a key is shown",
        ("TruncatedGeometric", "LaplaceThreshold", "GaussianThreshold", "WeightedGaussian"),
    ),
    "moments.png": ("Error of a mean, and coverage of its interval", ("Mean", "Variance", "PairMoments", "AutoBounds")),
    "ranges.png": (
        "Error of counts of ranges by length",
        ("Ranges", "PrefixSums", "Marginals", "LaplaceMarginals", "BinaryCounter", "ToeplitzCounter"),
    ),
    "local_sensitivity.png": (
        "Noise for a median by global, local and smooth sensitivity",
        ("SmoothMedian", "SmoothSensitivity", "ProposeTestRelease", "ProposedMedian"),
    ),
    "quantiles.png": (
        "How far a private median of 1,000 values lies from the true one",
        ("Quantile", "Quantiles", "GridQuantiles"),
    ),
}
"""Each picture, what it shows, and the mechanisms on whose pages it stands."""
