"""RAPPOR: the same respondent reports one value again and again, and averaging shows no more than `forever` allows.

[EPK14] Erlingsson, Pihur, Korolova: RAPPOR: randomized aggregatable privacy-preserving ordinal response.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from lapwing.arrays import Flags, Integers
from lapwing.collect.encodings import BitVectorProtocol, pack
from lapwing.collect.probabilities import WORD, flip, read_epsilon
from lapwing.errors import Misconfigured
from lapwing.noise.bits import SYSTEM, BitSource
from lapwing.numbers import Number, shown
from lapwing.privacy.loss import Pure


@dataclass(frozen=True, init=False)
class Rappor(BitVectorProtocol):
    """Bits for each value, flipped once for ever and once more for each report.

    Law:        a respondent's k bits (1 for the value held) are each flipped with probability a, once, and kept: the
                permanent bits. Every report flips each permanent bit with probability b, anew.
    Guarantee:  pure DP with `epsilon` for one report and with `forever` for all reports of one client together, however
                many, for the one value that it was enrolled with. A change over time is not protected: a respondent
                who enrols again, or stops, because their value changed shows when it did.
    Error:      that of unary encoding with p = 1 - r and q = r, r = a + b - 2 a b.
    Proof:      all reports are computed from the permanent bits, whose law for two values differs in two bits, by the
                ratio ((1 - a) / a)^2 <= e^forever; one report has the ratio ((1 - r) / r)^2 <= e^epsilon. Both a and b
                are rounded up, and r grows with each of them while they are at most 1/2. [EPK14]
    Checked by: tests/collect/test_rappor.py
    """

    kind: ClassVar[str] = "RAPPOR"

    forever: Fraction = field(default=Fraction(1))

    def __init__(self, values: Sequence[Hashable], *, epsilon: Number, forever: Number, width: int = WORD) -> None:
        super().__init__(values, epsilon=epsilon, width=width)
        object.__setattr__(self, "forever", read_epsilon(forever))
        if self.forever <= self.epsilon:
            raise Misconfigured(
                f"`forever` is {shown(forever)}; it must exceed `epsilon`, what one report costs. "
                "Pass for example epsilon=1, forever=2."
            )

    @property
    def loss(self) -> Pure:
        """What all reports of one client lose together."""
        return Pure(self.forever)

    @property
    def facts(self) -> dict[str, Any]:
        return {**super().facts, "forever": str(self.forever)}

    @cached_property
    def permanent(self) -> int:
        """Of 2^width words, those that flip a permanent bit: a."""
        return flip(self.forever / 2, width=self.width)

    @cached_property
    def instant(self) -> int:
        """Of 2^width words, those that flip a bit of one report: b = (r - a) / (1 - 2 a), rounded up."""
        whole, wanted = 1 << self.width, flip(self.epsilon / 2, width=self.width)
        return -(-(wanted - self.permanent) * whole // (whole - 2 * self.permanent))

    @property
    def p(self) -> Fraction:
        return 1 - self.q

    @property
    def q(self) -> Fraction:
        a, b = Fraction(self.permanent, 1 << self.width), Fraction(self.instant, 1 << self.width)
        return a + b - 2 * a * b

    def enroll(self, value: Any, *, bits: BitSource = SYSTEM) -> RapporClient:
        """A respondent who holds this value, with permanent bits of their own."""
        return RapporClient(self, value, bits)

    def permanent_bits(self, places: Integers, bits: BitSource) -> Flags:
        """Permanent bits of respondents who hold the values in these places."""
        return self._flip(places[:, np.newaxis] == np.arange(len(self.values)), self.permanent, bits)

    def report_bits(self, permanent: Flags, bits: BitSource) -> Flags:
        """The bits of a report from each row of permanent bits."""
        return self._flip(permanent, self.instant, bits)

    def randomize_bits(self, places: Integers, bits: BitSource) -> Flags:
        return self.report_bits(self.permanent_bits(places, bits), bits)

    def _flip(self, flags: Flags, threshold: int, bits: BitSource) -> Flags:
        return flags ^ (bits.words(flags.size, self.width).reshape(flags.shape) < threshold)


class RapporClient:
    """What a respondent keeps: one value and its permanent bits, never the reports' own randomness.

    The value is kept in the clear, to refuse another one: a client stays on the device.
    """

    def __init__(self, protocol: Rappor, value: Any, bits: BitSource = SYSTEM) -> None:
        self._protocol, self._place = protocol, protocol.places([value])
        self._permanent = protocol.permanent_bits(self._place, bits)

    def report(self, *value: Any, bits: BitSource = SYSTEM) -> bytes:
        """A report from the permanent bits. A value is compared with the one enrolled with; another is refused."""
        if value and self._protocol.places([*value]).tolist() != self._place.tolist():
            raise Misconfigured(
                "a client of RAPPOR reports one value for ever: reports of a second one would show when it changed. "
                "Call report() to send the first again: silence shows the change too. For answers that change, use "
                "lw.collect.choose_panel, or lw.collect.choose at epsilon / epochs, with a report in every epoch."
            )
        return pack(self._protocol.report_bits(self._permanent, bits)).tobytes()

    @property
    def loss(self) -> Pure:
        """What all reports lose together, for the value that the client was enrolled with."""
        return self._protocol.loss
