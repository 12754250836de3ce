"""A progress indicator: a spinner and the elapsed time, for questions that take longer than a second.

There is no percentage. An engine's progress depends on how many rows and groups it found, which is private; how
long an answer took, the caller sees anyway. It is shown only if standard error is a terminal.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 1.0
"""Seconds before anything is shown."""


@contextmanager
def waiting(words: str) -> Iterator[None]:
    """Shows a message while the block runs."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_show, args=(words, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show(words: str, done: threading.Event) -> None:
    if done.wait(PATIENCE):
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(words, total=None)
        done.wait()
