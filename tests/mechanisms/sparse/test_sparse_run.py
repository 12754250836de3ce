"""lapwing.mechanisms.sparse.crossing."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from threading import Barrier, Thread
from typing import Any

import pytest

from lapwing.errors import Halted, Misconfigured
from lapwing.mechanisms.sparse import crossing as module
from lapwing.mechanisms.sparse.crossing import Crossing
from lapwing.mechanisms.sparse.vector import AboveThreshold, GeometricSparse, NumericSparse, Sparse
from support.steps import acts_at

FAR = 10**6  # many noise scales away from the threshold

EVERY: dict[str, Any] = {
    "AboveThreshold": AboveThreshold(threshold=0, epsilon=1),
    "Sparse": Sparse(threshold=0, epsilon=1, answers=3),
    "NumericSparse": NumericSparse(threshold=0, epsilon=1, answers=3),
    "GeometricSparse": GeometricSparse(threshold=0, epsilon=1, answers=3, queries=10),
}

FORK = """
import json, os
from lapwing.errors import Halted
from lapwing.mechanisms.sparse.vector import AboveThreshold
run = AboveThreshold(threshold=0, epsilon=1).start()
run._lock.acquire()  # as if another thread were asking
reader, writer = os.pipe()
if not os.fork():
    try:
        run.above(10**6)
        said = "answered"
    except Halted as refusal:
        said = str(refusal)
    os.write(writer, json.dumps([said, AboveThreshold(threshold=0, epsilon=1).start().above(10**6)]).encode())
    os._exit(0)
os.close(writer)
run._lock.release()
with os.fdopen(reader) as pipe:
    print(json.dumps([*json.load(pipe), run.above(10**6)]))
