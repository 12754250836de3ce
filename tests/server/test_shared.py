"""Two servers that share a ledger in PostgreSQL: one budget, and what one of them knows, the other knows too."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

import lapwing as lw
from lapwing.errors import LapwingError, NotServed
from lapwing.server.tokens import TokenBook
from support.service import RunningService, running

if TYPE_CHECKING:
    from support.postgres import PostgresServer

Hosts = tuple[RunningService, RunningService]
COUNT = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"


@pytest.fixture(scope="module")
def hosts(ledger_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """A server in each of two folders that hold the same data; the first one makes the ledger."""
    ledger = f"postgresql://postgres@127.0.0.1:{ledger_server.port}/postgres?schema=served"
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSWORD", ledger_server.password)
        folders = [tmp_path_factory.mktemp(name) for name in ("one", "other")]
        yield tuple(stack.enter_context(running(folder, ledger=ledger, epsilon=2)) for folder in folders)


def test_an_answer_that_one_host_paid_is_free_on_the_other(hosts: Hosts) -> None:
    one, other = (lw.connect(host.url, hosts[0].token) for host in hosts)
    with one, other:
        paid = one.sql(COUNT, epsilon=0.1, check=0)
        again = other.sql(COUNT, epsilon=0.1, check=0)
        assert paid.cost.amount == Fraction(1, 10)
        assert again.cost.amount == 0
        assert again.to_arrow().equals(paid.to_arrow())
        assert other.budget.spent == one.budget.spent


def test_a_retry_key_holds_on_both(hosts: Hosts) -> None:
    """ledger:B5"""
    one, other = (lw.connect(host.url, hosts[0].token) for host in hosts)
    with one, other:
        asked = {"epsilon": 0.1, "check": 0, "refresh": True, "key": "both"}
        first = one.sql("SELECT COUNT(*) AS n FROM visits", **asked)
        spent = one.budget.spent
        assert other.sql("SELECT COUNT(*) AS n FROM visits", **asked).to_json() == first.to_json()
        assert one.budget.spent == spent


def test_a_token_that_is_revoked_is_refused_by_both(hosts: Hosts) -> None:
    token = hosts[0].new_token("bob")
    for host in hosts:
        with lw.connect(host.url, token) as connection:
            assert connection.describe().tables
    with hosts[1].ledger() as book:
        TokenBook(book).revoke("bob")
    for host in hosts:
        with lw.connect(host.url, token) as connection, pytest.raises(NotServed) as refused:
            connection.describe()
        assert refused.value.code == "unauthorized"


def test_both_together_never_spend_more_than_the_budget(hosts: Hosts) -> None:
    """ledger:B2 gate:G32"""

    def ask(number: int) -> bool:
        with lw.connect(hosts[number % 2].url, hosts[0].token) as connection:
            try:
                connection.sql(f"SELECT COUNT(*) AS n FROM visits WHERE age > {number}", epsilon=0.25, check=0)
            except lw.BudgetExceeded:
                return False
            return True

    with hosts[0].ledger() as book:
        left = book.remaining.amount
    with ThreadPoolExecutor(8) as pool:
        granted = sum(pool.map(ask, range(24)))
    assert granted == int(left / Fraction(1, 4))
    with hosts[1].ledger() as book:
        assert book.spent.fits(book.total)
        assert book.remaining.amount == left - granted * Fraction(1, 4)


def test_the_password_of_the_ledger_is_shown_nowhere(hosts: Hosts, ledger_server: PostgresServer) -> None:
    for host in hosts:
        assert ledger_server.password not in host.log
        with lw.connect(host.url, host.token) as connection:
            assert ledger_server.password not in str(connection.describe())
            with pytest.raises(LapwingError) as refused:
                connection.sql("SELECT 1", epsilon=1)
            assert ledger_server.password not in str(refused.value.to_dict())
