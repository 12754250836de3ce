"""Small real data sets that ship with Lapwing. Sources, licences and counts: README.md in this folder."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["births"]


def births() -> pa.Table:
    """US births of 2015 by first name: columns name, sex ("F" or "M") and births, the most frequent names first."""
    import pyarrow.parquet as pq

    with files(__name__).joinpath("births2015.parquet").open("rb") as source:
        return pq.read_table(source)
