"""Differential privacy with exact noise, honest intervals and a budget that holds.

Names are imported when they are first used, so that `import lapwing` loads no engine and no arrays. The rest is in
`lapwing.mechanisms`, `lapwing.privacy`, `lapwing.classroom`, `lapwing.collect`, `lapwing.lab` and `lapwing.data`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from lapwing.errors import (
    BudgetExceeded,
    Bug,
    EngineFailed,
    Halted,
    LapwingError,
    LedgerFailed,
    Misconfigured,
    Refused,
    WeakBudget,
)

__version__ = "0.1.0"

__all__ = [  # noqa: RUF022 (in the order of dir)
    "AboveThreshold",
    "Budget",
    "BudgetExceeded",
    "Bug",
    "Curator",
    "EngineFailed",
    "Exponential",
    "Filter",
    "Gaussian",
    "Halted",
    "Laplace",
    "LapwingError",
    "LedgerFailed",
    "Misconfigured",
    "NoisyMax",
    "OTHER",
    "RandomizedResponse",
    "Refused",
    "Release",
    "WeakBudget",
    "__version__",
    "classroom",
    "collect",
    "connect",
    "data",
    "lab",
    "load",
    "mechanisms",
    "open",
    "posterior",
    "privacy",
    "refute",
]

if TYPE_CHECKING:
    from lapwing import classroom, collect, data, lab, mechanisms, privacy
    from lapwing.answers.tabular import AnyRelease as Release
    from lapwing.classroom import refute
    from lapwing.client import connect
    from lapwing.curator import Curator, load
    from lapwing.curator import open_data as open  # noqa: A004 (the name is `lw.open`)
    from lapwing.expressions.table import OTHER
    from lapwing.mechanisms import AboveThreshold, Exponential, Gaussian, Laplace, NoisyMax, RandomizedResponse
    from lapwing.privacy import Budget, Filter, posterior
else:
    _HOMES = {
        "AboveThreshold": "lapwing.mechanisms.AboveThreshold",
        "Budget": "lapwing.privacy.Budget",
        "Curator": "lapwing.curator.Curator",
        "Exponential": "lapwing.mechanisms.Exponential",
        "Filter": "lapwing.privacy.Filter",
        "Gaussian": "lapwing.mechanisms.Gaussian",
        "Laplace": "lapwing.mechanisms.Laplace",
        "NoisyMax": "lapwing.mechanisms.NoisyMax",
        "OTHER": "lapwing.expressions.table.OTHER",
        "RandomizedResponse": "lapwing.mechanisms.RandomizedResponse",
        "Release": "lapwing.answers.tabular.AnyRelease",
        "connect": "lapwing.client.connect",
        "load": "lapwing.curator.load",
        "open": "lapwing.curator.open_data",
        "posterior": "lapwing.privacy.posterior",
        "refute": "lapwing.classroom.refute",
    }

    def __getattr__(name):
        if name in ("classroom", "collect", "data", "lab", "mechanisms", "privacy"):
            return import_module(f"lapwing.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home, _, name_there = _HOMES[name].rpartition(".")
        globals()[name] = getattr(import_module(home), name_there)
        return globals()[name]

    def __dir__():
        return list(__all__)
