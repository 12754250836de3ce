"""The textbook mechanisms, one a file: values in; noisy values, their loss and their error out."""

from lapwing.mechanisms.auto_bounds import AutoBounds
from lapwing.mechanisms.comparison import Comparison, laplace_or_gaussian
from lapwing.mechanisms.counter import BinaryCounter, CounterRun, ToeplitzCounter
from lapwing.mechanisms.exponential import Exponential
from lapwing.mechanisms.gaussian import Gaussian
from lapwing.mechanisms.grid_quantiles import GridQuantiles, QuantileTable
from lapwing.mechanisms.keys import KeyChoice, TruncatedGeometric, best_selection
from lapwing.mechanisms.keys_threshold import GaussianThreshold, LaplaceThreshold, Shown
from lapwing.mechanisms.keys_weighted import WeightedGaussian
from lapwing.mechanisms.laplace import Laplace
from lapwing.mechanisms.laplace_marginals import LaplaceMarginals
from lapwing.mechanisms.marginals import Marginals
from lapwing.mechanisms.moments import MeanRelease, SoftMean, SoftVariance, VarianceRelease
from lapwing.mechanisms.noisy_max import NoisyMax
from lapwing.mechanisms.permute_and_flip import PermuteAndFlip
from lapwing.mechanisms.private_choice import BestOf
from lapwing.mechanisms.propose_test_release import ProposedMedian, ProposeTestRelease, StableMode
from lapwing.mechanisms.quantile import Quantile
from lapwing.mechanisms.quantiles import Quantiles
from lapwing.mechanisms.ranges import PrefixSums, RangeRelease, Ranges
from lapwing.mechanisms.response import RandomizedResponse, Share
from lapwing.mechanisms.smooth import SmoothMedian, SmoothSensitivity
from lapwing.mechanisms.soft_pair import PairRelease, SoftPair
from lapwing.mechanisms.sparse_geometric import GeometricSparse
from lapwing.mechanisms.sparse_vector import AboveThreshold, NumericSparse, Sparse
from lapwing.mechanisms.top_k import TopK

__all__ = [
    "AboveThreshold",
    "AutoBounds",
    "BestOf",
    "BinaryCounter",
    "Comparison",
    "CounterRun",
    "Exponential",
    "Gaussian",
    "GaussianThreshold",
    "GeometricSparse",
    "GridQuantiles",
    "KeyChoice",
    "Laplace",
    "LaplaceMarginals",
    "LaplaceThreshold",
    "Marginals",
    "MeanRelease",
    "NoisyMax",
    "NumericSparse",
    "PairRelease",
    "PermuteAndFlip",
    "PrefixSums",
    "ProposeTestRelease",
    "ProposedMedian",
    "Quantile",
    "QuantileTable",
    "Quantiles",
    "RandomizedResponse",
    "RangeRelease",
    "Ranges",
    "Share",
    "Shown",
    "SmoothMedian",
    "SmoothSensitivity",
    "SoftMean",
    "SoftPair",
    "SoftVariance",
    "Sparse",
    "StableMode",
    "ToeplitzCounter",
    "TopK",
    "TruncatedGeometric",
    "VarianceRelease",
    "WeightedGaussian",
    "best_selection",
    "laplace_or_gaussian",
]
