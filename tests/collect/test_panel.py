"""lapwing.collect.panel: whole histories, every tape, every pair."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import betaincinv

from lapwing.arrays import Flags
from lapwing.collect import PanelDevices, Reports, YesNoPanel, choose_panel
from lapwing.errors import Misconfigured
from lapwing.privacy.loss import Pure
from support.local_laws import EveryTape, assert_private, law_of
from support.tape import SeededBits

WIDTH = 3
History = tuple[bool, ...]

SMALL: dict[str, YesNoPanel] = {
    "one epoch of 3": YesNoPanel(epochs=3, epsilon=1, width=WIDTH),
    "one epoch of 4, little epsilon": YesNoPanel(epochs=4, epsilon=Fraction(3, 4), width=WIDTH),
    "tree over 1": YesNoPanel(epochs=1, changes=1, epsilon=1, width=WIDTH),
    "tree over 3, a change": YesNoPanel(epochs=3, changes=1, epsilon=Fraction(3, 2), width=WIDTH),
    "tree over 4, a change": YesNoPanel(epochs=4, changes=1, epsilon=1, width=WIDTH),
    "tree over 4, 4 changes": YesNoPanel(epochs=4, changes=4, epsilon=2, width=2),
    "tree over 5, a change": YesNoPanel(epochs=5, changes=1, epsilon=2, width=2),
}
EVERY = pytest.mark.parametrize("name", SMALL)
BOTH = [YesNoPanel(epochs=16, epsilon=2), YesNoPanel(epochs=16, changes=2, epsilon=2)]


def sizes(panel: YesNoPanel) -> list[int]:
    return [panel.lots] + [1 << panel.width] * panel.epochs


def histories(panel: YesNoPanel) -> list[History]:
    return list(product((False, True), repeat=panel.epochs))


def changes(history: History) -> int:
    return sum(a != b for a, b in zip((False, *history), history, strict=False))


@EVERY
def test_no_two_histories_are_told_apart_by_more_than_epsilon(name: str) -> None:
    """threat:A33 the law of all reports of all epochs together, for every pair of histories, also beyond the bound."""
    panel = SMALL[name]
    assert_private([law_of(panel, history, sizes(panel)) for history in histories(panel)], panel.epsilon)
    assert panel.loss == Pure(panel.epsilon)


def test_a_device_that_sent_every_change_would_be_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The enumeration has power: a tree for one change that reports all of them exceeds its epsilon."""

    def every(device: PanelDevices, values: Flags) -> Any:
        device.changed[:] = 0
        return signs(device, values)

    signs = PanelDevices._signs
    monkeypatch.setattr(PanelDevices, "_signs", every)
    panel = YesNoPanel(epochs=4, changes=1, epsilon=1, width=WIDTH)
    with pytest.raises(AssertionError, match="ratio"):
        assert_private([law_of(panel, history, sizes(panel)) for history in histories(panel)], panel.epsilon)


@EVERY
def test_shares_are_unbiased(name: str) -> None:
    """gate:G44 averaged over every tape, the estimate of each epoch is the answer in it."""
    panel = SMALL[name]
    for history in histories(panel):
        if changes(history) <= (panel.changes or panel.epochs):
            tapes = EveryTape(sizes(panel))
            sent = Reports(panel.name, panel.randomize_all([history] * tapes.many, tapes))
            assert [one.mean for one in panel.estimate(sent)] == pytest.approx([float(held) for held in history])


def test_changes_beyond_the_bound_leave_no_trace() -> None:
    """A history with more changes has the law of the one that stops at the bound."""
    panel = YesNoPanel(epochs=4, changes=1, epsilon=1, width=WIDTH)
    beyond, bound = (False, True, False, True), (False, True, True, True)
    many, stopped = (law_of(panel, history, sizes(panel)) for history in (beyond, bound))
    assert many == stopped


