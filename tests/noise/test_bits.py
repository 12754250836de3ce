"""lapwing.noise.bits."""

from __future__ import annotations

import ast
import copy
import inspect
import itertools
import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

import lapwing
from lapwing import noise
from lapwing.noise import bits as module
from lapwing.noise.bits import SYSTEM, SystemBits
from support.chi import assert_fits, assert_misfits, finite

Stream = list[int]

SMALL, POOL, REKEY = module._SMALL, module._POOL, module._REKEY

# Each child of a fork sends what it drew through a pipe; `draw` is given by the test.
FORKS = """
import json, os, sys, threading

def drawn_in_child():
    reader, writer = os.pipe()
    if not os.fork():
        os.write(writer, json.dumps(draw()).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        return json.load(pipe)

def drawn_in_thread(act):
    found = []
    thread = threading.Thread(target=lambda: found.append(act()))
    thread.start()
    thread.join()
    return found[0]
"""

SYSTEM_DRAW = """
from lapwing.noise.bits import SYSTEM
draw = lambda: SYSTEM.words(64, 64).tolist()
"""

NUMPY_DRAW = """
import numpy
rng = numpy.random.default_rng()
draw = lambda: rng.integers(0, 2**63, 64).tolist()
"""

FOUR_CHILDREN = "print(json.dumps([draw(), *(drawn_in_child() for _ in range(4)), draw()]))"

FORK_IN_A_DRAW = """
from lapwing.noise.bits import Stream

reader, writer = os.pipe()
forked = []

def fork_once(frame, event, _):
    if frame.f_code is Stream.fill.__code__ and not forked:
        forked.append(os.fork())

before = draw()
sys.settrace(fork_once)
words = draw()
sys.settrace(None)
if not forked[0]:
    os.write(writer, json.dumps(words).encode())
    os._exit(0)
os.close(writer)
with os.fdopen(reader) as pipe:
    print(json.dumps([before, words, json.load(pipe)]))
"""

GRANDCHILD = """
before = draw()
reader, writer = os.pipe()
if not os.fork():
    os.write(writer, json.dumps([draw(), drawn_in_child(), draw()]).encode())
    os._exit(0)
os.close(writer)
with os.fdopen(reader) as pipe:
    print(json.dumps([before, draw(), *json.load(pipe)]))
"""

# Four threads hold keys of their own while the main thread and another thread fork; children start threads too.
THREADED = """
started, stop, kept = threading.Barrier(5), threading.Event(), []
def hold():
    kept.append(draw())
    started.wait()
    stop.wait()
    kept.append(draw())
threads = [threading.Thread(target=hold) for _ in range(4)]
for thread in threads:
    thread.start()
started.wait()
found = [draw(), drawn_in_child(), drawn_in_thread(drawn_in_child), drawn_in_thread(draw), draw()]
once = draw
draw = lambda: drawn_in_thread(once)
found.append(drawn_in_child())
stop.set()
for thread in threads:
    thread.join()
print(json.dumps(found + kept))
"""

UNPICKLED = """
import json, pickle, sys
source = pickle.loads(bytes.fromhex(sys.stdin.read()))
print(json.dumps([source.words(64, 64).tolist()]))
"""


def run(script: str, text: str = "") -> list[Stream]:
    """What a fresh process prints. Forking with threads warns from Python 3.12 on, which is the point here."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=60)
    streams: list[Stream] = json.loads(done.stdout)
    return streams


def assert_distinct(streams: list[Stream]) -> None:
    """No word of 64 bits occurs twice: n^2 / 2^65 chance otherwise."""
    words = list(itertools.chain(*streams))
    assert all(len(stream) == 64 for stream in streams)
    assert len(set(words)) == len(words)


def fixed_entropy() -> Callable[[int], bytes]:
    """Stands for os.urandom: the same entropy for ever, different at each call."""
    calls = itertools.count(1)
    return lambda size: bytes((next(calls) * (37 * i + 11) + i) % 251 for i in range(size))


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch) -> SystemBits:
    """A source of its own whose entropy is fixed, so that statistics pass for ever or fail for ever."""
    monkeypatch.setattr(module.os, "urandom", fixed_entropy())
    return SystemBits()


# Fork, threads, pickle


def test_forked_children_never_repeat_the_parent() -> None:
    """threat:A28 a parent and four children draw 64 words each; all words differ."""
    streams = run(FORKS + SYSTEM_DRAW + FOUR_CHILDREN)
    assert len(streams) == 6
    assert_distinct(streams)


def test_child_of_a_fork_in_the_middle_of_a_draw_never_repeats_the_parent() -> None:
    """threat:A28 a signal handler forks, and both processes go on with the draw that it interrupted."""
    streams = run(FORKS + SYSTEM_DRAW + FORK_IN_A_DRAW)
    assert len(streams) == 3
    assert_distinct(streams)


def test_fork_test_catches_a_source_that_is_copied() -> None:
    """threat:A28 the control: numpy's generator gives all children the same numbers."""
    children = run(FORKS + NUMPY_DRAW + FOUR_CHILDREN)[1:5]
    assert children.count(children[0]) == 4
    with pytest.raises(AssertionError):
        assert_distinct(children)


