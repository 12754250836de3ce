"""The definitions as programs: neighbouring databases, sensitivity by enumeration, refutation of a false claim."""

from lapwing.classroom.database import (
    Database,
    Norm,
    Sensitivity,
    databases,
    global_sensitivity,
    local_sensitivity,
    local_sensitivity_at_distance,
    units,
)
from lapwing.classroom.refutation import Refutation, deterministic, refute
from lapwing.privacy.posterior import Belief, posterior

__all__ = [
    "Belief",
    "Database",
    "Norm",
    "Refutation",
    "Sensitivity",
    "databases",
    "deterministic",
    "global_sensitivity",
    "local_sensitivity",
    "local_sensitivity_at_distance",
    "posterior",
    "refute",
    "units",
]
