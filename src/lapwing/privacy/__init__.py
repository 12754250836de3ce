"""What a release costs: losses, conversions between them, budgets, and the filter that enforces a budget."""

from __future__ import annotations

from lapwing.privacy.budget import Accounting, Budget, Cost
from lapwing.privacy.convert import delta_of_rho, epsilon_of_rho, group_delta, rho_of_epsilon
from lapwing.privacy.filter import Filter
from lapwing.privacy.loss import ZCDP, Approximate, BoundedRange, Loss, Pure, read_loss
from lapwing.privacy.neighbours import Neighbours

__all__ = [
    "ZCDP",
    "Accounting",
    "Approximate",
    "BoundedRange",
    "Budget",
    "Cost",
    "Filter",
    "Loss",
    "Neighbours",
    "Pure",
    "delta_of_rho",
    "epsilon_of_rho",
    "group_delta",
    "read_loss",
    "rho_of_epsilon",
]
