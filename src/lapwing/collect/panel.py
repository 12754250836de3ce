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
from lapwing.collect.intervals import Support, share_of_population
from lapwing.collect.local import LocalProtocol, ReportRows, Reports, as_bytes
from lapwing.collect.means import MeanEstimate, student_ends
from lapwing.collect.probabilities import WORD, flip, read_epsilon, require_bits
from lapwing.errors import Misconfigured
from lapwing.noise.bits import SYSTEM, BitSource, sample_uniform
from lapwing.numbers import Number, count, inside_unit
from lapwing.privacy.loss import set_fields

_MOST_EPOCHS = 1 << 15
_BYTES = 2  # of the report of one epoch: 2 group + bit
_STATE = ("lots", "held", "changed", "pending")  # what a device keeps beside its draws


@dataclass(frozen=True, init=False)
class YesNoPanel(LocalProtocol):
    """Collects a yes or no in each of T declared epochs. A value is a history: one answer for each epoch.

    Law:        a device draws a lot, uniformly, once. In every epoch it sends the group of its lot and one bit: a fair
                coin, except in at most one epoch, where the bit is a sign that history and lot give, and the opposite
                with probability f = 1 / (1 + e^epsilon), rounded up. Without `changes` the lot is an epoch, which is
                the group, and the sign is the answer in it. With at most k `changes` it is a level of a binary tree
                over the epochs, which is the group, and the number of a change, 1 to k. The sign is that of this
                change, at the end of the interval of 2^level epochs that it falls into. Answers start from no. Changes
                beyond k are never sent, nor that there were any.
    Guarantee:  pure DP with epsilon for any change of the whole history, for all reports of all epochs together, also
                if a device is resumed from an earlier state and given the same answers again.
    Error:      unbiased for histories within the bound, except that an epoch that no lot drew gets the share 1/2.
                n Var of a share is at most about T / (4 (1 - 2 f)^2), or with L levels k^2 L m / (1 - 2 f)^2, m being
                the number of ones of the epoch in binary.
    Proof:      the lot does not depend on the history. Given the lot the bits are independent, and the laws of two
                histories differ in at most two epochs. If two, at one of them this law has 1 - f or f for a bit and
                the other 1/2, and at the other one conversely: a ratio of at most ((1 - f) / (1/2)) ((1/2) / f) =
                (1 - f) / f <= e^epsilon (probabilities.py). If one, it is at most the same. All words are drawn at
                enrolment, so the reports are a function of them and of the answers.
    Checked by: tests/collect/test_panel.py
    """

    kind: ClassVar[str] = "panel"

    epochs: int
    epsilon: Fraction
    changes: int | None
    width: int = field(default=WORD, repr=False)

    def __init__(self, *, epochs: int, epsilon: Number, changes: int | None = None, width: int = WORD) -> None:
        set_fields(self, epochs=count(epochs, "epochs"), epsilon=read_epsilon(epsilon))
        set_fields(self, changes=None if changes is None else count(changes, "changes"), width=count(width, "width"))
        require_bits(self.width <= WORD and self.edge > 0, self.width)
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
        """The weight of a bit that counts in the sum over respondents."""
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
            state = json.loads(kept, object_pairs_hook=lambda pairs: dict(pairs) if _distinct(pairs) else None)
        except (ValueError, TypeError, RecursionError):
            state = None
        if isinstance(state, dict) and state.get("panel", name := self.name.hex()) != name:
            raise Misconfigured("this device was enrolled in another panel. Resume it with the panel that enrolled it.")
        device = PanelDevices(self, 1, SYSTEM)
        if not isinstance(state, dict) or not device.restore(state):
            raise Misconfigured("This text holds no device of this panel. Pass what to_json() gave, unchanged.")
        return device

    def randomize_all(self, values: Any, bits: BitSource) -> ReportRows:
        listed = [*values]
        lengths = {len(history) if hasattr(history, "__len__") else -1 for history in listed}
        histories: Array = np.array(listed) if len(lengths) == 1 else np.empty(0)
        if histories.dtype != np.bool_ or histories.shape[1:] != (self.epochs,):
            raise Misconfigured(f"a history is not {self.epochs} times True or False. Pass one answer for each epoch.")
        devices = PanelDevices(self, len(histories), bits)
        return np.concatenate([devices.send(column) for column in histories.T], axis=1)

    def valid(self, reports: Reports) -> Flags:
        groups = _numbers(reports.rows) >> 1
        return np.asarray((groups[:, 0] < self.groups) & (groups == groups[:, :1]).all(axis=1))

    def estimate(self, reports: Reports | Iterable[bytes], *, confidence: Number = 0.95) -> tuple[MeanEstimate, ...]:
        """The share of yes in each epoch, with an interval for each; also from the bytes of the first epochs alone."""
        level, seen = float(inside_unit(confidence, "confidence")), self.epochs
        if not isinstance(reports, Reports):
            listed = [bytes(report) for report in reports]
            seen = min([self.epochs, *(len(report) // _BYTES for report in listed)])
            reports = [report + report[:_BYTES] * (self.epochs - seen) for report in listed]  # no share so far reads it
        numbers = _numbers(self.check(reports).rows)
        return tuple(self._share(numbers, epoch, level) for epoch in range(1, seen + 1))

    def _share(self, numbers: Integers, epoch: int, level: float) -> MeanEstimate:
        if self.changes is None:
            return self._share_by_lot(numbers[:, epoch - 1], epoch - 1, level)
        added: Floats = np.zeros(len(numbers))
        for group, taken in self.counting(epoch).items():
            reports = numbers[:, taken - 1]
            added += np.where(reports >> 1 == group, self.reach * (2.0 * (reports & 1) - 1), 0.0)
        low, high, error = student_ends(added, self.reach, 1 - level)
        near, far = (min(max(end, 0.0), 1.0) for end in (low, high))
        return MeanEstimate(float(added.mean()), near, far, error, len(added), level, 2 * self.reach)

    def _share_by_lot(self, reports: Integers, group: int, level: float) -> MeanEstimate:
        """From those whose lot is this epoch: a sample, in which a bit is one with probability f + (1 - 2 f) share.

        The interval is that of independent bits. They are drawn without replacement, so their number varies less.
        """
        bits = reports[reports >> 1 == group] & 1
        n, margin = max(1, len(bits)), self.edge / (1 << self.width - 1)
        low, high, mean, error = 0.0, 1.0, 0.5, 0.5 / margin
        if len(bits):
            support = Support((1 + margin) / 2, (1 - margin) / 2)
            ends = share_of_population(bits.sum(keepdims=True), n, support, 1 - level)
            low, high = (float(end[0]) for end in ends)
            mean = 0.5 + (int(bits.sum()) / n - 0.5) / margin
        if n > 1:
            error = float(bits.std(ddof=1)) / np.sqrt(n) / margin
        return MeanEstimate(mean, low, high, error, len(reports), level, len(reports) / (n * margin))


class PanelDevices:
    """The state of devices between epochs. It decides bits, never whether or how much is sent.

    Everything random is drawn at enrolment and kept, so a device resumed from any earlier state sends the same reports
    for the same answers. Given another answer to an epoch that it reported before, it cannot know: the two reports
    together may show both answers, beyond epsilon. So keep `to_json()` before a report is sent, and name the epoch:
    what was reported in it is sent again.
    """

    def __init__(self, panel: YesNoPanel, devices: int, bits: BitSource) -> None:
        n = count(devices, "devices")
        self.panel, self.epoch, self.last = panel, 0, b""
        self.lots: Integers = sample_uniform(panel.lots, n, bits=bits)
        half = 1 << panel.width - 1
        steps = np.array([[half - panel.edge], [half], [half + panel.edge]], np.uint64)
        drawn = [(bits.words(n, panel.width) < steps).sum(axis=0, dtype=np.uint8) for _ in range(panel.epochs)]
        self.draws: Array = np.stack(drawn)
        """For each epoch and device: below how many of the three thresholds the word is."""
        self.held: Flags = np.zeros(n, np.bool_)
        self.changed: Integers = np.zeros(n, np.int64)
        self.pending: Integers = np.zeros(n, np.int64)

    def to_json(self) -> str:
        """The state of one device, as text. Keep it on the device, before a report is sent.

        It holds answers, and the randomness by which reports, sent and to come, can be read.
        """
        if len(self.lots) != 1:
            raise Misconfigured("these are several devices. Enrol one by panel.enroll() to keep its state.")
        kept = {name: getattr(self, name).tolist()[0] for name in _STATE}
        draws = "".join(map(str, self.draws[:, 0].tolist()))
        head = {"panel": self.panel.name.hex(), "epoch": self.epoch, "last": self.last.hex(), "draws": draws}
        return json.dumps({**head, **kept})

    def restore(self, state: dict[str, Any]) -> bool:
        """Takes the state of one device, if `to_json` can have given it."""
        fresh = json.loads(self.to_json())
        if set(state) != set(fresh) or any(type(state[name]) is not type(fresh[name]) for name in fresh):
            return False
        panel, epoch, lot, changed = self.panel, state["epoch"], state["lots"], state["changed"]
        reports = [(2 * (lot % panel.groups) + bit).to_bytes(_BYTES, "little").hex() for bit in (0, 1)]
        if not (
            state["panel"] == fresh["panel"]
            and 0 <= epoch <= panel.epochs
            and 0 <= lot < panel.lots
            and len(state["draws"]) == panel.epochs
            and set(state["draws"]) <= set("0123")
            and state["last"] in (reports if epoch else [""])
            and 0 <= changed <= (epoch if panel.changes else 0)
            and state["held"] == changed % 2
            and state["pending"] in ((-1, 0, 1) if changed > lot // panel.groups else (0,))
        ):
            return False
        self.epoch, self.last = epoch, bytes.fromhex(state["last"])
        self.draws = np.array([[int(draw)] for draw in state["draws"]], np.uint8)
        for name in _STATE:
            setattr(self, name, np.array([state[name]]))
        return True

    def report(self, value: bool, *, epoch: int | None = None) -> bytes:
        """One respondent's report of the next epoch. Those of all epochs, joined, are what `estimate` reads.

        With the number of the last epoch, counted from 1, the report that was made in it, whatever the value is now.
        """
        if not isinstance(value, bool | np.bool_):
            raise Misconfigured("an answer is not True or False. Pass one of them in every epoch.")
        if epoch is not None and (number := count(epoch, "epoch")) != self.epoch + 1:
            if number != self.epoch:
                raise Misconfigured(
                    f"`epoch` is {number}; this device reports epoch {self.epoch + 1} next. "
                    "Report epochs in order, and resume a device from the last state that was kept."
                )
            return self.last
        self.last = self.send(np.array([value])).tobytes()
        return self.last

    def send(self, values: Flags) -> ReportRows:
        """A report of the next epoch from each device."""
        panel = self.panel
        if np.shape(values) != self.lots.shape:
            raise Misconfigured(f"there are {len(self.lots)} devices. Pass one answer for each.")
        if self.epoch == panel.epochs:
            raise Misconfigured(f"all {self.epoch} epochs were reported. A new panel costs its epsilon again.")
        self.epoch += 1
        ones = self.draws[self.epoch - 1] >= 2 - self._signs(values)
        return as_bytes(self.lots % panel.groups * 2 + ones, _BYTES)

    def _signs(self, values: Flags) -> Integers:
        """The sign that each device sends now: 1, -1, or 0 for a fair coin."""
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


def _distinct(pairs: list[tuple[str, Any]]) -> bool:
    return len(dict(pairs)) == len(pairs)


def _numbers(rows: ReportRows) -> Integers:
    return np.ascontiguousarray(rows).view("<u2").astype(np.int64)
