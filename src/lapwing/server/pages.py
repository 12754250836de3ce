"""The pages that the server itself has: what can be asked, and what each problem means. They load nothing."""

from __future__ import annotations

from html import escape
from typing import Any, get_args

from lapwing.errors import Code
from lapwing.server.problems import KINDS, ServerProblem

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;"
    "background:#fff}code,pre{font-family:ui-monospace,monospace;background:#f2f2f2;padding:.1em .3em}"
    "dt{margin-top:1rem;font-weight:600}@media(prefers-color-scheme:dark){body{color:#eee;background:#161616}"
    "code,pre{background:#2a2a2a}a{color:#8ab4f8}}"
)
_START = (
    "<p>Ask questions about private data in SQL, and get answers that protect everyone in it. Send your token as "
    "<code>Authorization: Bearer lw_...</code>. A preview is free; an answer is charged before any row is read. The "
    'description for programs is <a href="/v1/openapi.json">/v1/openapi.json</a>.</p>'
)


def start_page(described: dict[str, Any]) -> str:
    """Every address, with what it does, what it takes and what can go wrong."""
    listed = []
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            fields = _fields(operation, described)
            taken = f" Takes {', '.join(f'<code>{escape(name)}</code>' for name in fields)}." if fields else ""
            statuses = ", ".join(sorted(operation["responses"]))
            words = escape(operation.get("description", ""))
            name = f"<code>{method.upper()} {escape(path)}</code>"
            listed.append(f"<dt>{name}</dt><dd>{words}{taken} Answers {statuses}.</dd>")
    problems = "".join(
        f'<li><a href="/problems/{code}">{code}</a> ({kind.status})</li>' for code, kind in KINDS.items()
    )
    body = f"{_START}<h2>Addresses</h2><dl>{''.join(listed)}</dl><h2>Problems</h2><ul>{problems}</ul>"
    return _page("Lapwing", body)


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


def _fields(operation: dict[str, Any], described: dict[str, Any]) -> list[str]:
    names = [parameter["name"] for parameter in operation.get("parameters", ())]
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    for one in content.get("oneOf", content.get("anyOf", [content])):
        schema = described["components"]["schemas"].get(one.get("$ref", "").rpartition("/")[2], {})
        names += [name for name in schema.get("properties", {}) if name not in names]
    return names


def _page(title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body><h1>{escape(title)}</h1>{body}</body></html>"
    )
