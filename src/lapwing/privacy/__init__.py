"""What a release costs: losses, conversions between them, budgets, and the filter that enforces a budget."""

from lapwing.privacy.budget import Accounting, Budget, Cost
from lapwing.privacy.composition import Composition, compose_fixed
from lapwing.privacy.convert import delta_of_rho, epsilon_of_rho, group_delta, rho_of_epsilon
from lapwing.privacy.database import Database, databases, units
from lapwing.privacy.distribution import PrivacyLoss
from lapwing.privacy.filter import Filter
from lapwing.privacy.loss import ZCDP, Approximate, BoundedRange, Loss, Pure, read_loss
from lapwing.privacy.neighbours import Neighbours
from lapwing.privacy.odds import Belief, posterior
from lapwing.privacy.profile import tightest_delta, tightest_epsilon
from lapwing.privacy.refutation import Refutation, deterministic, refute
from lapwing.privacy.sensitivity import (
    Norm,
    Sensitivity,
    global_sensitivity,
    local_sensitivity,
    local_sensitivity_at_distance,
)

__all__ = [
    "ZCDP",
    "Accounting",
    "Approximate",
    "Belief",
    "BoundedRange",
    "Budget",
    "Composition",
    "Cost",
    "Database",
    "Filter",
    "Loss",
    "Neighbours",
    "Norm",
    "PrivacyLoss",
    "Pure",
    "Refutation",
    "Sensitivity",
    "compose_fixed",
    "databases",
    "delta_of_rho",
    "deterministic",
    "epsilon_of_rho",
    "global_sensitivity",
    "group_delta",
    "local_sensitivity",
    "local_sensitivity_at_distance",
    "posterior",
    "read_loss",
    "refute",
    "rho_of_epsilon",
    "tightest_delta",
    "tightest_epsilon",
    "units",
]
