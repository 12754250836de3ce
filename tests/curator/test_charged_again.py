"""What was paid is not charged again, a table keeps its unit, and what cannot be read or awaited is said."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import lapwing as lw
from lapwing.cli import doctor
from lapwing.errors import LedgerFailed, Misconfigured
from lapwing.ledger import read_head

COUNT = "SELECT COUNT(*) FROM t"
GROUPED = "SELECT site, COUNT(DISTINCT pid) FROM t GROUP BY site"
SUMS = "SELECT site, SUM(x) FROM t GROUP BY site"
TOML = """ledger = "{ledger}"
[budget]
epsilon = 1
[tables.t]
source = "t.parquet"
unit = "pid"
rows_per_unit = 10
[tables.t.columns]
pid = {{ type = "integer" }}
"""


def rows() -> pd.DataFrame:
    return pd.DataFrame({"pid": [i % 50 for i in range(200)], "site": ["a"] * 200, "x": [i % 100 for i in range(200)]})


def opened(data: Any = None, **others: Any) -> lw.Curator:
    facts = {"unit": "pid", "rows_per_unit": 10, "groups_per_unit": 2, "bounds": {"x": (0, 100)}, "name": "t"}
    return lw.open(rows() if data is None else data, **{**facts, **others})


def test_a_dearer_answer_that_shows_fewer_groups_does_not_hide_one_that_is_good_enough() -> None:
    curator = opened(budget=lw.Budget(1, 1e-6, accounting="basic"), check=0)
    price, low, high = Fraction(519, 100_000), Fraction(1, 10**11), Fraction(1, 10**10)
    first = curator.sql(GROUPED, epsilon=price, delta=low)
    curator.sql(GROUPED, epsilon=price, delta=high)
    again = curator.sql(GROUPED, epsilon=price, delta=low)
    assert (again.entry, bool(again.cost)) == (first.entry, False)


def test_a_batch_asked_again_when_less_delta_is_left_costs_nothing() -> None:
    curator = opened(budget=lw.Budget(5, 1e-6))
    questions = [SUMS, "SELECT COUNT(*) FROM t WHERE x > 50"]
    curator.batch(questions, epsilon=0.198)
    for above in range(40):
        curator.sql(f"SELECT site, COUNT(*) FROM t WHERE x > {above} GROUP BY site", epsilon=0.01)
    assert not curator.batch(questions, epsilon=0.198, key="retry").cost


def test_a_table_of_a_database_keeps_its_unit_however_its_name_is_written(tmp_path: Path) -> None:
    file = tmp_path / "t.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS pid, 'a' AS site")
    columns = 'pid = { type = "integer" }\nsite = { type = "text" }'
    for name, table, unit in (("one", "t", "pid"), ("two", "T", "site")):
        (tmp_path / f"{name}.toml").write_text(
            f'[budget]\nepsilon = 1\n[tables.{name}]\nsource = "t.duckdb"\ntable = "{table}"\nunit = "{unit}"\n'
            f"[tables.{name}.columns]\n{columns}\n"
        )
    lw.load(tmp_path / "one.toml").close()
    with pytest.raises(Misconfigured, match="had the unit `pid` before"):
        lw.load(tmp_path / "two.toml")


def test_terms_that_cannot_be_read_are_damage(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    curator = opened(budget=lw.Budget(1), ledger=file)
    curator.sql(COUNT, epsilon=0.1)
    curator.distribution("x", epsilon=0.1)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DROP TRIGGER answer_no_update")
        connection.execute("UPDATE answer SET terms = 'none'")
        connection.commit()
    for ask in (lambda: curator.sql(COUNT, epsilon=0.1), lambda: curator.distribution("x", epsilon=0.1)):
        with pytest.raises(LedgerFailed, match="is damaged"):
            ask()


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="the system has no such signal")
def test_a_handler_in_the_middle_of_a_transaction_is_refused_and_does_not_wait() -> None:
    ledger = opened(budget=lw.Budget(1)).ledger
    said: list[str] = []

    def handler(*_: object) -> None:
        with pytest.raises(LedgerFailed, match="interrupted another question") as caught:
            ledger.spent  # noqa: B018
        said.append(str(caught.value))

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with ledger._writing():
            signal.raise_signal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(said) == 1
    assert not ledger.spent


@pytest.mark.parametrize("seq", ["Infinity", "-99999999999999999999999", "0"])
def test_a_head_without_a_number_is_no_head(tmp_path: Path, seq: str) -> None:
    file = tmp_path / "head"
    file.write_text(f'{{"head":{{"ledger":"x","seq":{seq},"hash":"y"}}}}')
    with pytest.raises(Misconfigured, match="is not a ledger export"):
        read_head(file)


def test_an_export_does_not_replace_the_log_of_the_ledger(tmp_path: Path) -> None:
    ledger = opened(budget=lw.Budget(1), ledger=tmp_path / "ledger.db").ledger
    for ending in ("-wal", "-shm"):
        with pytest.raises(Misconfigured, match="part of the ledger"):
            ledger.export(tmp_path / f"ledger.db{ending}")


@pytest.mark.parametrize(("ledger", "witness"), [("lapwing.toml/ledger.db", False), ("ledger.db", True)])
def test_the_doctor_notices_files_that_cannot_be_made(tmp_path: Path, ledger: str, witness: bool) -> None:
    rows().to_parquet(tmp_path / "t.parquet")
    file = tmp_path / "lapwing.toml"
    file.write_text(TOML.format(ledger=ledger))
    if witness:
        (tmp_path / "t.parquet.lapwing").mkdir()
    with pytest.raises(Misconfigured, match="cannot be created"):
        doctor.CHECKS["serving"](file)
