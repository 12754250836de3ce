"""Packages that only one format needs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from lapwing.errors import Misconfigured


def load(package: str, *, what: str, install: str) -> Any:
    """The package; says how to install it if it is missing."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
    raise Misconfigured(f"{what} need {package}, which is not installed. Run: pip install {install}")
