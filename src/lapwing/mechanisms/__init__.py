"""The textbook mechanisms, one a file: values in; noisy values, their loss and their error out."""

from lapwing.mechanisms.comparison import Comparison, laplace_or_gaussian
from lapwing.mechanisms.exponential import Exponential
from lapwing.mechanisms.gaussian import Gaussian
from lapwing.mechanisms.laplace import Laplace
from lapwing.mechanisms.noisy_max import NoisyMax
from lapwing.mechanisms.permute_and_flip import PermuteAndFlip
from lapwing.mechanisms.response import RandomizedResponse, Share

__all__ = [
    "Comparison",
    "Exponential",
    "Gaussian",
    "Laplace",
    "NoisyMax",
    "PermuteAndFlip",
    "RandomizedResponse",
    "Share",
    "laplace_or_gaussian",
]
