"""`lapwing serve`: opens the curator, makes the first token if there is none, and runs the workers."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lapwing.errors import Misconfigured
from lapwing.ledger import open_ledger
from lapwing.listening import listen
from lapwing.opening.settings import load
from lapwing.server.log import LOGGER
from lapwing.server.settings import ServeSettings, read_serve
from lapwing.server.tokens import Role, TokenBook, write_secret
from lapwing.settings import read_settings

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_FILE = "LAPWING_SERVE_FILE"
"""Tells workers which settings file they serve."""


def prepare(file: Path) -> tuple[ServeSettings, Path | None]:
    """Checks what a settings file declares, and makes the first steward's token; where it is, if it was made now."""
    settings = read_settings(file)
    serve = read_serve(settings.serve, file.parent)
    for path in filter(None, (serve.tls_certificate, serve.tls_key)):
        if not path.is_file():
            raise Misconfigured(f"{path} is not a file. Name the certificate and the key of the server.")
    load(file).close()  # what is wrong with the data or the ledger is said before a worker starts
    with open_ledger(settings.ledger, settings.budget, witness=settings.witnesses) as ledger:
        book = TokenBook(ledger)
        if book.all():
            return serve, None
        here = settings.ledger.parent if isinstance(settings.ledger, Path) else file.parent / ".lapwing"
        place = here / "steward.token"
        token, _ = book.add("steward", Role.STEWARD)
        write_secret(place, token)
        return serve, place


def run(file: Path, serve: ServeSettings, *, say: Callable[[str], None]) -> None:
    """Serves until it is stopped."""
    import uvicorn
    from uvicorn.supervisors import Multiprocess

    os.environ[_FILE] = str(file.resolve())
    scheme = "http" if serve.tls_certificate is None else "https"
    config = uvicorn.Config(
        "lapwing.server.run:worker",
        factory=True,
        workers=serve.workers,
        ssl_certfile=None if serve.tls_certificate is None else str(serve.tls_certificate),
        ssl_keyfile=None if serve.tls_key is None else str(serve.tls_key),
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=20,
        timeout_graceful_shutdown=30,
    )
    with listen(serve.host, serve.port, "Write another `serve.port` or `serve.host`.") as at:
        host, port = f"[{serve.host}]" if ":" in serve.host else serve.host, at.getsockname()[1]
        say(f"Serving {file} on {scheme}://{host}:{port}. Stop it with Ctrl-C.")
        Multiprocess(config, sockets=[at]).run()


def worker() -> ASGIApp:
    """The application of one worker process."""
    from lapwing.server.app import create_app
    from lapwing.server.service import Service

    write_logs()
    file = Path(os.environ[_FILE])
    settings = read_settings(file)
    serve = read_serve(settings.serve, file.parent)
    return create_app(Service(load(file), serve, settings.answer_times))


def write_logs() -> None:
    """Log lines go to standard output, one JSON object each."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    LOGGER.handlers = [handler]
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
