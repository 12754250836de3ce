"""Uniform bits: the only place that draws them; and uniform integers.

Guarantee:  `SYSTEM` gives independent uniform bits to anyone who cannot tell AES-256 in counter mode from random.
            No byte is served twice, not even to a signal handler that draws in the middle of a draw.
Proof:      a draw takes a stream out of the list of idle streams with one `list.pop` and makes a new one if none is
            idle. From then on it alone holds that stream, so a handler, a finalizer or another thread that draws
            between any two of its steps uses another stream with another key. The stream goes back after it has
            advanced past what it served. A draw that an exception ends does not put its stream back: what it took
            is never served, to anyone.
Keys:       made from OS entropy; old keys and served bytes are erased; each new key mixes in fresh OS entropy, so a
            copied process or machine image soon diverges.
Fork:       a child never continues its parent's streams: each remembers the fork count read before its key was made,
            and a draw uses no stream of another count. A draw that a signal handler interrupts with a fork starts
            over in the child.
Pickle:     the source is pickled by name, so the process that unpickles it draws from its own keys.
Integers:   P[X = i] = 1 / below for 0 <= i < below, exactly: draws outside a whole number of cycles are rejected, so
            every residue keeps the same number of words.
There is no seed. Tests bring their own `BitSource`.
Checked by: tests/noise/test_bits.py, tests/noise/test_bits_nested.py, tests/noise/test_uniform.py
"""

from __future__ import annotations

import os
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from lapwing.arrays import Integers
from lapwing.errors import Misconfigured

Words = npt.NDArray[np.unsignedinteger[Any]]

_POOL = 1 << 16  # bytes made at once for small requests
_SMALL = 1 << 14  # a request up to here is served from the pool
_REKEY = 1 << 22  # bytes of large requests served by one key
_ZEROS = bytes(_REKEY)
_DTYPES = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


class BitSource(Protocol):
    """A source of randomness for samplers."""

    def words(self, count: int, width: int) -> Words:
        """`count` independent uniform integers of `width` bits (1 to 64), in the smallest unsigned type."""

    def integer(self, width: int) -> int:
        """One uniform integer of `width` bits, of any length."""


class Forks:
    """Counts the forks that led to this process."""

    count = 0

    @classmethod
    def increment(cls) -> None:
        cls.count += 1


os.register_at_fork(after_in_child=Forks.increment)


class Stream:
    """AES-256 in counter mode, keyed by the operating system, for one draw at a time."""

    __slots__ = ("_cipher", "_next", "_pool", "_used", "born")

    def __init__(self) -> None:
        self.born = Forks.count  # first: a stream started before a fork never counts as made after it
        self._pool = np.zeros(_POOL, np.uint8)
        self._next = _POOL
        self._set_key(bytes(32))

    def fill(self, out: npt.NDArray[np.uint8]) -> None:
        """Overwrites `out` with bytes that were never served before, and erases them here."""
        if out.size > _SMALL:
            self._fill_large(out.data)
            return
        if self._next + out.size > _POOL:
            self._refill()
        served = self._pool[self._next : self._next + out.size]
        self._next += out.size
        out[:] = served
        served[:] = 0

    def _fill_large(self, out: memoryview) -> None:
        for start in range(0, len(out), _REKEY):
            part = out[start : start + _REKEY]
            if self._used + len(part) > _REKEY:
                self._set_key(self._cipher.update(bytes(32)))
            self._cipher.update_into(_ZEROS[: len(part)], part)
            self._used += len(part)

    def _refill(self) -> None:
        self._cipher.update_into(_ZEROS[:_POOL], self._pool.data)
        self._set_key(self._pool[:32].tobytes())
        self._pool[:32] = 0
        self._next = 32

    def _set_key(self, old: bytes) -> None:
        fresh = os.urandom(32)
        key = bytes(a ^ b for a, b in zip(old, fresh, strict=True))
        self._cipher: CipherContext = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        self._used = 0


class SystemBits:
    """Uniform bits for all threads, with one stream for each draw in progress."""

    def __init__(self) -> None:
        self._idle: list[Stream] = []

    def words(self, count: int, width: int) -> Words:
        size = 8 if width <= 8 else 16 if width <= 16 else 32 if width <= 32 else 64
        raw = np.empty(count * (size // 8), np.uint8)
        self._fill(raw)
        words: Words = raw.view(_DTYPES[size])
        if width < size:
            words >>= size - width
        return words

    def integer(self, width: int) -> int:
        raw = np.empty((width + 7) // 8, np.uint8)
        self._fill(raw)
        return int.from_bytes(raw.tobytes(), "little") >> (-width % 8)

    def __reduce__(self) -> str:
        return "SYSTEM"

    def _fill(self, out: npt.NDArray[np.uint8]) -> None:
        while True:
            stream = self._take()
            stream.fill(out)
            if stream.born == Forks.count:
                break
        self._idle.append(stream)

    def _take(self) -> Stream:
        """A stream of this process that no other draw holds."""
        try:
            while (stream := self._idle.pop()).born != Forks.count:  # one step: no two draws get the same stream
                del stream  # of the parent
        except IndexError:
            return Stream()
        return stream


SYSTEM = SystemBits()
"""The source of every draw outside tests."""


def uniform_integer(below: int, bits: BitSource = SYSTEM) -> int:
    """One uniform integer in [0, below), of any size."""
    if below < 1:
        raise Misconfigured(f"`below` is {below}; it must be at least 1.")
    width = (below - 1).bit_length()
    while (drawn := bits.integer(width) if width else 0) >= below:
        pass
    return drawn


def sample_uniform(below: int, count: int, *, bits: BitSource = SYSTEM, width: int = 64) -> Integers:
    """`count` independent uniform integers in [0, below), below at most 2^(width - 1)."""
    if not 1 <= below <= 1 << (width - 1):
        raise Misconfigured(f"`below` is {below}; it must lie between 1 and 2^{width - 1}.")
    whole = (1 << width) - (1 << width) % below  # the largest multiple of `below`
    words = bits.words(count, width).astype(np.uint64)
    if whole < 1 << width:
        while (over := np.flatnonzero(words >= np.uint64(whole))).size:
            words[over] = bits.words(over.size, width)
    return (words % np.uint64(below)).astype(np.int64)
