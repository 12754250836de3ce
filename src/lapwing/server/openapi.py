"""The OpenAPI description, with every status, link and the token, and the same as pages, which load nothing."""

from __future__ import annotations

from html import escape
from typing import Any, get_args

from lapwing.errors import Code
from lapwing.server.problems import KINDS, MEDIA_TYPE, STATUSES, ServerProblem

_AMOUNTS: dict[str, Any] = {"anyOf": [{"$ref": "#/components/schemas/Amounts"}, {"type": "null"}]}
_TEXT = {"type": ["string", "null"]}
_PROBLEM: dict[str, Any] = {
    "type": "object",
    "description": "Problem details (RFC 9457).",
    "required": ["type", "title", "status", "detail", "code", "charged", "remaining"],
    "properties": {
        "type": {"type": "string", "description": "A path that this server explains."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string", "description": "The kind of problem, for programs."},
        "part": {**_TEXT, "description": "The part of the question or request."},
        "why": _TEXT,
        "instead": {**_TEXT, "description": "What to write instead."},
        "charged": {**_AMOUNTS, "description": "What stays charged for this request."},
        "remaining": {**_AMOUNTS, "description": "What is left of the budget."},
        "asked": {**_AMOUNTS, "description": "The price that did not fit."},
    },
}
_DESCRIPTIONS = {
    status: " ".join(dict.fromkeys(kind.why for kind in KINDS.values() if kind.status == status)) for status in STATUSES
}
_RETRY = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
_PRICE = {"$ref": "#/components/schemas/Amounts"}
_TABLE = {
    "release": {"type": "string", "description": "Its name, to read and to verify it."},
    "columns": {"type": "array", "items": {"type": "string"}},
    "rows": {"type": "array", "items": {"type": "object"}, "description": "A row for each group, with its intervals."},
    "answers": {"type": "object", "description": "Of several questions, each by its name."},
    "notes": {"type": "array", "items": {"type": "string"}},
}
_SCHEMAS: dict[str, dict[str, Any]] = {
    "Problem": _PROBLEM,
    "Amounts": {
        "type": "object",
        "description": "A price or a balance: epsilon or rho, and delta.",
        "additionalProperties": {"type": "number"},
    },
}
"""What has a name of its own, so that programs that write clients make one class of it."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The responses of an address that can have these problems, or all of them."""
    return {
        status: {
            "description": _DESCRIPTIONS[status],
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
            **({"headers": _RETRY} if status in (409, 429, 503) else {}),
        }
        for status in statuses or STATUSES
    }


def _answers(
    name: str,
    description: str,
    properties: dict[str, Any],
    links: dict[str, Any],
    optional: dict[str, Any] | None = None,
) -> dict[int | str, dict[str, Any]]:
    _SCHEMAS[name] = {"type": "object", "required": list(properties), "properties": properties | (optional or {})}
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
    return {200: {"description": description, "content": content, "links": links}}


_TO_RELEASE = {
    "release": {"operationId": "read_release", "parameters": {"release": "$response.body#/release"}},
}
_TO_ASK = {
    name: {
        "operationId": name,
        "parameters": {"preview": "$response.body#/preview"},
        "requestBody": "$request.body",
        "description": "Ask what was previewed, at most at its price.",
    }
    for name in ("ask", "batch", "distribution", "marginals")
}
ANSWERED = _answers("Answer", "The answer, with its price.", {"price": _PRICE}, _TO_RELEASE, _TABLE)
PREVIEWED = _answers(
    "Previewed",
    "Price and error, and a name to ask at that price.",
    {"preview": {"type": "string"}, "expires": {"type": "string"}, "price": _PRICE},
    _TO_ASK,
)
VERIFIED = _answers("Verified", "Whether it is what was released.", {"is_what_was_released": {"type": "boolean"}}, {})
LISTED = _answers("Releases", "The releases.", {"releases": {"type": "array", "items": {"type": "object"}}}, {})


def complete(schema: dict[str, Any], open_paths: set[str]) -> dict[str, Any]:
    """The description with what has a name of its own, and the token that all but these addresses need."""
    schema.setdefault("components", {}).setdefault("schemas", {}).update(_SCHEMAS)
    schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            if path not in open_paths:
                operation["security"] = [{"token": []}]
    return schema


_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;"
    "background:#fff}code,pre{font-family:ui-monospace,monospace;background:#f2f2f2;padding:.1em .3em}"
    "td{padding:.1em .6em .1em 0;vertical-align:top}td code{white-space:nowrap}"
    "@media(prefers-color-scheme:dark){body{color:#eee;background:#161616}code,pre{background:#2a2a2a}a{color:#8ab4f8}}"
)
_START = (
    "<p>Ask questions about private data in SQL, and get answers that protect everyone in it. Send your token as "
    "<code>Authorization: Bearer lw_...</code>. Previews are free. "
    '<a href="/v1/openapi.json">/v1/openapi.json</a> describes every address.</p>'
)


def start_page(described: dict[str, Any]) -> str:
    """Every address with the first sentence of its description, on one screen; /v1/openapi.json has the rest."""
    addresses = "".join(
        f"<tr><td><code>{method.upper()} {escape(path)}</code></td>"
        f"<td>{escape(operation.get('description', '').split('. ')[0].rstrip('.'))}</td></tr>"
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
    )
    problems = ", ".join(f'<a href="/problems/{code}">{code}</a>' for code in KINDS)
    return _page("Lapwing", f"{_START}<table>{addresses}</table><p>Problems: {problems}</p>")


def problem_page(code: str) -> str:
    """What a problem means, and what to do."""
    kind = KINDS.get(code)
    if kind is not None:
        return _page(code, f"<p>Status {kind.status}. {escape(kind.why)} {escape(kind.instead)}</p>")
    if code not in get_args(Code):
        raise ServerProblem("not-found")
    words = (
        "A question was refused, or failed, for this reason. `part`, `why` and `instead` of the problem say what to "
        "write instead; `charged` says what stays charged. The list of reasons is in the documentation: errors."
    )
    return _page(code, f"<p>{escape(words)}</p>")


def _page(title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body><h1>{escape(title)}</h1>{body}</body></html>"
    )
