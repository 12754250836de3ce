"""Small data sets that ship with Lapwing. Sources, licences and counts: README.md in this folder."""

from __future__ import annotations

from datetime import date
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["births", "five_people", "health"]


def births() -> pa.Table:
    """US births of 2015 by first name: columns name, sex ("F" or "M") and births, the most frequent names first."""
    return _read("births2015.parquet")


def five_people() -> pa.Table:
    """The table of the founding lectures: five invented people, who smokes and who has lung cancer."""
    import pyarrow as pa

    rows = [
        ("John Doe", date(1951, 12, 1), "M", 185, True, False),
        ("Jane Smith", date(1946, 3, 3), "F", 140, False, False),
        ("Ellen Jones", date(1959, 4, 24), "F", 160, True, True),
        ("Jennifer Kim", date(1970, 3, 1), "F", 135, False, False),
        ("Rachel Waters", date(1943, 9, 5), "F", 140, False, False),
    ]
    names = "name", "born", "sex", "weight", "smoker", "lung_cancer"
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])


def health() -> pa.Table:
    """The RAND Health Insurance Experiment: one row for each person and study year, with visits to doctors and dollars.

    A person has one to five rows, with the same number in the column person. README.md explains the other columns.
    """
    return _read("randhie.parquet")


def _read(name: str) -> pa.Table:
    import pyarrow.parquet as pq

    with files(__name__).joinpath(name).open("rb") as source:
        return pq.read_table(source)
