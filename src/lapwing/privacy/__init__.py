"""The cost of releases: losses, conversions between them, budgets, and the filter that enforces a budget."""

from lapwing.privacy.analysis.composition import Composition, compose_fixed
from lapwing.privacy.analysis.loss_distribution import PrivacyLoss
from lapwing.privacy.analysis.profile import tightest_delta, tightest_epsilon
from lapwing.privacy.budget import Accounting, Budget, Cost
from lapwing.privacy.convert import delta_of_rho, epsilon_of_rho, group_delta, rho_of_epsilon
from lapwing.privacy.filter import Filter
from lapwing.privacy.loss import ZCDP, Approximate, BoundedRange, Loss, Pure, read_loss
from lapwing.privacy.neighbours import Neighbours
from lapwing.privacy.posterior import Belief, posterior

__all__ = [
    "ZCDP", "Accounting", "Approximate", "Belief", "BoundedRange", "Budget", "Composition", "Cost", "Filter", "Loss",
    "Neighbours", "PrivacyLoss", "Pure", "compose_fixed", "delta_of_rho", "epsilon_of_rho", "group_delta", "posterior",
    "read_loss", "rho_of_epsilon", "tightest_delta", "tightest_epsilon",
]  # fmt: skip
