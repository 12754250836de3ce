"""The members of a registry, found by looking through packages, so that no contract depends on a list of them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


def modules_in(*packages: str) -> Iterator[ModuleType]:
    """These packages, the packages inside of them, and all their modules."""
    for package in packages:
        yield (top := importlib.import_module(package))
        for found in pkgutil.walk_packages(getattr(top, "__path__", ()), f"{package}."):
            if not found.name.endswith(".__main__"):
                yield importlib.import_module(found.name)


def classes_in(*packages: str) -> Iterator[type]:
    """Every class that is defined in these packages, in the packages inside of them, or in a module of either."""
    return _defined(inspect.isclass, packages)


def functions_in(*packages: str) -> Iterator[Callable[..., Any]]:
    """Every function of a module there, cached ones too, without those that are private to it."""
    found = _defined(lambda one: inspect.isfunction(getattr(one, "__wrapped__", one)), packages)
    return (one for one in found if not one.__name__.startswith("_"))


def values_in(kind: type[T], *packages: str) -> dict[str, T]:
    """Every value of this kind that a module there gives a name, by its module and its name."""
    found = (
        (module, inspect.getmembers(module, lambda one: isinstance(one, kind))) for module in modules_in(*packages)
    )
    return {f"{module.__name__}.{name}": one for module, members in found for name, one in members}


def concrete(base: type[T], *packages: str) -> list[type[T]]:
    """Every class of these packages that is a `base` and can be made."""
    return [one for one in classes_in(*packages) if issubclass(one, base) and not inspect.isabstract(one)]


def implementing(protocol: type, *packages: str) -> set[str]:
    """The names of the classes there that have the methods of a protocol, whether they say so or not."""
    methods = {name for name, _ in inspect.getmembers(protocol, inspect.isfunction) if not name.startswith("_")}
    others = (one for one in classes_in(*packages) if not getattr(one, "_is_protocol", False))
    return {one.__name__ for one in others if all(callable(getattr(one, name, None)) for name in methods)}


def lacking(found: Iterable[Any], covered: Iterable[Any]) -> list[str]:
    """The names of the members that nothing covers."""
    return sorted(_name(one) for one in set(found) - set(covered))


def plant(monkeypatch: pytest.MonkeyPatch, member: Any, *, module: str, name: str | None = None) -> None:
    """Puts a member into a module of the package until the test ends, as if it had been written there."""
    if inspect.isclass(member) or inspect.isfunction(member):
        monkeypatch.setattr(member, "__module__", module)
    monkeypatch.setattr(importlib.import_module(module), name or member.__name__, member, raising=False)


def _defined(is_one: Callable[[Any], bool], packages: Iterable[str]) -> Iterator[Any]:
    for module in modules_in(*packages):
        yield from (one for _, one in inspect.getmembers(module, is_one) if one.__module__ == module.__name__)


def _name(one: Any) -> str:
    return one if isinstance(one, str) else one.__name__
