"""What a message says about charges is true: each way to ask, each failure, compared with the ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lapwing.curator import Curator
from lapwing.errors import BudgetExceeded, Bug, EngineFailed, Halted, LapwingError, LedgerFailed, Misconfigured
from lapwing.ledger.witness import Witness
from lapwing.privacy import Budget
from support.visits import crowd, open_visits, write_visits

TOTAL = "SELECT COUNT(*) AS n FROM visits"
SITES = "SELECT SUM(site) AS s FROM visits"  # the bounds of `site` must be found
FULL = "The ledger failed: the disk is full. Free some space and ask again. No answer is given."

WAYS: dict[str, Callable[[Curator], Any]] = {
    "sql": lambda curator: curator.sql(TOTAL, epsilon=1, refresh=True),
    "sql, joined": lambda curator: curator.sql(TOTAL, epsilon=1, refresh=True, combine=True),
    "ask": lambda curator: curator.ask(_count(curator), epsilon=1, refresh=True),
    "batch": lambda curator: curator.batch([TOTAL, f"{TOTAL} WHERE age > 30"], epsilon=1, refresh=True),
    "distribution": lambda curator: curator.distribution("age", epsilon=1, refresh=True),
    "marginals": lambda curator: curator.marginals(["sex"], epsilon=1, refresh=True),
    "find": lambda curator: curator.sql(SITES, epsilon=20, bounds="auto", refresh=True),
    "watch": lambda curator: curator.watch(threshold=10, epsilon=1).above(TOTAL),
}


def _count(curator: Curator) -> Any:
    visits = curator.table("visits")
    return visits.agg(n=visits.count())


def raises(error: BaseException) -> Callable[..., Any]:
    def broken(*_: Any, **__: Any) -> None:
        raise error

    return broken


def full_after_the_charge(patch: pytest.MonkeyPatch) -> None:
    """The witness cannot be written, when the charge is in the ledger already."""
    advance = Witness.advance

    def failing(witness: Witness, head: Any) -> None:
        known = witness.read()
        if known is not None and head.seq > known.seq:
            raise LedgerFailed("The witness could not be written (No space left on device).")
        advance(witness, head)

    patch.setattr(Witness, "advance", failing)


def fails_for_an_answer(_: Any, __: Any, questions: Any) -> None:
    """Searches are rehearsed; what is asked is not."""
    if questions:
        raise TypeError("x")


Inject = Callable[[Curator, Path, pytest.MonkeyPatch], Any]
FAILURES: dict[str, Inject] = {
    "engine": lambda curator, _, patch: patch.setattr(curator._engine, "fetch", raises(RuntimeError("x"))),
    "preparing": lambda curator, _, patch: patch.setattr(curator._engine, "prepare", raises(TypeError("x"))),
    "rehearsing": lambda _, __, patch: patch.setattr("lapwing.curator.query_cache.rehearse", fails_for_an_answer),
    "encoding": lambda _, __, patch: patch.setattr("lapwing.answers.stored.write_payload", raises(TypeError("x"))),
    "reserve": lambda curator, _, patch: [
        patch.setattr(curator.ledger, name, raises(LedgerFailed(FULL))) for name in ("reserve", "reserve_all")
    ],
    "witness": lambda _, __, patch: full_after_the_charge(patch),
    "settle": lambda curator, _, patch: patch.setattr(curator.ledger, "settle_all", raises(LedgerFailed(FULL))),
    "changed data": lambda _, folder, __: write_visits(folder, people=41),
    "lost data": lambda _, folder, __: (folder / "visits.parquet").unlink(),
    "budget": lambda curator, _, __: curator.sql(TOTAL, epsilon=999.5),
}
CASES = [
    (way, failure)
    for way in WAYS
    for failure in FAILURES
    if way != "watch" or failure not in ("settle", "encoding", "preparing", "rehearsing")  # test_rehearsal.py
]
FREE = ("preparing", "rehearsing", "encoding", "reserve", "changed data", "lost data", "budget")


def is_true(text: str, before: Any, after: Any) -> bool:
    """Whether the words fit the charge: what was charged is said, and what is said was charged or was not."""
    nothing = "Nothing was charged" in text
    stays = any(said in text for said in ("stays charged", "remain charged", "was charged and is stored"))
    return (not nothing if after != before else not stays) and (stays or after == before)


@pytest.mark.parametrize(("way", "failure"), CASES)
def test_what_an_error_says_about_the_charge_is_true(
    way: str, failure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator = open_visits(write_visits(tmp_path), budget=Budget(epsilon=1000), groups_per_unit=2)
    FAILURES[failure](curator, tmp_path, monkeypatch)
    before = curator.budget.spent
    with pytest.raises(LapwingError) as caught:
        WAYS[way](curator)
    assert is_true(str(caught.value), before, curator.budget.spent), str(caught.value)
    assert (caught.value.charged or before) == (curator.budget.spent - before or before)
    if (way, failure) == ("find", "rehearsing"):
        assert "Search results are stored and remain charged; the answer was not charged." in str(caught.value)
    elif failure in FREE and way != "watch":
        assert curator.budget.spent == before
    if failure in ("witness", "settle"):
        assert "asking again costs again; use a new key if it had one." in str(caught.value)


@pytest.mark.parametrize("way", WAYS)
def test_an_interrupted_question_stays_charged_and_the_next_is_answered(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator = open_visits(write_visits(tmp_path), budget=Budget(epsilon=1000), groups_per_unit=2)
    before = curator.budget.spent
    with monkeypatch.context() as patch:
        patch.setattr(curator._engine, "fetch", raises(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            WAYS[way](curator)
    assert curator.budget.spent.amount > before.amount
    assert curator.sql(TOTAL, epsilon=2).cost


def test_a_session_says_that_it_stays_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    curator = open_visits(write_visits(tmp_path), budget=Budget(epsilon=1000), groups_per_unit=2)
    watch = curator.watch(threshold=10, epsilon=1)
    spent = curator.budget.spent
    write_visits(tmp_path, people=41)
    with pytest.raises(Misconfigured, match=r"cost nothing\. The price of the session stays charged"):
        watch.above(TOTAL)
    write_visits(tmp_path)
    ended = open_visits(tmp_path / "visits.parquet", budget=Budget(epsilon=1000), version="2").watch(
        threshold=10, epsilon=1
    )
    monkeypatch.setattr("lapwing.engines.duckdb.DuckDBEngine.fetch", raises(RuntimeError("x")))
    with pytest.raises(EngineFailed, match="stays charged"):
        ended.above(TOTAL)
    with pytest.raises(Halted, match="its price stays charged"):
        ended.above(TOTAL)
    assert curator.budget.spent.amount == 2 * spent.amount


def test_what_was_found_is_said_to_stay_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else spends the rest between the finding and the answer."""
    curator = open_visits(crowd(), budget=Budget(epsilon=10))
    inner = curator._engine.fetch

    def spending(query: Any) -> Any:
        monkeypatch.setattr(curator._engine, "fetch", inner)
        curator.sql(TOTAL, epsilon=9.5)
        return inner(query)

    monkeypatch.setattr(curator._engine, "fetch", spending)
    with pytest.raises(BudgetExceeded) as caught:
        curator.sql(SITES, epsilon=1, bounds="auto", find_share=0.3)
    assert "Search results are stored and remain charged; the answer was not charged." in str(caught.value)
    assert "Nothing was charged" not in str(caught.value)
    assert float(curator.budget.spent.amount) == 9.8