def test_fork_of_a_fork_draws_its_own_words() -> None:
    """threat:A28"""
    streams = run(FORKS + SYSTEM_DRAW + GRANDCHILD)
    assert len(streams) == 5
    assert_distinct(streams)


def test_fork_of_a_process_with_threads_draws_its_own_words() -> None:
    """threat:A28 forked from the main thread and from another one, drawing in the child's main and other threads."""
    streams = run(FORKS + SYSTEM_DRAW + THREADED)
    assert len(streams) == 14
    assert_distinct(streams)


def test_threads_draw_distinct_streams() -> None:
    streams: list[Stream] = []
    barrier = threading.Barrier(8)

    def draw() -> None:
        barrier.wait()
        streams.append(SYSTEM.words(64, 64).tolist())

    threads = [threading.Thread(target=draw) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(streams) == 8
    assert_distinct([*streams, SYSTEM.words(64, 64).tolist()])


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_carries_a_name_and_no_state(protocol: int) -> None:
    payload = pickle.dumps(SYSTEM, protocol)
    assert pickle.loads(payload) is SYSTEM
    assert len(payload) < 100


def test_processes_that_unpickle_draw_their_own_words() -> None:
    payload = pickle.dumps(SYSTEM).hex()
    assert_distinct([*run(UNPICKLED, payload), *run(UNPICKLED, payload), SYSTEM.words(64, 64).tolist()])


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copy_is_the_source_itself(copied: Callable[[SystemBits], SystemBits]) -> None:
    assert copied(SYSTEM) is SYSTEM


# Keys


def keystream(key: bytes, size: int) -> bytes:
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(size))


def mixed(old: bytes, fresh: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(old, fresh, strict=True))


def test_small_draws_are_the_keystream_without_its_first_block_which_becomes_the_key(fixed: SystemBits) -> None:
    entropy = fixed_entropy()
    first = keystream(entropy(32), POOL)
    second = keystream(mixed(first[:32], entropy(32)), POOL)
    drawn = b"".join(fixed.words(SMALL - 8, 8).tobytes() for _ in range(8))
    assert drawn == (first[32 : 32 + 4 * (SMALL - 8)] + second[32:])[: len(drawn)]


def test_large_draws_continue_the_keystream_of_the_pool(fixed: SystemBits) -> None:
    entropy = fixed_entropy()
    first = keystream(entropy(32), POOL)
    second = keystream(mixed(first[:32], entropy(32)), SMALL + 1)
    assert fixed.words(1, 8).tobytes() == first[32:33]
    assert fixed.words(SMALL + 1, 8).tobytes() == second


def test_served_bytes_are_erased() -> None:
    source = SystemBits()
    served = source.words(1000, 8)
    assert served.any()
    (stream,) = source._idle
    assert not stream._pool[: 32 + 1000].any()
    assert stream._pool[32 + 1000 :].any()


def test_key_bytes_are_erased_when_the_pool_is_filled_again() -> None:
    source = SystemBits()
    for _ in range(10):
        source.words(SMALL, 8)
    (stream,) = source._idle
    assert not stream._pool[:32].any()


