"""Stored answers say their format; another one is refused with a sentence."""

from __future__ import annotations

import json

import pytest

from lapwing.answers import stored as payload
from lapwing.answers.stored import FORMAT, read_payload, write_payload
from lapwing.errors import LedgerFailed
from support.visits import open_visits

SENTENCE = r"is in format .*, and this version of Lapwing reads format 1\. Open the ledger with the version"


def test_what_was_written_is_read() -> None:
    facts = read_payload("cells", write_payload("cells", steps=["1/2"], keys=[]))
    assert facts == {"format": FORMAT, "kind": "cells", "steps": ["1/2"], "keys": []}


@pytest.mark.parametrize("written", [{}, {"format": 2, "kind": "cells"}, {"kind": "cells"}, {"format": 1, "kind": "x"}])
def test_another_format_is_refused(written: dict[str, object]) -> None:
    with pytest.raises(LedgerFailed, match=SENTENCE):
        read_payload("cells", json.dumps(written).encode())


@pytest.mark.parametrize("ask", ["sql", "distribution"])
def test_an_answer_of_another_format_is_refused_and_nothing_is_charged(
    ask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator = open_visits(groups_per_unit=1)
    asked = (
        (lambda **terms: curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.1, **terms))
        if ask == "sql"
        else (lambda **terms: curator.distribution("sex", epsilon=0.1, **terms))
    )
    monkeypatch.setattr(payload, "FORMAT", 7)
    asked()
    spent = curator.budget.spent
    monkeypatch.setattr(payload, "FORMAT", 1)
    with pytest.raises(LedgerFailed, match=SENTENCE):
        asked()
    assert curator.budget.spent == spent
    asked(refresh=True)
    assert curator.budget.spent.amount == 2 * spent.amount
