"""Small real data sets that ship with Lapwing. Sources, licences and counts: README.md in this folder."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["births", "health"]


def births() -> pa.Table:
    """US births of 2015 by first name: columns name, sex ("F" or "M") and births, the most frequent names first."""
    return _read("births2015.parquet")


def health() -> pa.Table:
    """The RAND Health Insurance Experiment: one row for each person and study year, with visits to doctors and dollars.

    A person has one to five rows, with the same number in the column person. README.md explains the other columns.
    """
    return _read("randhie.parquet")


def _read(name: str) -> pa.Table:
    import pyarrow.parquet as pq

    with files(__name__).joinpath(name).open("rb") as source:
        return pq.read_table(source)
