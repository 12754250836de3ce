"""Reports as they travel: rows of bytes, all of one length, under the name of the protocol that made them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lapwing.arrays import Array, Integers
from lapwing.errors import Misconfigured

ReportRows = npt.NDArray[np.uint8]

_HEAD = struct.Struct("<4s8sHQ")  # mark, protocol, bytes of a report, number of reports
_MARK = b"LWR1"


@dataclass(frozen=True, slots=True, eq=False)
class Reports:
    """Randomized reports of one protocol. They hold nothing but what the randomizer let out."""

    protocol: bytes
    """The name of the protocol, made from everything that it is."""
    rows: ReportRows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, chosen: Any) -> Reports:
        rows = self.rows[chosen]
        return Reports(self.protocol, rows if rows.ndim == 2 else rows[np.newaxis])

    def __add__(self, other: Reports) -> Reports:
        if self.protocol != other.protocol:
            raise Misconfigured("These reports are of two protocols. Keep them apart and estimate each by its own.")
        return Reports(self.protocol, np.concatenate([self.rows, other.rows]))

    def each(self) -> list[bytes]:
        """Each report by itself, as it was sent."""
        return [row.tobytes() for row in self.rows]

    def to_bytes(self) -> bytes:
        """All of them, with the name of their protocol."""
        return _HEAD.pack(_MARK, self.protocol, self.rows.shape[1], len(self)) + self.rows.tobytes()


def read_reports(data: bytes) -> Reports:
    """Reports from bytes; raises Misconfigured if these are none."""
    if len(data) < _HEAD.size or data[:4] != _MARK:
        raise Misconfigured("These bytes are no reports of Lapwing. Pass what Reports.to_bytes() gave.")
    _, protocol, size, many = _HEAD.unpack_from(data)
    if not size or len(data) != _HEAD.size + size * many:
        raise Misconfigured("These reports are cut off or have bytes to spare. Send them again, whole.")
    rows = np.frombuffer(data, np.uint8, offset=_HEAD.size).reshape(many, size)
    return Reports(protocol, rows)


def stack(reports: Iterable[bytes], size: int, protocol: bytes) -> Reports:
    """Single reports as one array; raises Misconfigured if one has another length."""
    listed: list[Any] = list(reports)
    if not all(isinstance(one, bytes | bytearray) and len(one) == size for one in listed):
        raise Misconfigured(
            f"A report of this protocol is {size} byte{'s' if size > 1 else ''}. Refuse reports of any other length."
        )
    return Reports(protocol, np.frombuffer(b"".join(listed), np.uint8).reshape(len(listed), size))


def as_bytes(numbers: Array, size: int) -> ReportRows:
    """Whole numbers as rows of this many bytes, the lowest first."""
    return np.ascontiguousarray(numbers.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :size])


def as_numbers(rows: ReportRows) -> Integers:
    """The same numbers again."""
    wide = np.zeros((len(rows), 8), np.uint8)
    wide[:, : rows.shape[1]] = rows
    return wide.view("<u8").astype(np.int64).reshape(-1)
