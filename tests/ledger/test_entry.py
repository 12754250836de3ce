"""Entries: one canonical text, one hash, exact amounts."""

from __future__ import annotations

import json
from fractions import Fraction
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lapwing.errors import Bug
from lapwing.ledger import Entry, EntryKind
from lapwing.ledger.entry import (
    START,
    LedgerTerms,
    add_costs,
    canonical,
    cost_of,
    follow,
    ratio,
    read_ratio,
    round_denominators,
)
from lapwing.privacy import Accounting, Budget, Cost

NOTHING = Cost(Accounting.PURE, 0)
TENTH = Cost(Accounting.PURE, 0.1)


def first(budget: Budget) -> Entry:
    nothing = budget.capacity - budget.capacity
    note = LedgerTerms(budget, budget.capacity, "cd" * 32).note()
    return follow(
        None, EntryKind.OPEN, spent=nothing, own=nothing, cost=budget.capacity, note=note, at="2026-01-01T00:00:00Z"
    )


def test_the_hash_covers_the_previous_hash_and_the_canonical_text() -> None:
    """ledger:B11: the format is fixed; old ledgers must stay readable."""
    entry = first(Budget(1))
    zeros = dict.fromkeys(("delta", "own_amount", "own_delta", "spent_amount", "spent_delta"), "0/1")
    note = '{"accounting":"pure","delta":"0/1","epsilon":"1/1","format":2,%s"salt_hash":"%s"}'
    name = sha256((note % ("", "cd" * 32)).encode()).hexdigest()[:32]
    facts = {"seq": 1, "kind": "open", "analyst": "", "key": None, "body": "", "amount": "1/1", **zeros}
    facts |= {"note": note % (f'"ledger":"{name}",', "cd" * 32), "at": "2026-01-01T00:00:00Z"}
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    assert entry.content == text
    assert entry.hash == sha256((START + text).encode()).hexdigest()
    later = follow(entry, EntryKind.RESERVE, spent=TENTH, own=TENTH, cost=TENTH, analyst="ann", note={"b": 1, "a": "ü"})
    assert later.previous == entry.hash
    assert later.hash == sha256((entry.hash + later.content).encode()).hexdigest()
    assert later.note == '{"a":"\\u00fc","b":1}'


@pytest.mark.parametrize("budget", [Budget(2), Budget(2, 1e-6), Budget(2, 1e-6, accounting="basic")], ids=str)
def test_the_first_entry_holds_the_terms(budget: Budget) -> None:
    terms = LedgerTerms.read(first(budget))
    assert (terms.budget, terms.total) == (budget, budget.capacity)


def test_a_chain_begins_with_an_opening() -> None:
    with pytest.raises(Bug):
        follow(None, EntryKind.RESERVE, spent=TENTH, own=TENTH, cost=TENTH)


def test_a_row_of_wrong_types_is_no_entry() -> None:
    good = first(Budget(1))
    row = [getattr(good, name) for name in Entry.__slots__]
    assert Entry.read(tuple(row)) == good
    for place in range(len(row)):
        for wrong in (b"x", 1.5, None):
            if (place, wrong) != (Entry.__slots__.index("key"), None):
                with pytest.raises(ValueError, match="wrong type"):
                    Entry.read((*row[:place], wrong, *row[place + 1 :]))


@given(st.fractions(min_value=0))
def test_amounts_are_read_as_they_were_written(value: Fraction) -> None:
    """ledger:B7."""
    assert read_ratio(ratio(value)) == value


@pytest.mark.parametrize(
    "text", ["", "1", "0.1", "2/4", "1/0", "-1/2", "1/-2", "01/2", " 1/2", "1/2\n", "nan/1", "\u0661/2"]
)
def test_other_texts_are_no_amounts(text: str) -> None:
    """threat:A26."""
    with pytest.raises(ValueError, match="exact number"):
        read_ratio(text)


def test_ten_tenths_are_one() -> None:
    """ledger:B7 gate:G28."""
    total = NOTHING
    for _ in range(10):
        total = add_costs(total, TENTH)
    assert total == Cost(Accounting.PURE, 1)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.fractions(min_value=0, max_value=1), max_size=20))
def test_a_sum_of_short_fractions_is_exact_or_above(parts: list[Fraction]) -> None:
    """ledger:B7: never below the true sum, and above it by less than 10^-90."""
    total = NOTHING
    for part in parts:
        total = add_costs(total, Cost(Accounting.PURE, part))
    assert 0 <= total.amount - sum(parts) < Fraction(1, 10**90)
    assert total.amount.denominator <= 10**100


def test_odd_prices_cannot_make_the_sum_grow_without_end() -> None:
    """threat:A26: a thousand coprime denominators would make texts of 40,000 digits."""
    total, true = NOTHING, Fraction(0)
    for k in range(300):
        part = Fraction(1, 10**39 + 2 * k + 1)
        total, true = add_costs(total, Cost(Accounting.PURE, part)), true + part
    assert len(ratio(total.amount)) < 210
    assert true <= total.amount < true + Fraction(1, 10**90)


def test_a_long_price_is_rounded_up() -> None:
    long = Fraction(1, 3**300)
    price = round_denominators(Cost(Accounting.ZCDP, long, long))
    assert price.amount == price.delta == Fraction(1, 10**100) >= long
    assert cost_of(Accounting.ZCDP, ratio(price.amount), ratio(price.delta)) == price


def test_canonical_text_does_not_depend_on_order_and_has_no_nan() -> None:
    assert canonical({"b": [1, "x"], "a": None}) == canonical({"a": None, "b": [1, "x"]}) == '{"a":null,"b":[1,"x"]}'
    with pytest.raises(ValueError, match="JSON"):
        canonical(float("nan"))
