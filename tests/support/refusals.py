"""Refusals as values, for tests that look at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from lapwing.errors import Refused

P = ParamSpec("P")
T = TypeVar("T")


def attempt(work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T | Refused:
    """What the call gives, or its refusal."""
    try:
        return work(*args, **named)
    except Refused as refused:
        return refused
