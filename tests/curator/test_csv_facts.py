"""How CSV files are written, as it is declared in Python and in lapwing.toml, and recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import lapwing as lw
from lapwing.cli.doctor import CHECKS

GERMAN = {"delimiter": ";", "encoding": "latin-1", "decimal": ",", "null": ["NA"]}
TYPES = {"kosten": "real"}
SUM = "SELECT SUM(kosten) AS total FROM visits"
TOML = """
[budget]
epsilon = 500
[tables.visits]
source = "visits.csv"
csv = { delimiter = ";", encoding = "latin-1", decimal = ",", null = ["NA"] }
unit = "pid"
rows_per_unit = 2
[tables.visits.columns]
pid = { type = "text" }
stadt = { type = "text", values = ["München", "Köln"] }
kosten = { type = "real", bounds = [0, 10] }
[public.regions]
source = "regions.csv"
csv = { delimiter = "|", quote = "'" }
key = ["stadt"]
"""


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    rows = [f"p{i};{'München' if i % 3 else 'Köln'};{'NA' if i % 5 == 0 else f'{i % 10},5'}" for i in range(300)]
    path.write_text("\n".join(["pid;stadt;kosten", *rows]) + "\n", encoding="latin-1")
    (tmp_path / "regions.csv").write_text("stadt|land\nMünchen|'Bayern'\nKöln|NRW\n", encoding="utf-8")
    return path


def opened(data: Any, **given: Any) -> Any:
    facts = {"bounds": {"kosten": (0, 10)}, "values": {"stadt": ["München", "Köln"]}, "rows_per_unit": 2}
    return lw.open(data, unit="pid", budget=lw.Budget(epsilon=500), **{**facts, **given})


def total(curator: Any) -> float:
    return float(curator.sql(SUM, epsilon=100)["total"][0])


def test_answers_are_those_of_the_file_as_pandas_reads_it(visits: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(visits, sep=";", encoding="latin-1", decimal=",", na_values=["NA"])
    with opened(visits, csv=GERMAN, types=TYPES) as curator:
        assert abs(total(curator) - frame["kosten"].sum()) < 5
    (tmp_path / "lapwing.toml").write_text(TOML, encoding="utf-8")
    with lw.load(tmp_path / "lapwing.toml") as curator:
        answer = curator.sql(
            "SELECT land, COUNT(*) AS n FROM visits JOIN regions ON visits.stadt = regions.stadt GROUP BY land",
            epsilon=100,
        )
    counts = frame["stadt"].map({"München": "Bayern", "Köln": "NRW"}).value_counts()
    assert {land: abs(n - counts[land]) <= 2 for land, n in zip(answer["land"], answer["n"], strict=True)} == {
        "Bayern": True, "NRW": True,
    }  # fmt: skip


def test_what_is_declared_is_recorded_and_used_again(visits: Path) -> None:
    with opened(visits, csv=GERMAN, types=TYPES) as curator:
        first = total(curator)
        notes = [json.loads(entry.note) for entry in curator.ledger.entries() if entry.kind == "version"]
    assert [note["limits"]["csv"] for note in notes] == [GERMAN]
    with opened(visits) as curator:  # without the keyword: as it was recorded
        assert total(curator) == first
        assert sum(entry.kind == "version" for entry in curator.ledger.entries()) == 1


def test_other_facts_are_other_data(visits: Path) -> None:
    opened(visits, csv=GERMAN, types=TYPES).close()
    changed = {**GERMAN, "null": []}
    with pytest.raises(lw.Misconfigured, match="declare a new `version`"):
        opened(visits, csv=changed)
    opened(visits, csv=changed, version="2").close()


def test_a_file_read_in_another_way_keeps_its_unit(visits: Path, tmp_path: Path) -> None:
    """The marks are of the bytes too, so facts about them are no way to another unit, nor to a public table."""
    ledger = tmp_path / "l.db"
    opened(visits, csv=GERMAN, types=TYPES, ledger=ledger).close()
    copy = tmp_path / "copy.csv"
    copy.write_bytes(visits.read_bytes())
    for again in ({"delimiter": ";", "encoding": "latin-1"}, GERMAN):
        with pytest.raises(lw.Misconfigured, match="The data of table `copy` had the unit `pid` before"):
            lw.open(copy, unit="stadt", budget=lw.Budget(epsilon=500), csv=again, ledger=ledger)


def test_several_tables_are_declared_by_name(visits: Path, tmp_path: Path) -> None:
    (tmp_path / "stays.csv").write_text("pid,days\np1,3\n")
    given: dict[str, Any] = {"bounds": None, "values": None, "ledger": tmp_path / "l.db"}
    both = {"visits": visits, "stays": tmp_path / "stays.csv"}
    with opened(both, csv={"visits": GERMAN}, **given) as curator:
        assert [field.name for field in curator.catalog.tables[0].fields] == ["pid", "stadt", "kosten"]
    with pytest.raises(lw.Misconfigured, match="`csv` must be by table"):
        opened(both, csv=GERMAN, **given)
    with pytest.raises(lw.Misconfigured, match="Did you mean `visits`"):
        opened(both, csv={"visit": GERMAN}, **given)


def test_csv_is_for_csv_files(tmp_path: Path) -> None:
    with pytest.raises(lw.Misconfigured, match="`csv` says how a CSV file is written"):
        lw.open(pd.DataFrame({"pid": [1]}), unit="pid", budget=lw.Budget(epsilon=1), csv=GERMAN)
    file = tmp_path / "lapwing.toml"
    file.write_text(TOML.replace('delimiter = ";"', 'delimiter = "ab"'), encoding="utf-8")
    with pytest.raises(lw.Misconfigured, match=r"tables\.visits\.csv: `delimiter` of `csv` must be one character"):
        lw.load(file)


@pytest.mark.parametrize("given", ["types", "guess"])
def test_types_of_a_dialect(visits: Path, given: str) -> None:
    with opened(visits, csv=GERMAN, types="guess" if given == "guess" else TYPES) as curator:
        assert curator.catalog.tables[0].field("kosten").type.value == "real"


def test_doctor_tells_of_lines_that_are_dropped_in_their_encoding(visits: Path, tmp_path: Path) -> None:
    file = tmp_path / "lapwing.toml"
    file.write_text(TOML, encoding="utf-8")
    assert "dropped" not in CHECKS["data"](file)
    file.write_text(TOML.replace("latin-1", "utf-8"), encoding="utf-8")
    assert "Some lines of `visits.csv` are dropped" in CHECKS["data"](file)