def test_a_new_answer_that_cannot_be_joined_is_said_to_be_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = open_visits(budget=Budget(epsilon=10))
    with monkeypatch.context() as patch:
        patch.setattr("lapwing.curator.pipeline.combined", raises(LedgerFailed(FULL)))
        with pytest.raises(LedgerFailed, match="was charged and is stored"):
            curator.sql(TOTAL, epsilon=1, refresh=True, combine=True)
    assert curator.budget.spent.amount == 1
    assert not curator.sql(TOTAL, epsilon=1).cost


@pytest.mark.parametrize("broken", [LedgerFailed("in format 0"), Bug("made in other steps")], ids=["format", "steps"])
def test_nothing_is_charged_for_a_join_if_an_older_answer_cannot_be_read(
    broken: LapwingError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older answers are read before the charge."""
    curator = open_visits(budget=Budget(epsilon=10))
    curator.sql(TOTAL, epsilon=1)
    with monkeypatch.context() as patch:
        patch.setattr("lapwing.curator.purchase.decode", raises(broken))
        with pytest.raises(type(broken), match=str(broken)) as failed:
            curator.sql(TOTAL, epsilon=1, refresh=True, combine=True)
    assert failed.value.charged is None
    assert curator.budget.spent.amount == 1
    assert not curator.sql(TOTAL, epsilon=1).cost


@pytest.mark.parametrize("failure", ["engine", "settle"])
def test_a_batch_that_fails_says_that_all_of_it_stays_charged(
    failure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator = open_visits(write_visits(tmp_path), budget=Budget(epsilon=10))
    FAILURES[failure](curator, tmp_path, monkeypatch)
    with pytest.raises(LapwingError) as caught:
        curator.batch([TOTAL, f"{TOTAL} WHERE age > 30", f"{TOTAL} WHERE age > 40"], epsilon=1)
    charged = [entry.seq for entry in curator.ledger.entries() if entry.kind == "reserve"]
    assert len(charged) > 1
    assert f"All of it stays charged (entries {charged[0]} to {charged[-1]})." in str(caught.value)
    assert curator.budget.spent.amount == 1


def test_what_is_said_about_asking_again_holds_with_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same key never pays twice, so it has no answer; a new one pays."""
    curator = open_visits(write_visits(tmp_path), budget=Budget(epsilon=10))
    for failure in ("settle", "witness"):
        with monkeypatch.context() as patch:
            FAILURES[failure](curator, tmp_path, patch)
            with pytest.raises(LedgerFailed, match="asking again costs again; use a new key if it had one"):
                curator.sql(TOTAL, epsilon=1, key=failure)
        spent = curator.budget.spent.amount
        with pytest.raises(LedgerFailed, match="Use a new key to pay again"):
            curator.sql(TOTAL, epsilon=1, key=failure)
        assert curator.budget.spent.amount == spent
    assert curator.sql(TOTAL, epsilon=1, key="new").cost


REFUSED: dict[str, Callable[[Curator], Any]] = {
    "no price": lambda curator: curator.sql(TOTAL),
    "no question": lambda curator: curator.sql("SELECT pid FROM visits", epsilon=1),
    "no bounds": lambda curator: curator.sql(SITES, epsilon=1),
    "within before bounds": lambda curator: curator.sql(SITES, within=5, bounds="auto"),
    "a tiny finding": lambda curator: curator.sql(SITES, epsilon=1, bounds="auto", find_share=1e-30),
    "keys without delta": lambda curator: curator.sql(
        "SELECT name, COUNT(*) AS n FROM visits GROUP BY name", epsilon=1
    ),
    "confidence": lambda curator: curator.sql(TOTAL, epsilon=1, confidence=1e-12),
    "combine": lambda curator: curator.sql(TOTAL, epsilon=1, combine=True),
    "no batch": lambda curator: curator.batch(TOTAL, epsilon=1),
    "too many": lambda curator: curator.batch([TOTAL] * 1001, epsilon=1),
    "weights": lambda curator: curator.batch([TOTAL], epsilon=1, weights=[0]),
    "more weights": lambda curator: curator.batch([TOTAL], epsilon=1, weights=[1, 2]),
    "names": lambda curator: curator.batch({1: TOTAL}, epsilon=1),
    "no table": lambda curator: curator.distribution("age", epsilon=1, table=7),
    "no condition": lambda curator: curator.distribution("age", epsilon=1, where=7),
    "no column": lambda curator: curator.distribution(["age"], epsilon=1),
    "no cells": lambda curator: curator.marginals(["sex"], epsilon=1, cells={"nobody": 5}),
    "too dear": lambda curator: curator.sql(TOTAL, epsilon=10_000),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_refusal_that_says_nothing_was_charged_is_true(why: str) -> None:
    curator = open_visits(budget=Budget(epsilon=1000))
    with pytest.raises(LapwingError, match="Nothing was charged") as caught:
        REFUSED[why](curator)
    assert not curator.budget.spent
    assert "stays charged" not in str(caught.value)


def test_a_key_without_an_answer_says_that_it_stays_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = open_visits(budget=Budget(epsilon=10))
    with monkeypatch.context() as patch:
        patch.setattr(curator._engine, "fetch", raises(RuntimeError("x")))
        with pytest.raises(EngineFailed):
            curator.sql(TOTAL, epsilon=1, key="one")
    with pytest.raises(LedgerFailed, match="It stays charged and is not run again"):
        curator.sql(TOTAL, epsilon=1, key="one")
    assert curator.budget.spent.amount == 1
