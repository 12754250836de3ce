"""lapwing.noise.bits: draws and exceptions between any two steps of a draw.

A tracer runs code before every bytecode of a draw, which is where Python runs signal handlers. Entropy is fixed and the
pool is small, so that every run is the same and every branch is short.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lapwing.noise import bits as module
from lapwing.noise.bits import SystemBits
from support.steps import acts_at, apart

SMALL, POOL, REKEY = 128, 512, 1024
Words = list[int]
Act = Callable[[], object]

OUTER = {
    "the first draw": (0, 8),
    "a draw from the pool": (1, 8),
    "a draw that fills the pool again": (1 + (POOL - 32) // 64, 8),
    "a large draw": (1, SMALL),
    "a large draw that changes the key": (1, REKEY // 8 + 1),
}
"""How many draws of 8 words come before, and how many words the traced draw takes."""


@pytest.fixture(autouse=True)
def _small_and_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = itertools.count(1)
    entropy = lambda size: bytes((next(calls) * (37 * i + 11) + i) % 251 for i in range(size))  # noqa: E731
    monkeypatch.setattr(module.os, "urandom", entropy)
    for name, value in {"_SMALL": SMALL, "_POOL": POOL, "_REKEY": REKEY, "_ZEROS": bytes(REKEY)}.items():
        monkeypatch.setattr(module, name, value)


def traced(draw: Act, at: int, act: Act) -> bool:
    return acts_at(at, module, draw, act)


def assert_served_once(served: list[Words]) -> None:
    """No word of 64 bits occurs twice and none is 0, in many fewer than 2^32 words."""
    words = list(itertools.chain(*served))
    assert words
    assert 0 not in words
    assert len(set(words)) == len(words)


def prepared(before: int) -> tuple[SystemBits, list[Words], Callable[[int], None]]:
    """A source, all that it has served, and how to draw more."""
    source, served = SystemBits(), []

    def draw(words: int) -> None:
        served.append(source.words(words, 64).tolist())

    for _ in range(before):
        draw(8)
    return source, served, draw


@pytest.mark.parametrize("inner", [8, SMALL])
@pytest.mark.parametrize(("before", "words"), OUTER.values(), ids=OUTER)
def test_draw_inside_a_draw_shares_no_byte_with_it(before: int, words: int, inner: int) -> None:
    """A signal handler draws before any bytecode of a draw. threat:A28"""
    for at in itertools.count():
        _, served, draw = prepared(before)
        happened = traced(lambda: draw(words), at, lambda: draw(inner))  # noqa: B023
        draw(8)
        draw(SMALL)
        assert_served_once(served)
        if not happened:
            break
    assert at > 40


@pytest.mark.parametrize("draws_first", [False, True])
@pytest.mark.parametrize(("before", "words"), OUTER.values(), ids=OUTER)
def test_interrupted_draw_never_serves_bytes_again(before: int, words: int, draws_first: bool) -> None:
    """A signal handler raises before any bytecode of a draw, with or without drawing itself. threat:A28"""

    def interrupt() -> None:
        if draws_first:
            draw(8)
        raise KeyboardInterrupt

    for at in itertools.count():
        _, served, draw = prepared(before)
        try:
            apart(lambda: traced(lambda: draw(words), at, interrupt))  # noqa: B023
        except KeyboardInterrupt:
            stopped = True
        else:
            stopped = False
        for _ in range(2 * POOL // 64):
            draw(8)
        draw(SMALL)
        assert_served_once(served)
        if not stopped:
            break
    assert at > 40


def test_draws_nested_in_nested_draws_share_no_byte() -> None:
    """A handler is interrupted by a handler that is interrupted, each at the same bytecode of its draw."""
    for at in itertools.count():
        source, served, draw = prepared(1)
        happened = traced(
            lambda: draw(8),  # noqa: B023
            at,
            lambda: traced(lambda: draw(8), at, lambda: traced(lambda: draw(8), at, lambda: draw(8))),  # noqa: B023
        )
        draw(8)
        assert_served_once(served)
        assert len(source._idle) <= 4
        if not happened:
            break
    assert at > 40


def test_draw_from_within_the_cipher_and_the_entropy_shares_no_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls into C may run handlers too: here each of them draws before and after its work."""
    depth = 0
    _, served, draw = prepared(0)
    real, entropy = module.Cipher, module.os.urandom

    def nested() -> None:
        nonlocal depth
        if depth < 3:
            depth += 1
            draw(8)
            depth -= 1

    class Drawing:
        def __init__(self, *given: Any) -> None:
            self._context = real(*given).encryptor()

        def encryptor(self) -> Drawing:
            return self

        def update(self, data: bytes) -> bytes:
            nested()
            found = self._context.update(data)
            nested()
            return found

        def update_into(self, data: bytes, out: Any) -> int:
            nested()
            written = self._context.update_into(data, out)
            nested()
            return written

    def urandom(size: int) -> bytes:
        nested()
        found: bytes = entropy(size)
        nested()
        return found

    monkeypatch.setattr(module, "Cipher", Drawing)
    monkeypatch.setattr(module.os, "urandom", urandom)
    draw(8)
    draw(SMALL)
    draw(REKEY)
    assert len(served) > 20
    assert_served_once(served)


@pytest.mark.parametrize(("before", "words"), OUTER.values(), ids=OUTER)
def test_fork_inside_a_draw_ends_the_streams_that_began_before_it(
    before: int, words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler forks: whatever the child finishes of the parent's draw, its next draw uses a stream of its own."""
    for at in itertools.count():
        source, _, draw = prepared(before)
        old = {id(stream): stream for stream in source._idle}
        fork = lambda: monkeypatch.setattr(module.Forks, "count", module.Forks.count + 1)  # noqa: E731
        happened = traced(lambda: draw(words), at, fork)  # noqa: B023
        old |= {id(stream): stream for stream in source._idle if stream.born != module.Forks.count}
        draw(8)
        assert source._idle
        assert all(stream.born == module.Forks.count for stream in source._idle)
        if happened:
            assert not old.keys() & {id(stream) for stream in source._idle}
        else:
            break
    assert at > 40


def test_idle_streams_are_as_many_as_draws_at_the_same_time() -> None:
    source, _, draw = prepared(100)
    assert len(source._idle) == 1
    traced(lambda: draw(8), 70, lambda: draw(8))
    assert len(source._idle) == 2
    for _ in range(100):
        draw(8)
    assert len(source._idle) == 2
    assert np.all([not stream._pool[:32].any() for stream in source._idle])
