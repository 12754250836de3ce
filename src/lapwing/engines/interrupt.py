"""Ctrl-C while the engine works: the engine stops, and the interrupt goes on to whoever asked.

Python looks at a signal only when the engine's call returns, which may take minutes. So while the main thread, the only
one that is ever interrupted, waits for the engine, signals also wake a thread that tells the engine to stop. That
thread lives as long as the process: to start one for each question would take longer than most questions.
A question that was interrupted stays charged: its rows may have been read.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TypeVar

_T = TypeVar("_T")
_PATIENCE = 0.05  # seconds between two calls of `stop`: one that comes before the work has begun is not heard


def interruptible(work: Callable[[], _T], stop: Callable[[], None]) -> _T:
    """The result of the work. At an interrupt `stop` is called until the work has ended."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):  # interrupts are ignored, or not Python's to handle
        return work()
    watcher, results = _watcher(os.getpid()), []
    with watcher.calling(stop):
        try:
            results.append(work())
        except Exception:
            if not watcher.heard.is_set():
                raise
    if watcher.heard.is_set():
        handler(signal.SIGINT, None)
        raise KeyboardInterrupt
    return results[0]


class _Watcher:
    """A thread that waits for signals and calls what shall be called at an interrupt."""

    def __init__(self) -> None:
        self.heard = threading.Event()
        self._stop: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self._reader, self._writer = os.pipe()
        self._before = -1
        os.set_blocking(self._writer, False)
        threading.Thread(target=self._watch, name="lapwing", daemon=True).start()

    @contextmanager
    def calling(self, stop: Callable[[], None]) -> Iterator[None]:
        """Interrupts are only heard inside, and nothing is called after the end.

        The engine looks for interrupts too, and may wait for its own threads for ever if it finds one.
        """
        with self._lock:
            self.heard.clear()
            self._stop = stop
        handler = signal.signal(signal.SIGINT, lambda *_: self.heard.set())
        self._before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(self._before)
            signal.signal(signal.SIGINT, handler)
            with self._lock:
                self._stop = None

    def _watch(self) -> None:
        while True:
            numbers = os.read(self._reader, 64)
            if self._before != -1:
                with suppress(OSError):
                    os.write(self._before, numbers)  # somebody else waits for signals too
            if signal.SIGINT in numbers:
                while self._told():
                    time.sleep(_PATIENCE)

    def _told(self) -> bool:
        """Whether there was work to stop. What is stopped is always heard: else it would look like a failure."""
        with self._lock:
            if self._stop is None:
                return False
            self.heard.set()
            with suppress(Exception):
                self._stop()
            return True


@lru_cache(maxsize=1)
def _watcher(_process: int) -> _Watcher:
    """One for each process: a thread does not survive a fork."""
    return _Watcher()
