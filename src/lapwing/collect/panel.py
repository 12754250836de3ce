"""Yes or no from the same respondents, epoch after epoch, where answers may change: the whole history is protected.

[EFM19] Erlingsson, Feldman, Mironov, et al.: Amplification by shuffling (SODA 2019), section 4: the tree of changes.
"""

from __future__ import annotations

import json
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

_MOST_EPOCHS = 1 << 15
_BYTES = 2  # of the report of one epoch: 2 group + bit


@dataclass(frozen=True, init=False)
class YesNoPanel(LocalProtocol):
    """Collects a yes or no in each of T declared epochs. A value is a history: one answer for each epoch.

    Law:        a device draws a lot, uniformly, once. In every epoch it sends the group of its lot and one bit: a fair
                coin, except in at most one epoch, where the bit is a sign that history and lot give, and the opposite
                with probability f = 1 / (1 + e^epsilon), rounded up.
                Without `changes` the lot is an epoch, which is the group, and the sign is the answer in it.
                With at most k `changes` it is a level of a binary tree over the epochs, which is the group, and the
                number of a change, 1 to k. The sign is that of this change, at the end of the interval of 2^level
                epochs that it falls into. Answers start from no. Changes beyond k are never sent, nor that there were
                any.
    Guarantee:  pure DP with epsilon for any change of the whole history, for all reports of all epochs together.
    Error:      unbiased for histories within the bound. n Var of a share is at most about T / (4 (1 - 2 f)^2), or with
                L levels k^2 L m / (1 - 2 f)^2, m being the number of ones of the epoch in binary.
    Proof:      the lot does not depend on the history. Given the lot the bits are independent, and the laws of two
                histories differ in at most two epochs. If two, at one of them this law has 1 - f or f for a bit and
                the other 1/2, and at the other one conversely: a ratio of at most ((1 - f) / (1/2)) ((1/2) / f) =
                (1 - f) / f <= e^epsilon (thresholds.py). If one, it is at most the same.
    Checked by: tests/collect/test_panel.py
    """

    kind: ClassVar[str] = "panel"

    epochs: int
    epsilon: Fraction
    changes: int | None
    width: int = field(default=WORD, repr=False)

    def __init__(self, *, epochs: int, epsilon: Number, changes: int | None = None, width: int = WORD) -> None:
        object.__setattr__(self, "epochs", count(epochs, "epochs"))
        object.__setattr__(self, "epsilon", read_epsilon(epsilon))
        object.__setattr__(self, "changes", None if changes is None else count(changes, "changes"))
        object.__setattr__(self, "width", width)
        if self.epochs > _MOST_EPOCHS:
            raise Misconfigured(f"`epochs` is {self.epochs}; at most {_MOST_EPOCHS:,} are collected.")

    @property
    def size(self) -> int:
        return _BYTES * self.epochs

    @property
    def facts(self) -> dict[str, Any]:
        shape = {"epochs": self.epochs, "changes": self.changes, "width": self.width}
        return {"protocol": self.kind, "epsilon": str(self.epsilon), **shape}

    @property
    def groups(self) -> int:
        """Epochs, or levels of the tree. The group of a lot is lot % groups."""
        return self.epochs if self.changes is None else self.epochs.bit_length()

    @property
    def lots(self) -> int:
        return self.groups * (self.changes or 1)

    @cached_property
    def edge(self) -> int:
        """Of 2^width words, how many more than half agree with the sign: (1 - 2 f) 2^(width - 1)."""
        return (1 << self.width - 1) - flip(self.epsilon, width=self.width)

    @property
    def reach(self) -> float:
        """What a bit that counts adds to the sum over respondents, or takes from it."""
        return float(Fraction(self.lots << self.width - 1, self.edge * (2 if self.changes is None else 1)))

    def counting(self, epoch: int) -> dict[int, int]:
        """For each group whose bits count for the share in this epoch, the epoch from which they are taken."""
        if self.changes is None:
            return {epoch - 1: epoch}
        return {level: epoch >> level << level for level in range(self.groups) if epoch >> level & 1}

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
        listed = [*values]
        histories: Array = (
            np.array(listed)
            if len({len(one) if hasattr(one, "__len__") else -1 for one in listed}) == 1
            else np.empty(0)
        )
        if histories.dtype != np.bool_ or histories.shape[1:] != (self.epochs,):
            raise Misconfigured(f"a history is not {self.epochs} times True or False. Pass one answer for each epoch.")
        devices = PanelDevices(self, len(histories), bits)
        return np.concatenate([devices.send(column, bits) for column in histories.T], axis=1)

    def valid(self, reports: Reports) -> Flags:
        groups = _numbers(reports.rows) >> 1
        fits: Flags = (groups[:, 0] < self.groups) & (groups == groups[:, :1]).all(axis=1)
        return fits

    def estimate(self, reports: Reports | Iterable[bytes], *, confidence: Number = 0.95) -> tuple[MeanEstimate, ...]:
        """The share of yes in each epoch, with an interval for each; also from the bytes of the first epochs alone."""
        level, seen = float(inside_unit(confidence, "confidence")), self.epochs
        if not isinstance(reports, Reports):
            listed = [bytes(one) for one in reports]
            seen = min([self.epochs, *(len(one) // _BYTES for one in listed)])
            reports = [one + one[:_BYTES] * (self.epochs - seen) for one in listed]  # bits that no share so far reads
        numbers = _numbers(self.check(reports).rows)
        return tuple(self._share(numbers, epoch, level) for epoch in range(1, seen + 1))

    def _share(self, numbers: Integers, epoch: int, level: float) -> MeanEstimate:
        added: Floats = np.zeros(len(numbers))
        for group, taken in self.counting(epoch).items():
            reports = numbers[:, taken - 1]
            added += np.where(reports >> 1 == group, self.reach * (2.0 * (reports & 1) - 1), 0.0)
        low, high, error = student_ends(added, self.reach, 1 - level)
        centre = 0.5 if self.changes is None else 0.0
        near, far = (min(max(centre + end, 0.0), 1.0) for end in (low, high))
        return MeanEstimate(centre + float(added.mean()), near, far, error, len(added), level, 2 * self.reach)


class PanelDevices:
    """What devices keep between epochs. It decides bits, never whether or how much is sent."""

    def __init__(self, panel: YesNoPanel, many: int, bits: BitSource) -> None:
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
        """One respondent's report of the next epoch. Those of all epochs, joined, are what `estimate` reads."""
        if not isinstance(value, bool | np.bool_):
            raise Misconfigured("an answer is not True or False. Pass one of them in every epoch.")
        return self.send(np.array([value]), bits).tobytes()

    def send(self, values: Flags, bits: BitSource) -> ReportRows:
        """A report from each device."""
        panel = self.panel
        if self.epoch == panel.epochs:
            raise Misconfigured(f"all {self.epoch} epochs were reported. A new panel costs its epsilon again.")
        self.epoch += 1
        half = 1 << panel.width - 1
        steps = np.array([half - panel.edge, half, half + panel.edge], np.uint64)
        ones = bits.words(len(values), panel.width) < steps[self._signs(values) + 1]
        return as_bytes(self.lots % panel.groups * 2 + ones, _BYTES)

    def _signs(self, values: Flags) -> Integers:
        """What each device has to say now: 1, -1, or 0 for a fair coin."""
        answers: Integers = np.where(values, 1, -1)
        if self.panel.changes is None:
            return np.where(self.lots == self.epoch - 1, answers, 0)
        changed = values != self.held
        self.changed += changed
        chosen = changed & (self.changed == self.lots // self.panel.groups + 1)
        pending: Integers = np.where(chosen, answers, self.pending)
        ends = self.epoch % (1 << self.lots % self.panel.groups) == 0
        self.held, self.pending = values, np.where(ends, 0, pending)
        return np.where(ends, pending, 0)


def choose_panel(*, epochs: int, epsilon: Number, changes: int | None = None) -> YesNoPanel:
    """The panel with the least error in its worst epoch; it may be one that allows any number of changes."""

    def worst(panel: YesNoPanel) -> float:
        most = max(len(panel.counting(epoch)) for epoch in range(1, panel.epochs + 1))
        return panel.reach**2 * most / panel.groups

    return min((YesNoPanel(epochs=epochs, epsilon=epsilon, changes=bound) for bound in (None, changes)), key=worst)


def _numbers(rows: ReportRows) -> Integers:
    return np.ascontiguousarray(rows).view("<u2").astype(np.int64)
