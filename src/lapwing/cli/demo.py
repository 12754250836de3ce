"""`lapwing demo`: the whole story on real data, from the steward's file to the attack that fails.

The demo owns its data, so it can do what no analyst can: print the truth beside the answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from math import ceil, sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from lapwing.cli.draft import draft
from lapwing.cli.output import echo
from lapwing.cli.scene import Scene, bullets, command, listing, quote, say, show, stage, table, tick
from lapwing.curator import Curator, load, open_data
from lapwing.data import births, health
from lapwing.errors import BudgetExceeded, Misconfigured
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.privacy.budget import Budget

if TYPE_CHECKING:
    import pyarrow as pa

    from lapwing.answers.computed import Answered
    from lapwing.answers.preview import PricePreview

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
NAMES = "SELECT name, COUNT(*) AS n FROM births GROUP BY name"
NAMES_EPSILON, DELTA, NAMES_SHARE = 1, 1e-6, 0.5
TOP = 5
FOLDER = "lapwing-demo"
NEXT = f'cd {FOLDER} && lapwing ask "SELECT plan, COUNT(*) AS n FROM health GROUP BY plan" --share 0.05'
LIMITS = (
    "It hides whether you are in the data, not what is true of people like you.",
    "It protects one person at a time. Losses add up across ledgers about the same people.",
    "In your own process it protects against mistakes, not against someone who reads the files.",
)


def run(*, as_json: bool = False) -> None:
    """Tells the story; with `as_json` only its facts. Leaves a picture and a folder in the current directory."""
    console, facts = stage(), {}
    with TemporaryDirectory() as folder:
        for number, scene in enumerate(story(Path(folder)), start=1):
            facts[scene.name] = scene.facts
            if not as_json:
                show(console, scene, number)
    if as_json:
        echo(json.dumps(facts))


def story(folder: Path) -> Iterator[Scene]:
    """All scenes in their order. What is played is written into `folder`."""
    rows = health()
    yield the_data(rows)
    yield the_file(rows, folder)
    curator = load(folder / "lapwing.toml")
    try:
        yield the_price(curator)
        release = curator.sql(QUESTION, share=SHARE)
        yield the_answer(release, rows)
        yield the_picture(release)
        yield the_same_again(curator, release)
        yield the_attack(curator, rows)
        yield the_budget(curator)
    finally:
        curator.close()
    yield the_names(births())
    yield the_small_print()


def the_data(rows: pa.Table) -> Scene:
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
    facts = {}
    for key in sorted(set(zip(plan.tolist(), sex.tolist(), strict=True))):
        here = (plan == key[0]) & (sex == key[1])
        facts[key] = {
            "people": len(set(person[here].tolist())),
            "years": int(here.sum()),
            "visits": float(np.minimum(visits[here], MOST_VISITS).mean()),
            "unclipped": float(visits[here].mean()),
        }
    return facts


def _beside(row: dict[str, Any], truth: dict[str, float]) -> dict[str, Any]:
    inside = {name: bool(row[f"{name}_low"] <= truth[name] <= row[f"{name}_high"]) for name in ("years", "visits")}
    return {**row, "truth": truth, "inside": inside}


def _answer_table(facts: list[dict[str, Any]]) -> Any:
    shown = table("plan", "sex", "years", "truth", "visits", "95% interval", "truth", left=2)
    for fact in facts:
        truth, inside = fact["truth"], fact["inside"]
        shown.add_row(
            fact["plan"],
            fact["sex"],
            f"{fact['years']:,} ± {ceil((fact['years_high'] - fact['years_low']) / 2):,}",
            tick(f"{truth['years']:,}", inside["years"]),
            f"{fact['visits']:.2f}",
            f"{fact['visits_low']:.2f} to {fact['visits_high']:.2f}",
            tick(f"{truth['visits']:.2f}", inside["visits"]),
        )
    return shown


def the_picture(release: Answered) -> Scene:
    path = Path(PICTURE).resolve()
    try:
        release.plot(path)
    except Misconfigured as missing:
        return Scene("picture", "A picture", (say(str(missing)),), {"path": None})
    shown = (command(f'release.plot("{PICTURE}")', ">>>"), say(f"Bars with their intervals: {path}"))
    return Scene("picture", "A picture", shown, {"path": str(path)})


def the_same_again(curator: Curator, release: Answered) -> Scene:
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
    shown = table("asked", "times", "mean", "95% within", "off by", "price")
    for asked, name, price in (
        ("noise and no budget", "only_noise", f"epsilon = {EPSILON * DRAWS:g}"),
        ("Lapwing", "repeats", "of one answer"),
        ("Lapwing, refresh", "refreshes", "what was left"),
    ):
        average = facts[name]
        off = abs(average["mean"] - facts["truth"])
        shown.add_row(
            asked, f"{average['answers']:,}", f"{average['mean']:.2f}", f"{average['within']:.2f}", f"{off:.2f}", price
        )
    return shown


def refresh(curator: Curator) -> tuple[list[int], str]:
    """Fresh answers until the budget ends, and how it says so."""
    paid: list[int] = []
    while True:
        try:
            paid.append(_people(curator.sql(TARGET, share=ATTACK_SHARE, refresh=True)))
        except BudgetExceeded as refusal:
            return paid, str(refusal)


def the_budget(curator: Curator) -> Scene:
    statement = curator.budget
    shown = (command("lapwing budget"), quote(str(statement)))
    return Scene("budget", "What was spent", shown, statement.to_dict())


def _people(release: Answered) -> int:
    return int(release["people"][0])


def the_names(counts: pa.Table) -> Scene:
    """Names are selected privately and counted for one price."""
    people = counts.select(["name"]).take(np.repeat(np.arange(counts.num_rows), counts["births"].to_numpy()))
    preview, release = _ask_names(people)
    truth = counts.group_by("name").aggregate([("births", "sum")])
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
        f"A rare first name identifies a child. Of {facts['names']:,} names {facts['shown']:,} are shown; "
        f"the rarest has {facts['rarest_shown']} children."
    )
    hint = next(line for line in str(preview).splitlines() if line.startswith("Groups of"))
    shown = (
        command(f'lapwing ask "{NAMES}" --share {NAMES_SHARE}'),
        say(text),
        quote(hint),
        _names_table(facts["top"]),
    )
    return Scene("names", "Groups that are not public", shown, facts)


def _ask_names(people: pa.Table) -> tuple[PricePreview, Answered]:
    budget = Budget(epsilon=NAMES_EPSILON, delta=DELTA)
    curator = open_data(people, name="births", unit=None, budget=budget, ledger=":memory:")
    try:
        return curator.preview(NAMES, share=NAMES_SHARE), curator.sql(NAMES, share=NAMES_SHARE)
    finally:
        curator.close()


def _names_table(top: Any) -> Any:
    shown = table("name", "children", "95% interval", "truth")
    for row in top:
        inside = row["n_low"] <= row["truth"] <= row["n_high"]
        interval = f"{row['n_low']:,.0f} to {row['n_high']:,.0f}"
        shown.add_row(row["name"], f"{row['n']:,}", interval, tick(f"{row['truth']:,}", inside))
    return shown


def write_folder() -> Path:
    """The folder of the bundled data and its settings, made if it is missing."""
    folder = Path(FOLDER).resolve()
    folder.mkdir(exist_ok=True)
    data, file = folder / "health.parquet", folder / "lapwing.toml"
    if not file.exists():
        import pyarrow.parquet as pq

        pq.write_table(health(), data)
        file.write_text(FILE, encoding="utf-8")
    return folder


def the_small_print() -> Scene:
    """What the answers do not promise, and a folder to go on with."""
    folder = write_folder()
    shown = (bullets(LIMITS), say("\nYour turn:"), command(NEXT))
    facts = {"not_promised": list(LIMITS), "folder": str(folder), "next": NEXT}
    return Scene("limits", "What this does not promise", shown, facts)
