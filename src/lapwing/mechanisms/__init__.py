"""The textbook mechanisms: values in; noisy values, their loss and their error out."""

from lapwing.mechanisms.additive.gaussian import Comparison, Gaussian, laplace_or_gaussian
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.choice.exponential import Exponential, PermuteAndFlip, TopK
from lapwing.mechanisms.choice.noisy_max import NoisyMax
from lapwing.mechanisms.choice.private_choice import BestOf
from lapwing.mechanisms.choice.response import RandomizedResponse, Share
from lapwing.mechanisms.counters.counter import BinaryCounter, CounterRun, ToeplitzCounter
from lapwing.mechanisms.keys.selection import KeyChoice, TruncatedGeometric, best_selection
from lapwing.mechanisms.keys.threshold import GaussianThreshold, LaplaceThreshold, Shown, WeightedGaussian
from lapwing.mechanisms.local.propose_test_release import ProposedMedian, ProposeTestRelease, StableMode
from lapwing.mechanisms.local.smooth import SmoothMedian, SmoothSensitivity
from lapwing.mechanisms.moments.mean import Mean, MeanRelease, Variance, VarianceRelease
from lapwing.mechanisms.moments.pair_moments import PairMoments, PairRelease
from lapwing.mechanisms.quantiles.auto_bounds import AutoBounds
from lapwing.mechanisms.quantiles.grid_quantiles import GridQuantiles, QuantileTable
from lapwing.mechanisms.quantiles.several_quantiles import Quantile, Quantiles
from lapwing.mechanisms.ranges.noisy_marginals import LaplaceMarginals, Marginals
from lapwing.mechanisms.ranges.ranges import PrefixSums, RangeRelease, Ranges
from lapwing.mechanisms.sparse.vector import AboveThreshold, GeometricSparse, NumericSparse, Sparse

__all__ = [
    "AboveThreshold", "AutoBounds", "BestOf", "BinaryCounter", "Comparison", "CounterRun", "Exponential", "Gaussian",
    "GaussianThreshold", "GeometricSparse", "GridQuantiles", "KeyChoice", "Laplace", "LaplaceMarginals",
    "LaplaceThreshold", "Marginals", "Mean", "MeanRelease", "NoisyMax", "NumericSparse", "PairMoments", "PairRelease",
    "PermuteAndFlip", "PrefixSums", "ProposeTestRelease", "ProposedMedian", "Quantile", "QuantileTable", "Quantiles",
    "RandomizedResponse", "RangeRelease", "Ranges", "Share", "Shown", "SmoothMedian", "SmoothSensitivity", "Sparse",
    "StableMode", "ToeplitzCounter", "TopK", "TruncatedGeometric", "Variance", "VarianceRelease", "WeightedGaussian",
    "best_selection", "laplace_or_gaussian",
]  # fmt: skip
