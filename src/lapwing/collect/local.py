"""Protocols of the local model: a value in, a randomized report of constant size out.

Reports are rows of bytes, all of one length, under the name of the protocol that made them. A `Respondent` keeps the
reports that were sent, never the answers.
"""

from __future__ import annotations

import json
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from lapwing.arrays import Array, Flags, Floats, Integers
from lapwing.errors import Misconfigured
from lapwing.noise.bits import SYSTEM, BitSource
from lapwing.privacy.loss import Pure
from lapwing.privacy.neighbours import Neighbours

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
    """Reports from the bytes of `Reports.to_bytes`."""
    if len(data) < _HEAD.size or data[:4] != _MARK:
        raise Misconfigured("These bytes are no reports of Lapwing. Pass what Reports.to_bytes() gave.")
    _, protocol, size, number = _HEAD.unpack_from(data)
    if not size or len(data) != _HEAD.size + size * number:
        raise Misconfigured("These reports are cut off or have bytes to spare. Send them again, whole.")
    return Reports(protocol, np.frombuffer(data, np.uint8, offset=_HEAD.size).reshape(number, size))


class LocalProtocol(ABC):
    """Randomizes what one respondent holds, before anyone else sees it."""

    kind: ClassVar[str]
    neighbours: ClassVar[Neighbours] = Neighbours.CHANGE_ONE

    epsilon: Fraction

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes of a report, whatever it says."""

    @property
    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Everything that respondents and the collector must agree on, ready for JSON."""

    @abstractmethod
    def randomize_all(self, values: Any, bits: BitSource) -> ReportRows:
        """A report for each of these values; raises Misconfigured if one is not allowed."""

    @abstractmethod
    def valid(self, reports: Reports) -> Flags:
        """Which reports the randomizer could have sent. Drop the others: reports[protocol.valid(reports)]."""

    @property
    def loss(self) -> Pure:
        """The loss of one report. A second report of the same respondent costs the same again: see `Respondent`."""
        return Pure(self.epsilon)

    @cached_property
    def name(self) -> bytes:
        """Eight bytes that identify reports of this protocol."""
        return sha256(json.dumps(self.facts, sort_keys=True).encode()).digest()[:8]

    def respond(self, value: Any, *, bits: BitSource = SYSTEM) -> Any:
        """One randomized report, as bytes; Reports for a list or an array of values."""
        if isinstance(value, list | np.ndarray) or hasattr(value, "to_pylist"):
            return Reports(self.name, self.randomize_all(value, bits))
        return self.randomize_all([value], bits).tobytes()

    def read(self, data: bytes) -> Reports:
        """Reports from the bytes of `Reports.to_bytes`, checked."""
        return self.check(read_reports(data))

    def check(self, reports: Reports | Iterable[bytes]) -> Reports:
        """The reports, if they are of this protocol and none is malformed; raises Misconfigured otherwise."""
        checked = reports if isinstance(reports, Reports) else self._stack(list(reports))
        if checked.protocol != self.name or checked.rows.shape[1:] != (self.size,):
            raise Misconfigured(
                "These reports were made by another protocol, or by this one with other parameters. "
                "Estimate them with the protocol that made them."
            )
        if not len(checked):
            raise Misconfigured("There are no reports to estimate from. Pass at least one.")
        if bad := len(checked) - int(np.count_nonzero(self.valid(checked))):
            raise Misconfigured(
                f"{bad} of {len(checked)} reports are malformed: no respondent's randomizer sends them. "
                "Drop them: reports[protocol.valid(reports)]."
            )
        return checked

    def _stack(self, reports: list[Any]) -> Reports:
        size = self.size
        if not all(isinstance(report, bytes | bytearray) and len(report) == size for report in reports):
            words = "1 byte" if size == 1 else f"{size} bytes"
            raise Misconfigured(f"A report of this protocol has {words}. Refuse reports of any other length.")
        return Reports(self.name, np.frombuffer(b"".join(reports), np.uint8).reshape(len(reports), size))


def as_list(values: Any) -> list[Any]:
    """The values of a list, a numpy array or an Arrow array."""
    if isinstance(values, np.ndarray):
        return list(values.ravel().tolist())
    return values if isinstance(values, list) else list(values.to_pylist())


def as_floats(values: Any) -> Floats:
    """Numbers as float64; raises Misconfigured if one is missing or none."""
    listed = values if isinstance(values, np.ndarray) else np.array(as_list(values))
    if listed.dtype.kind not in "iuf" or not np.isfinite(listed).all():
        raise Misconfigured("a value is not a number. Respondents without one answer another question, or none.")
    return listed.astype(np.float64).ravel()


def as_bytes(numbers: Array, size: int) -> ReportRows:
    """Whole numbers as rows of this many bytes, the lowest first."""
    return np.ascontiguousarray(numbers.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :size])


def as_numbers(rows: ReportRows) -> Integers:
    wide = np.zeros((len(rows), 8), np.uint8)
    wide[:, : rows.shape[1]] = rows
    return wide.view("<u8").astype(np.int64).reshape(-1)


class Respondent:
    """One respondent of a survey. The first answer to a question stands: asked again, the same report is sent.

    Guarantee:  all that is ever sent is one report a question, so it loses the sum of the questions' epsilons, however
                often a question is asked and whatever is answered the second time (threat:A33 averaging). A changed
                answer is never sent; a device that asks under a new name, or stops, after a change shows the change.
    Proof:      `answer` randomizes only if it holds no report to the question, and keeps a new one before returning it.
    Checked by: tests/collect/test_protocols.py
    """

    def __init__(self, kept: Mapping[str, tuple[str, str, str]] | None = None) -> None:
        self._kept: dict[str, tuple[str, str, str]] = dict(kept or {})

    def answer(self, question: str, protocol: LocalProtocol, value: Any) -> bytes:
        """The report to a question: the one that was sent before, or a new one of this value."""
        if question not in self._kept:
            report: bytes = protocol.respond(value)
            self._kept[question] = (protocol.name.hex(), str(protocol.epsilon), report.hex())
        name, _, report_hex = self._kept[question]
        if name != protocol.name.hex():
            raise Misconfigured(f"{question!r} was asked before by another protocol. Give a new question a new name.")
        return bytes.fromhex(report_hex)

    @property
    def loss(self) -> Pure | None:
        """The loss of all reports together; None before the first."""
        spent = [Fraction(epsilon) for _, epsilon, _ in self._kept.values()]
        return Pure(sum(spent, Fraction(0))) if spent else None

    def to_json(self) -> str:
        """The state as text. It holds reports only."""
        return json.dumps({"format": 1, "reports": self._kept}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Respondent:
        """A respondent that resumes from a saved state."""
        try:
            state = json.loads(text)
            kept = {str(name): (str(a), str(b), str(c)) for name, (a, b, c) in state["reports"].items()}
            version = state["format"]
        except (ValueError, TypeError, KeyError, AttributeError):
            raise Misconfigured("This text holds no reports of a respondent. Pass what to_json() gave.") from None
        if version != 1:
            raise Misconfigured("These reports were kept in a format that this version does not know.")
        return cls(kept)
