"""Loggers of other packages, silent in a thread while Lapwing works in it: their messages quote questions and rows."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Mute(logging.Filter):
    """Drops what a thread logs while it is inside `quiet`."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002
        return not getattr(self.depth, "value", 0)


_MUTE = _Mute()


@contextmanager
def quiet(*loggers: logging.Logger) -> Iterator[None]:
    """Inside, these loggers write nothing that this thread logs."""
    for logger in loggers:
        if _MUTE not in logger.filters:
            logger.addFilter(_MUTE)
    _MUTE.depth.value = getattr(_MUTE.depth, "value", 0) + 1
    try:
        yield
    finally:
        _MUTE.depth.value -= 1
