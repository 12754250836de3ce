"""All attacks on one page: a single HTML file without scripts, links or anything to load."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from html import escape
from io import BytesIO
from pathlib import Path

from lapwing.errors import Misconfigured
from lapwing.lab.attacks.attempt import Attacked, Attempt

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #22303a; background: #fff; }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: .2rem; } h2 { margin: 3rem 0 .3rem; border-top: 1px solid #d9e3ea; padding-top: 1.5rem; }
img { max-width: 100%; height: auto; } p { margin: .4rem 0 .8rem; }
table { border-collapse: collapse; width: 100%; font-size: .95rem; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #d9e3ea; vertical-align: top; }
td:nth-child(2), td:nth-child(3) { white-space: nowrap; font-variant-numeric: tabular-nums; }
.over { color: #c8553d; font-weight: 600; } .lesson { font-style: italic; }
nav a { margin-right: .8rem; color: #1b6ca8; }
"""
_INTRO = (
    "Each attack guesses a secret that a coin decided, so a blind guess is right half of the time. Epsilon caps how "
    "often any guess can be right: with probability e^epsilon / (1 + e^epsilon) if the secret is whether a person is "
    "in the data, and with 2 epsilon in place of epsilon if it is what her record says. Intervals are at 95 %."
)


def write_page(attacks: Iterable[Attacked], path: Path) -> None:
    if not path.parent.is_dir():
        raise Misconfigured(f"The page {str(path)!r} is in no folder that exists. Create the folder first.")
    path.write_text(page_of(attacks), encoding="utf-8")


def page_of(attacks: Iterable[Attacked]) -> str:
    shown = list(attacks)
    links = " ".join(f'<a href="#{escape(found.name)}">{escape(found.title)}</a>' for found in shown)
    sections = "\n".join(map(_section, shown))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Attacks on private data</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>\n'
        f"<body><h1>Attacks on private data</h1>\n<p>{escape(_INTRO)}</p>\n<nav>{links}</nav>\n{sections}\n"
        "</body></html>\n"
    )


def _section(found: Attacked) -> str:
    head = "<tr><th>system</th><th>secret guessed</th><th>cap</th><th>what it does</th></tr>"
    rows = "".join(map(_row, found.attempts))
    alt = "; ".join(f"{attempt.system} {attempt.success}" for attempt in found.attempts)
    return (
        f'<section><h2 id="{escape(found.name)}">{escape(found.title)}</h2>\n'
        f"<p><b>The secret:</b> {escape(found.secret)}</p>\n"
        f'<img alt="{escape(alt)}" src="data:image/png;base64,{_picture(found)}">\n'
        f'<table>{head}{rows}</table>\n<p class="lesson">{escape(found.lesson)}</p></section>'
    )


def _row(attempt: Attempt) -> str:
    over = attempt.cap is not None and attempt.success.low > attempt.cap
    cap = "none promised" if attempt.cap is None else f"{attempt.cap:.1%}"
    rate = f'<span class="over">{attempt.success}</span>' if over else str(attempt.success)
    return f"<tr><td>{escape(attempt.system)}</td><td>{rate}</td><td>{cap}</td><td>{escape(attempt.how)}</td></tr>"


def _picture(found: Attacked) -> str:
    buffer = BytesIO()
    found.plot().savefig(buffer, format="png", dpi=120)
    return b64encode(buffer.getvalue()).decode()