@pytest.mark.parametrize("panel", BOTH, ids=["one epoch", "tree"])
def test_a_device_reports_in_every_epoch_and_knows_only_the_past(panel: YesNoPanel) -> None:
    """threat:A33 reports have one size, and those of one tape are the same until the histories differ."""
    for common in range(panel.epochs):
        sent = []
        for last in (False, True):
            device = panel.enroll(bits=SeededBits(common))
            answers = [epoch % 3 == 0 for epoch in range(common)] + [last] * (panel.epochs - common)
            sent.append([device.report(answer) for answer in answers])
        assert {len(report) for reports in sent for report in reports} == {2}
        assert sent[0][:common] == sent[1][:common]
        whole = (*answers[:common], *[True] * (panel.epochs - common))
        assert b"".join(sent[1]) == panel.respond(whole, bits=SeededBits(common))
    with pytest.raises(Misconfigured, match="all 16 epochs were reported"):
        device.report(True)


def test_a_change_is_not_told_from_none() -> None:
    """threat:A33 the attack on memoized bits, with the best statistic there is: the likelihood ratio of all reports."""
    runs, epochs = 6_000, 200
    never, once = np.zeros((runs, epochs), np.bool_), np.zeros((runs, epochs), np.bool_)
    once[:, epochs // 2 :] = True
    for panel in (YesNoPanel(epochs=epochs, epsilon=1), YesNoPanel(epochs=epochs, changes=1, epsilon=1)):
        told = []
        for secret in (never, once):
            numbers = panel.respond(secret, bits=SeededBits(4)).rows.view("<u2").astype(np.int64)
            group, bit = numbers[:, 0] >> 1, numbers & 1
            where = group if panel.changes is None else (epochs // 2 >> group << group) + (1 << group) - 1
            told.append(int(bit[np.arange(runs), np.minimum(where, epochs - 1)].sum()))
        least, most = betaincinv(told[1], runs - told[1] + 1, 5e-4), betaincinv(told[0] + 1, runs - told[0], 1 - 5e-4)
        assert 0.1 < math.log(least / most) <= 1, panel.changes


@pytest.mark.parametrize("panel", BOTH, ids=["one epoch", "tree"])
@pytest.mark.parametrize("n", [12, 600])
def test_intervals_hold(panel: YesNoPanel, n: int) -> None:
    """gate:G44 100 panels, all epochs."""
    rng, bits, hits = np.random.default_rng(n), SeededBits(n), 0
    starts, ends = rng.integers(0, 16, n), rng.integers(0, 20, n)
    answers = np.array([[start <= epoch < end for epoch in range(16)] for start, end in zip(starts, ends, strict=True)])
    for _ in range(100):
        found = panel.estimate(panel.respond(answers, bits=bits))
        hits += sum(one.low <= share <= one.high for one, share in zip(found, answers.mean(axis=0), strict=True))
    assert 0.94 <= hits / 100 / 16 <= (1 if n < 100 else 0.97)


def test_a_device_goes_on_where_it_stopped() -> None:
    for panel in BOTH:
        device = panel.enroll(bits=SeededBits(8))
        resumed = panel.resume(device.to_json())
        for epoch in range(16):
            resumed = panel.resume(resumed.to_json())
            assert device.report(epoch > 5) == resumed.report(epoch > 5)
        with pytest.raises(Misconfigured, match="another panel"):
            YesNoPanel(epochs=3, epsilon=1).resume(device.to_json())


@pytest.mark.parametrize("panel", BOTH, ids=["one epoch", "tree"])
def test_a_state_resumed_again_and_again_sends_one_report(panel: YesNoPanel) -> None:
    """threat:A33 averaging: from any earlier state the same answers give the same reports, with no new randomness."""
    answers = [epoch % 5 < 2 for epoch in range(16)]
    for _ in range(40):
        device = panel.enroll()
        states, sent = [device.to_json()], []
        for answer in answers:
            sent.append(device.report(answer))
            states.append(device.to_json())
        for start in (0, 3, 9, 15):
            resumed = panel.resume(states[start])
            assert [resumed.report(answer) for answer in answers[start:]] == sent[start:]


@pytest.mark.parametrize("panel", BOTH, ids=["one epoch", "tree"])
def test_the_report_of_an_epoch_is_sent_again_whatever_the_answer_is_now(panel: YesNoPanel) -> None:
    """threat:A33 a state that was kept before its report was sent."""
    for seed in range(200):
        device = panel.enroll(bits=SeededBits(seed))
        for epoch in range(1, 4):
            sent = device.report(True, epoch=epoch)
            kept = device.to_json()
            assert {panel.resume(kept).report(now, epoch=epoch) for now in (True, False)} == {sent}
        assert device.to_json() == kept
        for other in (1, 2, 5):
            with pytest.raises(Misconfigured, match="reports epoch 4 next"):
                device.report(True, epoch=other)


def kept_with(panel: YesNoPanel, /, **changed: Any) -> str:
    device = panel.enroll(bits=SeededBits(1))
    device.report(False)
    state = {**json.loads(device.to_json()), **changed}
    return json.dumps({name: value for name, value in state.items() if value is not ...})


WRONG: list[dict[str, Any]] = [
    *({name: ...} for name in json.loads(BOTH[0].enroll().to_json())),
    *({name: value} for name in ("epoch", "lots", "changed", "pending") for value in (1.0, True, "1", None, [0])),
    *({name: value} for name in ("held",) for value in (0, "False", None, [False])),
    *({"epoch": value} for value in (-1, 0, 17)),
    *({"lots": value} for value in (-1, 99, 10**30, [], [0, 1])),
    *({"draws": value} for value in ("", "0" * 15, "0" * 17, "4" * 16, "\u0661" * 16, [0] * 16)),
    *({"last": value} for value in ("", "0", "ffff", "000000", "zzzz", 0)),
    *({"changed": value} for value in (-3, 2, 1)),
    *({"pending": value} for value in (5, -9, 1)),
    {"held": True},
    {"report": [1]},
]


@pytest.mark.parametrize("panel", BOTH, ids=["one epoch", "tree"])
@pytest.mark.parametrize("changed", WRONG, ids=str)
def test_a_state_that_no_device_gave_is_refused(panel: YesNoPanel, changed: dict[str, Any]) -> None:
    """gate:G43 a missing, surplus, mistyped or impossible field."""
    panel.resume(kept_with(panel))
    with pytest.raises(Misconfigured, match="no device of this panel"):
        panel.resume(kept_with(panel, **changed))


@pytest.mark.parametrize(
    "text", ["{}", "?", "[1]", "[]", "5", "null", "[" * 10**5, kept_with(BOTH[0])[:-1] + ', "epoch": 1}']
)
def test_text_that_is_no_state_is_refused(text: str) -> None:
    """gate:G43"""
    with pytest.raises(Misconfigured, match="no device of this panel"):
        BOTH[0].resume(text)


def test_every_device_needs_one_answer() -> None:
    """gate:G43"""
    devices = PanelDevices(BOTH[0], 3, SeededBits(1))
    for many in (1, 2, 4):
        with pytest.raises(Misconfigured, match="there are 3 devices"):
            devices.send(np.zeros(many, np.bool_))
    assert devices.epoch == 0
    assert devices.send(np.zeros(3, np.bool_)).shape == (3, 2)
    with pytest.raises(Misconfigured, match="several devices"):
        devices.to_json()


@pytest.mark.parametrize("width", [0, -1, 1, 2, 3, 65, 128, 2.5, "x"])
def test_words_that_cannot_keep_epsilon_are_refused(width: Any) -> None:
    """gate:G43"""
    with pytest.raises(Misconfigured, match="`width`"):
        YesNoPanel(epochs=3, epsilon=Fraction(1, 10), width=width)


def test_shares_are_known_as_soon_as_their_epoch_is_reported() -> None:
    for panel in BOTH:
        reports = panel.respond([(False,) * 3 + (True,) * 13] * 60, bits=SeededBits(2))
        for seen in (1, 5, 16):
            assert panel.estimate([one[: 2 * seen] for one in reports.each()]) == panel.estimate(reports)[:seen]
        with pytest.raises(Misconfigured, match="has 32 bytes"):
            panel.estimate([bytes(2), bytes(4)])


def test_the_panel_with_the_least_error_is_chosen() -> None:
    chosen = {(t, k): choose_panel(epochs=t, changes=k, epsilon=1).changes for t in (12, 365, 3650) for k in (1, 2, 3)}
    assert {asked for asked, changes in chosen.items() if changes} == {(365, 1), (3650, 1), (3650, 2)}
    assert choose_panel(epochs=3650, epsilon=1).changes is None


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: choose_panel(epochs=0, epsilon=1), "`epochs`"),
        (lambda: choose_panel(epochs=40_000, epsilon=1), "at most 32,768"),
        (lambda: choose_panel(epochs=3, changes=0, epsilon=1), "`changes`"),
        (lambda: BOTH[0].respond((True, False)), "16 times True or False"),
        (lambda: BOTH[0].respond([(True,) * 16, (True,)]), "16 times True or False"),
        (lambda: BOTH[0].respond((1,) * 16), "16 times True or False"),
        (lambda: BOTH[0].enroll().report(1), "True or False"),  # type: ignore[arg-type]
        (lambda: BOTH[0].estimate([bytes([40, 0] * 16)]), "malformed"),
        (lambda: BOTH[1].estimate([bytes([2, 0] + [0] * 30)]), "malformed"),
        (lambda: BOTH[0].estimate(BOTH[1].respond([(True,) * 16])), "another protocol"),
    ],
)
def test_what_does_not_fit_is_refused(ask: Any, says: str) -> None:
    """gate:G43"""
    with pytest.raises(Misconfigured, match=says):
        ask()


