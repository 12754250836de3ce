"""The scenes of `lapwing demo` that play on the RAND Health Insurance Experiment."""

from __future__ import annotations

from decimal import Decimal
from math import ceil, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lapwing.cli.draft import draft
from lapwing.cli.scene import Scene, command, listing, quote, say, table, tick
from lapwing.curator import Curator
from lapwing.errors import BudgetExceeded, Misconfigured
from lapwing.mechanisms.additive.laplace import Laplace

if TYPE_CHECKING:
    import pyarrow as pa

    from lapwing.answers.computed import Answered

PICTURE = "lapwing-demo.png"
MOST_VISITS = 20
WITHIN, SHARE, ATTACK_SHARE = 20, 0.25, 0.08
EPSILON, REPEATS, DRAWS = 0.5, 100, 1000

FILE = f"""\
[budget]
epsilon = 2                 # how much may ever leak about one person
delta = 1e-6

[tables.health]
source = "health.parquet"
unit = "person"             # whose rows belong together
rows_per_unit = 5           # five years, one row a year
groups_per_unit = 1         # a person has one plan and one sex
version = "1"

[tables.health.columns]
person = {{ type = "integer" }}
plan = {{ type = "text", values = [
  "free", "25%", "50%", "95%", "deductible"] }}
sex = {{ type = "text", values = ["F", "M"] }}
visits = {{ type = "integer", bounds = [0, {MOST_VISITS}] }}   # more count as {MOST_VISITS}
"""

PEOPLE = "SELECT plan, sex, COUNT(DISTINCT person) AS people FROM health GROUP BY plan, sex"
QUESTION = "SELECT plan, sex, COUNT(visits) AS years, AVG(visits) AS visits FROM health GROUP BY plan, sex"
TARGET = "SELECT COUNT(DISTINCT person) AS people FROM health WHERE plan = '50%' AND sex = 'M'"


def the_data(rows: pa.Table) -> Scene:
    """Where the numbers come from."""
    people = len(rows["person"].unique())
    text = (
        f"The RAND Health Insurance Experiment: {rows.num_rows:,} rows about {people:,} people. Do people see a "
        "doctor more often when it is free?"
    )
    return Scene("data", "Real data", (say(text),), {"rows": rows.num_rows, "people": people})


def the_file(rows: pa.Table, folder: Path) -> Scene:
    """`lapwing init`, and the file after its review."""
    import pyarrow.parquet as pq

    data, file = folder / "health.parquet", folder / "lapwing.toml"
    pq.write_table(rows, data)
    marks = draft([data], "person", Decimal(2), Decimal("1e-6"), file).count("REVIEW")
    file.write_text(FILE, encoding="utf-8")
    text = f"This drafts lapwing.toml without reading a value. After a review of {marks} marked lines:"
    shown = (
        command("lapwing init health.parquet --unit person --epsilon 2 --delta 1e-6"),
        say(text),
        listing(FILE, "toml"),
    )
    title = "The steward says who is protected, and how much may leak"
    return Scene("file", title, shown, {"toml": FILE, "to_review": marks})


def the_price(curator: Curator) -> Scene:
    """Two previews: the price of a given error, and the error at a given price, which only the facts show."""
    counts = curator.preview(PEOPLE, within=WITHIN)
    both = curator.preview(QUESTION, share=SHARE)
    shown = (
        say("A preview is free and reads no data."),
        command(f'lapwing preview "{PEOPLE}" --within {WITHIN}'),
        quote(str(counts)),
    )
    return Scene("preview", "What would it cost?", shown, {"within": counts.to_dict(), "share": both.to_dict()})


def the_answer(release: Answered, rows: pa.Table) -> Scene:
    """The answer beside the truth."""
    truth = truths(rows)
    facts = [_beside(row, truth[row["plan"], row["sex"]]) for row in release]
    held, of = sum(sum(fact["inside"].values()) for fact in facts), 2 * len(facts)
    text = (
        f"{held} of {of} intervals contain the truth; at 95% about {0.95 * of:.0f} should. Only a demo knows the truth."
    )
    shown = (command(f'lapwing ask "{QUESTION}" --share {SHARE}'), _answer_table(facts), say(text))
    title = "The answer, its intervals, and the truth"
    return Scene("answer", title, shown, {"rows": facts, "held": held, "of": of})


def truths(rows: pa.Table) -> dict[tuple[str, str], dict[str, float]]:
    """What the noisy numbers stand for, by plan and sex."""
    plan, sex, person = (np.array(rows[name].to_pylist()) for name in ("plan", "sex", "person"))
    visits = rows["visits"].to_numpy()
    found = {}
    for key in sorted(set(zip(plan.tolist(), sex.tolist(), strict=True))):
        here = (plan == key[0]) & (sex == key[1])
        found[key] = {
            "people": len(set(person[here].tolist())),
            "years": int(here.sum()),
            "visits": float(np.minimum(visits[here], MOST_VISITS).mean()),
            "unclipped": float(visits[here].mean()),
        }
    return found


