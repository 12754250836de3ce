"""Questions in notebook cells: `%load_ext lapwing.magic`, then `%%lapwing --within 50` above a SELECT.

It asks the variable of the notebook that is a curator or a connection, or the one that `--on` names.
The answer is the result of the cell. `%lapwing` alone shows the tables and the budget.
Checked by: tests/test_magic.py
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from lapwing.errors import Misconfigured
from lapwing.terms import TERMS, Params, PreviewTerms, names_of, read_term, types_of

_WAYS = ("sql", "preview", "describe", "dummy")
"""What a variable must be able to do to be asked."""


class _Options(argparse.ArgumentParser):
    """A wrong option is an error of Lapwing, not the end of the program."""

    def error(self, message: str) -> NoReturn:
        raise Misconfigured(f"%%lapwing: {message}. `%lapwing --help` lists the options. Nothing was charged.")


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext lapwing.magic`."""

    def lapwing(line: str, cell: str | None = None) -> Any:
        return run(line, cell, shell.user_ns)

    lapwing.__doc__ = _options().format_help()
    shell.register_magic_function(lapwing, "line_cell", "lapwing")


def run(line: str, cell: str | None, names: dict[str, Any]) -> Any:
    """The result of a cell; with `--to` it also gets a name."""
    parser = _options()
    try:
        options = parser.parse_args(shlex.split(line))
    except SystemExit:  # --help has been printed
        return None
    except ValueError:
        parser.error("the line has a quote that is not closed")
    target = _find_target(names, options.on)
    target = target.dummy() if options.dummy else target
    if cell is None or not cell.strip():
        return target.describe()
    terms = {name: getattr(options, name) for name in names_of(PreviewTerms) if hasattr(options, name)}
    if "params" in terms:
        terms["params"] = read_term(Params, terms["params"])
    result = target.preview(cell, **terms) if options.preview else target.sql(cell, **terms)
    if options.to is not None:
        names[options.to] = result
    return result


def _options() -> argparse.ArgumentParser:
    parser = _Options(prog="%%lapwing", description="Asks one question in SQL.", add_help=True, allow_abbrev=False)
    for name, written in types_of(PreviewTerms).items():
        _add_term(parser, name, written)
    parser.add_argument("--preview", action="store_true", help="show price and error instead; free")
    parser.add_argument("--dummy", action="store_true", help="ask made-up rows instead; free")
    parser.add_argument("--on", metavar="NAME", help="the variable to ask: a curator, or what lw.connect(...) gave")
    parser.add_argument("--to", type=_name, metavar="NAME", help="a variable for the answer")
    return parser


def _find_target(names: Mapping[str, Any], named: str | None) -> Any:
    if named is not None:
        if named not in names or not _can_be_asked(names[named]):
            raise Misconfigured(f"`{named}` is not a curator or a connection. Make one: {named} = lw.connect(url).")
        return names[named]
    targets = {name: value for name, value in names.items() if not name.startswith("_") and _can_be_asked(value)}
    if not targets:
        raise Misconfigured("no variable is a curator or a connection. Make one: hospital = lw.connect(url).")
    if len({id(value) for value in targets.values()}) > 1:
        raise Misconfigured(f"several could be asked: {', '.join(sorted(targets))}. Say which: --on {min(targets)}.")
    return next(iter(targets.values()))


def _can_be_asked(value: Any) -> bool:
    kind = type(value)
    return kind.__module__.split(".")[0] == "lapwing" and all(hasattr(kind, way) for way in _WAYS)


def _add_term(parser: argparse.ArgumentParser, name: str, written: Any) -> None:
    """An option for a term; the name of one that was not written is not set."""
    term = TERMS[name]
    flag = next((flag for flag in term.flags if flag.startswith("--")), f"--{name.replace('_', '-')}")
    kind: dict[str, Any] = {"metavar": "X", "type": _reader(written)}
    if written == Params | None:
        kind = {"metavar": "NAME=VALUE", "action": "append"}
    elif written is bool:
        kind = {"action": "store_const", "const": not term.default}
    elif name == "limits":
        kind = {"choices": ["auto"]}
    parser.add_argument(flag, dest=name, default=argparse.SUPPRESS, help=term.option_help.replace("%", "%%"), **kind)


def _reader(written: Any) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return int(text) if written == int | None else read_term(written, text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number, nor bounds such as cost=0:500") from None

    return read


def _name(text: str) -> str:
    if not text.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} cannot be the name of a variable")
    return text
