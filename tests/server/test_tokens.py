"""Tokens: hashed at rest, expiring, revoked at once everywhere and for ever, whatever the clock says."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lapwing.cli.main import app
from lapwing.errors import BudgetExceeded, LapwingError, LedgerFailed, Misconfigured
from lapwing.ledger import Ledger, open_ledger
from lapwing.privacy import Budget, Cost
from lapwing.server import tokens
from lapwing.server.tokens import Role, TokenBook, allow_share, write_secret
from support.service import write_settings


class Clock:
    """A clock that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time = datetime(2026, 11, 17, tzinfo=UTC)
        clock = self

        class Set(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> datetime:
                return clock.time

        monkeypatch.setattr(tokens, "datetime", Set)
        monkeypatch.setattr("lapwing.ledger.entry.datetime", Set)

    def move(self, days: float) -> None:
        self.time += timedelta(days=days)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def open_at(folder: Path) -> Ledger:
    return open_ledger(folder / "ledger.db", Budget(1, 1e-6))


def test_a_token_names_its_owner_and_role() -> None:
    book = TokenBook(open_ledger(None, Budget(1)))
    token, facts = book.add("ann", Role.ANALYST, team="cardiology")
    found = book.find(token)
    assert found is not None
    assert (found.name, found.role, found.token) == ("ann@cardiology", Role.ANALYST, facts.id)
    assert token.startswith(f"lw_{facts.id}_")


def test_no_secret_is_in_the_ledger(tmp_path: Path) -> None:
    """threat:A13: SHA-256 of 256 random bits is all that is kept."""
    ledger = open_at(tmp_path)
    token, facts = TokenBook(ledger).add("ann", "analyst")
    secret = token.split("_", 2)[2]
    ledger.close()
    assert len(secret) == 43
    for file in tmp_path.iterdir():
        assert secret.encode() not in file.read_bytes()
    assert facts.id.encode() in b"".join(file.read_bytes() for file in tmp_path.iterdir())


def test_two_tokens_differ() -> None:
    book = TokenBook(open_ledger(None, Budget(1)))
    made = {book.add("ann", "analyst")[0] for _ in range(20)}
    assert len({token.split("_")[1] for token in made}) == len({token.split("_", 2)[2] for token in made}) == 20


@pytest.mark.parametrize("change", ["", "x", "lw_", "lw_0123456789abcdef_" + "A" * 43, "Bearer x", "\0", "é" * 60])
def test_what_is_no_token_is_refused(change: str) -> None:
    book = TokenBook(open_ledger(None, Budget(1)))
    book.add("ann", "analyst")
    assert book.find(change) is None


def test_a_changed_character_of_the_secret_is_refused() -> None:
    book = TokenBook(open_ledger(None, Budget(1)))
    token, _ = book.add("ann", "analyst")
    for place in range(len(token) - 43, len(token) - 1):  # the last one has bits that do not count
        other = "A" if token[place] != "A" else "B"
        assert book.find(token[:place] + other + token[place + 1 :]) is None
    assert book.find(token) is not None


def test_a_revocation_holds_at_once_on_every_worker(tmp_path: Path) -> None:
    """gate:G52: another connection to the same ledger, opened before."""
    here, there = TokenBook(open_at(tmp_path)), TokenBook(open_at(tmp_path))
    token, facts = here.add("ann", "analyst")
    assert there.find(token) is not None
    here.revoke(facts.id)
    assert there.find(token) is None
    assert here.find(token) is None


def test_a_name_loses_all_its_tokens() -> None:
    book = TokenBook(open_ledger(None, Budget(1)))
    first, second = book.add("ann", "analyst")[0], book.add("ann", "steward")[0]
    other = book.add("bob", "analyst")[0]
    assert len(book.revoke("ann")) == 2
    assert [book.find(token) for token in (first, second)] == [None, None]
    assert book.find(other) is not None
    with pytest.raises(Misconfigured, match="token list"):
        book.revoke("nobody")


def test_a_token_expires(clock: Clock) -> None:
    book = TokenBook(open_ledger(None, Budget(1)))
    token, facts = book.add("ann", "analyst", days=30)
    assert facts.expires == "2026-12-17T00:00:00Z"
    clock.move(29.9)
    assert book.find(token) is not None
    clock.move(0.1)
    assert book.find(token) is None


@pytest.mark.parametrize("back", [-20, -3650, -36500])
def test_a_clock_set_back_revives_no_token(tmp_path: Path, clock: Clock, back: float) -> None:
    """gate:G37: neither one that was revoked, nor one that was seen expired; also after a restart."""
    ledger = open_at(tmp_path)
    book = TokenBook(ledger)
    expired, revoked = book.add("ann", "analyst", days=10)[0], book.add("bob", "analyst", days=3000)[0]
    book.revoke("bob")
    clock.move(11)
    assert book.find(expired) is None
    clock.move(back)
    assert book.find(expired) is None
    ledger.close()
    again = TokenBook(open_at(tmp_path))
    assert [again.find(token) for token in (expired, revoked)] == [None, None]


def test_time_is_the_latest_that_was_seen(tmp_path: Path, clock: Clock) -> None:
    """A token that nobody showed after its time is expired too, if anything was written since."""
    ledger = open_at(tmp_path)
    book = TokenBook(ledger)
    token, _ = book.add("ann", "analyst", days=10)
    clock.move(11)
    book.add("bob", "analyst")
    ledger.close()
    clock.move(-3650)
    again = TokenBook(open_at(tmp_path))
    assert again.find(token) is None
    fresh, facts = again.add("cyd", "analyst", days=5)
    assert facts.expires == "2026-12-03T00:00:00Z"
    assert again.find(fresh) is not None


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"name": "a b", "role": "analyst"}, "name"),
        ({"name": "", "role": "analyst"}, "name"),
        ({"name": "x" * 65, "role": "analyst"}, "name"),
        ({"name": "ann@x", "role": "analyst"}, "name"),
        ({"name": "ann", "role": "root"}, "role"),
        ({"name": "ann", "role": "analyst", "team": "a@b"}, "team"),
        ({"name": "ann", "role": "analyst", "days": 0}, "days"),
        ({"name": "ann", "role": "analyst", "days": 4000}, "at most 3,650"),
    ],
)
def test_odd_tokens_are_refused(facts: Any, message: str) -> None:
    book = TokenBook(open_ledger(None, Budget(1)))
    with pytest.raises(Misconfigured, match=message):
        book.add(**facts)
    assert book.all() == []


