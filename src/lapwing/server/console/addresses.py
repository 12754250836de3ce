"""The addresses of the console. Pages are rendered here; whatever is asked goes through the service, as over HTTP."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse, StreamingResponse
from jinja2 import Environment, FileSystemLoader
from pydantic import BaseModel, ConfigDict, Field
from starlette.types import Scope

from lapwing.answers.formats import grid, to_csv
from lapwing.answers.picture import arrange
from lapwing.answers.svg import draw_ghost, draw_svg, styled
from lapwing.answers.table import AnswerTable, read_table
from lapwing.errors import Misconfigured
from lapwing.ledger import EntryKind
from lapwing.ledger.entry import read_ratio
from lapwing.numbers import exact
from lapwing.privacy.phrases import at_most_text
from lapwing.server.console.sessions import ConsoleSession, read_cookie, same_origin, set_cookie
from lapwing.server.problems import ProblemDetails, ServerProblem
from lapwing.server.routes import (
    ASKING,
    EVERYONE,
    OPEN,
    READING,
    Access,
    KeyHeader,
    PreviewQuery,
    ReleaseName,
    allow,
    budget_facts,
    signed_in,
)
from lapwing.server.schemas import AskBody
from lapwing.server.service import Service
from lapwing.server.tokens import Role, allow_share, random_text, read_share

router = APIRouter(include_in_schema=False)

PAGES = Path(__file__).parent / "pages"
TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
STEWARDING = Access(frozenset({Role.STEWARD}))
_LISTED = 200
_GHOST_ROWS = 1_000
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self'; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)


class _Json(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SignInBody(_Json):
    token: str = Field("", max_length=200)
    code: str = Field("", max_length=200)


class PersonBody(_Json):
    """A change to who may ask, confirmed with the steward's own token."""

    action: Literal["add", "revoke", "allow"]
    confirm: str = Field(max_length=200, description="The steward's token.")
    name: str = Field(max_length=140)
    role: Literal["analyst", "auditor", "steward"] = "analyst"
    team: str = Field("", max_length=64)
    days: int = Field(90, ge=1, le=3650)
    share: str = Field("", max_length=20)


class EmptyBody(_Json):
    pass


@cache
def templates() -> Environment:
    """The pages."""
    return Environment(loader=FileSystemLoader(PAGES), autoescape=True, trim_blocks=True, lstrip_blocks=True)


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _session(request: Request) -> ConsoleSession:
    session: ConsoleSession = request.state.session
    return session


def _page(request: Request, name: str, facts: dict[str, Any]) -> Response:
    """A page; its facts alone if the address ends in .json."""
    if request.url.path.endswith(".json"):
        return _json(facts)
    return _render(name, {**facts, "session": getattr(request.state, "session", None)})


def _render(name: str, facts: dict[str, Any], status: int = 200) -> Response:
    nonce = random_text()
    content = templates().get_template(f"{name}.html").render({**facts, "nonce": nonce, "page": name, "Role": Role})
    return Response(content, status, {"content-security-policy": POLICY.format(nonce=nonce)}, media_type="text/html")


def wants_page(scope: Scope) -> bool:
    """Whether a person looks at what is sent: a browser that opens an address of the console."""
    path, is_read = scope["path"], scope["method"] == "GET"
    is_page = is_read and path.startswith("/console") and not path.endswith(".json")
    return is_page and any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])


def problem_response(problem: ProblemDetails) -> Response:
    """A problem as a page."""
    return _render("problem", {"problem": problem}, problem.status)


@router.get("/console/static/{name}")
@allow(OPEN)
async def static(name: str) -> Response:
    path = next((path for path in PAGES.iterdir() if path.name == name and path.suffix in TYPES), None)
    if path is None:
        raise ServerProblem("not-found")
    return Response(path.read_bytes(), media_type=TYPES[path.suffix])


@router.get("/console/sign-in")
@allow(OPEN)
async def sign_in_page(request: Request) -> Response:
    return _page(request, "sign_in", {})


@router.post("/console/sign-in")
@allow(OPEN)
async def sign_in(request: Request, body: SignInBody) -> Response:
    """Opens a session for a token or a one-time code."""
    service, headers = _service(request), _headers(request)
    secure, sessions = service.settings.is_secure, service.sessions
    if not same_origin(headers, secure=secure):
        raise ServerProblem("forbidden")
    principal = await service.find_principal(body.token)
    if principal is not None and not body.code:  # a code works once, and a session is an entry of the ledger
        request.state.rates.take(principal.name)
    opened = await service.in_door(sessions.accept if body.code else sessions.open, body.code or body.token)
    if opened is None:
        raise ServerProblem("unauthorized")
    return _json({"next": "/console"}, {"set-cookie": set_cookie(opened, secure=secure)})


