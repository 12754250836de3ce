"""lapwing.mechanisms.counters.counter."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import subprocess
import sys
import threading
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from lapwing.errors import Halted, Misconfigured
from lapwing.mechanisms.additive.calibration import continuous_delta
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.counters import counter as module
from lapwing.mechanisms.counters.counter import BinaryCounter, CounterRun, ToeplitzCounter
from lapwing.mechanisms.ranges.ranges import PrefixSums, coefficients, encode, squared_norm
from lapwing.numbers import ball, enclose
from lapwing.privacy.loss import ZCDP, Pure
from support.audit import assert_caught, assert_private, audit_profile
from support.steps import acts_at

Counter = BinaryCounter | ToeplitzCounter


def both(horizon: int | None, **more: Any) -> list[Counter]:
    return [BinaryCounter(epsilon=1, horizon=horizon, **more), ToeplitzCounter(rho=0.5, horizon=horizon, **more)]


def totals(counter: Counter, stream: Any) -> list[float]:
    run = counter.start()
    return [run.add(int(increment)) for increment in stream]


def lowbit(t: int) -> int:
    return t & -t


def measured(outputs: list[float]) -> list[float]:
    """The noisy block sums that totals of one epoch consist of."""
    before = [0.0, *outputs]
    return [before[t] - before[t - lowbit(t)] for t in range(1, len(before))]


class Script:
    """Noise from a fixed list: each draw is noted with its law, and all draws differ."""

    def __init__(self) -> None:
        self.laws: list[Any] = []
        self.noises: list[int] = []

    def draw(self, law: Any, count: int) -> Any:
        fresh = [7**k % 1009 + 1009 * k for k in range(len(self.noises) + 1, len(self.noises) + count + 1)]
        self.laws += [law] * count
        self.noises += fresh
        return np.array(fresh, np.int64)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    found = Script()
    monkeypatch.setattr(Laplace, "draw", lambda self, count: found.draw(self.scale, count))
    monkeypatch.setattr(module, "sample_gaussian", found.draw)
    return found


@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 5, 7, 8, 31, 32, 33])
def test_each_increment_touches_no_more_sums_than_it_pays_for(horizon: int) -> None:
    """Enumeration: which sums hold step j, from the totals of a stream that is 1 there and 0 elsewhere."""
    touched = []
    for j in range(horizon):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Laplace, "draw", lambda self, count: np.zeros(count, np.int64))
            touched.append(sum(measured(totals(BinaryCounter(epsilon=1, horizon=horizon), np.eye(horizon)[j]))))
    assert max(touched) == touched[0] == horizon.bit_length()
    assert BinaryCounter(epsilon=1, horizon=horizon).noise(horizon).scale == horizon.bit_length()


def test_horizon_of_a_power_of_two_costs_its_logarithm_and_one() -> None:
    """lecture:L11 Laplace noise of scale (log2 n + 1) / eps."""
    assert BinaryCounter(epsilon=0.5, horizon=1024).noise(1024).scale == 2 * (10 + 1)


@pytest.mark.parametrize("horizon", [1, 2, 3])
def test_every_outcome_of_tiny_streams_stays_within_epsilon(horizon: int) -> None:
    """Exact: the law of all noisy sums, with proven bounds, for every pair of neighbouring 0/1 streams."""
    noise = BinaryCounter(epsilon=1, horizon=horizon).noise(horizon)
    laws = {z: noise.law(z) for z in range(-5, 6)}
    most = enclose(lambda: ball(1).exp())[1] * (1 + Fraction(1, 10**30))
    blocks = [range(t - lowbit(t), t) for t in range(1, horizon + 1)]
    worst = Fraction(0)
    for stream in itertools.product((0, 1), repeat=horizon):
        for j in range(horizon):
            other = [x ^ (place == j) for place, x in enumerate(stream)]
            sums, moved = ([sum(x[i] for i in block) for block in blocks] for x in (stream, other))
            for outcome in itertools.product(range(-3, 4), repeat=horizon):
                ratio = Fraction(1)
                for y, a, b in zip(outcome, sums, moved, strict=True):
                    ratio *= laws[y - a][0] / laws[y - b][1]
                worst = max(worst, ratio)
    assert worst <= most
    assert math.log(worst) == pytest.approx(1)


@pytest.mark.parametrize("horizon", [1, 6, 40])
def test_each_noise_is_drawn_once_and_kept(horizon: int, script: Script) -> None:
    """One draw a step; a total holds the noises of its blocks, the same ones whenever a block is used."""
    stream = np.arange(horizon) % 5 - 1
    outputs = totals(BinaryCounter(epsilon=1, horizon=horizon), stream)
    assert len(script.noises) == horizon
    for t in range(1, horizon + 1):
        ends, at = [], t
        while at:
            ends.append(at)
            at -= lowbit(at)
        assert len(ends) == t.bit_count()
        assert outputs[t - 1] == stream[:t].sum() + sum(script.noises[end - 1] for end in ends)


@pytest.mark.parametrize("horizon", [1, 6, 40])
def test_toeplitz_counter_is_prefix_sums_row_by_row(
    horizon: int, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = np.arange(horizon) * 10 - 7
    outputs = totals(ToeplitzCounter(rho=0.5, horizon=horizon), stream)
    batch = PrefixSums(size=horizon, rho=0.5)
    assert script.laws == [batch.variance] * horizon
    monkeypatch.setattr(
        "lapwing.mechanisms.ranges.ranges.sample_gaussian", lambda variance, count: np.array(script.noises)
    )
    assert outputs == pytest.approx(batch.release(stream).prefix())


@pytest.mark.parametrize("counter", both(None), ids=["binary", "toeplitz"])
def test_a_step_moves_the_measurements_of_its_own_epoch_only(counter: Counter) -> None:
    """Parallel composition, enumerated: with noise 0, step j moves sums of epoch floor(log2 j) and no others."""
    steps = 15
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Laplace, "draw", lambda self, count: np.zeros(count, np.int64))
        patch.setattr(module, "sample_gaussian", lambda variance, count: np.zeros(count, np.int64))
        for j in range(steps):
            outputs = totals(counter, np.eye(steps)[j])
            for first in (1, 2, 4, 8):
                inside = np.array(outputs[first - 1 : 2 * first - 1]) - ([0.0, *outputs][first - 1])
                moved = bool(np.abs(inside).max() > 1e-6)
                assert moved == (first <= j + 1 < 2 * first)
                if isinstance(counter, BinaryCounter):
                    assert sum(measured(inside.tolist())) <= first.bit_length()


def test_epochs_double_and_have_noise_of_their_length(script: Script) -> None:
    totals(BinaryCounter(epsilon=1), [0] * 20)
    assert script.laws == [1] + [2] * 2 + [3] * 4 + [4] * 8 + [5] * 5
    script.laws.clear()
    totals(ToeplitzCounter(rho=0.5), [0] * 20)
    lengths = [1] + [2] * 2 + [4] * 4 + [8] * 8 + [16] * 5
    assert script.laws == [squared_norm(length) for length in lengths]


def test_epochs_of_the_slow_counter_stop_doubling() -> None:
    counter = ToeplitzCounter(rho=0.5)
    lengths = [length for _, length in counter._epochs(5 * counter.longest)]
    assert lengths[:3] == [1, 2, 4]
    assert lengths[-4:] == [counter.longest] * 4


@pytest.mark.parametrize("horizon", [None, 20])
def test_data_decide_neither_the_draws_nor_the_shape(horizon: int | None, script: Script) -> None:
    """threat:A35"""
    for counter in both(horizon):
        found = []
        for stream in ([0] * 20, [1] + [0] * 19, [10**30] * 20, [-(10**15)] * 20):
            script.laws.clear()
            found.append((len(totals(counter, stream)), tuple(script.laws)))
        assert len(set(found)) == 1


def test_rows_are_exact_for_large_increments(monkeypatch: pytest.MonkeyPatch) -> None:
    """threat:A4 two limbs of 21 bits: the sums of the docstring in whole numbers; beyond 2^41 increments are cut."""
    seen: list[int] = []
    monkeypatch.setattr(module, "sample_gaussian", lambda variance, count: np.zeros(count, np.int64))
    stream = [2**41, -(2**41), 2**41 - 1, 12_345_678_901, -1, 2**50]
    state = module._Rows(Fraction(1), len(stream))
    for increment in stream:
        state.add(increment)
        seen.append(int(state._rows[len(stream) - len(seen) - 1]))
    exactly = encode(np.array([min(x, 2**41) for x in stream]))
    assert seen == pytest.approx(exactly, rel=1e-15)
    assert coefficients(1 << 12).max() * 2**21 * module.MOST_CELLS < 2**63


def test_losses_are_exact_and_steps_of_a_unit_are_paid_by_noise() -> None:
    """lecture:L33 T steps of a unit: T times the scale, T^2 times the variance, for the same price."""
    pure, zcdp = both(8, steps_per_unit=3)
    assert (pure.loss, zcdp.loss) == (Pure(1), ZCDP(Fraction(1, 2)))
    assert isinstance(pure, BinaryCounter)
    assert isinstance(zcdp, ToeplitzCounter)
    assert pure.noise(8).scale == 3 * 4
    assert zcdp.variance(8) == 9 * squared_norm(8)


@pytest.mark.parametrize("counter", [*both(5), *both(None)])
def test_whole_numbers_come_out_of_the_binary_counter(counter: Counter) -> None:
    kinds = {type(total) for total in totals(counter, [3, 0, 2, 1, 1])}
    assert kinds == ({int} if isinstance(counter, BinaryCounter) else {float})


@pytest.mark.parametrize("counter", both(3))
def test_a_run_halts_at_the_horizon(counter: Counter) -> None:
    run = counter.start()
    for _ in range(3):
        run.add(1)
    assert run.step == 3
    for _ in range(2):
        with pytest.raises(Halted, match=r"halted after 3 steps.*it costs .* again"):
            run.add(1)
    assert counter.start().step == 0


@pytest.mark.parametrize("counter", [*both(3), *both(None)])
def test_a_run_cannot_be_copied(counter: Counter) -> None:
    run = counter.start()
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(Misconfigured, match="cannot be copied or pickled"):
            act(run)
    assert pickle.loads(pickle.dumps(counter)) == counter == copy.deepcopy(counter)


FORK = """
import os
from lapwing.mechanisms.counters.counter import BinaryCounter
from lapwing.errors import Halted
run = BinaryCounter(epsilon=1, horizon=8).start()
run.add(1)
reader, writer = os.pipe()
if not os.fork():
    try:
        run.add(1)
    except Halted as refusal:
        os.write(writer, str(refusal).encode())
    os._exit(0)
