"""Options that commands share, and what they open. Options of a question are made from the one list of terms."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from lapwing.errors import Misconfigured
from lapwing.terms import TERMS, Number, Params, read_term, takes_bounds, types_of

if TYPE_CHECKING:
    from lapwing.curator import Curator
    from lapwing.ledger import Ledger

_F = TypeVar("_F", bound=Callable[..., Any])

DEFAULT = Path("lapwing.toml")
OPENED = ExitStack()
"""Curators and ledgers that a command opened, to be closed at its end."""

FileOption = Annotated[Path, typer.Option("--file", "-f", help="The settings file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
CsvOption = Annotated[
    bool,
    typer.Option("--csv", help="Print CSV with intervals; formulas are guarded on a terminal."),
]
ExplainOption = Annotated[bool, typer.Option("--explain", help="Also show how the answer was made.")]
PreviewOption = Annotated[bool, typer.Option("--preview", help="Only show price and errors. Free.")]


OUTPUT: Mapping[str, tuple[Any, Any]] = {
    "only_preview": (PreviewOption, False),
    "as_json": (JsonOption, False),
    "as_csv": (CsvOption, False),
    "explain": (ExplainOption, False),
    "file": (FileOption, DEFAULT),
}
"""How the answer to a request is printed: its options and their defaults."""


def takes_options(kind: Any, *, output: bool = False, without: Collection[str] = ()) -> Callable[[_F], _F]:
    """Makes an option of each term of a kind but these, after the arguments of a command that takes them as keywords;
    with `output` those of OUTPUT too."""

    def decorate(command: _F) -> _F:
        signature, types = inspect.signature(command, eval_str=True), types_of(kind)
        written = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        first, *rest = (p.replace(kind=p.KEYWORD_ONLY) for p in written)
        own = [first, *(_option(n, types[n]) for n in types if n not in signature.parameters and n not in without)]
        shown = OUTPUT.items() if output else ()
        own += [*rest, *(first.replace(name=n, default=default, annotation=a) for n, (a, default) in shown)]
        command.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in own}
        return command

    return decorate


def take_output(given: dict[str, Any]) -> dict[str, Any]:
    """Takes the options of OUTPUT from all that were given; raises Misconfigured for two formats at once."""
    output = {name: given.pop(name) for name in OUTPUT}
    check_formats(output["as_json"], output["as_csv"])
    return output


def _option(name: str, written: Any) -> inspect.Parameter:
    term, kind = TERMS[name], _typed(written)
    flags = term.flags or (f"--{name.replace('_', '-')}",)
    default = term.default if kind is not str or term.default is None else str(term.default)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if kind is bool else default,
        annotation=Annotated[kind if default is not None else kind | None, typer.Option(*flags, help=term.option_help)],
    )


def _typed(written: Any) -> Any:
    """Numbers are read from their text, exactly."""
    if written == Params | None or takes_bounds(written):
        return list[str]
    return bool if written is bool else int if written in (int, int | None) else str


def read_terms(kind: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The terms that were named, as `curator.sql` takes them."""
    named: dict[str, Any] = {}
    types = types_of(kind)
    for name, value in options.items():
        term = TERMS[name]
        if isinstance(value, list) and takes_bounds(types[name]):
            value = ",".join(value) or None
        if isinstance(value, bool):
            named |= {name: not term.default} if value else {}
        elif value is not None and str(value) != str(term.default):
            named[name] = read_number(value, name, types[name]) if isinstance(value, str) else value
            if isinstance(value, list):
                named[name] = read_term(types[name], value)
    return named


def read_number(text: str, name: str, kind: Any = Number) -> Any:
    """An exact number, or the value of a term of this type."""
    try:
        return read_term(kind, text)
    except ValueError:
        wanted = "bounds by column, such as cost=0:500" if name == "bounds" else "a number, for example 0.1"
        raise Misconfigured(f"`--{name.replace('_', '-')}` is {text!r}; it must be {wanted}.") from None


def check_formats(as_json: bool, as_csv: bool) -> None:
    """Refuses two formats at once, before asking."""
    if as_json and as_csv:
        raise Misconfigured("--json and --csv are two formats of one answer. Pass one of them. Nothing was charged.")


def curator_at(file: Path) -> Curator:
    from lapwing.curator import load

    return OPENED.enter_context(load(file))


def ledger_at(file: Path) -> Ledger:
    from lapwing.curator.settings import read_settings
    from lapwing.ledger import open_ledger

    settings = read_settings(file)
    return OPENED.enter_context(open_ledger(settings.ledger, settings.budget, witness=settings.witnesses))


def need_server(what: str) -> None:
    """Says how to install what only a server needs."""
    from lapwing.answers.formats import load

    for package in ("fastapi", "uvicorn", "jinja2"):
        load(package, what=what, install="'lapwing[server]'")
