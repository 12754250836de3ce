"""Questions in notebook cells: `%load_ext lapwing.magic`, then `%%lapwing --within 50` above a SELECT.

Whom it asks is a variable of the notebook: the one that is a curator or a connection, or the one that `--on` names.
The answer is the result of the cell. `%lapwing` alone shows the tables and the budget.
Checked by: tests/test_magic.py
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from lapwing.errors import Misconfigured

_NUMBERS = {
    "epsilon": "the price",
    "share": "the part of the whole budget to pay",
    "delta": "what selecting keys may take of the delta",
    "confidence": "the confidence of intervals",
    "check": "the share of the price that tells how much limits cut",
}
_WAYS = ("sql", "preview", "describe", "dummy")
"""What a variable must be able to do to be asked."""


class _Options(argparse.ArgumentParser):
    """Options after the name of the magic; a wrong one is an error of Lapwing, not the end of the program."""

    def error(self, message: str) -> NoReturn:
        raise Misconfigured(f"%%lapwing: {message}. `%lapwing --help` lists the options. Nothing was charged.")


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext lapwing.magic`."""

    def lapwing(line: str, cell: str | None = None) -> Any:
        return run(line, cell, shell.user_ns)

    lapwing.__doc__ = _options().format_help()
    shell.register_magic_function(lapwing, "line_cell", "lapwing")


def run(line: str, cell: str | None, names: dict[str, Any]) -> Any:
    """What a cell gives back; with `--to` it also gets a name."""
    parser = _options()
    try:
        said = parser.parse_args(shlex.split(line))
    except SystemExit:  # --help has been printed
        return None
    except ValueError:
        parser.error("the line has a quote that is not closed")
    asked = _asked_of(names, said.on)
    asked = asked.dummy() if said.dummy else asked
    if cell is None or not cell.strip():
        return asked.describe()
    terms = {name: getattr(said, name) for name in ("within", *_NUMBERS, "assume_rows", "bounds", "limits")}
    given = {name: value for name, value in terms.items() if value is not None}
    given |= {name: True for name in ("refresh", "anyway") if getattr(said, name)}
    found = asked.preview(cell, **given) if said.preview else asked.sql(cell, **given)
    if said.to is not None:
        names[said.to] = found
    return found


def _options() -> argparse.ArgumentParser:
    parser = _Options(prog="%%lapwing", description="Asks one question in SQL.", add_help=True, allow_abbrev=False)
    parser.add_argument("--within", type=_within, metavar="W", help="the largest error: 50, or n=50,total=1000")
    for name, words in _NUMBERS.items():
        parser.add_argument(f"--{name}", type=_number, metavar="X", help=words)
    parser.add_argument("--assume-rows", type=int, metavar="N", help="rows of a group, for the error of means")
    parser.add_argument("--bounds", choices=["auto"], help="find bounds that are missing, for a share of the price")
    parser.add_argument("--limits", choices=["auto"], help="find limits that are missing, for a share of the price")
    parser.add_argument("--refresh", action="store_true", help="pay for a new answer even if one is stored")
    parser.add_argument("--anyway", action="store_true", help="ask even if the answer would say nothing")
    parser.add_argument("--preview", action="store_true", help="show price and error instead; free")
    parser.add_argument("--dummy", action="store_true", help="ask made-up rows instead; free")
    parser.add_argument("--on", metavar="NAME", help="the variable to ask: a curator, or what lw.connect(...) gave")
    parser.add_argument("--to", type=_name, metavar="NAME", help="a variable for the answer")
    return parser


def _asked_of(names: Mapping[str, Any], named: str | None) -> Any:
    """The curator or connection to ask."""
    if named is not None:
        if named not in names or not _can_be_asked(names[named]):
            raise Misconfigured(f"`{named}` is not a curator or a connection. Make one: {named} = lw.connect(url).")
        return names[named]
    found = {name: value for name, value in names.items() if not name.startswith("_") and _can_be_asked(value)}
    if not found:
        raise Misconfigured(
            "there is nobody to ask. Make a variable first: hospital = lw.connect(url), or lw.open(...)."
        )
    if len({id(value) for value in found.values()}) > 1:
        raise Misconfigured(f"several could be asked: {', '.join(sorted(found))}. Say which: --on {min(found)}.")
    return next(iter(found.values()))


def _can_be_asked(value: Any) -> bool:
    kind = type(value)
    return kind.__module__.split(".")[0] == "lapwing" and all(hasattr(kind, way) for way in _WAYS)


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def _within(text: str) -> Decimal | dict[str, Decimal]:
    if "=" not in text:
        return _number(text)
    pairs = [part.partition("=") for part in text.split(",")]
    return {name.strip(): _number(value.strip()) for name, _, value in pairs}


def _name(text: str) -> str:
    if not text.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} cannot be the name of a variable")
    return text