@pytest.mark.parametrize("request_bytes", [REKEY, REKEY // 2 + 1, 3 * REKEY + 5])
def test_large_draws_change_the_key(request_bytes: int) -> None:
    source = SystemBits()
    first = source.words(request_bytes, 8)
    (stream,) = source._idle
    before = stream._cipher
    second = source.words(request_bytes, 8)
    assert source._idle == [stream]
    assert stream._cipher is not before
    assert stream._used <= REKEY
    assert not np.array_equal(first, second)


def test_large_draw_fills_every_byte() -> None:
    """Over several keys, also at the end that is shorter than a key's share."""
    words = SystemBits().words((2 * REKEY + 24) // 8, 64)
    assert np.unique(words).size == words.size


def test_each_key_takes_fresh_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    entropy = fixed_entropy()

    def urandom(size: int) -> bytes:
        asked.append(size)
        return entropy(size)

    monkeypatch.setattr(module.os, "urandom", urandom)
    source = SystemBits()
    source.words(8 * POOL // 8, 8)
    source.integer(8)
    assert asked == [32, 32]
    for _ in range(POOL // SMALL):
        source.words(SMALL, 8)
    assert asked == [32, 32, 32]


# What is drawn


@pytest.mark.parametrize("width", range(1, 65))
def test_words_fill_exactly_their_width(width: int) -> None:
    words = SYSTEM.words(400, width)
    assert words.dtype == np.dtype(f"u{1 if width <= 8 else 2 if width <= 16 else 4 if width <= 32 else 8}")
    assert int(np.bitwise_or.reduce(words)) == (1 << width) - 1
    assert int(np.bitwise_and.reduce(words)) == 0


@pytest.mark.parametrize("width", [1, 8, 9, 64])
def test_no_words_are_an_empty_array(width: int) -> None:
    assert SYSTEM.words(0, width).shape == (0,)


@pytest.mark.parametrize("size", [1, SMALL - 1, SMALL, SMALL + 1, POOL - 32, POOL, POOL + 1])
def test_requests_of_every_size_are_served_in_full(size: int) -> None:
    source = SystemBits()
    drawn = np.bitwise_or.reduce([source.words(size, 8) for _ in range(16)])
    assert drawn.shape == (size,)
    assert drawn.all()


@pytest.mark.parametrize("width", [1, 7, 8, 9, 63, 64, 65, 200, 8 * SMALL + 8])
def test_integer_covers_all_bits(width: int) -> None:
    ones, zeros = 0, (1 << width) - 1
    for _ in range(100):
        value = SYSTEM.integer(width)
        ones, zeros = ones | value, zeros & value
    assert ones == (1 << width) - 1
    assert zeros == 0


def test_integer_of_no_bits_is_zero() -> None:
    assert SYSTEM.integer(0) == 0


@pytest.mark.parametrize("count", [1000, 200_000])
def test_bits_are_balanced(fixed: SystemBits, count: int) -> None:
    """The monobit test, by position, through the pool and past it."""
    words = fixed.words(count, 64)
    for shift in range(64):
        assert_fits(words >> np.uint64(shift) & np.uint64(1), finite([0.5, 0.5]))


def test_nibbles_and_bytes_are_uniform(fixed: SystemBits) -> None:
    """The poker test."""
    raw = fixed.words(400_000, 8)
    assert_fits(raw, finite([1 / 256] * 256))
    assert_fits(np.concatenate([raw >> 4, raw & 15]), finite([1 / 16] * 16))
    assert_misfits(raw | (raw[::-1] >> 5 << 5 == 224), finite([1 / 256] * 256))


@pytest.mark.parametrize("width", [3, 5])
def test_neighbouring_words_are_independent(fixed: SystemBits, width: int) -> None:
    words = np.concatenate([fixed.words(1000, width) for _ in range(200)]).astype(np.int64)
    assert_fits((words[:-1] << width | words[1:])[::2], finite([1 / 4**width] * 4**width))


def test_integers_are_uniform(fixed: SystemBits) -> None:
    drawn = np.array([fixed.integer(6) for _ in range(20_000)])
    assert_fits(drawn, finite([1 / 64] * 64))


# No seed

SEEDS = {"seed", "random_state", "random_seed", "rng", "prng"}


def parameters(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            given = node.args
            yield from (a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs))


def test_nothing_takes_a_seed() -> None:
    """threat:A27 no function of the package has a parameter by that name."""
    files = sorted(Path(lapwing.__path__[0]).rglob("*.py"))
    assert files
    assert {name for file in files for name in parameters(file.read_text())} & SEEDS == set()
    assert set(parameters("def draw(count, *, seed=None): ...")) & SEEDS == {"seed"}


def test_system_source_takes_no_arguments() -> None:
    """threat:A27"""
    assert not inspect.signature(SystemBits).parameters
    with pytest.raises(TypeError):
        SystemBits(7)  # type: ignore[call-arg]


def test_same_request_twice_gives_other_noise() -> None:
    """threat:A27"""
    for draw in (noise.sample_laplace, noise.sample_gaussian, noise.sample_geometric):
        first, second = (draw(Fraction(10**12), 64).tolist() for _ in range(2))
        assert first != second
