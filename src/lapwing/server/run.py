"""`lapwing serve`: opens the curator, makes the first token if there is none, and runs the workers.

Signals:    a supervisor starts the workers and replaces one that dies. SIGINT and SIGTERM stop it: no new connections,
            up to 30 s for running requests, then charged answers that wait for their time are stored, so that a retry
            with the same key finds them. SIGHUP restarts the workers one by one with a fresh lapwing.toml. Workers
            ignore other signals that would end them without this.
Orphans:    a worker whose parent is gone ends as by SIGTERM.
Checked by: tests/server/test_signals.py
"""

from __future__ import annotations

import logging
import os
import resource
import signal
import ssl
import sys
import warnings
from collections.abc import Callable
from multiprocessing import parent_process
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from lapwing.curator.opening import load
from lapwing.curator.settings import open_marks, read_settings
from lapwing.errors import LapwingError, Misconfigured
from lapwing.ledger import open_ledger
from lapwing.server.log import LOGGER, JsonLines, note_failed_start
from lapwing.server.settings import ServeSettings, read_serve
from lapwing.server.tokens import Role, TokenBook, write_secret
from lapwing.sockets import listen

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_FILE = "LAPWING_SERVE_FILE"
"""Tells workers which settings file they serve."""
_LEFT_TO_PARENT = (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def prepare(file: Path) -> tuple[ServeSettings, Path | None]:
    """Checks a settings file and creates the first steward's token; its file, if it was created now."""
    settings = read_settings(file)
    serve = read_serve(settings.serve, file.parent)
    check_certificate(serve)
    load(file).close()  # what is wrong with the data or the ledger is said before a worker starts
    with open_ledger(settings.ledger, settings.budget, witness=settings.witnesses) as ledger:
        book = TokenBook(ledger)
        if book.all():
            return serve, None
        folder = settings.ledger.parent if isinstance(settings.ledger, Path) else file.parent / ".lapwing"
        secret_file = folder / "steward.token"
        token, _ = book.add("steward", Role.STEWARD)
        write_secret(secret_file, token)
        return serve, secret_file


def check_certificate(serve: ServeSettings) -> None:
    """Refuses certificate files on which every worker would fail to start."""
    certificate, key = serve.tls_certificate, serve.tls_key
    if certificate is None or key is None:
        return
    for path in (certificate, key):
        if not path.is_file():
            raise Misconfigured(f"{path} is not a file. Name the certificate and the key of the server.")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ValueError) as error:  # what OpenSSL raises is an OSError
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or "it is encrypted"
        raise Misconfigured(
            f"{certificate} and {key} are no certificate with its key ({str(why).lower().replace('_', ' ')}). Both are "
            "PEM files, the key without a passphrase, and readable by who runs the server."
        ) from None


def run(file: Path, serve: ServeSettings, *, say: Callable[[str], None]) -> None:
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
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=20,
        timeout_graceful_shutdown=30,
        timeout_worker_healthcheck=60,  # a busy machine may take long to start a worker, or to let it say that it lives
    )
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold rows
    with listen(serve.host, serve.port, "Write another `serve.port` or `serve.host`.") as at:
        host, port = f"[{serve.host}]" if ":" in serve.host else serve.host, at.getsockname()[1]
        say(f"Serving {file} on {scheme}://{host}:{port}. Stop it with Ctrl-C.")
        write_logs()
        Multiprocess(config, sockets=[at]).run()


def worker() -> ASGIApp:
    """The application of one worker process."""
    from lapwing.server.app import create_app
    from lapwing.server.service import Service

    follow_parent()
    write_logs()
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # the command line says what is worth a warning
    file = Path(os.environ[_FILE])
    try:
        settings = read_settings(file)
        serve = read_serve(settings.serve, file.parent)
        return create_app(Service(load(file), serve, settings.answer_times, open_marks(file)))
    except LapwingError as error:
        note_failed_start(error)
        sys.exit(1)


def follow_parent() -> None:
    """Leaves signals to the parent, whose terminal or manager sends them to all, and ends when it is gone."""
    for name in _LEFT_TO_PARENT:
        signal.signal(name, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        Thread(target=_end_after, args=(parent,), name="parent", daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def write_logs() -> None:
    """Log lines go to standard output, one JSON object each; those of the web server too."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonLines())
    for logger, level in ((LOGGER, logging.INFO), (logging.getLogger("uvicorn"), logging.WARNING)):
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False
