"""Exact randomness. The only package that draws random bits; it knows nothing about privacy."""

from lapwing.noise.bernoulli import sample_bernoulli, sample_bernoulli_exp, sample_coins
from lapwing.noise.bits import SYSTEM, BitSource, sample_uniform, uniform_integer
from lapwing.noise.block import sample_gaussian, sample_geometric, sample_laplace
from lapwing.noise.choice import sample_choice, sample_heads
from lapwing.noise.exponential_race import sample_race

__all__ = [
    "SYSTEM", "BitSource", "sample_bernoulli", "sample_bernoulli_exp", "sample_choice", "sample_coins",
    "sample_gaussian", "sample_geometric", "sample_heads", "sample_laplace", "sample_race", "sample_uniform",
    "uniform_integer",
]  # fmt: skip
