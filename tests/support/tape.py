"""Bit sources for tests: a finite tape, a long fixed stream and a counter of bits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from lapwing.noise.bits import BitSource

Words = NDArray[np.unsignedinteger[Any]]


class TapeEnded(Exception):
    """A finite bit source was asked for more bits than it has left."""


def word_type(width: int) -> type[np.unsignedinteger[Any]]:
    """The smallest unsigned dtype that holds a word of `width` bits."""
    if not 1 <= width <= 64:
        raise ValueError(f"`width` is {width}; it must be in 1..64.")
    if width <= 8:
        return np.uint8
    if width <= 16:
        return np.uint16
    return np.uint32 if width <= 32 else np.uint64


class Tape:
    """The bits given, most significant bit of each word first; then those of `then`, or the end.

    `Tape("0110")` and `Tape([0, 1, 1, 0])` are the same tape.
    """

    def __init__(self, bits: Iterable[int | str], *, then: BitSource | None = None) -> None:
        self._bits = [int(bit) for bit in bits]
        if any(bit not in (0, 1) for bit in self._bits):
            raise ValueError("a tape holds only the bits 0 and 1.")
        self._then = then
        self.used = 0

    @classmethod
    def of_words(cls, words: Iterable[int], width: int, *, then: BitSource | None = None) -> Tape:
        """The tape from which requests of `width` bits read `words`."""
        values = list(words)
        if any(not 0 <= word < 1 << width for word in values):
            raise ValueError(f"every word must be in [0, 2**{width}).")
        return cls("".join(f"{word:0{width}b}" for word in values if width), then=then)

    @property
    def left(self) -> int:
        """How many bits of the tape itself are unread."""
        return max(0, len(self._bits) - self.used)

    def words(self, count: int, width: int) -> Words:
        dtype = word_type(width)
        self._require(count * width)
        return np.array([self._read(width) for _ in range(count)], dtype=dtype)

    def integer(self, width: int) -> int:
        self._require(width)
        return self._read(width)

    def _require(self, bits: int) -> None:
        if self._then is None and bits > self.left:
            raise TapeEnded

    def _read(self, width: int) -> int:
        value = 0
        taken = self._bits[self.used : self.used + width]
        for bit in taken:
            value = value << 1 | bit
        missing = width - len(taken)
        self.used += len(taken)
        if missing and self._then is not None:
            value = value << missing | self._then.integer(missing)
        return value


class SeededBits:
    """The same long stream for ever: raw PCG64 words, which numpy promises never to change."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.PCG64(seed)

    def words(self, count: int, width: int) -> Words:
        dtype = np.dtype(word_type(width))
        raw = self._generator.random_raw(-(-count * dtype.itemsize // 8))
        spare = dtype.type(8 * dtype.itemsize - width)
        words: Words = raw.astype("<u8", copy=False).view(dtype)[:count] >> spare
        return words

    def integer(self, width: int) -> int:
        if width <= 64:
            return int(self._generator.random_raw()) >> (64 - width)
        return self.integer(64) << (width - 64) | self.integer(width - 64)


class CountingBits:
    """Passes requests on and remembers them: `bits` in total, `requests` as (count, width)."""

    def __init__(self, source: BitSource) -> None:
        self._source = source
        self.bits = 0
        self.requests: list[tuple[int, int]] = []

    def words(self, count: int, width: int) -> Words:
        self._note(count, width)
        return self._source.words(count, width)

    def integer(self, width: int) -> int:
        self._note(1, width)
        return self._source.integer(width)

    def _note(self, count: int, width: int) -> None:
        self.bits += count * width
        self.requests.append((count, width))
