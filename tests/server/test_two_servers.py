"""Servers with different settings on one ledger: what contradicts is refused, and the rest is one budget."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest

import lapwing as lw
from lapwing.errors import DataChanged, Misconfigured
from lapwing.ledger import open_ledger
from lapwing.privacy import Budget
from lapwing.server import tokens
from lapwing.server.tokens import TokenBook
from support.commands import lapwing
from support.service import RunningService, running, spare_port, write_settings

COUNT = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
MEAN = "SELECT AVG(cost) AS m FROM visits"
SERVE = "rate = 100000\nburst = 100000\n"


@dataclass
class First:
    """A server, and folders beside it whose settings name its ledger."""

    service: RunningService
    base: Path
    made: list[Path] = field(default_factory=list)

    def beside(self, old: str = "", new: str = "", *, people: int = 40, serve: str = "") -> Path:
        """Another folder with data and settings; `old` is replaced by `new` in them."""
        folder = self.base / f"other{len(self.made)}"
        ledger = self.service.folder / ".lapwing" / "ledger.db"
        port = f"port = {spare_port()}\n"
        write_settings(folder, people=people, serve=port + SERVE + serve, ledger=str(ledger), epsilon=10)
        text = (folder / "lapwing.toml").read_text()
        assert old in text
        (folder / "lapwing.toml").write_text(text.replace(old, new))
        self.made.append(folder)
        return folder

    def ask(self, url: str, sql: str, **more: Any) -> Any:
        with lw.connect(url, self.service.token, **more) as connection:
            return connection.sql(sql, epsilon=0.1, check=0)

    @property
    def spent(self) -> Fraction:
        with self.service.ledger() as ledger:
            return ledger.spent.amount


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[First]:
    base = tmp_path_factory.mktemp("servers")
    with running(base / "first", serve=SERVE, epsilon=10) as service:
        found = First(service, base)
        found.ask(service.url, COUNT)
        yield found


def check(folder: Path) -> tuple[int, str]:
    done = lapwing("serve", "--check", "--file", str(folder / "lapwing.toml"))
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("old", "new", "people", "said"),
    [
        ("epsilon = 10", "epsilon = 11", 40, "keeps the budget"),
        ("epsilon = 10", "epsilon = 10\ndelta = 1e-6", 40, "keeps the budget"),
        ('unit = "pid"', 'unit = "row"', 40, "one kind of unit"),
        ('unit = "pid"', 'unit = "age"', 40, "one kind of unit"),
        ("", "", 50, "new `version`"),
    ],
    ids=["epsilon", "delta", "rows", "another unit", "other data"],
)
def test_what_contradicts_the_ledger_is_refused(first: First, old: str, new: str, people: int, said: str) -> None:
    before = first.spent
    code, told = check(first.beside(old, new, people=people))
    assert (code, said in told) == (2, True), told
    assert first.spent == before
    assert first.ask(first.service.url, COUNT).cost.amount == 0


@pytest.mark.parametrize(
    ("old", "new", "shared"),
    [
        ("answer_time = 0.05", "answer_time = 0.4", True),
        pytest.param("[budget]", "check = 0.5\n[budget]", True, marks=pytest.mark.slow),
        # Bounds of a column that is not asked for.
        pytest.param("bounds = [0, 100]", "bounds = [0, 50]", True, marks=pytest.mark.slow),
        ("rows_per_unit = 2", "rows_per_unit = 5", False),
        pytest.param('values = ["F", "M"]', 'values = ["F"]', False, marks=pytest.mark.slow),
    ],
    ids=["time", "check", "another column", "limit", "keys"],
)
def test_other_declarations_share_the_budget_and_only_equal_answers(
    first: First, old: str, new: str, shared: bool
) -> None:
    """An answer is shared if it means the same there; else it is paid for, on the same ledger."""
    before = first.spent
    with running(first.beside(old, new)) as other:
        price = first.ask(other.url, COUNT).cost.amount
        assert (price == 0) is shared
        assert first.ask(other.url, COUNT).cost.amount == 0
        assert first.ask(first.service.url, COUNT).cost.amount == 0
        assert first.spent == before + price


def test_a_server_with_tls_and_one_without_are_one_budget(first: First) -> None:
    folder = first.beside(serve='tls_certificate = "cert.pem"\ntls_key = "key.pem"\n')
    make = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=lapwing"
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    more = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*make.split(), *more], cwd=folder, check=True, capture_output=True)
    with running(folder) as other:
        url = other.url
        before = first.spent
        paid = first.ask(url, MEAN, ca=folder / "cert.pem").cost.amount
        assert paid == first.spent - before > 0
        assert first.ask(first.service.url, MEAN).cost.amount == 0
        with pytest.raises(Misconfigured, match=r"not trusted \(self.signed certificate\).*ca="):
            first.ask(url, MEAN)
        with pytest.raises(Misconfigured, match=r"not trusted \(Hostname mismatch.*localhost"):
            first.ask(url.replace("127.0.0.1", "localhost"), MEAN, ca=folder / "cert.pem")
        trusted = ssl.create_default_context(cafile=str(folder / "cert.pem"))
        assert httpx.get(f"{url}/v1/health", verify=trusted, timeout=60).json()["ledger"]


def test_a_newer_version_pauses_the_server_that_has_the_older_one(first: First) -> None:
    """Its answers would be about other data than those that the ledger charges for. Nothing is charged there."""
    with running(first.beside('version = "1"', 'version = "2"', people=50)) as other:
        assert first.ask(other.url, COUNT).cost.amount > 0
        before = first.spent
        with pytest.raises(DataChanged, match=r"declared last.*Nothing was charged"):
            first.ask(first.service.url, COUNT)
        with pytest.raises(DataChanged):
            first.ask(first.service.url, "SELECT AVG(age) AS m FROM visits")
        assert first.spent == before


def test_a_host_whose_clock_is_ahead_ends_tokens_early_and_never_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gate:G37: time is the latest that any host has written, so a slow clock does not make a token live longer."""
    clock = [datetime(2026, 11, 17, tzinfo=UTC)]

    class Set(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return clock[0]

    monkeypatch.setattr(tokens, "datetime", Set)
    monkeypatch.setattr("lapwing.ledger.entry.datetime", Set)
    right, ahead = (TokenBook(open_ledger(tmp_path / "ledger.db", Budget(1))) for _ in range(2))
    token, other = (right.add(name, "analyst", days=30)[0] for name in ("ann", "bob"))
    assert ahead.find(token) is not None
    clock[0] += timedelta(days=31)  # that of the second host
    assert ahead.find(token) is None
    clock[0] -= timedelta(days=31)
    assert [right.find(one) for one in (token, other)] == [None, None]
    late, facts = right.add("cyd", "analyst", days=30)
    assert facts.expires == "2027-01-17T00:00:00Z"
    assert right.find(late) is not None
