"""lapwing.collect.strings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lapwing.collect import FrequentStrings, Reports
from lapwing.errors import Misconfigured
from support.tape import SeededBits

NAMES = ["emma"] * 6 + ["noah"] * 5 + ["olivia"] * 4 + ["liam"] * 3 + ["al"] * 2


def crowd(n: int) -> list[str]:
    rng = np.random.default_rng(7)
    rare = ["".join(rng.choice(list("abcdefghij"), 6)) for _ in range(n // 5)]
    return [NAMES[i % len(NAMES)] for i in range(n - len(rare))] + rare


def test_frequent_strings_are_found_and_rare_ones_are_not() -> None:
    protocol = FrequentStrings(epsilon=6, length=6)
    names = crowd(8_000)
    found = protocol.find(protocol.respond(names, bits=SeededBits(1)), breadth=12)
    assert set(found.strings) == {"emma", "noah", "olivia", "liam", "al"}
    assert found.strings[0] == "emma"
    column = found.table().columns[1]
    for name, low, high in zip(found.strings, column.intervals()[0], column.intervals()[1], strict=True):
        share = names.count(name) / len(names)
        assert low is not None
        assert high is not None
        assert low <= share <= high


def test_strings_that_nobody_holds_are_not_listed() -> None:
    """All respondents hold strings of their own: over 15 surveys nothing is listed, but for 5 % of them."""
    protocol, bits = FrequentStrings(epsilon=1, length=4), SeededBits(2)
    rng, listed = np.random.default_rng(3), 0
    for _ in range(15):
        texts = ["".join(rng.choice(list("abcdefghijklmnop"), 4)) for _ in range(300)]
        listed += bool(protocol.find(protocol.respond(texts, bits=bits), breadth=4).strings)
    assert listed <= 4  # P[more] < 0.001 if each has 5 %


def test_reports_are_those_of_hashing_on_a_prefix() -> None:
    """The level does not depend on the string, and a string and its first letters give the same reports up to there."""
    protocol = FrequentStrings(epsilon=1, length=6, step=1)
    reports = {text: protocol.respond([text] * 400, bits=SeededBits(5)).rows for text in ("abc", "abd", "xyz")}
    assert all(np.array_equal(rows[:, 0], reports["abc"][:, 0]) for rows in reports.values())
    early = reports["abc"][:, 0] < 2
    assert np.array_equal(reports["abc"][early], reports["abd"][early])
    assert not np.array_equal(reports["abc"][early], reports["xyz"][early])
    assert {rows.shape[1] for rows in reports.values()} == {protocol.size}


def test_every_string_is_reached_by_extension() -> None:
    """Codes of a string stand among the candidates of its own prefixes at every depth, and padding only follows."""
    protocol = FrequentStrings(epsilon=1, length=5, alphabet="abc", step=2)
    for text in ("a", "ab", "abc", "cab", "ccccc", "abcab"):
        codes = protocol._codes([text])
        prefix = np.zeros((1, protocol.levels), np.uint16)
        for depth in range(protocol.levels):
            longer = protocol._extend(prefix, depth)
            assert len(np.unique(longer, axis=0)) == len(longer)
            matches = (longer[:, : depth + 1] == codes[:, : depth + 1]).all(axis=1)
            assert np.count_nonzero(matches) == 1
            prefix = longer[matches]
        assert protocol._texts(prefix) == (text,)


@pytest.mark.parametrize("value", ["", "A", "a b", 3, None, "naïve"])
def test_a_text_of_other_letters_is_refused(value: Any) -> None:
    with pytest.raises(Misconfigured, match="characters outside the alphabet"):
        FrequentStrings(epsilon=1).respond(value)


BAD = [{"alphabet": ""}, {"alphabet": "aa"}, {"length": 0}, {"length": 100}, {"step": 9}, {"epsilon": 0}]


@pytest.mark.parametrize("given", BAD, ids=str)
def test_bad_parameters_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(Misconfigured):
        FrequentStrings(**({"epsilon": 1} | given))


def test_malformed_and_too_few_reports_are_refused() -> None:
    """gate:G43"""
    protocol = FrequentStrings(epsilon=1, length=4)
    one = protocol.respond(["abba"])
    with pytest.raises(Misconfigured, match="has no report"):
        protocol.find(one)
    bad = one.rows.copy()
    bad[0, 0] = 77
    with pytest.raises(Misconfigured, match="malformed"):
        protocol.find(Reports(protocol.name, bad))
