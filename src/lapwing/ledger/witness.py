"""A second memory of how far the ledger had come, kept beside the data.

The file has two lines of 256 bytes, each a head of the chain with a check sum; the one with the larger number counts.
A new head overwrites the older line and is synced before `advance` returns. If the machine stops in the middle, that
line does not pass its check and the other one still counts: so one sync suffices, and no rename.
Order: a head is written here only after its entry is durable in the ledger, and under a lock on the file; the file is
made under the ledger's write lock. So the ledger is never behind its witness, and the witness never goes back, unless
an older ledger was put there. A process that waited for the lock and finds a later head writes nothing: that head
proves its entry too, so concurrent charges share a sync. If a process hangs with the lock, others wait for `timeout`
seconds and then give no answer.
Checked by: tests/ledger/test_witness.py
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from lapwing.errors import LedgerFailed, Misconfigured
from lapwing.ledger.entry import Head, canonical

_LINE = 256
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.01  # seconds between two attempts to get the lock


@dataclass(frozen=True, slots=True)
class Witness:
    path: Path
    timeout: float = 30.0
    """How many seconds to wait for other processes."""

    @property
    def name(self) -> str:
        return f"the witness {self.path}"

    def read(self) -> Head | None:
        """The newest head it knows; None if there is no such file."""
        lines = self._lines()
        return None if lines is None else self._newest(lines)

    def advance(self, head: Head) -> None:
        """Makes it know this head durably, unless it knows a newer one. To create it takes the ledger's lock."""
        try:
            if not self.exists():
                self._create(head)
            else:  # what another process has written may not be synced yet; the lock waits for that
                self._overwrite(head)
        except OSError as error:
            raise self._failure("written", error) from None

    def exists(self) -> bool:
        """Whether there is such a file; an error if it is something else, since to open a pipe would wait forever."""
        try:
            _check_kind(os.stat(self.path))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._failure("read", error) from None
        return True

    def _knows(self, lines: list[Head | None], head: Head) -> bool:
        newest = self._newest(lines)
        if newest.ledger != head.ledger:
            raise Misconfigured(other_ledger(self.name, newest, head.ledger))
        if newest.seq == head.seq and newest.hash != head.hash:
            raise Misconfigured(altered(self.name, newest))
        return newest.seq >= head.seq

    def _lines(self) -> list[Head | None] | None:
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)  # to open a pipe would wait without end
            try:
                _check_kind(os.fstat(handle))
                raw = os.read(handle, 2 * _LINE)
            finally:
                os.close(handle)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failure("read", error) from None
        return [_parse(raw[:_LINE]), _parse(raw[_LINE:])]

    def _newest(self, lines: list[Head | None]) -> Head:
        heads = [head for head in lines if head is not None]
        if not heads:
            raise Misconfigured(
                f"The witness {self.path} is damaged: neither of its lines can be read. "
                "Check the ledger with `lapwing ledger verify`, then delete the witness; it will be written again."
            )
        return max(heads, key=lambda head: head.seq)

    def _create(self, head: Head) -> None:
        fresh = self.path.with_name(self.path.name + ".new")
        with open(fresh, "wb", buffering=0) as file:
            file.write(_format(head) * 2)
            os.fsync(file.fileno())
        os.replace(fresh, self.path)
        sync_folder(self.path.parent)

    def _overwrite(self, head: Head) -> None:
        handle = os.open(self.path, os.O_RDWR)
        try:
            self._lock(handle)
            try:
                if not os.fstat(handle).st_nlink:
                    raise OSError(errno.ENOENT, "it was removed meanwhile")
                raw = os.read(handle, 2 * _LINE)
                lines = [_parse(raw[:_LINE]), _parse(raw[_LINE:])]
                if not self._knows(lines, head):
                    offset = _LINE * (1 - lines.index(self._newest(lines)))
                    if os.pwrite(handle, _format(head), offset) < _LINE:
                        raise OSError(errno.EIO, "a part of it was not written")
                    getattr(os, "fdatasync", os.fsync)(handle)
            finally:
                fcntl.flock(handle, fcntl.LOCK_UN)  # a child that was forked meanwhile has the file open too
        finally:
            os.close(handle)

    def _lock(self, handle: int) -> None:
        """Tries again and again: the system has no lock with a timeout."""
        deadline, pause = time.monotonic() + self.timeout, _SHORTEST_PAUSE
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    break
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        raise LedgerFailed(
            f"The witness {self.path} was locked by another process for more than {self.timeout:g} seconds. No answer "
            "is given. Look for a process that hangs and end it; the lock ends with it."
        )

    def _failure(self, what: str, error: OSError) -> LedgerFailed:
        return LedgerFailed(
            f"The witness {self.path} could not be {what} ({error.strerror}). No answer is given without it. "
            "Check the folder and the free space, or name a witness that can be written."
        )


def missing_ledger(source: str, seen: Head, place: str) -> str:
    return (
        f"There is no ledger at {place}, but {source} has seen ledger {seen.ledger} up to entry {seen.seq}: it was "
        "moved or deleted. Put its newest copy back. If it is lost, what was spent is unknown, and the whole budget "
        "must be taken as spent."
    )


def other_ledger(source: str, seen: Head, ledger: str) -> str:
    return (
        f"This is ledger {ledger}, but {source} has seen ledger {seen.ledger}: these data were served under that one, "
        "and a new one would spend the same people's budget again. Open the other ledger."
    )


def rolled_back(source: str, seen: Head, last: int) -> str:
    return (
        f"The ledger ends at entry {last}, but {source} has seen entry {seen.seq}: an older copy was put back. "
        "What the missing entries charged would be spent again. Put back the newest copy."
    )


def altered(source: str, seen: Head) -> str:
    return (
        f"Entry {seen.seq} is not the one that {source} has seen: the ledger was changed. "
        "Put back the newest copy that was not changed."
    )


def sync_folder(folder: Path) -> None:
    """Makes a new name in a folder durable, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _check_kind(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")


def _format(head: Head) -> bytes:
    facts = {"ledger": head.ledger, "seq": head.seq, "hash": head.hash, "check": _check(head)}
    return canonical(facts).encode().ljust(_LINE - 1) + b"\n"


@lru_cache(maxsize=16)
def _parse(line: bytes) -> Head | None:
    try:
        facts = json.loads(line)
        head = Head(str(facts["ledger"]), int(facts["seq"]), str(facts["hash"]))
    except (ValueError, TypeError, KeyError, OverflowError):
        return None
    return head if facts.get("check") == _check(head) and len(line) == _LINE else None


def _check(head: Head) -> str:
    return sha256(f"{head.ledger} {head.seq} {head.hash}".encode()).hexdigest()[:16]
