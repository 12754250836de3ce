"""Sockets that another process has, looked at from here."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

_PIDFD_GETFD = 438  # the same number on every architecture


def sockets_of(pid: int) -> Iterator[socket.socket]:
    """A copy of every TCP socket of a process of this user."""
    process = os.pidfd_open(pid)
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(FileNotFoundError):  # it has been closed meanwhile
                if os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                    yield from _copied(process, int(name))
    finally:
        os.close(process)


def is_immediate(pid: int, client: socket.socket) -> bool | None:
    """Whether a process sends what it writes to this client at once; None if it does not serve that client."""
    mine, found = client.getsockname()[:2], None
    for one in sockets_of(pid):
        with one, suppress(OSError):  # it listens, or is no longer connected
            if one.getpeername()[:2] == mine:
                found = bool(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
    return found


def _copied(process: int, descriptor: int) -> Iterator[socket.socket]:
    copy = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_GETFD, process, descriptor, 0)
    if copy >= 0:
        found = socket.socket(fileno=copy)
        if found.family in (socket.AF_INET, socket.AF_INET6):
            yield found
        else:
            found.close()
    elif ctypes.get_errno() in (errno.ENOSYS, errno.EPERM):
        pytest.skip("this system does not let a process look at the sockets of its children")
