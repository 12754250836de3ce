"""The facts that `lapwing init` asks for: in a terminal and on its page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from lapwing.cli.setup import ColumnFacts, SetupFacts
from lapwing.cli.setup_page import setup_app
from lapwing.curator import load
from lapwing.curator.settings import settings_of
from lapwing.curator.summary import first_questions
from lapwing.errors import Misconfigured
from lapwing.expressions.types import Type

ROWS = "who,sex,age\n" + "".join(f"p{i},{'FM'[i % 2]},{20 + i % 50}\n" for i in range(400))
COLUMNS = {
    "who": ColumnFacts("text"),
    "sex": ColumnFacts("text", values="F, M"),
    "age": ColumnFacts("integer", bounds="0, 120"),
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    path.write_text(ROWS, encoding="utf-8")
    return path


def test_what_was_declared_is_what_the_file_says(data: Path) -> None:
    facts = SetupFacts(data, "who", "2", "0.000001", "3", "1", COLUMNS)
    file = data.with_name("lapwing.toml")
    settings = settings_of(facts.toml(file), file)
    ((table, _),) = settings.tables
    assert (table.unit, table.rows_per_unit, table.groups_per_unit) == ("who", 3, 1)
    assert table.field("sex").values == ("F", "M")
    assert str(table.field("age").bounds) == "[0, 120]"
    assert (settings.budget.epsilon, settings.budget.delta * 10**6) == (2, 1)


@pytest.mark.parametrize("rows", ["", "3"])
def test_the_three_first_questions_are_answered(data: Path, rows: str) -> None:
    file = data.with_name("lapwing.toml")
    file.write_text(SetupFacts(data, "who", "2", "0", rows, "1", COLUMNS).toml(file), encoding="utf-8")
    with load(file) as curator:
        questions = first_questions(curator.catalog.tables[0])
        assert len(questions) == (3 if rows else 2)
        for question in questions:
            assert len(curator.sql(question, share=0.1)) >= 1


@pytest.mark.parametrize("wrong", [{"rows_per_unit": "many"}, {"epsilon": "x"}, {"unit": "nobody"}])
def test_a_wrong_fact_is_refused_and_leaves_no_file(data: Path, wrong: dict[str, Any]) -> None:
    file = data.with_name("lapwing.toml")
    told = {"unit": "who", "epsilon": "1", "columns": COLUMNS, **wrong}
    with pytest.raises(Misconfigured):
        settings_of(SetupFacts(data, **told).toml(file), file)
    assert sorted(path.name for path in data.parent.iterdir()) == ["visits.csv"]


def test_without_a_terminal_init_asks_nothing(data: Path) -> None:
    command = [sys.executable, "-m", "lapwing", "init", "visits.csv"]
    found = subprocess.run(
        command, cwd=data.parent, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert found.returncode == 2
    assert "--unit" in found.stderr


def test_the_page_writes_the_file_once_and_ends(data: Path) -> None:
    from lapwing.cli.setup_page import serve_setup

    file, said = data.with_name("lapwing.toml"), []
    types = {"who": Type.TEXT, "sex": Type.TEXT, "age": Type.INTEGER}
    ready = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        ready.set()

    thread = threading.Thread(
        target=serve_setup, args=(SetupFacts(data), types, file), kwargs={"say": say}, daemon=True
    )
    thread.start()
    assert ready.wait(20)
    found = re.search(r"http://127\.0\.0\.1:\d+/setup/\S+", said[0])
    assert found is not None
    url = found[0]
    told = {"unit": "who", "epsilon": "1", "delta": "0", "rows_per_unit": "3", "groups_per_unit": "1"}
    body = {**told, "columns": {name: vars_of(facts) for name, facts in COLUMNS.items()}}
    with httpx.Client(timeout=30) as client:
        assert client.get(url.rsplit("/", 1)[0] + "/guess").status_code == 404
        assert "visits.csv" in client.get(url).text
        assert "whole number" in client.post(f"{url}/draft", json={**body, "rows_per_unit": "x"}).json()["problem"]
        drafted = client.post(f"{url}/draft", json=body).json()
        assert "+rows_per_unit = 3" in drafted["diff"]
        assert any("within" in line for line in drafted["noise"])
        assert not file.exists()
        assert client.post(f"{url}/save", json=body).json() == {"saved": str(file)}
    thread.join(20)
    assert not thread.is_alive()
    assert file.read_text(encoding="utf-8") == drafted["toml"]


def test_a_draft_leaves_the_files_beside_it_alone(data: Path) -> None:
    """Neither a file of a likely name nor one that a link of that name points to is written or deleted."""
    file, kept = data.with_name("lapwing.toml"), data.with_name("kept.txt")
    kept.write_text("mine", encoding="utf-8")
    link = file.with_name(".lapwing.toml.draft")
    link.symlink_to(kept)
    settings_of(SetupFacts(data, "who", "2", "0", "3", "1", COLUMNS).toml(file), file)
    assert link.is_symlink()
    assert kept.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    "wrong",
    [
        {"columns": {"who": {"type": 'text" }\n[tables.other]\nsource = "/etc/passwd" # '}}},
        {"columns": {"who": {"type": "text", "more": "x"}}},
        {"columns": {"who": {"type": 7, "bounds": {"a": 1}}}},
        {"columns": ["who"]},
        {"unit": 'who"\nsource = "/etc/passwd'},
        [1],
        {},
    ],
)
def test_what_is_no_form_writes_nothing(data: Path, wrong: Any) -> None:
    file = data.with_name("lapwing.toml")
    told = {"unit": "who", "epsilon": "1", "delta": "0", "rows_per_unit": "", "groups_per_unit": ""}
    body = {**told, "columns": {"who": {"type": "text"}}, **wrong} if isinstance(wrong, dict) and wrong else wrong
    app = setup_app(SetupFacts(data), {"who": Type.TEXT}, file, "/setup/x", lambda: None)

    async def work() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1:9") as client:
            return [await client.post(f"/setup/x/{step}", json=body) for step in ("draft", "save")]

    for response in anyio.run(work):
        assert response.status_code == 200
        assert response.json()["problem"]
    assert sorted(path.name for path in data.parent.iterdir()) == ["visits.csv"]


def test_the_page_overwrites_nothing_and_is_for_this_machine(data: Path) -> None:
    """A name that leads here from elsewhere, as after DNS rebinding, is refused, whoever guesses the path."""
    file = data.with_name("lapwing.toml")
    file.write_text("mine", encoding="utf-8")
    told = {"unit": "who", "epsilon": "1", "delta": "0", "rows_per_unit": "", "groups_per_unit": ""}
    body = {**told, "columns": {"who": {"type": "text"}}}
    app = setup_app(SetupFacts(data), {"who": Type.TEXT}, file, "/setup/x", lambda: None)

    async def work() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1:9") as client:
            plain = {"content-type": "text/plain"}
            return [
                await client.post("/setup/x/save", json=body),
                await client.post("/setup/x/save", json=body, headers={"host": "evil.test"}),
                await client.get("/setup/x", headers={"host": "evil.test"}),
                await client.post("/setup/x/save", content=json.dumps(body), headers=plain),
                await client.post("/setup/x/save", json=body, headers={"origin": "http://evil.test"}),
                await client.get("/setup/y"),
            ]

    said, *others = anyio.run(work)
    assert "exists already" in said.json()["problem"]
    assert [response.status_code for response in others] == [400, 400, 403, 403, 404]
    assert file.read_text(encoding="utf-8") == "mine"


def vars_of(facts: ColumnFacts) -> dict[str, str]:
    return {"type": facts.type, "bounds": facts.bounds, "values": facts.values}
