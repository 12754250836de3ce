"""How often one network address may ask. Addresses are held in memory for a minute or two, and nowhere else.

Of an IPv6 address the first 64 bits count: one host owns every address that shares them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

_MOST_ADDRESSES = 10_000
_MINUTE = 60.0


class RateLimit:
    """A bucket for each address: it holds a minute's worth, and fills up evenly. Full buckets are forgotten."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(per_minute)
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}

    def wait(self, host: str) -> float:
        """Seconds until this address may ask; 0 if it may now, and then one request is counted."""
        address = network_of(host)
        with self._lock:
            now = self._clock()
            left, then = self._buckets.pop(address, (self._most, now))
            left = min(self._most, left + (now - then) * self._most / _MINUTE)
            allowed = left >= 1
            self._forget(now)
            self._buckets[address] = (left - allowed, now)
            return 0.0 if allowed else (1 - left) * _MINUTE / self._most

    def __len__(self) -> int:
        return len(self._buckets)

    def _forget(self, now: float) -> None:
        """Drops addresses that did not ask for a minute, oldest first; beyond a limit the oldest whatever they did."""
        while self._buckets:
            address, (_, then) = next(iter(self._buckets.items()))
            if now - then < _MINUTE and len(self._buckets) < _MOST_ADDRESSES:
                return
            del self._buckets[address]


def network_of(host: str) -> str:
    """What is limited as one: an IPv4 address, or the network of an IPv6 address."""
    try:
        read = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(read, IPv6Address):
        return host
    return str(read.ipv4_mapped or IPv6Address(int(read) >> 64 << 64))