def test_one_respondent_moves_a_share_by_no_more_than_is_said() -> None:
    for panel in BOTH:
        reports = panel.respond([(True,) * 16] * 50, bits=SeededBits(1))
        rows = np.array([[2 * group + bit] * 16 for group in range(panel.groups) for bit in (0, 1)], "<u2")
        found = [panel.estimate(reports + Reports(panel.name, row.view(np.uint8)[None])) for row in rows]
        for estimates in zip(*found, strict=True):
            for one in estimates:
                moved = max(abs(one.mean - other.mean) for other in estimates)
                assert moved <= one.moved_by(1) * (1 + 1e-9)


def binomial(n: int, p: float) -> Any:
    return np.array([math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)])


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("epsilon", [1, 4, 16])
@pytest.mark.parametrize(("n", "epochs"), [(12, 3), (24, 6), (9, 1)])
def test_intervals_by_lot_hold_exactly(n: int, epochs: int, epsilon: int, confidence: float) -> None:
    """gate:G44 every share of n respondents, every group the lot can draw, every number of ones, with their chances."""
    panel = YesNoPanel(epochs=epochs, epsilon=epsilon)
    flipped = 1 / (1 + math.exp(epsilon))
    told = {}
    for drawn in range(n + 1):
        for ones in range(drawn + 1) if epochs > 1 or drawn == n else ():
            numbers = [2] * (n - drawn) + [1] * ones + [0] * (drawn - ones)  # 2 is a bit of another group
            rows = np.array([[number] * epochs for number in numbers], "<u2").view(np.uint8)
            told[drawn, ones] = panel.estimate(Reports(panel.name, rows), confidence=confidence)[0]
    lots = binomial(n, 1 / epochs)
    for holders in range(n + 1):
        held = 0.0
        for drawn in {drawn for drawn, _ in told}:
            for yes in range(max(0, drawn - n + holders), min(drawn, holders) + 1):
                chance = math.comb(holders, yes) * math.comb(n - holders, drawn - yes) / math.comb(n, drawn)
                law = np.convolve(binomial(yes, 1 - flipped), binomial(drawn - yes, flipped))
                inside = [
                    told[drawn, k].low - 1e-12 <= holders / n <= told[drawn, k].high + 1e-12 for k in range(drawn + 1)
                ]
                held += lots[drawn] * chance * float(law @ inside)
        assert held >= confidence, (holders, held)
