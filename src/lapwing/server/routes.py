"""Every address of the server. Each builds a request for the curator, or reads declarations and the ledger."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response

from lapwing.server.access import ASKING, EVERYONE, OPEN, READING, allow
from lapwing.server.openapi import ANSWERED, LISTED, PREVIEWED, VERIFIED, problems
from lapwing.server.problems import ServerProblem
from lapwing.server.schemas import AnyBody, AskBody, Asking, BatchBody, DistributionBody, MarginalsBody, VerifyBody
from lapwing.server.service import Outcome, Service
from lapwing.server.tokens import Principal, Role

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
ReleaseName = Annotated[str, Path(pattern="^r[0-9a-f]{32}$")]
Place = Annotated[int, Query(ge=0, le=2**53, description="Entries after this number.")]


def _send(request: Request, outcome: Outcome, place: float | None = None) -> Response:
    """The outcome as it leaves; the log gets what it may say."""
    line = request.state.line
    line.code, line.price = outcome.code, None if outcome.price is None else str(outcome.price)
    line.left_after = place
    headers = {} if outcome.retry_after is None else {"Retry-After": str(outcome.retry_after)}
    return Response(outcome.content, outcome.status, headers, media_type=outcome.media_type)


async def _ask(request: Request, body: Asking, preview: str | None, dummy: bool, key: str | None) -> Response:
    service, principal = _who(request)
    if service.settings.log_questions:
        request.state.line.question = body.text()
    if dummy:
        return _send(request, await service.ask_dummy(principal, body))
    outcome, place = await service.ask(principal, body, arrived=request.state.arrived, key=key, preview=preview)
    return _send(request, outcome, place)


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
    service, _ = _who(request)
    return _send(request, await service.quickly(lambda: {"tables": service.curator.describe().to_dict()["tables"]}))


@router.get("/v1/budget", tags=["ledger"], responses=problems())
@allow(EVERYONE)
async def budget(request: Request) -> Response:
    """What was spent of the whole budget, of your own allowance and of that of your team."""
    service, principal = _who(request)
    return _send(request, await service.quickly(lambda: budget_facts(service, principal)))


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
async def ask(
    request: Request, body: AskBody, preview: PreviewQuery = None, dummy: DummyQuery = False, key: KeyHeader = None
) -> Response:
    """The noisy answer to a question in SQL. The same question is free the second time."""
    return await _ask(request, body, preview, dummy, key)


@router.post("/v1/batch", tags=["ask"], responses=problems() | ANSWERED)
@allow(ASKING)
async def batch(
    request: Request, body: BatchBody, preview: PreviewQuery = None, dummy: DummyQuery = False, key: KeyHeader = None
) -> Response:
    """Answers to several questions at one price."""
    return await _ask(request, body, preview, dummy, key)


@router.post("/v1/distribution", tags=["ask"], responses=problems() | ANSWERED)
@allow(ASKING)
async def distribution(
    request: Request,
    body: DistributionBody,
    preview: PreviewQuery = None,
    dummy: DummyQuery = False,
    key: KeyHeader = None,
) -> Response:
    """How many rows lie in every range of a column, for one price."""
    return await _ask(request, body, preview, dummy, key)


@router.post("/v1/marginals", tags=["ask"], responses=problems() | ANSWERED)
@allow(ASKING)
async def marginals(
    request: Request,
    body: MarginalsBody,
    preview: PreviewQuery = None,
    dummy: DummyQuery = False,
    key: KeyHeader = None,
) -> Response:
    """The counts over every set of up to `ways` columns, for one price."""
    return await _ask(request, body, preview, dummy, key)


@router.get("/v1/dummy", tags=["declared"], responses=problems())
@allow(ASKING)
async def dummy(request: Request) -> Response:
    """A hundred made-up rows of every table, from declared facts alone. `?dummy=true` asks them."""
    service, _ = _who(request)
    return _send(request, await service.quickly(service.dummy.tables))


@router.get("/v1/releases", tags=["releases"], responses=problems() | LISTED)
@allow(EVERYONE)
async def releases(request: Request) -> Response:
    """Your releases, the newest first; all of them for stewards and auditors."""
    service, principal = _who(request)
    by = principal.name if principal.role is Role.ANALYST else None
    return _send(request, await service.quickly(lambda: {"releases": service.releases.all(by)}))


@router.get("/v1/releases/{release}", tags=["releases"], responses=problems() | ANSWERED)
@allow(EVERYONE)
async def read_release(request: Request, release: ReleaseName) -> Response:
    """A release again, as it was sent, for whoever knows its name."""
    service, _ = _who(request)
    return _send(request, await service.quickly(lambda: service.releases.read(release)))


@router.post("/v1/verify", tags=["releases"], responses=problems() | VERIFIED)
@allow(EVERYONE)
async def verify(request: Request, body: VerifyBody) -> Response:
    """Whether a number that someone cites is what was released. Free; reads released numbers only."""
    service, _ = _who(request)
    return _send(request, await service.quickly(lambda: _verdict(service.releases.verify(body))))


@router.get("/v1/ledger", tags=["ledger"], responses=problems())
@allow(READING)
async def ledger(request: Request, after: Place = 0) -> Response:
    """The entries of the ledger, 500 at a time. For stewards and auditors."""
    service, _ = _who(request)

    def page() -> dict[str, Any]:
        entries = list(islice(service.ledger.entries(after), 500))
        return {"ledger": service.ledger.id, "entries": [asdict(entry) for entry in entries]}

    return _send(request, await service.quickly(page))


@router.api_route("/v1/watch", methods=["GET", "POST"], include_in_schema=False)
@allow(EVERYONE)
async def watch() -> Response:
    """Not served, and says why."""
    raise ServerProblem("not-served")


def _verdict(same: bool) -> dict[str, Any]:
    said = "This is what was released." if same else "This is not what was released."
    return {"is_what_was_released": same, "in_words": said}


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
