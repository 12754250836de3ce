"""`lapwing demo --serve`: the console on the bundled data, with links for an analyst and a steward that work once."""

from __future__ import annotations

from lapwing.cli.demo import write_folder
from lapwing.cli.options import need_server
from lapwing.cli.output import echo
from lapwing.curator.settings import read_settings
from lapwing.ledger import open_ledger


def run_console() -> None:
    """Serves until it is stopped."""
    need_server("Consoles")
    from lapwing.server.console.sessions import ConsoleSessions
    from lapwing.server.run import prepare, run
    from lapwing.server.tokens import Role, TokenBook

    file = write_folder() / "lapwing.toml"
    serve, _ = prepare(file)
    settings = read_settings(file)
    with open_ledger(settings.ledger, settings.budget, witness=settings.witnesses) as ledger:
        book = TokenBook(ledger)
        for role in (Role.ANALYST, Role.STEWARD):
            token, _ = book.add(f"demo-{role}", role, days=1)
            code = ConsoleSessions(ledger, book).invite(token)
            echo(f"{role:8} http://{serve.host}:{serve.port}/console/sign-in#code={code}")
    echo("Each link works once, within ten minutes. Use two browsers or a private window to be both.")
    run(file, serve, say=echo)
