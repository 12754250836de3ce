"""lapwing.collect.panel: whole histories, every tape, every pair."""

from __future__ import annotations

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
            bits = SeededBits(common)
            device = panel.enroll(bits=bits)
            answers = [epoch % 3 == 0 for epoch in range(common)] + [last] * (panel.epochs - common)
            sent.append([device.report(answer, bits=bits) for answer in answers])
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
        bits, again = SeededBits(8), SeededBits(8)
        device, resumed = panel.enroll(bits=bits), panel.enroll(bits=again)
        for epoch in range(16):
            resumed = panel.resume(resumed.to_json())
            assert device.report(epoch > 5, bits=bits) == resumed.report(epoch > 5, bits=again)
        with pytest.raises(Misconfigured, match="another panel"):
            YesNoPanel(epochs=3, epsilon=1).resume(device.to_json())


def test_shares_are_known_as_soon_as_their_epoch_is_reported() -> None:
    for panel in BOTH:
        reports = panel.respond([(False,) * 3 + (True,) * 13] * 60, bits=SeededBits(2))
        for seen in (1, 5, 16):
            assert panel.estimate([one[: 2 * seen] for one in reports.each()]) == panel.estimate(reports)[:seen]
        with pytest.raises(Misconfigured, match="is 32 bytes"):
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
        (lambda: BOTH[0].resume("{}"), "no device"),
        (lambda: BOTH[0].resume("?"), "no device"),
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
        for epoch, said in enumerate(panel.estimate(reports)):
            moved = [one[epoch].mean for one in found]
            assert max(moved) - min(moved) <= said.moved_by(1) * 50 / 51 * (1 + 1e-9)
