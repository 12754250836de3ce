"""Every protocol of the local model, found by looking: its law by enumeration. One without a case here fails."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lapwing.arrays import Integers
from lapwing.collect import (
    DirectEncoding,
    FrequencyProtocol,
    FrequentStrings,
    HybridMean,
    LocalHashing,
    OneBitMean,
    Rappor,
    SubsetSelection,
    UnaryEncoding,
    YesNoPanel,
    histogram,
    means,
)
from lapwing.collect.choose import PROTOCOLS, Histogram
from lapwing.collect.encodings import RapporClient
from lapwing.collect.hashing import Hashing
from lapwing.collect.local import LocalProtocol, ReportRows, Respondent
from lapwing.collect.panel import PanelDevices
from lapwing.collect.probabilities import SymbolCoin, spread
from lapwing.noise.bits import SYSTEM, BitSource
from lapwing.privacy.loss import Pure
from lapwing.survey import wire
from lapwing.survey.survey_app import SurveyServer
from lapwing.survey.survey_question import LN_3, TwoCoins
from support.local_laws import assert_private, law_of
from support.members import classes_in, concrete, lacking, modules_in, plant
from support.tape import SeededBits

SENDING = ("lapwing.collect", "lapwing.survey")
PACKAGES = ("lapwing",)


@dataclass(frozen=True)
class LawCase:
    """A protocol so small that every tape can be tried."""

    make: Callable[[], LocalProtocol]
    values: Sequence[Any]
    tape: int | Sequence[int]
    """Bits, or how many values each word has."""


def letters(kind: Any, many: int, epsilon: Any, tape: int | Sequence[int], *, width: int = 4, **more: Any) -> LawCase:
    values = "abcdefghi"[:many]
    return LawCase(lambda: kind(list(values), epsilon=epsilon, width=width, **more), values, tape)


def small_hashing() -> LocalHashing:
    """Hashes of 2 bits instead of 16."""
    protocol = LocalHashing(range(8), epsilon=1, width=4)
    protocol.__dict__["hashing"] = replace(protocol.hashing, bits=2)
    return protocol


def small_strings(alphabet: str, length: int, bits: int) -> FrequentStrings:
    protocol = FrequentStrings(epsilon=1, length=length, alphabet=alphabet, step=1)
    protocol.__dict__["hashing"] = Hashing(3, spread(Fraction(1), 3, width=4), columns=length, bits=bits)
    return protocol


def small_histogram(bins: int, epsilon: int, width: int) -> Histogram:
    made = histogram(range(bins + 1), epsilon=epsilon)
    return replace(made, protocol=type(made.protocol)(made.protocol.values, epsilon=epsilon, width=width))


HYBRID = HybridMean((-1, 1), epsilon=Fraction(3, 2), width=4)  # of 6 cells a window has 2
HISTORIES = [tuple(bool(n >> i & 1) for i in range(4)) for n in range(16)]

CASES: dict[type[LocalProtocol], list[LawCase]] = {
    DirectEncoding: [
        *(letters(DirectEncoding, k, e, [16]) for k, e in ((2, 1), (5, Fraction(1, 2)), (4, 2))),
        letters(DirectEncoding, 9, 2, [256], width=8),
    ],
    UnaryEncoding: [
        *(letters(UnaryEncoding, k, e, [16] * k) for k, e in ((2, 1), (3, Fraction(1, 2)))),
        letters(UnaryEncoding, 7, 2, [4] * 7, width=2),
    ],
    SubsetSelection: [letters(SubsetSelection, k, e, 8) for k, e in ((3, Fraction(1, 2)), (5, 1), (9, 2))],
    LocalHashing: [LawCase(small_hashing, range(8), [16, 16, 16])],
    Rappor: [letters(Rappor, 2, 2, [16] * 4, forever=4), letters(Rappor, 4, 4, [4] * 8, width=2, forever=8)],
    TwoCoins: [letters(TwoCoins, 2, LN_3, [16])],
    Histogram: [
        LawCase(lambda: small_histogram(3, 1, 4), [-1, 0.5, 1, 2.5], [16]),
        LawCase(lambda: small_histogram(8, 2, 8), [n + 0.5 for n in range(8)], [256]),
    ],
    OneBitMean: [LawCase(lambda: OneBitMean((-1, 1), epsilon=1, width=8), [n / 8 for n in range(-8, 9)], [256])],
    HybridMean: [LawCase(lambda: HYBRID, [-1, -0.6, 0, 0.3, 1], [16, 2, 2, 4, 16, 16])],
    FrequentStrings: [
        LawCase(lambda: small_strings("abcdefg", 1, 2), list("abcdefg"), [1, 16, 16, 16]),
        LawCase(lambda: small_strings("a", 3, 1), ["a", "aa", "aaa"], [3, 4, 4, 4, 4, 16]),
    ],
    YesNoPanel: [
        LawCase(lambda: YesNoPanel(epochs=4, epsilon=2, width=2), HISTORIES, [4, 4, 4, 4, 4]),
        LawCase(lambda: YesNoPanel(epochs=4, changes=2, epsilon=2, width=2), HISTORIES, [6, 4, 4, 4, 4]),
    ],
}


@pytest.fixture(autouse=True)
def few_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of a window over 6 cells instead of 65,534, with one bit for the place between two."""
    monkeypatch.setattr(means, "_CELLS", 6)
    monkeypatch.setattr(means, "_FINE", 1)


