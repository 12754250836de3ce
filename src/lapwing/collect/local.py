"""What every protocol of the local model is: a value in, a randomized report of constant size out."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np

from lapwing.arrays import Flags
from lapwing.collect.reports import ReportRows, Reports, read_reports, stack
from lapwing.errors import Misconfigured
from lapwing.noise.bits import SYSTEM, BitSource
from lapwing.privacy.loss import Pure
from lapwing.privacy.neighbours import Neighbours

NOT_A_NUMBER = "a value is not a number. Respondents without one answer another question, or none."


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
        """What one report loses. A second report of the same respondent costs the same again: see `Respondent`."""
        return Pure(self.epsilon)

    @cached_property
    def name(self) -> bytes:
        """Eight bytes that identify reports of this protocol."""
        return sha256(json.dumps(self.facts, sort_keys=True).encode()).digest()[:8]

    def respond(self, value: Any, *, bits: BitSource = SYSTEM) -> Any:
        """One randomized report, as bytes; Reports for a list or an array of values."""
        if is_many(value):
            return Reports(self.name, self.randomize_all(value, bits))
        return self.randomize_all([value], bits).tobytes()

    def read(self, data: bytes) -> Reports:
        """Reports from the bytes of `Reports.to_bytes`, checked."""
        return self.check(read_reports(data))

    def check(self, reports: Reports | Iterable[bytes]) -> Reports:
        """The reports, if they are of this protocol and none is malformed; raises Misconfigured otherwise."""
        given = reports if isinstance(reports, Reports) else stack(reports, self.size, self.name)
        if given.protocol != self.name or given.rows.shape[1:] != (self.size,):
            raise Misconfigured(
                "These reports were made by another protocol, or by this one with other parameters. "
                "Estimate them with the protocol that made them."
            )
        if not len(given):
            raise Misconfigured("There are no reports to estimate from. Pass at least one.")
        if bad := len(given) - int(np.count_nonzero(self.valid(given))):
            raise Misconfigured(
                f"{bad} of {len(given)} reports are malformed: no respondent's randomizer sends them. "
                "Drop them: reports[protocol.valid(reports)]."
            )
        return given


def is_many(value: object) -> bool:
    return isinstance(value, list | np.ndarray) or hasattr(value, "to_pylist")


def as_list(values: Any) -> list[Any]:
    """The values of a list, a numpy array or an Arrow array."""
    if isinstance(values, np.ndarray):
        return list(values.ravel().tolist())
    return values if isinstance(values, list) else list(values.to_pylist())


def as_floats(values: Any) -> Any:
    """Numbers as float64; raises Misconfigured if one is missing or none."""
    listed = values if isinstance(values, np.ndarray) else np.array(as_list(values))
    if listed.dtype.kind not in "iuf" or not np.isfinite(listed).all():
        raise Misconfigured(NOT_A_NUMBER)
    return listed.astype(np.float64).ravel()
