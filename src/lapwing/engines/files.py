"""Data files: only the named file is read, and changed content is detected.

Guarantee:  a changed byte is noticed when the file is opened and before every question, unless the system reports the
            same device, inode, size and times as before. A copy with the same bytes is the same data.
Proof:      the fingerprint is the SHA-256 of all bytes. It is computed once for each state that the system reports, of
            which the time of change (ctime) cannot be set by a program and also follows who may read the file; a state
            that began less than two seconds ago is not remembered, since a write in the same tick of the clock would
            not change it.
Checked by: tests/engines/test_files.py
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from functools import lru_cache
from pathlib import Path

import duckdb

from lapwing.engines.connection import run
from lapwing.errors import Misconfigured

_TICK = 2_000_000_000
"""Nanoseconds; no file system has coarser timestamps."""

_State = tuple[int, int, int, int, int]


def check_file(path: Path) -> None:
    """Refuses anything but a readable regular file: opening a pipe could block forever."""
    name = path.name.encode(errors="replace").decode()
    try:
        mode = path.stat().st_mode
        readable = not stat.S_ISREG(mode) or os.access(path, os.R_OK)
        str(path.resolve()).encode()
    except (OSError, ValueError):  # ValueError: a null byte, or bytes that are not UTF-8
        readable, mode = False, 0
    if not readable:
        raise Misconfigured(f"`{name}` cannot be opened. Check the path and the permissions.")
    if stat.S_ISDIR(mode):
        raise Misconfigured(f"`{name}` is a folder. Pass one file.")
    if not stat.S_ISREG(mode):
        raise Misconfigured(f"`{name}` is a pipe or a device. Write the rows to a file and pass that.")


def pattern_of(path: Path, connection: duckdb.DuckDBPyConnection) -> str:
    """A glob pattern that matches only this file: the engine treats every file name as a pattern.

    The engine's matches are compared with the name, so nothing depends on knowing all its special characters.
    """
    check_file(path)
    whole = str(path.resolve())
    pattern = re.sub(r"[*?\[]", r"[\g<0>]", whole)
    quoted = pattern.replace("'", "''")  # a query parameter would make the engine load pandas
    if run(connection, f"SELECT file FROM glob('{quoted}')") != [(whole,)]:
        raise Misconfigured(
            f"the engine cannot read a file named `{path.name}`. Rename it, with letters and digits only."
        )
    return pattern


def digest_of(path: Path) -> bytes:
    """The SHA-256 of a file's content."""
    try:
        state = _state(path.stat())
    except (OSError, ValueError):
        check_file(path)
        raise Misconfigured(f"`{path.name}` changed while being read. Try again when the write has finished.") from None
    stable = time.time_ns() - state[-1] > _TICK
    return _remembered(path, state) if stable else _digest(path, state)


def _digest(path: Path, state: _State) -> bytes:
    check_file(path)  # its kind and who may read it are part of its state
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").digest()
        if _state(os.fstat(file.fileno())) != state:
            raise Misconfigured(f"`{path.name}` changed while being read. Try again when the write has finished.")
    return found


_remembered = lru_cache(maxsize=64)(_digest)


def _state(status: os.stat_result) -> _State:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
