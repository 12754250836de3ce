"""lapwing.numbers."""

from __future__ import annotations

import itertools
import threading
from fractions import Fraction

import pytest
from flint import arb, ctx

from lapwing import Laplace, numbers
from lapwing.numbers import ball, enclose
from support.steps import acts_at

BITS = 300


def third() -> arb:
    """1/3 by several steps, each at the precision of its moment."""
    value = ball(Fraction(1, 3))
    for _ in range(3):
        value = value * ball(2) / ball(2)
    return value


def expected() -> tuple[Fraction, Fraction]:
    return enclose(third, bits=BITS)


def test_a_handler_that_asks_for_an_error_leaves_the_interrupted_formula_as_it_was() -> None:
    """Before any bytecode of `enclose` and of `ball`, in the same thread: no deadlock, no digit less."""
    before, wanted = ctx.prec, expected()
    error = Laplace(epsilon=1, sensitivity=1)
    for step in itertools.count():
        found: list[object] = []
        happened = acts_at(
            step,
            numbers,
            lambda: found.append(expected()),  # noqa: B023
            lambda: found.append(error.error(confidence=0.9)),  # noqa: B023
        )
        assert wanted in found
        assert len(found) == 1 + happened
        assert ctx.prec == before
        if not happened:
            break
    assert step > 100


def test_nested_formulas_have_their_own_precision() -> None:
    wanted = expected()

    def formula() -> arb:
        enclose(lambda: arb(2).sqrt(), bits=16)
        assert ctx.prec == BITS
        return third()

    assert enclose(formula, bits=BITS) == wanted


def test_a_handler_that_raises_frees_the_lock_and_the_precision() -> None:
    before, wanted = ctx.prec, expected()

    def interrupt() -> None:
        enclose(third, bits=20)
        raise KeyboardInterrupt

    def formula() -> arb:
        interrupt()
        return third()

    with pytest.raises(KeyboardInterrupt):
        enclose(formula)
    assert ctx.prec == before
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(expected()), daemon=True)
    thread.start()
    thread.join(60)
    assert found == [wanted]
