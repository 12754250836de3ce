"""One transaction at a time: other threads wait, and signal handlers in the middle of one and forks are refused."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lapwing.errors import LedgerFailed


class Gate:
    """Guards a store inside one process."""

    def __init__(self, forked: str = "Open it in the process that uses it.") -> None:
        self.forked = forked
        """What the child of a fork should do."""
        self.lock = threading.RLock()  # a signal handler may come while its own thread holds it
        self.busy = False
        """Whether the thread that holds the lock is in the middle of something."""
        self.process = os.getpid()
        """The one that may use the store."""

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Excludes everyone else until it exits."""
        if self.process != os.getpid():
            raise LedgerFailed(
                "This ledger was opened before the process was forked, and a copy of it would spend the budget twice. "
                f"{self.forked}"
            )
        with self.lock:
            self._refuse_if_busy()
            try:
                self.busy = True
                yield
            finally:
                self.busy = False

    def refuse_interrupted(self) -> None:
        """Refuses whoever interrupts its own thread inside. Other threads are not waited for."""
        if self.lock.acquire(blocking=False):
            try:
                self._refuse_if_busy()
            finally:
                self.lock.release()

    def _refuse_if_busy(self) -> None:
        if self.busy:  # the lock keeps other threads out
            raise LedgerFailed(
                "A signal interrupted another question of this thread, which still holds the ledger. Ask when it "
                "is done; if it was abandoned, close the ledger and open it again. No answer is given."
            )
