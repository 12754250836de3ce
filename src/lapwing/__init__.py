"""Differential privacy with exact noise, honest intervals and a budget that holds."""

from lapwing.errors import BudgetExceeded, Bug, EngineFailed, Halted, LapwingError, Misconfigured, Refused
from lapwing.mechanisms import (
    Comparison,
    Exponential,
    Gaussian,
    Laplace,
    NoisyMax,
    PermuteAndFlip,
    RandomizedResponse,
    Share,
    laplace_or_gaussian,
)
from lapwing.privacy import ZCDP, Accounting, Approximate, BoundedRange, Budget, Cost, Filter, Loss, Neighbours, Pure

__all__ = [
    "ZCDP",
    "Accounting",
    "Approximate",
    "BoundedRange",
    "Budget",
    "BudgetExceeded",
    "Bug",
    "Comparison",
    "Cost",
    "EngineFailed",
    "Exponential",
    "Filter",
    "Gaussian",
    "Halted",
    "Laplace",
    "LapwingError",
    "Loss",
    "Misconfigured",
    "Neighbours",
    "NoisyMax",
    "PermuteAndFlip",
    "Pure",
    "RandomizedResponse",
    "Refused",
    "Share",
    "laplace_or_gaussian",
]
