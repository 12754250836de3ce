"""The witness: durable, monotone, safe against torn writes, and never silently replaced."""

from __future__ import annotations

import fcntl
import os
import re
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest

from lapwing.errors import LedgerFailed, Misconfigured
from lapwing.ledger import Head, open_ledger
from lapwing.ledger.witness import Witness
from lapwing.privacy import Accounting, Budget, Cost


def head(seq: int, ledger: str = "ab" * 16) -> Head:
    return Head(ledger, seq, f"{seq:064x}")


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    return Witness(tmp_path / "data.witness")


def test_a_witness_knows_the_newest_head(witness: Witness) -> None:
    assert witness.read() is None
    for seq in (1, 2, 5, 6, 7):
        witness.advance(head(seq))
        assert witness.read() == head(seq)
    assert witness.path.stat().st_size == 512
    assert os.listdir(witness.path.parent) == ["data.witness"]


def test_a_witness_never_goes_back(witness: Witness) -> None:
    """ledger:B12: a slower process with an older head changes nothing."""
    witness.advance(head(9))
    before = witness.path.read_bytes()
    for seq in (1, 8, 9):
        witness.advance(head(seq))
    assert witness.path.read_bytes() == before


def test_a_write_torn_at_any_byte_leaves_the_old_head_or_the_new(witness: Witness) -> None:
    """ledger:B12: the power fails while the line is written; the other line still counts."""
    witness.advance(head(1))
    witness.advance(head(2))
    old = witness.path.read_bytes()
    witness.advance(head(3))
    new = witness.path.read_bytes()
    start = next(place for place in range(512) if old[place] != new[place]) // 256 * 256
    found = set()
    for torn in range(257):
        for rest in (old, bytes(512)):
            mixed = bytearray(rest)
            mixed[:start], mixed[start + 256 :] = old[:start], old[start + 256 :]
            mixed[start : start + torn] = new[start : start + torn]
            witness.path.write_bytes(mixed)
            found.add(witness.read())
            if torn % 32 == 0:
                witness.advance(head(4))
                assert witness.read() == head(4)
    assert found == {head(2), head(3)}


def test_a_changed_line_does_not_count(witness: Witness) -> None:
    witness.advance(head(1))
    witness.advance(head(2))
    good = witness.path.read_bytes()
    for place in range(0, 160, 7):
        raw = bytearray(good)
        raw[256 + place] ^= 1
        witness.path.write_bytes(raw)
        assert witness.read() in (head(1), head(2))


def test_a_witness_of_which_nothing_is_left_is_refused(witness: Witness) -> None:
    """ledger:B13: with the next step."""
    for rubbish in (b"", b"x" * 512, b"{}\n" * 200, b"[1]".ljust(256) * 2):
        witness.path.write_bytes(rubbish)
        with pytest.raises(Misconfigured, match=r"damaged.*delete the witness"):
            witness.read()
        with pytest.raises(Misconfigured, match="damaged"):
            witness.advance(head(1))


def test_a_witness_of_another_ledger_is_not_overwritten(witness: Witness) -> None:
    """ledger:B6 gate:G37."""
    witness.advance(head(1))
    with pytest.raises(Misconfigured, match="Open the other ledger"):
        witness.advance(head(2, ledger="cd" * 16))
    assert witness.read() == head(1)


def test_a_witness_that_cannot_be_kept_is_a_failure(tmp_path: Path) -> None:
    """ledger:B13."""
    with pytest.raises(LedgerFailed, match="No answer is given"):
        Witness(tmp_path / "no folder" / "w").advance(head(1))
    with pytest.raises(LedgerFailed, match="could not be read"):
        Witness(tmp_path).read()


def test_a_new_head_costs_one_sync_and_the_first_two(witness: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[str] = []
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda _, name=name: syncs.append(name))
    witness.advance(head(1))
    assert len(syncs) == 2
    witness.advance(head(2))
    witness.advance(head(2))
    assert len(syncs) == 3