@router.post("/console/sign-out")
@allow(signed_in(EVERYONE))
async def sign_out(request: Request, body: EmptyBody) -> Response:
    del body
    service = _service(request)
    secure = service.settings.is_secure
    await service.in_door(service.sessions.close, read_cookie(_headers(request), secure=secure))
    return _json({"next": "/console/sign-in"}, {"set-cookie": set_cookie("", secure=secure)})


@router.get("/console")
@router.get("/console.json")
@allow(signed_in(EVERYONE))
async def ask_page(request: Request) -> Response:
    if _session(request).principal.role is Role.AUDITOR:
        return RedirectResponse("/console/budget", 303)
    tables = await _facts(request, lambda service: service.curator.describe().to_dict()["tables"])
    schema = {name: list(table["columns"]) for name, table in tables.items()}
    return _page(request, "ask", {"tables": tables, "schema": schema})


@router.post("/console/preview")
@allow(signed_in(ASKING))
async def preview(request: Request, body: AskBody) -> Response:
    """The price line under the editor."""
    service, principal = _service(request), _session(request).principal
    if service.settings.log_questions:
        request.state.line.question = body.text()
    outcome = await service.preview(principal, body)
    seen = json.loads(outcome.content)
    request.state.line.code = outcome.code
    return _json(_refused(seen) if outcome.status != 200 else await _priced(request, seen, body))


@router.post("/console/ask")
@allow(signed_in(ASKING))
async def ask(request: Request, body: AskBody, key: KeyHeader = None, preview: PreviewQuery = None) -> Response:
    """The answer, charged before any row is read and at most the price that was shown; a page shows it."""
    service, principal, line = _service(request), _session(request).principal, request.state.line
    if service.settings.log_questions:
        line.question = body.text()
    outcome, place = await service.ask(principal, body, arrived=request.state.arrived, key=key, preview=preview)
    price = None if outcome.price is None else str(outcome.price)
    line.code, line.price, line.left_after = outcome.code, price, place
    answer = json.loads(outcome.content)
    shown = {"release": answer["release"]} if outcome.status == 200 else _refused(answer)
    return _json(shown, status=outcome.status)


@router.get("/console/answers")
@router.get("/console/answers.json")
@allow(signed_in(EVERYONE))
async def answers_page(request: Request) -> Response:
    principal = _session(request).principal
    by = principal.name if principal.role is Role.ANALYST else None

    def read(service: Service) -> dict[str, Any]:
        return {"answers": [_titled(service, one) for one in islice(service.releases.all(by), _LISTED)]}

    return _page(request, "answers", await _facts(request, read))


@router.get("/console/answers/{release}.{ending}")
@allow(signed_in(EVERYONE))
async def download(request: Request, release: ReleaseName, ending: str) -> Response:
    """An answer as a file."""
    answer = await _facts(request, lambda service: json.loads(service.releases.read(release)))
    tables = list(_tables(answer))
    kinds = {"json": "application/json", "csv": "text/csv; charset=utf-8", "svg": "image/svg+xml"}
    if ending not in kinds or (ending != "json" and len(tables) != 1):
        raise ServerProblem("not-found")
    if ending == "json":
        content = json.dumps(answer)
    else:
        content = to_csv(tables[0][1], sheet=True) if ending == "csv" else styled(_chart(tables[0][1]))
    headers = {"content-disposition": f'attachment; filename="{release}.{ending}"'}
    return Response(content, 200, headers, media_type=kinds[ending])


@router.get("/console/answers/{release}")
@allow(signed_in(EVERYONE))
async def answer_page(request: Request, release: ReleaseName) -> Response:
    answer = await _facts(request, lambda service: json.loads(service.releases.read(release)))
    shown = [_shown(name, table) for name, table in _tables(answer)]
    facts = {"release": release, "tables": shown, "methods": answer.get("methods", ""), "one": len(shown) == 1}
    return _page(request, "answer", facts)


