"""Ctrl-C while the engine works: the engine stops, and the interrupt is passed on to the caller.

Python handles a signal only when the engine's call returns, which may take minutes. So while the main thread, the only
one that is ever interrupted, waits for the engine, signals also wake a thread that tells the engine to stop. That
thread lives as long as the process: starting one per question would take longer than most questions.
An interrupted question stays charged: its rows may have been read.

Theorem.  An interrupt stops the question it was sent to and no later one.
Proof.    A question has a ticket, and `stop` is called only under its lock, under which the ticket also ends. A signal
          reaches the pipe only between the two calls of set_wakeup_fd, on the main thread, and Python's own handler
          then marks the ticket as heard: installing a handler runs those that are pending first. A ticket that was
          heard waits, before it returns, until the thread has read all that is in the pipe. So no byte of one question
          is read during another.
Nested.   A handler of another signal may ask while a question runs or ends. Each question has a lock and a flag of its
          own, and each wait for the thread a number of its own, so the inner one waits for nothing that the outer
          holds. The outer ticket is back only after the wait: what was sent to the inner question stops no other.
Checked by: tests/engines/test_interrupt.py
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

_T = TypeVar("_T")
_PATIENCE = 0.05  # seconds between calls of `stop`: one that comes before the work has begun has no effect
_ENDS = range(128, 256)  # no signal has these numbers


def interruptible(work: Callable[[], _T], stop: Callable[[], None]) -> _T:
    """The result of the work. On an interrupt, `stop` is called until the work has ended."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):  # interrupts are ignored, or not handled by Python
        return work()
    results: list[_T] = []
    with _watcher(os.getpid()).calling(stop) as ticket:
        try:
            results.append(work())
        except Exception:
            if not ticket.heard:
                raise
    if ticket.heard:
        handler(signal.SIGINT, None)
        raise KeyboardInterrupt
    return results[0]


@dataclass(slots=True, eq=False)
class _Ticket:
    """One question: how to stop it, whether an interrupt was received, and whether it is over."""

    stop: Callable[[], None]
    heard: bool = False
    over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def hear(self, *_: object) -> None:
        """One step, so that a second signal may arrive in the middle."""
        self.heard = True


class _Watcher:
    """A thread that waits for signals and stops the question they were sent to."""

    def __init__(self) -> None:
        self._ticket: _Ticket | None = None
        self._reader, self._writer = os.pipe()
        self._elsewhere = -1
        self._waiting: dict[int, threading.Event] = {}
        os.set_blocking(self._writer, False)
        threading.Thread(target=self._watch, name="lapwing", daemon=True).start()

    @contextmanager
    def calling(self, stop: Callable[[], None]) -> Iterator[_Ticket]:
        """Interrupts are only received inside, and nothing is called after the end. The engine checks for interrupts
        too, and may wait for its own threads forever if it finds one."""
        ticket = _Ticket(stop)
        handler = signal.signal(signal.SIGINT, ticket.hear)
        outer, self._ticket = self._ticket, ticket  # a handler of another signal may ask while a question runs
        before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._elsewhere = self._elsewhere if before == self._writer else before
        try:
            yield ticket
        finally:
            with ticket.lock:
                self._ticket = None
                ticket.over.set()
            signal.set_wakeup_fd(before)
            signal.signal(signal.SIGINT, ticket.hear)  # runs the handler of a pending signal
            if ticket.heard:
                self._drain()
            signal.signal(signal.SIGINT, handler)
            self._ticket = outer
            if outer is not None and outer.heard:  # perhaps while it was away
                with suppress(BlockingIOError):
                    os.write(self._writer, bytes([signal.SIGINT]))

    def _drain(self) -> None:
        """Waits until the thread has read everything written so far."""
        read = threading.Event()
        number = next(number for number in _ENDS if number not in self._waiting)
        self._waiting[number] = read
        while not read.is_set():
            with suppress(BlockingIOError):
                os.write(self._writer, bytes([number]))
                read.wait()
        del self._waiting[number]

    def _watch(self) -> None:
        while True:
            numbers = os.read(self._reader, 64)
            if self._elsewhere != -1:
                with suppress(OSError):  # someone else waits for signals too
                    os.write(self._elsewhere, bytes(number for number in numbers if number not in _ENDS))
            if signal.SIGINT in numbers:
                self._stop()
            for number in numbers:
                if number in _ENDS:
                    self._waiting[number].set()

    def _stop(self) -> None:
        """Stops the question repeatedly until it is over. It is marked as interrupted, not as failed. It never waits
        long for the lock: a handler that interrupts the end of a question may need this thread first."""
        ticket = self._ticket
        while ticket is not None and self._ticket is ticket:
            if ticket.lock.acquire(timeout=_PATIENCE):
                try:
                    if self._ticket is ticket:
                        ticket.hear()
                        with suppress(Exception):
                            ticket.stop()
                finally:
                    ticket.lock.release()
            ticket.over.wait(_PATIENCE)


@lru_cache(maxsize=1)
def _watcher(_process: int) -> _Watcher:
    """One per process: a thread does not survive a fork."""
    return _Watcher()
