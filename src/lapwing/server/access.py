"""Who may do what: one table, which every request passes before anything else is looked at."""

from __future__ import annotations

from lapwing.server.tokens import Role

EVERYONE = frozenset(Role)
ASKING = frozenset({Role.STEWARD, Role.ANALYST})
READING = frozenset({Role.STEWARD, Role.AUDITOR})

RIGHTS: dict[tuple[str, str], frozenset[Role]] = {
    ("GET", "/v1/tables"): EVERYONE,
    ("GET", "/v1/budget"): EVERYONE,
    ("POST", "/v1/preview"): ASKING,
    ("POST", "/v1/ask"): ASKING,
    ("POST", "/v1/batch"): ASKING,
    ("POST", "/v1/distribution"): ASKING,
    ("POST", "/v1/marginals"): ASKING,
    ("GET", "/v1/dummy"): ASKING,
    ("GET", "/v1/releases"): EVERYONE,
    ("GET", "/v1/releases/{release}"): EVERYONE,
    ("POST", "/v1/verify"): EVERYONE,
    ("GET", "/v1/ledger"): READING,
}
"""What needs a token, and which roles may do it."""

OPEN = ("/", "/v1/health", "/v1/openapi.json", "/problems/{code}")
"""What needs none: it says nothing of anybody's data, budget or questions."""


def is_open(path: str) -> bool:
    """Whether a path needs no token."""
    return path in OPEN or path.startswith("/problems/")


def roles_for(method: str, path: str) -> frozenset[Role]:
    """The roles that may do this; what does not exist is told to everyone who has a token."""
    known = "/v1/releases/{release}" if path.startswith("/v1/releases/") else path
    return RIGHTS.get((method, known), EVERYONE)


def takes_body(method: str, path: str) -> bool:
    """Whether a request has a body that is read: those of every other address are not looked at."""
    return method == "POST" and (method, path) in RIGHTS