@router.get("/console/budget")
@router.get("/console/budget.json")
@allow(signed_in(EVERYONE))
async def budget_page(request: Request) -> Response:
    principal = _session(request).principal

    def read(service: Service) -> dict[str, Any]:
        facts = budget_facts(service, principal)
        for whose in ("own", "team"):
            if facts[whose] is not None:
                facts[whose]["share_left"] = _share_left(service, facts[whose]["name"])
        charged = service.ledger.records(EntryKind.RESERVE, principal.name)
        last = float(read_ratio(charged[-1].amount) / service.ledger.total.amount) if charged else 0.0
        return {**facts, "last_share": last, "like_last": _how_many(service, principal.name, last)}

    return _page(request, "budget", await _facts(request, read))


@router.get("/console/ledger")
@router.get("/console/ledger.json")
@allow(signed_in(READING))
async def ledger_page(request: Request, after: Annotated[int | None, Query(ge=0, le=2**53)] = None) -> Response:
    def read(service: Service) -> dict[str, Any]:
        report = service.ledger.verify()
        last = service.ledger.recorded()[-1]
        start = max(0, 0 if last is None else last.seq - _LISTED) if after is None else after
        entries = [asdict(entry) for entry in islice(service.ledger.entries(start), _LISTED)]
        for entry in entries:
            entry["question"] = json.loads(entry["note"]).get("question", "")
            entry["price"] = at_most_text(read_ratio(entry["amount"])) if entry["kind"] == EntryKind.RESERVE else ""
        earlier = max(0, start - _LISTED) if start else None
        return {"report": str(report), "ok": report.ok, "entries": entries[::-1], "earlier": earlier}

    async with _service(request).verifying:
        return _page(request, "ledger", await _facts(request, read))


@router.get("/console/ledger.jsonl")
@allow(signed_in(READING))
async def export(request: Request) -> Response:
    """The file that `lapwing ledger export` writes."""
    lines = await _service(request).read(_service(request).ledger.export_lines)
    headers = {"content-disposition": 'attachment; filename="ledger.jsonl"'}
    return StreamingResponse(lines, 200, headers, media_type="application/jsonl")


@router.get("/console/people")
@router.get("/console/people.json")
@allow(signed_in(STEWARDING))
async def people_page(request: Request) -> Response:
    def read(service: Service) -> dict[str, Any]:
        people = [asdict(token) for token in service.tokens.all()]
        for person in people:
            person["allowance"] = str(service.ledger.allowance(person["name"]) or "the whole budget")
            person["spent"] = str(service.ledger.spent_by(person["name"]))
        tables = service.curator.describe().to_dict()["tables"]
        return {"people": people, "tables": tables, "marks": service.marks}

    return _page(request, "people", await _facts(request, read))


@router.post("/console/people")
@allow(signed_in(STEWARDING))
async def change_people(request: Request, body: PersonBody) -> Response:
    """Adds or ends a token, or sets an allowance; the steward's token is asked for again."""
    service, principal = _service(request), _session(request).principal
    known = await service.find_principal(body.confirm)
    if known is None or known.role is not Role.STEWARD or known.name != principal.name:
        raise ServerProblem("unauthorized")

    def change(service: Service) -> dict[str, Any]:
        part = None if not body.share else read_share(exact(body.share, "share"))
        token = ""
        match body.action:
            case "add":
                token, facts = service.tokens.add(body.name, body.role, team=body.team or None, days=body.days)
                if part is not None:
                    allow_share(service.ledger, facts.name, part)
            case "revoke":
                service.tokens.revoke(body.name)
            case "allow":
                if part is None:
                    raise Misconfigured("`share` is missing. Pass for example 0.1 for a tenth of the budget.")
                allow_share(service.ledger, body.name, part)
        return {"token": token}

    return _json(await _facts(request, change))


async def _facts(request: Request, read: Any) -> Any:
    """What is read of declarations, the ledger or released numbers."""
    service = _service(request)
    return json.loads(await service.read(lambda: json.dumps(read(service), default=str)))


def _json(facts: Any, headers: dict[str, str] | None = None, status: int = 200) -> Response:
    return Response(json.dumps(facts, default=str), status, headers, media_type="application/json")


def _headers(request: Request) -> dict[bytes, bytes]:
    return {name.lower(): value for name, value in request.scope["headers"]}


