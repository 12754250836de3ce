"""The folder for what does not fit into engine memory. Only this user can read it, since it holds private rows.

A killed process removes nothing. So each process keeps a file in its folder locked as long as it lives, and the next
one removes the folders of this user that are not locked. The name `lock` appears only when the lock is held; a folder
without it is not touched, because its process may just be starting.
Checked by: tests/engines/test_temp_folder.py
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_PREFIX, _LOCK = "lapwing-temp-", "lock"


class TempFolder:
    """One folder, created with this object and removed by `remove`."""

    def __init__(self) -> None:
        _remove_abandoned()
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._process = os.getpid()
        self._lock: int | None = _lock(self.path)

    def remove(self) -> None:
        """Removes the folder; does nothing in a forked child, since the folder is the parent's."""
        if self._process != os.getpid():
            return
        shutil.rmtree(self.path, ignore_errors=True)
        handle, self._lock = self._lock, None
        if handle is not None:
            os.close(handle)


def _lock(folder: Path) -> int:
    """A locked file in the folder, open until closed or until the process ends."""
    fresh = folder / f"{_LOCK}.new"
    handle = os.open(fresh, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    with suppress(OSError):  # without file locks, only this process removes the folder
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(fresh, folder / _LOCK)
    return handle


def _remove_abandoned() -> None:
    """Removes the folders of this user whose processes are gone. What cannot be removed is left for later."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.is_symlink() or folder.lstat().st_uid != os.getuid():
                continue
            handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)
