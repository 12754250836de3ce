"""Options that commands share. Those of a question are made from the one list of terms; numbers are exact decimals."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from lapwing.errors import Misconfigured
from lapwing.terms import TERMS, read_decimal, read_term, types_of

_F = TypeVar("_F", bound=Callable[..., Any])

DEFAULT = Path("lapwing.toml")

FileOption = Annotated[Path, typer.Option("--file", "-f", help="The settings file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
CsvOption = Annotated[
    bool,
    typer.Option("--csv", help="Print CSV with intervals; formulas are guarded on a terminal."),
]
ExplainOption = Annotated[bool, typer.Option("--explain", help="Also show how the answer was made.")]
PreviewOption = Annotated[bool, typer.Option("--preview", help="Only show price and errors. Free.")]


def takes_options(kind: Any) -> Callable[[_F], _F]:
    """Makes an option of each term of a kind, after the arguments of a command that takes them as keywords."""

    def made(command: _F) -> _F:
        signature, types = inspect.signature(command, eval_str=True), types_of(kind)
        written = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        first, *rest = (one.replace(kind=one.KEYWORD_ONLY) for one in written)
        own = [first, *(_option(name, types[name]) for name in types if name not in signature.parameters), *rest]
        command.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in own}
        return command

    return made


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
    return bool if written is bool else int if written in (int, int | None) else str


def read_terms(kind: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The terms that were named, as `curator.sql` takes them."""
    named: dict[str, Any] = {}
    types = types_of(kind)
    for name, value in options.items():
        term = TERMS[name]
        if isinstance(value, bool):
            named |= {name: not term.default} if value else {}
        elif value is not None and str(value) != str(term.default):
            named[name] = _read(types[name], name, value) if isinstance(value, str) else value
    return named


def _read(written: Any, name: str, text: str) -> Any:
    try:
        return read_term(written, text)
    except ValueError:
        raise _wrong(name.replace("_", "-"), text) from None


def read_number(text: str, name: str) -> Any:
    try:
        return read_decimal(text)
    except ValueError:
        raise _wrong(name, text) from None


def _wrong(name: str, text: str) -> Misconfigured:
    return Misconfigured(f"`--{name}` is {text!r}; it must be a number, for example 0.1.")


def check_formats(as_json: bool, as_csv: bool) -> None:
    """Refuses two formats at once, before anything is asked."""
    if as_json and as_csv:
        raise Misconfigured("--json and --csv are two formats of one answer. Pass one of them. Nothing was charged.")
