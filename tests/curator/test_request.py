"""A request is what was written: it is told apart by every word of it, and a retry key stands for one request."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import lapwing as lw
from lapwing.curator.automatic import Automatic
from lapwing.curator.batch import read_batch
from lapwing.curator.pricing import Terms
from lapwing.curator.request import DistributionRequest, MarginalsRequest, QuestionRequest, Request
from lapwing.errors import Misconfigured
from support.visits import frame, open_visits

TEXT = "SELECT COUNT(*) AS n FROM visits"
SELECTED = "SELECT name, COUNT(DISTINCT pid) AS n FROM visits GROUP BY name"
BUDGET = lw.Budget(epsilon=100, delta=1e-6)
BASE = Request(QuestionRequest(TEXT), Terms(epsilon=0.1))


def opened(**changes: Any) -> lw.Curator:
    return open_visits(frame(50), budget=BUDGET, groups_per_unit=2, check=None, **changes)


def test_a_charge_is_known_by_a_digest_of_the_request_with_a_format_number() -> None:
    assert BASE.body() == '[1,"charge",["217f47da6ca62bd78fc3f6becccaa986d294cb98dca9497d70f31c941909cc03",null]]'
    assert BASE.body(3) != BASE.body()


def test_who_asks_and_whether_stored_answers_will_do_is_no_part_of_the_request() -> None:
    assert replace(BASE, analyst="ann", key="k", refresh=True, combine=True).body() == BASE.body()


def test_equal_numbers_are_one_request() -> None:
    for number in (0.1, Decimal("0.1"), Fraction(1, 10)):
        assert replace(BASE, terms=Terms(epsilon=number)).body() == BASE.body()


OTHERS: list[Request] = [
    replace(BASE, asked=QuestionRequest(TEXT + " ")),
    replace(BASE, asked=read_batch([TEXT])),
    replace(BASE, asked=DistributionRequest("age")),
    replace(BASE, asked=DistributionRequest("age", where="sick")),
    replace(BASE, asked=MarginalsRequest(["age"])),
    replace(BASE, asked=MarginalsRequest([("age",)])),
    replace(BASE, asked=MarginalsRequest(["age"], ways=1)),
    replace(BASE, asked=MarginalsRequest(["age"], cells=3)),
    *(
        replace(BASE, terms=Terms(**{"epsilon": 0.1, **terms}))  # type: ignore[arg-type]
        for terms in (
            {"epsilon": Fraction(1, 10) + Fraction(1, 10**30)},
            {"epsilon": None, "within": 0.1},
            {"epsilon": None, "share": 0.1},
            {"epsilon": None, "within": {"n": 0.1}},
            {"delta": 0.1},
            {"confidence": 0.9},
            {"assume_rows": 10},
            {"intervals": False},
            {"automatic": Automatic(bounds=True)},
            {"automatic": Automatic(limits=True)},
            {"automatic": Automatic(bounds=True, share=Fraction(1, 2))},
        )
    ),
]


def test_requests_that_differ_in_one_word_are_told_apart() -> None:
    assert len({request.body() for request in (BASE, *OTHERS)}) == 1 + len(OTHERS)


ASKED: dict[str, Callable[[lw.Curator, Any], Any]] = {
    "question": lambda curator, more: curator.sql(TEXT, **{"epsilon": 1, **more}),
    "selected": lambda curator, more: curator.sql(SELECTED, **{"epsilon": 1, **more}),
    "batch": lambda curator, more: curator.batch([TEXT, SELECTED], **{"epsilon": 1, **more}),
    "distribution": lambda curator, more: curator.distribution("age", **{"epsilon": 1, **more}),
    "marginals": lambda curator, more: curator.marginals(["sex", "site"], **{"epsilon": 1, **more}),
}


def shown(answer: Any) -> tuple[list[str], list[str]]:
    """The numbers and the entries of the ledger, without the price."""
    text = str(answer)
    return [line for line in text.splitlines() if "price" not in line], re.findall(r"entry \d+", text)


@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.parametrize("refresh", [False, True])
def test_a_retry_gives_its_own_answer_whatever_was_charged_since(kind: str, refresh: bool) -> None:
    """What is left of the delta, which other charges take from, decides the price, and is no part of the request."""
    curator, ask = opened(), ASKED[kind]
    own = {"key": "k", "analyst": "ann", "refresh": refresh}
    first = ask(curator, own)
    ask(curator, {"epsilon": 2, "refresh": True})
    curator.sql(SELECTED, epsilon=3, delta=2e-7)
    spent = curator.ledger.spent
    again = ask(curator, own)
    assert curator.ledger.spent == spent
    assert not again.cost
    assert shown(again) == shown(first)


@pytest.mark.parametrize("kind", ASKED)
def test_a_key_of_another_request_is_refused_and_charges_nothing(kind: str) -> None:
    curator, ask = opened(), ASKED[kind]
    ask(curator, {"key": "k"})
    spent = curator.ledger.spent
    for more in ({"epsilon": 2}, {"confidence": 0.9}):
        with pytest.raises(Misconfigured, match="used for another question"):
            ask(curator, {"key": "k", **more})
    assert curator.ledger.spent == spent


@pytest.mark.parametrize("kind", ASKED)
def test_a_key_belongs_to_its_analyst(kind: str) -> None:
    curator, ask = opened(), ASKED[kind]
    ask(curator, {"key": "k", "analyst": "ann", "refresh": True})
    spent = curator.ledger.spent_by("ann")
    ask(curator, {"key": "k", "analyst": "bob", "refresh": True, "epsilon": 2})
    assert curator.ledger.spent_by("ann") == spent
    assert curator.ledger.spent_by("bob").amount > 0


def test_a_question_is_the_same_request_in_other_words() -> None:
    curator = opened()
    first = curator.sql("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex", epsilon=1, key="k")
    other = "SELECT COUNT(*) AS m, sex FROM visits AS v GROUP BY v.sex ORDER BY m"
    again = curator.sql(other, epsilon=1, key="k", refresh=True)
    assert (again.entry, bool(again.cost)) == (first.entry, False)


def test_a_key_of_another_request_is_refused_before_bounds_are_searched() -> None:
    curator = opened(bounds={})
    curator.sql(TEXT, epsilon=1, key="k")
    spent = curator.ledger.spent
    with pytest.raises(Misconfigured, match="used for another question"):
        curator.sql("SELECT SUM(cost) AS s FROM visits", epsilon=1, bounds="auto", key="k")
    assert curator.ledger.spent == spent


def test_what_was_found_is_no_part_of_the_request() -> None:
    """Neither bounds that are found, nor a table that is made of clipped columns."""
    text = "SELECT SUM(t) AS s FROM (SELECT pid, SUM(cost) AS t FROM visits GROUP BY pid)"
    curator, terms = opened(bounds={}), Terms(epsilon=1, automatic=Automatic(bounds=True))
    request = Request(QuestionRequest(text), terms)
    before = curator._planner.plan(QuestionRequest(text), request)
    curator.sql(text, epsilon=1, bounds="auto")
    after = curator._planner.plan(QuestionRequest(text), request)
    assert (len(before.missing), len(after.found)) == (1, 1)
    assert request.canonical(before.facts).body() == request.canonical(after.facts).body()


def test_findings_are_paid_once_under_a_key() -> None:
    curator, text = opened(bounds={}), "SELECT SUM(cost) AS s FROM visits"
    first = curator.sql(text, epsilon=1, bounds="auto", key="k", refresh=True)
    spent = curator.ledger.spent
    again = curator.sql(text, epsilon=1, bounds="auto", key="k", refresh=True)
    assert (curator.ledger.spent, str(again.to_arrow())) == (spent, str(first.to_arrow()))


@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.parametrize("refresh", [False, True])
def test_a_key_never_brings_back_the_answer_to_other_data(kind: str, refresh: bool, tmp_path: Path) -> None:
    """The request is written as before, and its cells are others: nothing is read or charged."""
    ask, place = ASKED[kind], tmp_path / "ledger.db"
    own = {"key": "k", "refresh": refresh}
    with_ledger: dict[str, Any] = {"groups_per_unit": 2, "budget": BUDGET, "ledger": place, "check": None}
    curator = open_visits(frame(50), version="1", **with_ledger)
    ask(curator, own)
    curator.close()
    curator = open_visits(frame(60), version="2", **with_ledger)
    spent = curator.ledger.spent
    with pytest.raises(Misconfigured, match=r"used for another question|changed since this key was used"):
        ask(curator, own)
    assert curator.ledger.spent == spent


def test_every_way_to_ask_is_one_door() -> None:
    curator = opened()
    assert lw.Curator.ask is lw.Curator.sql
    expression = curator.table("visits").count().name("n")
    release = curator.sql(expression, epsilon=1)
    assert not curator.answer(Request(QuestionRequest(TEXT), Terms(epsilon=1))).cost
    assert curator.sql(TEXT, epsilon=1).to_arrow() == release.to_arrow()
    batch = curator.batch([TEXT], epsilon=0.5)
    assert str(curator.answer(Request(read_batch([TEXT]), Terms(epsilon=0.5)))) == str(batch)
    for asked in (DistributionRequest("age"), MarginalsRequest(["sex", "site"])):
        request = Request(asked, Terms(epsilon=1))
        assert curator.preview_request(request).cost
        assert curator.answer(request).cost
        assert not curator.preview_request(request).cost
