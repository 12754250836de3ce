"""Two neighbours that may be audited by anyone: the bundled health data, with and without one person.

`write_neighbours` makes a folder for each, so that two servers with a ledger each can be compared from outside.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lapwing.errors import Misconfigured

if TYPE_CHECKING:
    import pyarrow as pa

SIDES = ("left", "right")
"""With the person, and without."""
VERSION = "audited neighbours"
_BUDGET = 100_000  # epsilon: the data are public, and an audit asks thousands of times

SETTINGS = """
# The RAND Health Insurance Experiment, which is public, {whom}. Only to be audited: this budget protects nobody.
[budget]
epsilon = {budget}

[tables.health]
source = "health.parquet"
unit = "person"
version = "{version}"
rows_per_unit = 5
groups_per_unit = 5
answer_time = 0.05

[tables.health.columns]
person = {{ type = "integer" }}
year = {{ type = "integer", values = [1, 2, 3, 4, 5] }}
sex = {{ type = "text", values = ["F", "M"] }}
plan = {{ type = "text", values = ["free", "25%", "50%", "95%", "deductible"] }}
site = {{ type = "integer", values = [1, 2, 3, 4, 5, 6] }}
age = {{ type = "real", bounds = [0, 64] }}
visits = {{ type = "integer", bounds = [0, 20] }}
spending = {{ type = "real", bounds = [0, 5000] }}
income = {{ type = "real", bounds = [0, 30000] }}

[serve]
port = {port}
rate = 100000
burst = 100000
"""


def bundled_neighbours() -> tuple[pa.Table, pa.Table]:
    """The health data with everybody, and without the person with the most visits."""
    from lapwing.data import health

    table = health()
    totals = table.group_by("person").aggregate([("visits", "sum")]).sort_by([("visits_sum", "descending")])
    heaviest = totals["person"][0].as_py()
    return table, table.filter([person != heaviest for person in table["person"].to_pylist()])


def write_neighbours(folder: Path, ports: tuple[int, int] = (8471, 8472)) -> list[Path]:
    """Writes a folder for each neighbour, with its data and a lapwing.toml to serve; the paths of the latter."""
    import pyarrow.parquet as pq

    made = []
    pairs = zip(SIDES, bundled_neighbours(), ports, ("with everybody", "without one person"), strict=True)
    for side, rows, port, whom in pairs:
        place = folder / side
        if place.exists():
            raise Misconfigured(f"{place} exists already. Name a new folder, or remove it.")
        place.mkdir(parents=True)
        pq.write_table(rows, place / "health.parquet")
        settings = SETTINGS.format(whom=whom, budget=_BUDGET, version=VERSION, port=port)
        (place / "lapwing.toml").write_text(settings.lstrip(), encoding="utf-8")
        made.append(place / "lapwing.toml")
    return made
