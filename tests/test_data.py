"""The vendored data sets are what their README says."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lapwing.data
from lapwing.data import births, five_people, health
from lapwing.lab.attacks import advertiser
from lapwing.lab.course import read_lecture

FOLDER = Path(lapwing.data.__file__).parent
README = (FOLDER / "README.md").read_text(encoding="utf-8")
PLANS = ("free", "25%", "50%", "95%", "deductible")


def figures(table: pa.Table) -> tuple[str, ...]:
    """Rows, people, mean visits and mean spending as the README prints them."""
    people = pc.count_distinct(table["person"]).as_py()
    visits, dollars = pc.mean(table["visits"]).as_py(), pc.mean(table["spending"]).as_py()
    return f"{table.num_rows:,}", f"{people:,}", f"{visits:.2f}", f"{dollars:.2f}"


def readme_row(first: str) -> tuple[str, ...]:
    """The cells after `first` in the README's table of plans."""
    found = re.search(rf"^\| {re.escape(first)} \| ([\d,]+ \| [\d,]+ \| [\d.]+ \| [\d.]+) \|$", README, re.MULTILINE)
    return tuple(found[1].split(" | ")) if found else ()


def test_births_are_the_vendored_figures() -> None:
    table = births()
    assert table.num_rows == 33_098
    assert pc.sum(table["births"]).as_py() == 3_688_687


@pytest.mark.parametrize("plan", [*PLANS, "all"])
def test_health_has_the_figures_of_its_readme(plan: str) -> None:
    table = health()
    chosen = table if plan == "all" else table.filter(pc.equal(table["plan"], plan))
    assert figures(chosen) == readme_row(plan)


def test_health_has_the_columns_and_types_of_its_readme() -> None:
    section = README.split("## randhie.parquet")[1]
    documented = re.findall(r"^\| (\w+) \| (int32|double|string|bool) \|", section, re.MULTILINE)
    assert [(field.name, str(field.type)) for field in health().schema] == documented


def test_health_has_one_row_for_a_person_and_year_and_at_most_five_for_a_person() -> None:
    table = health()
    pairs = set(zip(table["person"].to_pylist(), table["year"].to_pylist(), strict=True))
    assert len(pairs) == table.num_rows
    sizes = table.group_by("person").aggregate([("year", "count")])["year_count"]
    rows = {pair["values"]: pair["counts"] for pair in pc.value_counts(sizes).to_pylist()}
    assert rows == {3: 3743, 5: 1584, 1: 269, 2: 246, 4: 70}


@pytest.mark.parametrize("column", ["plan", "site", "sex", "coinsurance", "deductible", "income", "general_health"])
def test_health_keeps_what_belongs_to_the_person_the_same_over_the_years(column: str) -> None:
    different = health().group_by("person").aggregate([(column, "count_distinct")])[f"{column}_count_distinct"]
    assert pc.max(different).as_py() == 1


def test_health_holds_the_values_that_its_readme_lists() -> None:
    table = health()
    assert set(table["plan"].to_pylist()) == set(PLANS)
    assert set(table["sex"].to_pylist()) == {"F", "M"}
    assert set(table["general_health"].to_pylist()) == {"excellent", "good", "fair", "poor"}
    assert set(table["coinsurance"].to_pylist()) == {0, 25, 50, 95, 100}
    assert (pc.max(table["visits"]).as_py(), pc.max(table["spending"]).as_py()) == (77, 39_182.02)
    assert (table["education"].null_count, table["health_index"].null_count) == (4, 5_223)


def test_data_files_stay_small() -> None:
    sizes = {path.name: path.stat().st_size for path in FOLDER.glob("*.parquet")}
    assert sizes.keys() == {"births2015.parquet", "randhie.parquet"}
    assert max(sizes.values()) < 300_000


def test_the_five_people_are_those_of_the_lectures() -> None:
    """lecture:L44 name, date of birth, sex, weight, smoker, lung cancer."""
    rows = [tuple(row.values()) for row in five_people().to_pylist()]
    told = [(n, f"{b.month}/{b.day}/{b:%y}", s, w, "NY"[smokes], "NY"[ill]) for n, b, s, w, smokes, ill in rows]
    assert told == [
        ("John Doe", "12/1/51", "M", 185, "Y", "N"),
        ("Jane Smith", "3/3/46", "F", 140, "N", "N"),
        ("Ellen Jones", "4/24/59", "F", 160, "Y", "Y"),
        ("Jennifer Kim", "3/1/70", "F", 135, "N", "N"),
        ("Rachel Waters", "9/5/43", "F", 140, "N", "N"),
    ]


def test_the_adverts_are_those_of_the_lectures() -> None:
    """lecture:L43 in the attack and on the page."""
    assert advertiser.ADVERTS == ("Kraft", "Stouffer's", "Pillsbury")
    assert set(advertiser.LIKED[False]) == set(advertiser.LIKED[True]) == set(advertiser.ADVERTS)
    assert 'permutations(["Kraft", "Stouffer\'s", "Pillsbury"])' in read_lecture("attacks").page
