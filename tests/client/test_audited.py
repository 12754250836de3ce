"""Two servers on the bundled neighbours are audited from outside; other data only with their owner's word."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lapwing.cli import main as program
from lapwing.client.audited import OTHER_TOKEN, QUESTION, ask_servers
from lapwing.client.transport import TOKEN
from lapwing.errors import Misconfigured, Refused
from lapwing.lab import audit
from lapwing.lab.targets import bundled_neighbours, write_neighbours
from support.service import RunningService, running, spare_port

Pair = tuple[RunningService, RunningService]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both neighbours, served; they start at the same time."""
    folder = tmp_path_factory.mktemp("neighbours")
    files = write_neighbours(folder, (spare_port(), spare_port()))
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        left, right = pool.map(lambda file: stack.enter_context(running(file.parent)), files)
        yield left, right


@pytest.fixture
def tokens(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """The addresses, with the tokens in the environment."""
    monkeypatch.setenv(TOKEN, pair[0].token)
    monkeypatch.setenv(OTHER_TOKEN, pair[1].token)
    return pair[0].url, pair[1].url


def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["lapwing", *words])
    code: Any = 0
    try:
        program.run()
    except SystemExit as stop:
        code = stop.code or 0
    written = capsys.readouterr()
    return int(code), written.out, written.err


def test_neighbours_differ_in_one_person() -> None:
    left, right = bundled_neighbours()
    people = [set(side["person"].to_pylist()) for side in (left, right)]
    assert len(people[0] - people[1]) == 1
    assert people[1] < people[0]


def test_servers_are_audited_from_the_command_line(
    tokens: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("audit", tokens[0], "--other", tokens[1], "--epsilon", "1", "--runs", "60", "--json")
    code, out, err = call(monkeypatch, capsys, *words)
    found = json.loads(out)
    assert (code, found["rejected"], found["runs"]) == (0, False, 60)
    assert "lw_" not in out + err


def test_an_audit_finds_that_a_claim_is_too_small(tokens: tuple[str, str]) -> None:
    with ExitStack() as closer:
        many, servers = ask_servers(tokens, QUESTION, epsilon=60, runs=60, own=False, closer=closer)
        assert audit(many, servers, epsilon=0.5, runs=60, many=True).rejected


def test_every_run_is_paid(tokens: tuple[str, str], pair: Pair) -> None:
    with ExitStack() as closer:
        many, servers = ask_servers(tokens, QUESTION, epsilon=2, runs=5, own=False, closer=closer)
        before = servers[0].budget.spent.amount
        many(servers[0], 5)
        assert servers[0].budget.spent.amount - before == 10


def test_other_data_need_their_owners_word(
    tmp_path: Path, tokens: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path / "own") as mine, ExitStack() as closer:
        monkeypatch.setenv(TOKEN, mine.token)
        monkeypatch.setenv(OTHER_TOKEN, mine.token)
        asked = "SELECT COUNT(*) AS n FROM visits"
        with pytest.raises(Misconfigured, match="--i-own-this-data"):
            ask_servers((mine.url, mine.url), asked, epsilon=1, runs=10, own=False, closer=closer)
        with mine.ledger() as book:
            assert not book.spent
        many, servers = ask_servers((mine.url, mine.url), asked, epsilon=0.01, runs=10, own=True, closer=closer)
        assert len(many(servers[0], 2)) == 2
        with pytest.raises(Misconfigured, match="Pass fewer"):
            ask_servers((mine.url, mine.url), asked, epsilon=5, runs=1000, own=True, closer=closer)
        monkeypatch.setenv(OTHER_TOKEN, "")
        with pytest.raises(Misconfigured):
            ask_servers((mine.url, tokens[1]), asked, epsilon=1, runs=10, own=True, closer=closer)


def test_a_refused_question_stops_before_the_first_run(tokens: tuple[str, str]) -> None:
    with ExitStack() as closer, pytest.raises(Refused):
        ask_servers(tokens, "SELECT * FROM health", epsilon=1, runs=10, own=False, closer=closer)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("http://127.0.0.1:1", "--epsilon", "1"), "two servers"),
        (("http://127.0.0.1:1", "--other", "http://127.0.0.1:1", "--epsilon", "1"), "two servers"),
        (("http://127.0.0.1:1", "--other", "http://127.0.0.1:2", "--rho", "1"), "at a price"),
    ],
)
def test_what_is_missing_is_said(
    words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = call(monkeypatch, capsys, "audit", *words)
    assert code == 2
    assert said in re.sub(r"\s+", " ", err)


def test_folders_to_serve_are_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("audit", "--write-neighbours", str(tmp_path / "pair"))
    code, out, _ = call(monkeypatch, capsys, *words)
    assert code == 0
    assert out.count("lapwing serve --file") == 2
    assert call(monkeypatch, capsys, *words)[0] == 2
