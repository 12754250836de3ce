"""The law of a local protocol by enumeration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from lapwing.collect.local import LocalProtocol
from lapwing.noise.bits import Words
from lapwing.numbers import ball, enclose
from support.law import exact_law
from support.tape import word_type


class EveryTape:
    """As many respondents as there are tapes: together they draw every combination of words, each once.

    Words are listed by how many values each has. A word of 64 bits with fewer is one of `sample_uniform`, which takes
    it modulo that number; any other has all the values of its width.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = list(sizes)
        self.many = prod(sizes)
        self._left = np.arange(self.many)

    def words(self, count: int, width: int) -> Words:
        each, rest = divmod(count, self.many)
        if rest:
            raise ValueError("respondents draw different numbers of words: enumerate with `exact_law`.")
        return np.stack([self._next(width) for _ in range(each)], axis=1).astype(word_type(width)).ravel()

    def integer(self, width: int) -> int:
        raise NotImplementedError

    def _next(self, width: int) -> Words:
        size = self._sizes.pop(0)
        if width < 64 and size != 1 << width:
            raise ValueError(f"a word of {width} bits has {1 << width} values, not {size}.")
        self._left, drawn = np.divmod(self._left, size)
        return drawn

    def require_end(self) -> None:
        if self._sizes:
            raise ValueError(f"{len(self._sizes)} words were not drawn.")


def law_of(protocol: LocalProtocol, value: Any, tape: int | Sequence[int]) -> dict[bytes, Fraction]:
    """P[report] for a respondent who holds the value, over every tape of so many bits, or of words of these sizes."""
    if isinstance(tape, int):
        law = exact_law(lambda bits: protocol.respond(value, bits=bits), tape)
        assert law.remainder == 0
        return dict(law.mass)
    tapes = EveryTape(tape)
    reports = protocol.respond([value] * tapes.many, bits=tapes)
    tapes.require_end()
    counts = Counter(reports.each())
    return {report: Fraction(many, tapes.many) for report, many in counts.items()}


def assert_private(laws: Sequence[Mapping[Any, Fraction]], epsilon: Fraction) -> None:
    """Every report of every two values: the ratio is never above e^epsilon, and sometimes above 1."""
    assert all(set(law) == set(laws[0]) for law in laws), "a report that only some values give tells them apart"
    chances = ([law[report] for law in laws] for report in laws[0])
    worst = max(max(each) / min(each) for each in chances)
    most = enclose(lambda: ball(epsilon).exp())[1]
    assert 1 < worst <= most, f"a report has the ratio {float(worst):.4g}; epsilon = {epsilon} allows {float(most):.4g}"
