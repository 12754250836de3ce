"""Prices as text, and which stored answers can be the best: reading one of them suffices, however many were paid."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from typing import Any

import pytest

from lapwing.answers import stored
from lapwing.answers.stored import best_terms, prices_in, prices_out, terms_of
from lapwing.curator import purchase
from lapwing.plan.plan import Prices
from lapwing.privacy import Budget
from lapwing.privacy.loss import ZCDP, Approximate, Pure
from support.visits import open_visits

TENTH, THIRD = Pure(Fraction(1, 10)), Pure(Fraction(1, 3))
QUESTION = "SELECT sex, COUNT(*) AS n, SUM(cost) AS c FROM visits GROUP BY sex"


@pytest.mark.parametrize(
    "made",
    [
        Prices((TENTH,)),
        Prices((TENTH, THIRD)),
        Prices((None, ZCDP(Fraction(1, 7))), ZCDP(Fraction(1, 7), Fraction(1, 10**9))),
        Prices((TENTH,), Approximate(Fraction(1, 2), Fraction(1, 10**6))),
    ],
)
def test_prices_are_read_as_they_were_written(made: Prices) -> None:
    assert prices_in(json.loads(json.dumps(prices_out(made)))) == made
    assert prices_in(json.loads(terms_of(made))) == made


def test_prices_that_others_exceed_are_left_out() -> None:
    """Of a thousand prices in equal shares one is left; other splits and other kinds stay."""
    equal = [terms_of(Prices((Pure(Fraction(n, 100)),) * 2)) for n in range(1, 1001)]
    assert best_terms(equal) == best_terms(reversed(equal)) == [equal[-1]]
    one, two = (terms_of(Prices((a, b))) for a, b in ((TENTH, THIRD), (THIRD, TENTH)))
    other = terms_of(Prices((ZCDP(Fraction(1)), ZCDP(Fraction(1)))))
    for offers in itertools.permutations([one, two, other, equal[0]]):
        assert set(best_terms(offers)) == {one, two, other}
    assert best_terms([]) == []


def test_one_stored_answer_is_read_however_many_were_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a preview and by a question; it is the newest of the best, as if all had been compared."""
    curator = open_visits(budget=Budget(epsilon=100))
    paid = [curator.sql(QUESTION, epsilon=e, refresh=True) for e in (0.5, 2, 1, 2, 0.5, 0.25, *[0.125] * 20)]
    read: list[Any] = []
    inner = purchase.decode

    def decode(*arguments: Any) -> Any:
        read.append(arguments)
        return inner(*arguments)

    monkeypatch.setattr(purchase, "decode", decode)
    monkeypatch.delattr(type(curator.ledger), "find_answers")
    for epsilon in (0.125, 0.3, 2):
        read.clear()
        assert curator.preview(QUESTION, epsilon=epsilon).cost.amount == 0
        assert len(read) == 1
        found = curator.sql(QUESTION, epsilon=epsilon)
        assert (found.entry, len(read)) == (paid[3].entry, 2)
    assert curator.preview(QUESTION, epsilon=3).cost.amount == 3


def test_prices_that_were_paid_are_parsed_once() -> None:
    """A question compares its price with all that were paid for it, and parses only the new ones."""
    curator = open_visits(budget=Budget(epsilon=100))
    for n in range(1, 31):
        curator.sql(QUESTION, epsilon=Fraction(n, 997), refresh=True)
    assert curator.preview(QUESTION, epsilon=Fraction(1, 997)).cost.amount == 0
    parsed = stored._parts.cache_info().misses
    assert curator.preview(QUESTION, epsilon=Fraction(1, 997)).cost.amount == 0
    assert curator.sql(QUESTION, epsilon=Fraction(2, 997)).cost.amount == 0
    assert curator.preview(QUESTION, epsilon=50).cost.amount == 50
    assert stored._parts.cache_info().misses <= parsed + 2


def test_one_stored_distribution_is_read_however_many_were_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = open_visits(budget=Budget(epsilon=100), groups_per_unit=1)
    paid = [curator.distribution("age", epsilon=e, refresh=True) for e in (0.5, 2, 2, 1)]
    monkeypatch.delattr(type(curator.ledger), "find_answers")
    assert curator.distribution("age", epsilon=1.5).entry == paid[2].entry
    assert curator.distribution("age", epsilon=3).cost.amount == 3