"""


def ask(run: Any, value: float) -> Any:
    return run.answer(value) if hasattr(run, "answer") else run.above(value)


@pytest.mark.parametrize("name", EVERY)
def test_run_halts_after_the_answers_that_were_paid_for(name: str) -> None:
    """lecture:L19 belows do not count; the next question of any kind is refused."""
    mechanism = EVERY[name]
    run = mechanism.start()
    for left in range(mechanism.answers, 0, -1):
        assert (run.left, run.halted) == (left, False)
        assert not ask(run, -FAR)
        assert ask(run, FAR)
    assert (run.left, run.halted) == (0, True)
    for value in (-FAR, FAR):
        with pytest.raises(Halted, match=r"Start another with start\(\); it costs epsilon = 1 again\."):
            ask(run, value)
    assert ask(mechanism.start(), FAR)


def test_halted_run_says_how_often_it_answered() -> None:
    for mechanism, times in ((EVERY["AboveThreshold"], "once"), (EVERY["Sparse"], "3 times")):
        run = mechanism.start()
        while not run.halted:
            run.above(FAR)
        with pytest.raises(Halted, match=f'it has said "above" {times}, as was paid for'):
            run.above(0)


@pytest.mark.parametrize("name", EVERY)
def test_run_cannot_be_copied_or_pickled(name: str) -> None:
    run = EVERY[name].start()
    for double in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(Misconfigured, match="A run cannot be copied or pickled"):
            double(run)
    with pytest.raises(Misconfigured, match="cannot be copied"):
        copy.deepcopy({"kept": [run]})


@pytest.mark.parametrize("name", EVERY)
def test_mechanism_itself_is_a_value(name: str) -> None:
    """The plan may be copied, compared and sent; only a run has a state."""
    mechanism = EVERY[name]
    for double in (copy.copy(mechanism), copy.deepcopy(mechanism), pickle.loads(pickle.dumps(mechanism))):
        assert double == mechanism
        assert hash(double) == hash(mechanism)
        assert ask(double.start(), FAR)
    assert "crossing" not in repr(mechanism)


@pytest.mark.parametrize("name", EVERY)
def test_value_that_cannot_be_read_changes_nothing(name: str) -> None:
    run = EVERY[name].start()
    for value in (987654321.5, None, "987654321", True):
        with pytest.raises(Misconfigured) as refusal:
            ask(run, value)  # type: ignore[arg-type]
        assert "987654321" not in str(refusal.value)
    assert run.left == EVERY[name].answers
    assert ask(run, FAR)


def test_threads_share_the_answers() -> None:
    """Sixteen threads ask for more than there is: exactly `answers` are given, the rest is refused."""
    run = Sparse(threshold=0, epsilon=1, answers=25).start()
    ready, found = Barrier(16), []

    def hurry() -> None:
        ready.wait()
        for _ in range(10):
            try:
                found.append(run.above(FAR))
            except Halted:
                found.append("halted")

    threads = [Thread(target=hurry) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found.count(True) == 25
    assert found.count("halted") == 135
    assert run.halted


def test_child_process_cannot_go_on_with_the_run() -> None:
    """threat:A28 else parent and child would each give the answers that were paid for once; no lock is waited for."""
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60, check=True)
    said, own, parent = json.loads(done.stdout)
    assert said.startswith("This run belongs to the process that started it")
    assert own is True
    assert parent is True


def test_numeric_run_gives_the_value_or_nothing() -> None:
    """lecture:L19"""
    whole = NumericSparse(threshold=0, epsilon=1, answers=2).start()
    assert whole.answer(-FAR) is None
    answer = whole.answer(FAR)
    assert type(answer) is int
    assert abs(answer - FAR) < 1000
    real = NumericSparse(threshold=0, epsilon=1, answers=2, reals=True).start()
    assert real.answer(-0.5 * FAR) is None
    answer = real.answer(1.5 * FAR)
    assert type(answer) is float
    assert abs(answer - 1.5 * FAR) < 1000


def test_real_answers_lie_on_the_grid_whatever_the_value() -> None:
    """threat:A3"""
    mechanism = NumericSparse(threshold=0, epsilon=1, answers=100, reals=True)
    step = mechanism.test.crossing.ticks.step
    run = mechanism.start()
    answers = [run.answer(FAR + i / 7) for i in range(100)]
    assert step is not None
    assert all(answer is not None and (answer / float(step)).is_integer() for answer in answers)


def middle(run: Any, step: int, act: Callable[[], object]) -> bool:
    return acts_at(step, module, lambda: ask(run, FAR), act)


@pytest.mark.parametrize("answers", [1, 2])
def test_signal_handler_that_asks_gets_no_answer_more_than_was_paid_for(answers: int) -> None:
    """Before any bytecode of an answer: it is refused or answered before it, and never blocked."""
    for step in itertools.count():
        run = Sparse(threshold=0, epsilon=1, answers=answers).start()
        said: list[object] = []

        def tell(run: Any = run, said: list[object] = said) -> None:
            try:
                said.append(run.above(FAR))
            except Halted:
                said.append("halted")

        happened = acts_at(step, module, tell, tell)
        assert said.count(True) <= answers
        assert run.left == answers - said.count(True)
        assert len(said) == 1 + happened
        if not happened:
            break
    assert step > 30


def test_interrupted_answer_ends_the_run_or_was_never_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else `left` would tell that it was above, while the same bar goes on."""
    bars = itertools.count()  # no two are equal by chance
    monkeypatch.setattr(Crossing, "draw_bar", lambda _: next(bars))
    ended = 0
    for step in itertools.count():
        run = Sparse(threshold=0, epsilon=1, answers=5).start()
        bar = run._bar

        def interrupt() -> None:
            raise KeyboardInterrupt

        try:
            happened = middle(run, step, interrupt)
        except KeyboardInterrupt:
            happened = True
        if not happened:
            break
        if run.left < 5 and run._bar == bar:
            ended += 1
            with pytest.raises(Halted, match="interrupted in the middle of an answer"):
                run.above(FAR)
    assert ended > 5