async def _priced(request: Request, seen: dict[str, Any], body: AskBody) -> dict[str, Any]:
    """What a page says of a preview: the price as a share, how many more, the typical error, and a drawn example."""
    name, (amount, *_) = _session(request).principal.name, seen["price"].values()
    if not amount:
        is_stored = "stored" in seen["in_words"]
        line = f"Free: {'a stored answer is at least this good' if is_stored else 'no rows are read'}."
        return {"line": line, "button": "Show the answer", "preview": seen["preview"]}
    part, whose = amount / float(_service(request).ledger.total.amount), "the budget"
    own, more = await _facts(request, lambda served: (_share_left(served, name), _how_many(served, name, part)))
    if own is not None:
        part, whose = part / (own["of_budget"] or 1), "your allowance"
    more = min(more, seen.get("about_how_many_more") or more)  # a delta that was named may end sooner
    widths = seen.get("errors") or {}
    for number, question in seen.get("questions", {}).items():  # a statement of several
        widths |= {f"{number}: {words}": width for words, width in question["errors"].items()}
    errors = [f"{words} within {_rounded(width)}" for words, width in widths.items()]
    said = [f"Costs {_percent(part)} of {whose}, about {more:,} more like it."]
    said += [f"Typical error: {'; '.join(errors[:3])}."] if errors else []
    size = getattr(body, "assume_rows", None) or _GHOST_ROWS
    ghost, groups = "", seen.get("groups")
    if groups and len(widths) == 1 and "COUNT" in errors[0]:
        ghost = draw_ghost(groups, next(iter(widths.values())), float(size))
    notes = [line for line in seen["in_words"].split("\n")[1:] if "within" not in line]
    return {
        "line": " ".join(said),
        "notes": notes,
        "button": f"Answer for {_percent(part)}",
        "ghost": ghost,
        "ghost_says": f"If each group had {size:,} rows. This is an example, not your data." if ghost else "",
        "fits": seen["fits"] and more > 0,
        "preview": seen["preview"],
    }


def _share_left(service: Service, name: str) -> dict[str, float] | None:
    """An allowance and what is left of it, as parts of the budget; None if there is no allowance."""
    allowance = service.ledger.allowance(name)
    if allowance is None:
        return None
    total, left = service.ledger.total.amount, allowance.amount - service.ledger.spent_by(name).amount
    return {"of_budget": float(allowance.amount / total), "left": max(0.0, float(left / total))}


def _how_many(service: Service, name: str, part: float) -> int:
    """How many questions that take this part of the budget still fit: into the whole, into what a person may spend and
    into what their team may."""
    _, at, team = name.partition("@")
    limits = [_share_left(service, name), _share_left(service, f"@{team}") if at else None]
    left = [float(service.ledger.remaining.amount / service.ledger.total.amount)]
    left += [limit["left"] for limit in limits if limit is not None]
    return int(min(left) / part + 1e-9) if part else 0


def _refused(problem: dict[str, Any]) -> dict[str, Any]:
    """A problem as a page shows it, with the terms that would make the question work."""
    instead = problem.get("instead") or ""
    terms = {name: "auto" for name in ("limits", "bounds") if f'{name}="auto"' in instead}
    why = ": ".join(filter(None, [problem.get("part"), problem.get("why") or problem.get("detail", "")]))
    return {
        "refused": why,
        "instead": instead,
        "part": problem.get("part") or "",
        "terms": terms,
        "code": problem.get("code"),
    }


def _tables(answer: dict[str, Any]) -> list[tuple[str, AnswerTable]]:
    """The tables of an answer, by name."""
    if "answers" in answer:
        return [(name, read_table(one)) for name, one in answer["answers"].items()]
    if "tables" in answer:
        shared = {name: fact for name, fact in answer.items() if name != "tables"}
        return [(", ".join(one["over"]), read_table({**shared, **one})) for one in answer["tables"]]
    return [("", read_table(answer))]


def _shown(name: str, table: AnswerTable) -> dict[str, Any]:
    header, rows = grid(table)
    words = {"price": table.price or table.paid, "warnings": table.warnings, "notes": table.notes}
    return {"name": name, "header": header, "rows": rows, "chart": _chart(table), "title": table.title, **words}


def _chart(table: AnswerTable) -> str:
    try:
        return draw_svg(arrange(table))
    except Misconfigured:  # nothing to draw
        return ""


def _titled(service: Service, listed: dict[str, Any]) -> dict[str, Any]:
    answer = json.loads(service.releases.read(listed["release"]))
    titles = [table["layout"]["title"] for table in answer.get("answers", {}).values()] or [
        answer.get("layout", {}).get("title")
    ]
    return {**listed, "title": "; ".join(filter(None, titles)) or listed["kind"]}


def _percent(part: float) -> str:
    return f"{100 * part:.2g} %" if part < 1 else f"{100 * part:,.0f} %"


def _rounded(error: float) -> str:
    return f"{error:,.0f}" if error >= 100 else f"{error:.2g}"
