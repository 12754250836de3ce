"""The scene of `lapwing demo` whose groups are not public: everyone born in the US in 2015, by first name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lapwing.cli.scene import Scene, command, quote, say, table, tick
from lapwing.curator import open_data
from lapwing.privacy.budget import Budget

if TYPE_CHECKING:
    import pyarrow as pa

    from lapwing.answers.computed import Answered
    from lapwing.answers.preview import PricePreview

NAMES = "SELECT name, COUNT(*) AS n FROM births GROUP BY name"
EPSILON, DELTA, SHARE = 1, 1e-6, 0.5
TOP = 5


def the_names(births: pa.Table) -> Scene:
    """Names are selected privately and counted for one price."""
    people = births.select(["name"]).take(np.repeat(np.arange(births.num_rows), births["births"].to_numpy()))
    preview, release = _ask(people)
    truth = births.group_by("name").aggregate([("births", "sum")])
    true = dict(zip(truth["name"].to_pylist(), truth["births_sum"].to_pylist(), strict=True))
    rows = sorted(release, key=lambda row: -row["n"])
    facts = {
        "people": people.num_rows,
        "names": len(true),
        "shown": len(rows),
        "rarest_shown": min((true[row["name"]] for row in rows), default=None),
        "top": [{**row, "truth": true[row["name"]]} for row in rows[:TOP]],
    }
    text = (
        f"A rare first name identifies a child. Lapwing shows {facts['shown']:,} of {facts['names']:,} names; "
        f"the rarest has {facts['rarest_shown']} children."
    )
    hint = next(line for line in str(preview).splitlines() if line.startswith("Groups of"))
    shown = (command(f'lapwing ask "{NAMES}" --share {SHARE}'), say(text), quote(hint), _table(facts["top"]))
    return Scene("names", "Groups that are not public", shown, facts)


def _ask(people: pa.Table) -> tuple[PricePreview, Answered]:
    budget = Budget(epsilon=EPSILON, delta=DELTA)
    curator = open_data(people, name="births", unit=None, budget=budget, ledger=":memory:")
    try:
        return curator.preview(NAMES, share=SHARE), curator.sql(NAMES, share=SHARE)
    finally:
        curator.close()


def _table(top: Any) -> Any:
    made = table("name", "children", "95% interval", "truth")
    for row in top:
        inside = row["n_low"] <= row["truth"] <= row["n_high"]
        interval = f"{row['n_low']:,.0f} to {row['n_high']:,.0f}"
        made.add_row(row["name"], f"{row['n']:,}", interval, tick(f"{row['truth']:,}", inside))
    return made
