"""Ctrl-C while the engine works: the engine stops, and the interrupt goes on to whoever asked.

A question that was interrupted stays charged: its rows may have been read. Only the main thread of a program is ever
interrupted, so only there does the work move to a thread of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_T = TypeVar("_T")
_PATIENCE = 0.05  # seconds between two calls of `stop`: one that comes before the work has begun is not heard


def interruptible(work: Callable[[], _T], stop: Callable[[], None]) -> _T:
    """The result of the work. At an interrupt `stop` is called until the work has ended."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    result: Future[_T] = Future()
    thread = threading.Thread(target=_work, args=(work, result), name="lapwing", daemon=True)
    try:
        thread.start()
        return result.result()
    except KeyboardInterrupt:
        while thread.is_alive():
            stop()
            thread.join(_PATIENCE)
        raise


def _work(work: Callable[[], _T], result: Future[_T]) -> None:
    try:
        result.set_result(work())
    except BaseException as error:  # noqa: BLE001 (raised again by whoever waits for it)
        result.set_exception(error)
