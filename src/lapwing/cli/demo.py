"""`lapwing demo`: the whole story on real data, from the steward's file to the attack that fails.

The demo owns its data, so it can do what no analyst can: print the truth beside the answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from lapwing.cli.demo_health import (
    EPSILON,
    FILE,
    QUESTION,
    the_answer,
    the_attack,
    the_budget,
    the_data,
    the_file,
    the_picture,
    the_price,
    the_same_again,
)
from lapwing.cli.demo_names import the_names
from lapwing.cli.output import echo
from lapwing.cli.scene import Scene, bullets, command, say, show, stage
from lapwing.curator import load
from lapwing.data import births, health


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
        release = curator.sql(QUESTION, epsilon=EPSILON)
        yield the_answer(release, rows)
        yield the_picture(release)
        yield the_same_again(curator, release)
        yield the_attack(curator, rows)
        yield the_budget(curator)
    finally:
        curator.close()
    yield the_names(births())
    yield the_small_print()


def run_console() -> None:
    """Serves the bundled data with a console, and a link for an analyst and a steward that works once."""
    from lapwing.cli.doctor import need_server

    need_server("Consoles")
    from lapwing.curator.settings import read_settings
    from lapwing.ledger import open_ledger
    from lapwing.server.console.sessions import Sessions
    from lapwing.server.run import prepare, run
    from lapwing.server.tokens import Role, TokenBook

    file = _write_folder() / "lapwing.toml"
    serve, _ = prepare(file)
    settings = read_settings(file)
    with open_ledger(settings.ledger, settings.budget, witness=settings.witnesses) as ledger:
        book = TokenBook(ledger)
        for role in (Role.ANALYST, Role.STEWARD):
            token, _ = book.add(f"demo-{role}", role, days=1)
            code = Sessions(ledger, book).invite(token)
            echo(f"{role:8} http://{serve.host}:{serve.port}/console/sign-in#code={code}")
    echo("Each link works once, within ten minutes. Use two browsers or a private window to be both.")
    run(file, serve, say=echo)


def _write_folder() -> Path:
    """The folder of the bundled data and its settings."""
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
    folder = _write_folder()
    shown = (bullets(LIMITS), say(f"\nYour turn, in {folder}:"), command(NEXT))
    facts = {"not_promised": list(LIMITS), "folder": str(folder), "next": NEXT}
    return Scene("limits", "What this does not promise", shown, facts)


FOLDER = "lapwing-demo"
NEXT = f'cd {FOLDER} && lapwing ask "SELECT plan, COUNT(*) AS n FROM health GROUP BY plan" --share 0.05'
LIMITS = (
    "It hides whether you are in the data, not what is true of people like you.",
    "It protects one person at a time, and adds up over ledgers with the same people.",
    "Inside your own program it protects against mistakes, not against someone who reads the files.",
)
