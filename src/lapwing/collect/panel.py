"""Yes or no from the same respondents, epoch after epoch, where answers may change: what is protected is the history.

[EFMRTT19] Erlingsson, Feldman, Mironov, Raghunathan, Talwar, Thakurta: Amplification by shuffling. SODA 2019, section 4.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from lapwing.arrays import Array, Flags, Floats, Integers
from lapwing.collect.local import LocalProtocol
from lapwing.collect.means import MeanEstimate, student_ends
from lapwing.collect.reports import ReportRows, Reports, as_bytes
from lapwing.collect.thresholds import WORD, flip, read_epsilon
from lapwing.errors import Misconfigured
from lapwing.noise.bits import SYSTEM, BitSource
from lapwing.noise.uniform import sample_uniform
from lapwing.numbers import Number, count, inside_unit

MOST_EPOCHS = 1 << 15
BYTES = 2
"""Of the report of one epoch: 2 group + bit."""


@dataclass(frozen=True, init=False)
class PanelProtocol(LocalProtocol):
    """Collects a yes or no in each of a declared number of epochs. A value is a history: one answer for each epoch.

    Law:        the device draws a lot, uniformly, when it is enrolled. In every epoch it sends the group of its lot and
                one bit: a fair coin, except in at most one epoch, in which the bit is the sign that the history and
                the lot give there, and the opposite with probability f = 1 / (1 + e^epsilon), rounded up.
    Guarantee:  pure DP with epsilon for any change of the whole history, for all reports together.
    Error:      unbiased for the share in each epoch, whatever the histories within the bound on changes.
    Proof:      the lot does not depend on the history. Given the lot the bits are independent, and two histories give
                laws that differ in at most two epochs a and b. At a one law gives a bit 1 - f or f and the other 1/2,
                at b the other way round: the ratio is at most ((1 - f) / (1/2)) ((1/2) / f) = (1 - f) / f <= e^epsilon.
                If a = b it is at most the same.
    Checked by: tests/collect/test_panel.py
    """

    epochs: int
    epsilon: Fraction
    width: int = field(default=WORD, repr=False)

    def __init__(self, *, epochs: int, epsilon: Number, width: int = WORD) -> None:
        object.__setattr__(self, "epochs", count(epochs, "epochs"))
        object.__setattr__(self, "epsilon", read_epsilon(epsilon))
        object.__setattr__(self, "width", width)
        if self.epochs > MOST_EPOCHS:
            raise Misconfigured(f"`epochs` is {self.epochs}; at most {MOST_EPOCHS:,} are collected.")

    centre: ClassVar[float]
    """The share that reports stand for if all bits are even."""

    @property
    @abstractmethod
    def lots(self) -> int:
        """How many lots there are; lot % groups is the group."""

    @property
    @abstractmethod
    def groups(self) -> int: ...

    @property
    @abstractmethod
    def reach(self) -> float:
        """What one bit that counts adds to or takes from the sum over respondents."""

    @abstractmethod
    def signs(self, device: PanelDevices, values: Flags) -> Integers:
        """What each device has to say in this epoch, from the answers so far: 1, -1, or 0 for a fair coin."""

    @abstractmethod
    def counting(self, epoch: int) -> dict[int, int]:
        """For each group whose bits count for the share in this epoch, from which epoch they are taken."""

    @property
    def size(self) -> int:
        return BYTES * self.epochs

    @property
    def facts(self) -> dict[str, Any]:
        shape = {"epochs": self.epochs, "width": self.width}
        return {"protocol": self.kind, "epsilon": str(self.epsilon), **shape}

    @cached_property
    def edge(self) -> int:
        """Of 2^width words, how many more than half agree with the sign."""
        return (1 << self.width - 1) - flip(self.epsilon, width=self.width)

    def enroll(self, *, bits: BitSource = SYSTEM) -> PanelDevices:
        """The device of one respondent, which reports in every epoch."""
        return PanelDevices(self, 1, bits)

    def resume(self, kept: str) -> PanelDevices:
        """The device whose `to_json` this is."""
        try:
            found = json.loads(kept)
            name, devices = found.pop("panel"), PanelDevices(self, 1, SYSTEM)
            devices.__dict__ |= {"epoch": found.pop("epoch")} | {key: np.array(value) for key, value in found.items()}
        except (ValueError, TypeError, KeyError, AttributeError):
            raise Misconfigured("This text holds no device of a panel. Pass what to_json() gave.") from None
        if name != self.name.hex():
            raise Misconfigured("this device was enrolled in another panel. Resume it with the panel that enrolled it.")
        return devices

    def randomize_all(self, values: Any, bits: BitSource) -> ReportRows:
        try:
            histories = np.array([*values])
            fits = histories.dtype == np.bool_ and histories.shape[1:] == (self.epochs,)
        except (ValueError, TypeError):  # histories of different lengths
            fits = False
        if not fits:
            raise Misconfigured(f"a history is not {self.epochs} times True or False. Pass one answer for each epoch.")
        devices = PanelDevices(self, len(histories), bits)
        return np.concatenate([devices.send(column, bits) for column in histories.T], axis=1)

    def valid(self, reports: Reports) -> Flags:
        groups = _numbers(reports.rows) >> 1
        fits: Flags = (groups[:, 0] < self.groups) & (groups == groups[:, :1]).all(axis=1)
        return fits

    def estimate(self, reports: Reports | Iterable[bytes], *, confidence: Number = 0.95) -> tuple[MeanEstimate, ...]:
        """The share of yes in each epoch, with an interval for each."""
        level, numbers = float(inside_unit(confidence, "confidence")), _numbers(self.check(reports).rows)
        return tuple(self._share(numbers, epoch, level) for epoch in range(1, self.epochs + 1))

    def _share(self, numbers: Integers, epoch: int, level: float) -> MeanEstimate:
        added: Floats = np.zeros(len(numbers))
        for group, taken in self.counting(epoch).items():
            reports = numbers[:, taken - 1]
            added += np.where(reports >> 1 == group, self.reach * (2.0 * (reports & 1) - 1), 0.0)
        low, high, error = student_ends(added, self.reach, 1 - level)
        near, far = (min(max(self.centre + end, 0.0), 1.0) for end in (low, high))
        return MeanEstimate(self.centre + float(added.mean()), near, far, error, len(added), level, 2 * self.reach)


@dataclass(frozen=True, init=False)
class OneEpoch(PanelProtocol):
    """The lot is one epoch. The answer of that epoch is randomized; all other reports are coins. Answers may change freely.

    Error:      a bit that counts adds T / (2 (1 - 2 f)); the variance of a share is about T / (4 n (1 - 2 f)^2).
    """

    kind: ClassVar[str] = "one epoch by lot"
    centre: ClassVar[float] = 0.5

    @property
    def lots(self) -> int:
        return self.epochs

    @property
    def groups(self) -> int:
        return self.epochs

    @property
    def reach(self) -> float:
        return float(Fraction(self.epochs << self.width - 1, 2 * self.edge))

    def signs(self, device: PanelDevices, values: Flags) -> Integers:
        return np.where(device.lots == device.epoch - 1, np.where(values, 1, -1), 0)

    def counting(self, epoch: int) -> dict[int, int]:
        return {epoch - 1: epoch}


@dataclass(frozen=True, init=False)
class ChangeTree(PanelProtocol):
    """The lot is a level of a binary tree over the epochs and the number of one change, of at most `changes`.

    Before the first epoch every answer is no. At the end of each interval of 2^level epochs the device has a sign if
    the change of its lot fell into it: 1 for no to yes, -1 for yes to no. So of all changes at most one is ever sent,
    and those beyond the bound never; reports do not show that there were more, and the estimate does not know them.

    Error:      the share in epoch t is a sum over the intervals that t splits into, one for each 1 of t in binary; a bit
                adds L k / (1 - 2 f), with L levels and k changes: the variance is about ones L k^2 / (n (1 - 2 f)^2).
    """

    kind: ClassVar[str] = "tree of changes"
    centre: ClassVar[float] = 0.0

    changes: int = 1

    def __init__(self, *, epochs: int, changes: int, epsilon: Number, width: int = WORD) -> None:
        super().__init__(epochs=epochs, epsilon=epsilon, width=width)
        object.__setattr__(self, "changes", count(changes, "changes"))

    @property
    def facts(self) -> dict[str, Any]:
        return {**super().facts, "changes": self.changes}

    @property
    def lots(self) -> int:
        return self.groups * self.changes

    @property
    def groups(self) -> int:
        return self.epochs.bit_length()

    @property
    def reach(self) -> float:
        return float(Fraction(self.lots << self.width - 1, self.edge))

    def signs(self, device: PanelDevices, values: Flags) -> Integers:
        changed = values != device.held
        device.changed += changed
        chosen = changed & (device.changed == device.lots // self.groups + 1)
        device.pending = np.where(chosen, np.where(values, 1, -1), device.pending)
        ends = device.epoch % (1 << device.lots % self.groups) == 0
        signs: Integers = np.where(ends, device.pending, 0)
        device.held, device.pending = values, np.where(ends, 0, device.pending)
        return signs

    def counting(self, epoch: int) -> dict[int, int]:
        return {level: epoch >> level << level for level in range(self.groups) if epoch >> level & 1}


class PanelDevices:
    """What devices keep between epochs. It decides bits, never whether or how much is sent."""

    def __init__(self, panel: PanelProtocol, many: int, bits: BitSource) -> None:
        self.panel, self.epoch = panel, 0
        self.lots: Integers = sample_uniform(panel.lots, many, bits=bits)
        self.held: Flags = np.zeros(many, np.bool_)
        self.changed: Integers = np.zeros(many, np.int64)
        self.pending: Integers = np.zeros(many, np.int64)

    def to_json(self) -> str:
        """What is kept, as text. It holds answers: keep it on the device."""
        kept = {name: getattr(self, name).tolist() for name in ("lots", "held", "changed", "pending")}
        return json.dumps({"panel": self.panel.name.hex(), "epoch": self.epoch, **kept})

    def report(self, value: bool, *, bits: BitSource = SYSTEM) -> bytes:
        """The report of the next epoch, from a device of one respondent. Join them to the report of all epochs."""
        if not isinstance(value, bool | np.bool_):
            raise Misconfigured("an answer is not True or False. Pass one of them in every epoch.")
        return self.send(np.array([value]), bits).tobytes()

    def send(self, values: Flags, bits: BitSource) -> ReportRows:
        """A report from each device."""
        panel = self.panel
        if self.epoch == panel.epochs:
            raise Misconfigured(f"all {self.epoch} epochs were reported. Enrol in a new panel, which costs epsilon again.")
        self.epoch += 1
        half = 1 << panel.width - 1
        steps: Array = np.array([half - panel.edge, half, half + panel.edge], np.uint64)
        ones = bits.words(len(values), panel.width) < steps[panel.signs(self, values) + 1]
        return as_bytes(self.lots % panel.groups * 2 + ones, BYTES)


def choose_panel(*, epochs: int, epsilon: Number, changes: int | None = None) -> PanelProtocol:
    """The panel with the least error in its worst epoch; without a bound on changes, one epoch by lot."""
    lot = OneEpoch(epochs=epochs, epsilon=epsilon)
    if changes is None:
        return lot
    tree = ChangeTree(epochs=epochs, changes=changes, epsilon=epsilon)
    return min((lot, tree), key=lambda one: one.reach**2 * _most_ones(one.epochs, one) / one.groups)


def _most_ones(epochs: int, panel: PanelProtocol) -> int:
    return max(len(panel.counting(epoch)) for epoch in range(1, epochs + 1))


def _numbers(rows: ReportRows) -> Integers:
    return np.ascontiguousarray(rows).view("<u2").astype(np.int64)