def assert_lawful(kind: type[LocalProtocol]) -> None:
    assert kind in CASES, f"{kind.__name__} has no law case: add one to CASES in tests/collect/test_laws.py"
    assert kind.respond is LocalProtocol.respond, f"{kind.__name__} sends what no law here is of"
    for case in CASES[kind]:
        protocol = case.make()
        assert type(protocol) is kind
        laws = [law_of(protocol, value, case.tape) for value in case.values]
        assert_private(laws, protocol.epsilon)
        assert_private(laws, protocol.loss.epsilon)
        assert protocol.loss.epsilon >= protocol.epsilon, f"{kind.__name__} claims to lose less than its epsilon"
        for value in case.values:
            for seed in range(8):
                made = protocol.randomize_all([value], SeededBits(seed)).tobytes()
                assert protocol.respond(value, bits=SeededBits(seed)) == made


@pytest.mark.parametrize("kind", concrete(LocalProtocol, *PACKAGES), ids=lambda kind: kind.__name__)
def test_no_report_tells_two_values_apart_by_more_than_epsilon(kind: type[LocalProtocol]) -> None:
    """lecture:L10 lecture:L21 threat:A33 all tapes, all pairs of values, all reports, as fractions."""
    assert_lawful(kind)


@pytest.mark.parametrize("kind", concrete(FrequencyProtocol, *PACKAGES), ids=lambda kind: kind.__name__)
def test_reports_support_values_as_often_as_stated(kind: type[FrequencyProtocol]) -> None:
    """gate:G44 p and q are exact, so (y / n - q) / (p - q) is unbiased exactly."""
    for case in CASES[kind]:
        protocol = case.make()
        assert isinstance(protocol, FrequencyProtocol)
        many = len(protocol.values)
        for held, value in enumerate(case.values):
            law = law_of(protocol, value, case.tape)
            rows = np.frombuffer(b"".join(law), np.uint8).reshape(len(law), protocol.size)
            flags = protocol.supported(rows, range(many))
            times = np.arange(1, len(rows) + 1)  # so that no two reports weigh the same
            assert protocol.count(np.repeat(rows, times, axis=0)).tolist() == (times @ flags).tolist()
            for other in range(many):
                hits = zip(law.values(), flags[:, other], strict=True)
                chance = sum((mass for mass, hit in hits if hit), Fraction(0))
                assert chance == (protocol.p if other == held else protocol.q)


