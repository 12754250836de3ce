"""Limits of one client: the size and depth of a body, the time it takes to arrive, and the rate of requests."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable

from starlette.types import Receive

from lapwing.server.problems import ServerProblem

MOST_BYTES = 1_000_000
MOST_DEPTH = 20
"""The deepest nesting of lists and objects."""
SECONDS = 10.0
"""How long a body may take to arrive."""
_TEXTS, _BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL), re.compile(rb"[\[\]{}]")
_FORGET = 10_000  # principals whose rate is remembered


async def read_body(headers: dict[bytes, bytes], receive: Receive) -> bytes:
    """The whole body of a request, if it is uncompressed JSON, short, flat, and arrives in time."""
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise ServerProblem("unsupported-body", part="Content-Encoding")
    kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    if kind != b"application/json":
        raise ServerProblem("unsupported-body", part="Content-Type")
    declared = headers.get(b"content-length", b"0")
    if not declared.isdigit() or len(declared) > 9 or int(declared) > MOST_BYTES:
        raise ServerProblem("too-many-bytes")
    try:
        async with asyncio.timeout(SECONDS):
            body = await _receive_all(receive)
    except TimeoutError:
        raise ServerProblem("too-slow") from None
    if depth(body) > MOST_DEPTH:
        raise ServerProblem("invalid-request", part="the depth of the body")
    return body


async def _receive_all(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ServerProblem("too-slow")
        part = message.get("body", b"")
        size += len(part)
        if size > MOST_BYTES:
            raise ServerProblem("too-many-bytes")
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def depth(body: bytes) -> int:
    """The nesting of lists and objects in a JSON text."""
    if body.count(b"[") + body.count(b"{") <= MOST_DEPTH:
        return MOST_DEPTH  # or less
    deepest = level = 0
    for bracket in _BRACKETS.findall(_TEXTS.sub(b"", body)):
        level += 1 if bracket in b"[{" else -1
        deepest = max(deepest, level)
    return deepest


class Rates:
    """For each principal how many requests they may send now: `burst` at once, and `rate` more every second."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, principal: str) -> None:
        """Counts a request; refused if there were too many."""
        now = self._clock()
        left, at = self._left.get(principal, (float(self._burst), now))
        left = min(float(self._burst), left + (now - at) * self._rate)
        if left < 1:
            raise ServerProblem("rate-limited", retry_after=max(1, round((1 - left) / self._rate)))
        if len(self._left) >= _FORGET and principal not in self._left:
            self._left.clear()
        self._left[principal] = left - 1, now


class Turns:
    """Limits concurrent questions: `at_once` in total and `each` per principal, who never takes all.

    A turn lasts until its answer is sent, so requests in the queue wait for times of the grid, never for rows.
    """

    def __init__(self, *, at_once: int, each: int, waiting: int, total: int) -> None:
        self._each, self._waiting, self._total = each, waiting, total
        self._all = asyncio.Semaphore(at_once)
        self._queues: dict[str, tuple[asyncio.Semaphore, list[None]]] = {}
        self._count = 0

    async def enter(self, principal: str) -> bool:
        """Waits for a turn; whether it had to wait. Refused if too many wait."""
        if self._count >= self._total:
            raise ServerProblem("busy", retry_after=1)
        own, inside = self._queues.setdefault(principal, (asyncio.Semaphore(self._each), []))
        if len(inside) >= self._each + self._waiting:
            raise ServerProblem("rate-limited", retry_after=1)
        waited = own.locked() or self._all.locked()
        inside.append(None)
        self._count += 1
        try:
            await own.acquire()
            try:
                await self._all.acquire()
            except BaseException:
                own.release()
                raise
        except BaseException:
            self._leave(principal)
            raise
        return waited

    def leave(self, principal: str) -> None:
        """Gives a turn back."""
        self._queues[principal][0].release()
        self._all.release()
        self._leave(principal)

    def _leave(self, principal: str) -> None:
        _, inside = self._queues[principal]
        inside.pop()
        self._count -= 1
        if not inside:
            del self._queues[principal]
