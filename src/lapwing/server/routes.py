"""Every address of the server, and the roles that may use it, which are checked before anything else.

Guarantee:  a route without `@allow` is refused to every role.
Proof:      `access_to` finds the route as the application does, and one without `@allow` has NOBODY.
Checked by: tests/server/test_access.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from lapwing.server.openapi import ANSWERED, LISTED, PREVIEWED, VERIFIED, problems
from lapwing.server.problems import ServerProblem
from lapwing.server.schemas import AnyBody, AskBody, Asking, BatchBody, DistributionBody, MarginalsBody, VerifyBody
from lapwing.server.service import Outcome, Service
from lapwing.server.tokens import Principal, Role

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
    """The same roles, by a session of the console instead of a token."""
    return replace(access, by_session=True)


def allow(access: Access) -> Callable[[_T], _T]:
    """Says who may use the address of a function."""

    def mark(endpoint: _T) -> _T:
        endpoint.access = access  # type: ignore[attr-defined]
        return endpoint

    return mark


def access_of(route: BaseRoute) -> Access:
    access = getattr(getattr(route, "endpoint", None), "access", NOBODY)
    return access if isinstance(access, Access) else NOBODY


def open_paths(routes: Iterable[BaseRoute]) -> set[str]:
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


router = APIRouter(generate_unique_id_function=lambda route: route.name)

PreviewQuery = Annotated[
    str | None,
    Query(
        description="The name of a preview: charge at most its price.",
        max_length=60_000,
        pattern="^[A-Za-z0-9._~-]*$",  # none that an address would write as several characters: it must fit into 64 KB
    ),
]
DummyQuery = Annotated[bool, Query(description="Answer from made-up rows; free.")]
KeyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="Makes a retry safe: one key is charged once, and gets the same bytes again.",
        min_length=1,
        max_length=200,
        pattern="^[ -~]+$",
    ),
]


async def _ask_options(
    preview: PreviewQuery = None, dummy: DummyQuery = False, key: KeyHeader = None
) -> tuple[str | None, bool, str | None]:
    return preview, dummy, key


AskOptions = Annotated[tuple[str | None, bool, str | None], Depends(_ask_options)]
ReleaseName = Annotated[str, Path(pattern="^r[0-9a-f]{32}$")]
AfterQuery = Annotated[int, Query(ge=0, le=2**53, description="Entries after this number.")]


def _send(request: Request, outcome: Outcome, at: float | None = None) -> Response:
    """The outcome as it leaves; the log gets what it may say."""
    line = request.state.line
    line.code, line.price = outcome.code, None if outcome.price is None else str(outcome.price)
    line.left_after = at
    headers = {} if outcome.retry_after is None else {"Retry-After": str(outcome.retry_after)}
    return Response(outcome.content, outcome.status, headers, media_type=outcome.media_type)


async def _ask(request: Request, body: Asking, options: AskOptions) -> Response:
    preview, dummy, key = options
    service, principal = _who(request)
    if service.settings.log_questions:
        request.state.line.question = body.text()
    if dummy:
        return _send(request, await service.ask_dummy(principal, body))
    outcome, at = await service.ask(principal, body, arrived=request.state.arrived, key=key, preview=preview)
    return _send(request, outcome, at)


async def _read(request: Request, work: Callable[[Service, Principal], Any]) -> Response:
    service, principal = _who(request)
    return _send(request, await service.quickly(lambda: work(service, principal)))


def _who(request: Request) -> tuple[Service, Principal]:
    return request.app.state.service, request.state.principal


@router.get("/v1/health", tags=["service"], responses=problems(503))
@allow(OPEN)
async def health(request: Request) -> Response:
    """Whether the server can read its ledger. Needs no token."""
    service: Service = request.app.state.service
    return _send(request, await service.quickly(lambda: {"status": "ok", "ledger": service.ledger.id}))


@router.get("/v1/tables", tags=["declared"], responses=problems())
@allow(EVERYONE)
async def tables(request: Request) -> Response:
    """Tables, columns, bounds, values and limits, as the steward declared them. Reads no data."""
    return await _read(request, lambda service, _: {"tables": service.curator.describe().to_dict()["tables"]})


@router.get("/v1/budget", tags=["ledger"], responses=problems())
@allow(EVERYONE)
async def budget(request: Request) -> Response:
    """What was spent of the whole budget, of your own allowance and of that of your team."""
    return await _read(request, budget_facts)


@router.post("/v1/preview", tags=["ask"], responses=problems() | PREVIEWED)
@allow(ASKING)
async def preview(request: Request, body: AnyBody) -> Response:
    """Price and error of what could be asked. Free, and reads no data. Its name lets you ask at that price."""
    service, principal = _who(request)
    if service.settings.log_questions:
        request.state.line.question = body.text()
    return _send(request, await service.preview(principal, body))


@router.post("/v1/ask", tags=["ask"], responses=problems() | ANSWERED)
@allow(ASKING)
async def ask(request: Request, body: AskBody, options: AskOptions) -> Response:
    """The noisy answer to a question in SQL. The same question is free the second time."""
    return await _ask(request, body, options)


@router.post("/v1/batch", tags=["ask"], responses=problems() | ANSWERED)
@allow(ASKING)
async def batch(request: Request, body: BatchBody, options: AskOptions) -> Response:
    """Answers to several questions at one price."""
    return await _ask(request, body, options)


@router.post("/v1/distribution", tags=["ask"], responses=problems() | ANSWERED)
@allow(ASKING)
async def distribution(request: Request, body: DistributionBody, options: AskOptions) -> Response:
    """How many rows lie in every range of a column, for one price."""
    return await _ask(request, body, options)


@router.post("/v1/marginals", tags=["ask"], responses=problems() | ANSWERED)
@allow(ASKING)
async def marginals(request: Request, body: MarginalsBody, options: AskOptions) -> Response:
    """The counts over every set of up to `ways` columns, for one price."""
    return await _ask(request, body, options)


@router.get("/v1/dummy", tags=["declared"], responses=problems())
@allow(ASKING)
async def dummy(request: Request) -> Response:
    """A hundred made-up rows of every table, from declared facts alone. `?dummy=true` asks them."""
    return await _read(request, lambda service, _: service.dummy.tables())


@router.get("/v1/releases", tags=["releases"], responses=problems() | LISTED)
@allow(EVERYONE)
async def releases(request: Request) -> Response:
    """Your releases, the newest first; all of them for stewards and auditors."""

    def listed(service: Service, principal: Principal) -> dict[str, Any]:
        return {"releases": service.releases.all(principal.name if principal.role is Role.ANALYST else None)}

    return await _read(request, listed)


@router.get("/v1/releases/{release}", tags=["releases"], responses=problems() | ANSWERED)
@allow(EVERYONE)
async def read_release(request: Request, release: ReleaseName) -> Response:
    """A release again, as it was sent, for anyone who knows its name."""
    return await _read(request, lambda service, _: service.releases.read(release))


@router.post("/v1/verify", tags=["releases"], responses=problems() | VERIFIED)
@allow(EVERYONE)
async def verify(request: Request, body: VerifyBody) -> Response:
    """Whether a number that someone cites is what was released. Free; reads released numbers only."""

    def verdict(service: Service, _: Principal) -> dict[str, Any]:
        same = service.releases.verify(body)
        return {"is_what_was_released": same, "in_words": f"This is {'' if same else 'not '}what was released."}

    return await _read(request, verdict)


@router.get("/v1/ledger", tags=["ledger"], responses=problems())
@allow(READING)
async def ledger(request: Request, after: AfterQuery = 0) -> Response:
    """The entries of the ledger, 500 at a time. For stewards and auditors."""

    def page(service: Service, _: Principal) -> dict[str, Any]:
        entries = islice(service.ledger.entries(after), 500)
        return {"ledger": service.ledger.id, "entries": [asdict(entry) for entry in entries]}

    return await _read(request, page)


@router.api_route("/v1/watch", methods=["GET", "POST"], include_in_schema=False)
@allow(EVERYONE)
async def watch() -> Response:
    """Not served, and says why."""
    raise ServerProblem("not-served")


def budget_facts(service: Service, principal: Principal) -> dict[str, Any]:
    """The budget, and the allowances of a person and their team."""
    _, at, team = principal.name.partition("@")
    return {
        **service.curator.budget.to_dict(),
        "own": _allowed(service, principal.name),
        "team": _allowed(service, f"@{team}") if at else None,
    }


def _allowed(service: Service, name: str) -> dict[str, str | None]:
    """What a name or a team has spent, and the most it may."""
    allowance = service.ledger.allowance(name)
    limit = None if allowance is None else str(allowance)
    return {"name": name, "spent": str(service.ledger.spent_by(name)), "allowance": limit}