def test_a_head_that_is_written_and_not_synced_is_waited_for(witness: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    """ledger:B12: a slower process with an older head returns when the newer one is on disk, and not before."""
    witness.advance(head(1))
    in_sync, on_disk, order = Event(), Event(), []

    def sync(_: int) -> None:
        in_sync.set()
        on_disk.wait(20)
        order.append("synced")

    monkeypatch.setattr(os, "fdatasync", sync)
    first = Thread(target=lambda: witness.advance(head(3)))
    second = Thread(target=lambda: (witness.advance(head(2)), order.append("returned")))
    first.start()
    assert in_sync.wait(20)
    second.start()
    second.join(0.2)
    assert order == []
    on_disk.set()
    first.join()
    second.join()
    assert order == ["synced", "returned"]
    assert witness.read() == head(3)


def test_two_entries_of_the_same_number_are_refused(witness: Witness) -> None:
    """ledger:B12: the ledger was put back while both were in use."""
    witness.advance(head(2))
    with pytest.raises(Misconfigured, match="Entry 2 is not the one"):
        witness.advance(replace(head(2), hash="cd" * 32))


def test_a_witness_that_is_removed_while_it_is_waited_for_is_a_failure(
    witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ledger:B12: what is written to a removed file is gone with it."""
    witness.advance(head(1))
    inner = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", lambda file, how: (witness.path.unlink(missing_ok=True), inner(file, how)))
    with pytest.raises(LedgerFailed, match="removed meanwhile"):
        witness.advance(head(2))


def test_a_process_that_hangs_with_the_lock_keeps_others_waiting_no_longer_than_their_time(witness: Witness) -> None:
    """ledger:B13: they fail with a sentence, know nothing new, and go on when it is gone."""
    witness.advance(head(1))
    waiting = replace(witness, timeout=0.1)
    with open(witness.path, "r+b") as hung:
        fcntl.flock(hung, fcntl.LOCK_EX)
        with pytest.raises(LedgerFailed, match=r"locked by another process for more than 0.1 seconds\. No answer is"):
            waiting.advance(head(2))
        assert waiting.read() == head(1)
    waiting.advance(head(2))
    assert waiting.read() == head(2)


def test_the_time_of_a_ledger_is_that_of_its_witnesses(tmp_path: Path) -> None:
    """ledger:B13."""
    with open_ledger(tmp_path / "ledger.db", Budget(1), witness=tmp_path / "w", timeout=0.1) as ledger:
        assert (tmp_path / "w").exists()
        with open(tmp_path / "w", "r+b") as hung:
            fcntl.flock(hung, fcntl.LOCK_EX)
            with pytest.raises(LedgerFailed, match=r"more than 0\.1 seconds"):
                ledger.reserve(Cost(Accounting.PURE, 0.1), analyst="ann", body="q")


def test_the_lock_is_waited_for(witness: Witness) -> None:
    """Whoever has it for a moment costs nobody an answer."""
    witness.advance(head(1))
    with open(witness.path, "r+b") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        done = Event()
        waiting = Thread(target=lambda: (witness.advance(head(2)), done.set()))
        waiting.start()
        assert not done.wait(0.1)
        fcntl.flock(other, fcntl.LOCK_UN)
        waiting.join()
    assert witness.read() == head(2)


def test_a_backup_put_back_is_refused_unless_the_witness_is_put_back_too(tmp_path: Path) -> None:
    """So backups leave the witness out, and every page that speaks of backups says so."""
    ledger, witness = tmp_path / "ledger.db", tmp_path / "w"

    def charge() -> None:
        with open_ledger(ledger, Budget(1), witness=witness) as opened:
            opened.reserve(Cost(Accounting.PURE, 0.1), analyst="ann", body="q")

    charge()
    backup = {path: path.read_bytes() for path in tmp_path.iterdir()}
    charge()
    ledger.write_bytes(backup[ledger])
    with pytest.raises(Misconfigured, match="an older copy was put back"):
        charge()
    witness.write_bytes(backup[witness])
    charge()
    docs = Path(__file__).parents[2] / "docs"
    said = {page.name: " ".join(page.read_text(encoding="utf-8").split()) for page in docs.rglob("*.md")}
    assert "leave the witness out" in said["deploying.md"]
    assert "Back it up *without* its witness" in said["threat-model.md"]
    assert "back up the ledger without the small `.lapwing` file" in said["stewards-guide.md"]
    assert [name for name, text in said.items() if re.search(r"back (it|up)[^.]*\b(together )?\*?with\b", text)] == []
