"""`lapwing serve`: the server."""

from __future__ import annotations

from typing import Annotated

import typer

from lapwing.cli.options import DEFAULT, FileOption
from lapwing.cli.output import echo


def serve(
    file: FileOption = DEFAULT,
    check: Annotated[bool, typer.Option("--check", help="Check the settings, make the first token, and stop.")] = False,
) -> None:
    r"""Answer questions over HTTP, for people who do not trust each other. \[serve] in lapwing.toml says how."""
    from lapwing.cli.doctor import need_server

    need_server("Servers")
    from lapwing.server.run import prepare, run

    settings, token = prepare(file)
    if token is not None:
        echo(f"The first steward's token is in {token}. Only its owner can read it; keep it that way.")
    if check:
        return echo(f"{file} can be served: {settings.workers} worker(s) on {settings.host}, port {settings.port}.")
    run(file, settings, say=echo)
