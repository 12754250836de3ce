"""Roles: each route names those that may use it, checked before anything else.

Guarantee:  a route without `@allow` is refused to every role.
Proof:      `access_to` finds the route as the application does, and one without `@allow` has NOBODY.
Checked by: tests/server/test_access.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from lapwing.server.tokens import Role

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Access:
    """What a route requires."""

    roles: frozenset[Role]
    is_open: bool = False
    """Whether it needs no token: it reveals no data, budget or questions."""
    by_session: bool = False
    """Whether it is a page of the console, for who is signed in, and takes no bearer token."""


NOBODY = Access(frozenset())
EVERYONE = Access(frozenset(Role))
ASKING = Access(frozenset({Role.STEWARD, Role.ANALYST}))
READING = Access(frozenset({Role.STEWARD, Role.AUDITOR}))
OPEN = Access(frozenset(), is_open=True)


def signed_in(access: Access) -> Access:
    """The same roles, by the session of the console instead of a token."""
    return replace(access, by_session=True)


def allow(access: Access) -> Callable[[_T], _T]:
    """Says who may use the address of a function."""

    def said(endpoint: _T) -> _T:
        endpoint.access = access  # type: ignore[attr-defined]
        return endpoint

    return said


def access_of(route: BaseRoute) -> Access:
    """What an address says of itself."""
    found = getattr(getattr(route, "endpoint", None), "access", NOBODY)
    return found if isinstance(found, Access) else NOBODY


def open_paths(routes: Iterable[BaseRoute]) -> set[str]:
    """The addresses that need no token."""
    return {str(getattr(route, "path", "")) for route in routes if access_of(route).is_open}


def access_to(routes: Iterable[BaseRoute], scope: Scope) -> tuple[Access, bool]:
    """What a request requires, and whether its body is read. Any valid token may learn that a route does not exist."""
    other = NOBODY
    for route in routes:
        match, _ = route.matches(scope)
        if match is Match.FULL:
            return access_of(route), getattr(route, "body_field", None) is not None
        other = access_of(route) if match is Match.PARTIAL else other
    return OPEN if other.is_open else EVERYONE, False
