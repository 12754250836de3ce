"""One transaction at a time: other threads wait, and signal handlers in the middle of one and forks are refused.

A fork waits until no thread is inside SQLite, whose locks a child would inherit with no thread to release them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Protocol
from weakref import WeakSet

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
            if self.busy:  # the lock keeps other threads out
                raise _interrupted()
            try:
                self.busy = True
                yield
            finally:
                self.busy = False

    def refuse_interrupted(self) -> None:
        """Refuses an interrupt of the thread inside. Does not wait for other threads."""
        if self.lock.acquire(blocking=False):
            busy = self.busy
            self.lock.release()
            if busy:
                raise _interrupted()

    def fork_begins(self, timeout: float = 30.0) -> bool:
        """Keeps the lock during a fork. False if it is in use for too long."""
        if not self.lock.acquire(timeout=timeout):
            return False
        if self.busy:
            self.lock.release()
        return not self.busy

    def fork_ends(self, *, in_child: bool) -> None:
        """Releases the lock. The child is still refused."""
        del in_child
        self.lock.release()


def _interrupted() -> LedgerFailed:
    return LedgerFailed(
        "A signal interrupted another question of this thread, which still holds the ledger. Ask when it "
        "is done; if it was abandoned, close the ledger and open it again. No answer is given."
    )


class Forked(Protocol):
    """What must be idle during a fork."""

    def fork_begins(self) -> bool:
        """Keeps it idle. False if it is in use for too long."""

    def fork_ends(self, *, in_child: bool) -> None:
        """Lets it be used again."""


class ForkGuard:
    """Keeps all stores idle during a fork."""

    stores: ClassVar[WeakSet[Forked]] = WeakSet()
    held: ClassVar[list[Forked]] = []
    inherited: ClassVar[list[object]] = []
    """Connections of the parent, which the child must not close."""
    lock = threading.RLock()  # a signal handler may open a store too

    @classmethod
    def watch(cls, store: Forked) -> None:
        with cls.lock:
            cls.stores.add(store)

    @classmethod
    def begins(cls) -> None:
        cls.lock.acquire()
        for store in list(cls.stores):
            if store.fork_begins():
                cls.held.append(store)

    @classmethod
    def ends(cls, *, in_child: bool) -> None:
        held, cls.held = cls.held, []
        for store in held:
            store.fork_ends(in_child=in_child)
        cls.lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=ForkGuard.begins,
        after_in_parent=lambda: ForkGuard.ends(in_child=False),
        after_in_child=lambda: ForkGuard.ends(in_child=True),
    )
