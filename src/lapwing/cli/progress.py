"""That something is going on: a spinner and the seconds, for questions that take longer than one.

There is no percentage. How far an engine is depends on how many rows and groups it found, which nobody may see; how
long an answer took, whoever asked sees anyway. It is shown only where the errors of the program go to a terminal.
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
    """Shows these words while the block runs, and removes them after it."""
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