def test_what_is_chosen_and_exported_is_found() -> None:
    import lapwing.collect as public

    exported = {one for one in vars(public).values() if isinstance(one, type) and issubclass(one, LocalProtocol)}
    found = set(concrete(LocalProtocol, *PACKAGES))
    assert set(PROTOCOLS) <= found
    assert {one for one in exported if not one.__abstractmethods__} <= found
    assert lacking(found, CASES) == []
    assert lacking(CASES, found) == []


def test_nothing_else_randomizes() -> None:
    """What sends reports without being a protocol has its own law: hashes, permanent bits, devices, surveys."""
    acts = ("respond", "randomize", "randomize_all", "report", "send", "answer")
    sending = {one for one in classes_in(*SENDING) if any(callable(getattr(one, act, None)) for act in acts)}
    others = {one for one in sending if not issubclass(one, LocalProtocol)}
    assert others == {Hashing, RapporClient, PanelDevices, Respondent, SurveyServer}
    functions = [getattr(module, act, None) for module in modules_in(*SENDING) for act in acts]
    assert {one for one in functions if inspect.isfunction(one)} == {wire.randomize}


class Truthful(DirectEncoding):
    """Planted: of 16 words 15 give the truth, whatever epsilon it claims."""

    @cached_property
    def coin(self) -> SymbolCoin:
        return SymbolCoin((1 << self.width) - 1, 1, self.width)


def test_a_planted_protocol_is_found_and_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It claims epsilon = 1 and has ln 15: without a case it is named, with one it is refuted."""
    plant(monkeypatch, Truthful, module="lapwing.collect.encodings")
    assert Truthful in concrete(LocalProtocol, *PACKAGES)
    with pytest.raises(AssertionError, match="Truthful has no law case"):
        assert_lawful(Truthful)
    monkeypatch.setitem(CASES, Truthful, [letters(Truthful, 2, 1, [16])])
    with pytest.raises(AssertionError, match=r"ratio 15; epsilon = 1 allows 2.718"):
        assert_lawful(Truthful)


class Cheap(DirectEncoding):
    """Planted: it claims half of what it loses."""

    @property
    def loss(self) -> Pure:
        return Pure(self.epsilon / 2)


class Sneaky(DirectEncoding):
    """Planted: it randomizes, and sends the truth."""

    def respond(self, value: Any, *, bits: BitSource = SYSTEM) -> Any:
        return bytes([self.values.index(value)])


class Partial(DirectEncoding):
    """Planted: the seventh value is never randomized."""

    def randomize(self, places: Integers, bits: BitSource) -> ReportRows:
        rows = super().randomize(places, bits)
        rows[places == 6] = 6
        return rows


@pytest.mark.parametrize(
    ("kind", "says"),
    [(Cheap, "epsilon = 1/2 allows"), (Sneaky, "sends what no law here is of"), (Partial, "tells them apart")],
)
def test_what_breaks_its_word_in_one_place_is_refuted(kind: Any, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cases of direct encoding would not let these pass."""
    cases = [
        replace(case, make=lambda case=case: kind(list(case.values), **of(case))) for case in CASES[DirectEncoding]
    ]
    monkeypatch.setitem(CASES, kind, cases)
    with pytest.raises(AssertionError, match=says):
        assert_lawful(kind)


def of(case: LawCase) -> dict[str, Any]:
    protocol = case.make()
    assert isinstance(protocol, DirectEncoding)
    return {"epsilon": protocol.epsilon, "width": protocol.width}


def test_classes_are_found_at_every_depth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a package itself, in one inside of it, and in a module of that."""
    (tmp_path / "planted_laws" / "inner").mkdir(parents=True)
    for name in ("__init__", "inner/__init__", "inner/deep"):
        (tmp_path / "planted_laws" / f"{name}.py").write_text("class Planted: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = [one.__module__ for one in classes_in("planted_laws")]
    assert found == ["planted_laws", "planted_laws.inner", "planted_laws.inner.deep"]
