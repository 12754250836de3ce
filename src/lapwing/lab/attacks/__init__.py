"""Attacks that motivate differential privacy, each on an unprotected system, on naive noise and on Lapwing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module

from lapwing.errors import Misconfigured
from lapwing.lab.attacks.attempt import Attacked, Attempt, View, presence_cap, record_cap

__all__ = ["ATTACKS", "Attacked", "Attempt", "View", "attack", "attack_all", "presence_cap", "record_cap"]

ATTACKS = {
    "averaging": "ask the same question again and again, until the noise averages out",
    "differencing": "subtract the answer about everyone but one from the answer about everyone",
    "linkage": "find a person among rows without names by a few facts that are known",
    "membership": "tell from published averages who is in the study",
    "model": "tell from a trained model who it was trained on",
    "reconstruction": "solve for everyone's secret from many noisy sums",
    "advertiser": "learn a person's age from the order of three adverts",
    "lowest-bit": "read the answer off the last digits of floating-point noise",
    "oracles": "ask what fails, or is refunded, only if a certain person is there",
    "timing": "measure how long an answer takes",
}

_HOMES = {
    "averaging": ("repeated_counts", "run_averaging"), "differencing": ("repeated_counts", "run_differencing"),
    "membership": ("membership", "run_statistics"), "model": ("membership", "run_model"),
    "lowest-bit": ("lowest_bit", "run"), "timing": ("timing_attack", "run"),
}  # fmt: skip


def attack(name: str) -> Attacked:
    if name not in ATTACKS:
        raise Misconfigured(f"there is no attack {name!r}. Choose one of {', '.join(ATTACKS)}.")
    return _program(name)()


def _program(name: str) -> Callable[[], Attacked]:
    module, function = _HOMES.get(name, (name, "run"))
    return getattr(import_module(f"{__name__}.{module}"), function)  # type: ignore[no-any-return]


def attack_all() -> Iterator[Attacked]:
    return (attack(name) for name in ATTACKS)