def _beside(row: dict[str, Any], truth: dict[str, float]) -> dict[str, Any]:
    inside = {name: bool(row[f"{name}_low"] <= truth[name] <= row[f"{name}_high"]) for name in ("years", "visits")}
    return {**row, "truth": truth, "inside": inside}


def _answer_table(facts: list[dict[str, Any]]) -> Any:
    made = table("plan", "sex", "years", "truth", "visits", "95% interval", "truth", left=2)
    for fact in facts:
        truth, inside = fact["truth"], fact["inside"]
        made.add_row(
            fact["plan"],
            fact["sex"],
            f"{fact['years']:,} ± {ceil((fact['years_high'] - fact['years_low']) / 2):,}",
            tick(f"{truth['years']:,}", inside["years"]),
            f"{fact['visits']:.2f}",
            f"{fact['visits_low']:.2f} to {fact['visits_high']:.2f}",
            tick(f"{truth['visits']:.2f}", inside["visits"]),
        )
    return made


def the_picture(release: Answered) -> Scene:
    """A file in the current directory, if matplotlib is there."""
    path = Path(PICTURE).resolve()
    try:
        release.plot(path)
    except Misconfigured as missing:
        return Scene("picture", "A picture", (say(str(missing)),), {"path": None})
    shown = (command(f'release.plot("{PICTURE}")', ">>>"), say(f"Bars with their intervals: {path}"))
    return Scene("picture", "A picture", shown, {"path": str(path)})


def the_same_again(curator: Curator, release: Answered) -> Scene:
    """The stored answer."""
    again = curator.sql(QUESTION, share=SHARE, analyst="another analyst")
    same = again.to_arrow().equals(release.to_arrow())
    text = (
        f"Another analyst gets {'the same numbers' if same else 'other numbers, which is a bug'}. Price: {again.cost}."
    )
    facts = {"price": float(again.cost.amount), "equal": same}
    return Scene("again", "The same question is free the second time", (say(text),), facts)


def the_attack(curator: Curator, rows: pa.Table) -> Scene:
    """Averaging: noise goes away if it may be drawn often enough. Here it may not."""
    truth, alone = int(truths(rows)["50%", "M"]["people"]), Laplace(epsilon=EPSILON)
    (within,) = curator.preview(TARGET, share=ATTACK_SHARE).errors.values()
    repeats = [_people(curator.sql(TARGET, share=ATTACK_SHARE)) for _ in range(REPEATS)]
    fresh, refusal = refresh(curator)
    needed = ceil((within / 0.5) ** 2)
    facts = {
        "truth": truth,
        "only_noise": _average(alone(np.full(DRAWS, truth)), float(alone.error(0.95))),
        "repeats": _average(repeats, within),
        "refreshes": _average(fresh, within),
        "answers_needed": needed,
        "refusal": refusal,
    }
    shown = (
        say(f"How many men have the 50% plan? The truth is {truth}. Averaging many answers removes noise:"),
        _attack_table(facts),
        say(
            f"A repeated question returns the same number. An exact count takes about {needed:,} new answers; "
            f"{len(fresh)} fit."
        ),
        quote(refusal),
    )
    return Scene("attack", "The averaging attack", shown, facts)


def _average(answers: Any, within: float) -> dict[str, float]:
    """The mean, and how exact an attacker may believe it to be: the noise of different answers is independent."""
    different = len(set(map(int, answers)))
    independent = len(answers) if different > 1 else 1
    return {
        "answers": len(answers),
        "different": different,
        "mean": float(np.mean(answers)),
        "within": within / sqrt(independent),
    }


def _attack_table(facts: dict[str, Any]) -> Any:
    made = table("asked", "times", "mean", "95% within", "off by", "price")
    for asked, name, price in (
        ("noise and no budget", "only_noise", f"epsilon = {EPSILON * DRAWS:g}"),
        ("Lapwing", "repeats", "of one answer"),
        ("Lapwing, refresh", "refreshes", "what was left"),
    ):
        found = facts[name]
        off = abs(found["mean"] - facts["truth"])
        made.add_row(
            asked, f"{found['answers']:,}", f"{found['mean']:.2f}", f"{found['within']:.2f}", f"{off:.2f}", price
        )
    return made


def refresh(curator: Curator) -> tuple[list[int], str]:
    """Fresh answers until the budget ends, and how it says so."""
    paid: list[int] = []
    while True:
        try:
            paid.append(_people(curator.sql(TARGET, share=ATTACK_SHARE, refresh=True)))
        except BudgetExceeded as refusal:
            return paid, str(refusal)


def the_budget(curator: Curator) -> Scene:
    """What is left."""
    statement = curator.budget
    shown = (command("lapwing budget"), quote(str(statement)))
    return Scene("budget", "What was spent", shown, statement.to_dict())


def _people(release: Answered) -> int:
    return int(release["people"][0])
