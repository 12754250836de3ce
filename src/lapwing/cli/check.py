"""`lapwing check`: how well the declared facts fit the rows, for the steward's eyes."""

from __future__ import annotations

import getpass
import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from lapwing.cli.options import DEFAULT, JsonOption, ledger_at
from lapwing.cli.output import echo, show
from lapwing.errors import Misconfigured

_PRIVATE = "What follows is exact and private. Do not show it to analysts."
_LEAKS = (
    "A fact that you change because of this look depends on the rows. The ledger records that you looked; "
    "prefer what is publicly known."
)


def check(
    file: Annotated[Path, typer.Argument(help="The settings file.")] = DEFAULT,
    yes: Annotated[bool, typer.Option("--yes", help="Look without asking.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write to this file, readable by you alone.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Count exactly how well declared facts fit the rows. For the steward only."""
    from lapwing.curator.fit import facts_of, record_look
    from lapwing.curator.settings import open_marks, read_settings

    settings = read_settings(file)
    if not yes:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise Misconfigured("`lapwing check` prints exact, private counts. Run it in a terminal, or pass --yes.")
        typer.confirm("This reads all rows and prints exact, private counts. Continue?", abort=True)
    if out is not None and out.exists():
        raise Misconfigured(f"{out} exists. Name another file.")
    record_look(ledger_at(file), _who())
    facts, marks = facts_of(settings), open_marks(file)
    fitting = sum(fact.misfits == 0 for fact in facts)
    lines = [_PRIVATE, *(str(fact) for fact in facts if fact.misfits), f"{fitting} of {len(facts)} facts fit all rows."]
    lines += ["Still marked REVIEW:", *(f"  line {mark}" for mark in marks)] if marks else []
    result = {"private": True, "facts": [fact.to_dict() for fact in facts], "review": marks}
    text = "\n".join([*lines, _LEAKS])
    if out is None:
        return show(result, as_json, text)
    try:
        with os.fdopen(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as written:
            written.write((json.dumps(result) if as_json else text) + "\n")
    except OSError as error:
        raise Misconfigured(f"{out} cannot be written ({error.strerror}). Name another file.") from None
    echo(f"Wrote {out}, readable by you alone.")


def _who() -> str:
    """Who looks; a user of a container may have a number and no name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"