os.close(writer)
with os.fdopen(reader) as pipe:
    print(pipe.read())
run.add(1)
print(run.step)
"""


def test_a_child_process_cannot_go_on_with_a_run() -> None:
    """threat:A28 both would measure the same sums, each with noise of its own."""
    found = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.startswith("This run belongs to the process that started it")
    assert found.stdout.endswith("\n2\n")


def test_an_interrupted_step_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    run = BinaryCounter(epsilon=1, horizon=8).start()
    run.add(1)

    def interrupted(self: Laplace, count: int) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Laplace, "draw", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.add(1)
    with pytest.raises(Halted):
        run.add(1)


def test_threads_share_one_run() -> None:
    run = BinaryCounter(epsilon=1, horizon=400).start()

    def work() -> None:
        for _ in range(100):
            run.add(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert run.step == 400
    with pytest.raises(Halted):
        run.add(1)


@pytest.mark.parametrize("bad", [7351.0, True, np.True_, "7351", None, math.nan, Fraction(7351)])
def test_what_is_no_whole_number_is_refused_without_showing_it(bad: Any) -> None:
    """threat:A13"""
    run = BinaryCounter(epsilon=1, horizon=3).start()
    with pytest.raises(Misconfigured, match="Pass an int") as refusal:
        run.add(bad)
    assert "7351" not in str(refusal.value)
    assert run.step == 0
    assert isinstance(run.add(np.int32(5)), int)


@pytest.mark.parametrize("bad", [0, -1, 1.5, math.nan, True, "3"])
def test_bad_parameters_are_refused(bad: Any) -> None:
    """threat:A26"""
    for name in ("horizon", "steps_per_unit"):
        with pytest.raises(Misconfigured, match=f"`{name}` is"):
            BinaryCounter(**{"epsilon": 1, name: bad})
        with pytest.raises(Misconfigured, match=f"`{name}` is"):
            ToeplitzCounter(**{"rho": 1, name: bad})
    for price in (0, -1, math.nan, True):
        with pytest.raises(Misconfigured, match="`epsilon` is"):
            BinaryCounter(epsilon=price)
        with pytest.raises(Misconfigured, match="`rho` is"):
            ToeplitzCounter(rho=price)
    for counter in both(5):
        with pytest.raises(Misconfigured, match="`step` is"):
            counter.error(6)


def test_error_of_one_block_is_that_of_its_noise() -> None:
    counter = BinaryCounter(epsilon=1, horizon=1024)
    for step in (1, 2, 256, 1024):
        assert counter.error(step) == Laplace(epsilon=1, sensitivity=11).error(0.95)
    assert counter.error(3) > counter.error(4) < counter.error(7)


def test_error_grows_slowly_and_zcdp_counts_better() -> None:
    """Root of the time if every increment had noise of its own: 1.96 sqrt(2 * 65,535) = 709."""
    assert BinaryCounter(epsilon=1, horizon=65_535).error(65_535) < 250
    assert ToeplitzCounter(rho=0.5, horizon=65_535).error(65_535) == pytest.approx(
        1.96 * (math.log(65_535) / math.pi + 1.07), rel=0.01
    )
    assert ToeplitzCounter(rho=0.5).error(1000) < 3 * ToeplitzCounter(rho=0.5, horizon=1023).error(1000)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("horizon", [11, None])
def test_errors_stated_beforehand_hold_and_are_not_idle(horizon: int | None) -> None:
    stream, runs = [3, 0, 1, 5, 0, 0, 2, 9, 1, 1, 4], 400
    for counter in both(horizon):
        answers = np.array([totals(counter, stream) for _ in range(runs)]) - np.cumsum(stream)
        for step in (1, 3, 8, 11):
            held = np.mean(np.abs(answers[:, step - 1]) <= counter.error(step, 0.9))
            assert 0.9 - 3 * math.sqrt(0.09 / runs) <= held <= 0.97


PAIRS = [([0, 0, 0], [1, 0, 0]), ([0, 0, 0], [0, 0, 1]), ([5, 5, 5], [5, 4, 5])]


@pytest.mark.usefixtures("seeded")
def test_auditor_accepts_one_step_and_catches_more() -> None:
    counter = BinaryCounter(epsilon=1, horizon=3)
    quiet, one, three = (np.array([totals(counter, x) for _ in range(5000)]) for x in ([0, 0, 0], [1, 0, 0], [3, 0, 0]))
    assert_private(quiet, one, 1.0)
    assert_caught(quiet, three, 1.0)


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("horizon", [3, None])
@pytest.mark.parametrize("pair", PAIRS)
def test_auditor_accepts_the_binary_counter(horizon: int | None, pair: tuple[list[int], list[int]]) -> None:
    counter = BinaryCounter(epsilon=1, horizon=horizon)
    assert_private(*(np.array([totals(counter, stream) for _ in range(100_000)]) for stream in pair), 1.0)


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("horizon", [3, None])
@pytest.mark.parametrize("pair", PAIRS)
def test_auditor_accepts_the_toeplitz_counter(horizon: int | None, pair: tuple[list[int], list[int]]) -> None:
    """The curve of a Gaussian vector whose mean moves by sqrt(2 rho) standard deviations."""
    counter = ToeplitzCounter(rho=0.5, horizon=horizon)
    profile = [(e, float(continuous_delta(Fraction(1), Fraction(e), Fraction(1))) + 1e-6) for e in (0.2, 0.5, 1.0, 2.0)]
    samples = (np.array([totals(counter, stream) for _ in range(100_000)]) for stream in pair)
    assert not audit_profile(*samples, profile).rejected


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("horizon", [4, None])
def test_auditor_accepts_increments_that_follow_the_totals(horizon: int | None) -> None:
    """Each answer decides what comes next; only the first step differs between the neighbours."""

    def sample(first: int) -> Any:
        outputs = []
        for _ in range(50_000):
            run = BinaryCounter(epsilon=1, horizon=horizon).start()
            seen = [run.add(first)]
            for _ in range(3):
                seen.append(run.add(3 if seen[-1] > 0 else -3))
            outputs.append(seen)
        return np.array(outputs)

    assert_private(sample(0), sample(1), 1.0)


@pytest.mark.parametrize("horizon", [1, 2])
def test_signal_handler_that_adds_gets_no_step_more_than_was_paid_for(horizon: int) -> None:
    """Before any bytecode of a step: it is refused or taken before it, and never blocked."""
    for step in itertools.count():
        run = BinaryCounter(epsilon=1, horizon=horizon).start()
        totals: list[object] = []

        def tell(run: CounterRun = run, totals: list[object] = totals) -> None:
            try:
                totals.append(run.add(1))
            except Halted:
                totals.append("halted")

        happened = acts_at(step, module, tell, tell)
        taken = len(totals) - totals.count("halted")
        assert len(totals) == 1 + happened
        assert run.step == taken <= horizon
        if not happened:
            break
    assert step > 50
