"""Reports in memory, for a demonstration: they are gone when the process ends."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from lapwing.errors import Misconfigured
from lapwing.survey.store import OTHER_SURVEY, Invited, Kept


class MemorySurveyStore:
    """A store without a file."""

    name = "memory"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bound: tuple[str, str] | None = None
        self._reports: dict[bytes, bytes] = {}
        self._used: dict[bytes, bool] = {}

    def prepare(self, survey: str, key: str) -> str:
        with self._lock:
            if self._bound is not None and self._bound[0] != survey:
                if self._reports or self._used:
                    raise Misconfigured(OTHER_SURVEY.format(name=self.name))
                self._bound = (survey, self._bound[1])
            self._bound = self._bound or (survey, key)
            return self._bound[1]

    def survey(self) -> str | None:
        return self._bound[0] if self._bound else None

    def add(self, nonce: bytes, report: bytes, invitation: bytes | None = None) -> Kept:
        with self._lock:
            if nonce in self._reports:
                return Kept.ALREADY if self._reports[nonce] == report else Kept.NONCE_TAKEN
            if invitation is not None:
                if invitation not in self._used:
                    return Kept.INVITATION_UNKNOWN
                if self._used[invitation]:
                    return Kept.INVITATION_USED
                self._used[invitation] = True
            self._reports[nonce] = report
            return Kept.STORED

    def count(self) -> int:
        return len(self._reports)

    def reports(self) -> list[bytes]:
        with self._lock:
            return [report for _, report in sorted(self._reports.items())]

    def invite(self, hashes: Iterable[bytes]) -> None:
        with self._lock:
            self._used = {**dict.fromkeys(hashes, False), **self._used}

    def invited(self) -> Invited:
        with self._lock:
            return Invited(len(self._used), sum(self._used.values()))

    def close(self) -> None:
        """There is nothing to end."""
