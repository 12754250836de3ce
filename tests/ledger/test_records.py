"""What a ledger records beside charges: tokens, claims, content that is kept, and teams that share an allowance."""

from __future__ import annotations

from typing import Any

import pytest

from lapwing.errors import BudgetExceeded, Bug, LedgerFailed
from lapwing.ledger import EntryKind, Head, Ledger
from lapwing.ledger.verified import CheckedBook
from lapwing.ledger.witness import Witness
from lapwing.privacy import Accounting, Cost


def pure(amount: Any) -> Cost:
    return Cost(Accounting.PURE, amount)


def charge(ledger: Ledger, amount: Any, analyst: str) -> Any:
    return ledger.reserve(pure(amount), analyst=analyst, body="q")


def test_a_record_is_made_once(place: Any) -> None:
    ledger = place.open()
    first, new = ledger.record(EntryKind.TOKEN, "token:1", {"role": "analyst"})
    again, twice = ledger.record(EntryKind.TOKEN, "token:1", {"role": "steward"})
    assert (new, twice, again) == (True, False, first)
    assert first.remark("role") == "analyst"
    assert ledger.recorded("token:1", "token:2") == (first, None, first)
    assert ledger.records(EntryKind.TOKEN) == [first]
    assert ledger.verify().ok


def test_a_record_costs_nothing_and_survives_a_restart(place: Any) -> None:
    ledger = place.open()
    charge(ledger, 0.5, "ann")
    for kind in (EntryKind.TOKEN, EntryKind.REVOKE, EntryKind.CLAIM):
        ledger.record(kind, f"{kind}:1", {}, analyst="ann")
    ledger.record(EntryKind.KEEP, "keep:1", {"by": "ann"}, analyst="ann", content=b"bytes")
    assert (ledger.spent, ledger.spent_by("ann")) == (pure(0.5), pure(0.5))
    ledger.close()
    again = place.open()
    entry, _ = again.recorded("keep:1", analyst="ann")
    assert entry is not None
    assert again.kept(entry) == b"bytes"
    assert again.verify().ok
    charge(again, 0.5, "ann")
    assert again.verify().ok


def test_only_free_kinds_are_recorded(place: Any) -> None:
    ledger = place.open()
    before = list(ledger.entries())
    for kind in (EntryKind.RESERVE, EntryKind.SETTLE, EntryKind.ALLOW, EntryKind.OPEN):
        with pytest.raises(Bug):
            ledger.record(kind, "k", {})
    with pytest.raises(Bug):
        ledger.record(EntryKind.KEEP, "k", {})
    with pytest.raises(LedgerFailed, match="content is missing"):
        ledger.kept(before[0])
    assert list(ledger.entries()) == before


def test_a_witness_is_never_ahead_of_what_is_durable(place: Any) -> None:
    ledger = place.open()
    charge(ledger, 0.1, "ann")
    ledger.record(EntryKind.CLAIM, "claim:1", {}, analyst="ann")
    ledger.record(EntryKind.KEEP, "keep:1", {}, analyst="ann", content=b"x")
    ledger.close()
    again = place.open()  # a witness learns again what is durable
    head = Witness(place.witness).read()
    assert head is not None
    assert next(entry.kind for entry in again.entries() if entry.seq == head.seq) == "reserve"


def test_a_team_shares_an_allowance(place: Any) -> None:
    """ledger:B6: whoever charges as a member counts, also those who did before the allowance was set."""
    ledger = place.open()
    charge(ledger, 0.1, "ann@cardiology")
    ledger.allow("@cardiology", pure(0.3))
    charge(ledger, 0.1, "bob@cardiology")
    with pytest.raises(BudgetExceeded, match="allowance of @cardiology"):
        charge(ledger, 0.2, "cyd@cardiology")
    charge(ledger, 0.1, "cyd@cardiology")
    with pytest.raises(BudgetExceeded, match="allowance of @cardiology"):
        charge(ledger, 0.1, "ann@cardiology")
    charge(ledger, 0.5, "ann@surgery")
    assert ledger.spent_by("@cardiology") == pure(0.3)
    assert ledger.verify().ok


def test_a_member_has_an_allowance_of_their_own_too(place: Any) -> None:
    ledger = place.open()
    ledger.allow("@t", pure(0.5))
    ledger.allow("ann@t", pure(0.1))
    charge(ledger, 0.1, "ann@t")
    with pytest.raises(BudgetExceeded, match="allowance of ann@t"):
        charge(ledger, 0.1, "ann@t")
    charge(ledger, 0.4, "bob@t")
    with pytest.raises(BudgetExceeded, match="allowance of @t"):
        charge(ledger, 0.1, "bob@t")


def rows_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each check reads from now on."""
    found: list[int] = []
    real = CheckedBook._rows_since

    def counted(self: CheckedBook, known: Any, seen: Any) -> Any:
        rows = real(self, known, seen)
        found.append(len(rows))
        return rows

    monkeypatch.setattr(CheckedBook, "_rows_since", counted)
    return found


def test_many_records_are_checked_from_where_the_last_check_ended(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = place.open()
    charge(ledger, 0.25, "ann")
    read = rows_read(monkeypatch)
    for number in range(120):
        ledger.record(EntryKind.CLAIM, f"claim:{number}", {}, analyst="ann")
    assert max(read) <= 20
    charge(ledger, 0.25, "ann")
    assert ledger.spent == pure(0.5)
    assert ledger.verify().ok


def test_what_a_check_has_seen_need_not_be_there_any_more(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may lose what it had not yet synced: then everything is checked from what the witnesses know."""
    ledger = place.open()
    charge(ledger, 0.25, "ann")
    for number in range(40):
        ledger.record(EntryKind.CLAIM, f"claim:{number}", {}, analyst="ann")
    for lost in (Head(ledger.id, 40, "0" * 64), Head(ledger.id, 400, "0" * 64)):
        read = rows_read(monkeypatch)
        ledger._seen = lost
        ledger.record(EntryKind.CLAIM, f"claim:after {lost.seq}", {}, analyst="ann")
        assert read[-1] >= 40
    assert ledger.verify().ok


def test_a_change_behind_what_was_seen_is_found(place: Any) -> None:
    ledger = place.open()
    charge(ledger, 0.25, "ann")
    for number in range(40):
        ledger.record(EntryKind.CLAIM, f"claim:{number}", {}, analyst="ann")
    last = ledger.recorded()[-1]
    assert last is not None
    if not hasattr(place, "tamper"):
        pytest.skip("nobody else can reach a ledger in memory")
    other = place.open()
    other.record(EntryKind.CLAIM, "claim:later", {}, analyst="ann")
    other.close()
    place.tamper(f"UPDATE entry SET note = '{{}}', at = '2000-01-01T00:00:00Z' WHERE seq = {last.seq + 1}")
    with pytest.raises(LedgerFailed, match="damaged"):
        ledger.record(EntryKind.CLAIM, "claim:last", {}, analyst="ann")