def test_an_allowance_is_the_same_share_of_capacity_and_delta() -> None:
    ledger = open_ledger(None, Budget(1, 1e-6))
    limit = allow_share(ledger, "ann", Fraction(1, 4))
    assert (limit.amount, limit.delta) == (ledger.total.amount / 4, ledger.total.delta / 4)
    assert ledger.allowance("ann") == limit
    allow_share(ledger, "@cardiology", 0.5)
    half = Cost(limit.accounting, ledger.total.amount / 2)
    ledger.reserve(half, analyst="bob@cardiology", body="q")
    with pytest.raises(BudgetExceeded, match="@cardiology"):
        ledger.reserve(limit, analyst="cyd@cardiology", body="q")
    for share in (-0.1, 1.1):
        with pytest.raises(Misconfigured, match="share"):
            allow_share(ledger, "ann", share)


def test_a_secret_file_is_its_owners_and_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "new" / "steward.token"
    write_secret(path, "lw_x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == "lw_x\n"
    with pytest.raises(Misconfigured, match="exists"):
        write_secret(path, "lw_y")
    with pytest.raises(LedgerFailed, match="written"):
        write_secret(path / "below" / "more", "lw_y")


def run(*words: str) -> Any:
    done = CliRunner().invoke(app, ["token", *words, "--json"], catch_exceptions=False)
    assert done.exit_code == 0
    return json.loads(done.stdout)


def test_the_command_line_adds_lists_and_revokes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("visits.csv").write_text("pid\n1\n")
    settings = '[budget]\nepsilon = 1\n[tables.visits]\nsource = "visits.csv"\nunit = "pid"\n'
    Path("lapwing.toml").write_text(f'{settings}[tables.visits.columns]\npid = {{ type = "text" }}\n')
    made = run("add", "ann", "--team", "cardiology", "--share", "0.1")
    kept = run("add", "eve", "--role", "auditor", "--to", "eve.token")
    assert (made["name"], made["file"], kept["token"]) == ("ann@cardiology", None, None)
    assert Path("eve.token").read_text().startswith(f"lw_{kept['id']}_")
    assert run("allow", "@cardiology", "--share", "0.2")["allowance"] == "epsilon = 0.2"
    assert [(one["name"], one["allowance"]) for one in run("list")] == [
        ("ann@cardiology", "epsilon = 0.1"),
        ("eve", None),
    ]
    assert run("revoke", made["id"])[0]["revoked"] is not None
    ledger = open_ledger(".lapwing/ledger.db", Budget(1), witness="visits.csv.lapwing")
    assert TokenBook(ledger).find(made["token"]) is None
    ledger.close()
    shown = CliRunner().invoke(app, ["token", "list"]).stdout
    run("add", "bob")
    lines = {line.split()[1]: line for line in CliRunner().invoke(app, ["token", "list"]).stdout.splitlines()}
    assert "nothing" in lines["eve"]  # auditors ask nothing
    assert "the budget" not in lines["eve"]
    assert "the budget" in lines["bob"]
    assert "revoked" in shown
    assert made["token"] not in shown


def test_a_command_that_fails_makes_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that nobody has seen would stay valid for its whole time."""
    monkeypatch.chdir(write_settings(tmp_path))
    Path("there").write_text("x")
    for words in (["--share", "20"], ["--share", "x"], ["--to", "there"], ["--to", "there/below"], ["--days", "0"]):
        done = CliRunner().invoke(app, ["token", "add", "ann", *words])
        assert isinstance(done.exception, LapwingError), words
    assert [token["revoked"] is None for token in run("list")] in ([], [False])
    assert Path("there").read_text() == "x"


def test_teams_are_listed_and_a_name_that_nobody_has_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write_settings(tmp_path))
    run("add", "ann", "--team", "heart")
    said = CliRunner().invoke(app, ["token", "allow", "@heart", "--share", "0.5"]).stdout
    assert "begins with @" not in said
    said = CliRunner().invoke(app, ["token", "allow", "heart", "--share", "0.5"]).stdout
    assert "Nobody has a token of that name" in said
    assert "@heart may spend" in CliRunner().invoke(app, ["token", "list"]).stdout
