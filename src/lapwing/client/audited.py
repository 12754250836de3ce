"""Two servers as one mechanism on two neighbours, for an audit from outside. It sees noisy answers, never a row.

An audit spends budget to find whether a person is in the data. So it is for public data, the bundled neighbours
(lab/targets.py), recognised by all that is declared of them; other data need their owner's consent.
Checked by: tests/client/test_audited.py
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lapwing.client.connection import Connection, connect
from lapwing.errors import LapwingError, Misconfigured
from lapwing.numbers import Number

OTHER_TOKEN = "LAPWING_OTHER_TOKEN"
"""The environment variable with the token of the second server, if it has one of its own."""
QUESTION = "SELECT sex, COUNT(*) AS n, SUM(visits) AS visits FROM health GROUP BY sex"
_AT_ONCE = 4

Served = tuple[Callable[[Any, int], list[Any]], tuple[Connection, Connection]]


def ask_servers(
    urls: tuple[str, str],
    question: str,
    *,
    epsilon: Number,
    runs: int,
    own: bool,
    closer: ExitStack,
) -> Served:
    """A mechanism that asks a server n times at this epsilon, and the two servers to ask.

    Refused before the first question: data that are not the bundled neighbours, unless `own`; servers that declare
    different things; a budget that does not suffice; and a question that is not accepted.
    """
    other = os.environ.get(OTHER_TOKEN)
    pair = connect(urls[0]), connect(urls[1], other)
    for server in pair:
        closer.enter_context(server)
    declared = [dict(server.describe().tables) for server in pair]
    if not own and declared[0] != _bundled():
        raise Misconfigured(
            "this server does not serve the bundled neighbours, and an audit spends budget to learn who is "
            "in the data. Serve them (lapwing audit --write-neighbours FOLDER), or pass --i-own-this-data."
        )
    if declared[0] != declared[1]:
        raise Misconfigured(
            "the two servers declare different tables. Neighbours differ in one person and nothing else."
        )
    for server in pair:
        price = server.preview(question, epsilon=epsilon, check=0, refresh=True).cost
        if price.amount * runs > server.budget.remaining.amount:
            raise Misconfigured(f"{runs:,} runs at this price exceed what is left at {server.url}. Pass fewer --runs.")

    def release(server: Connection) -> Any:
        try:
            answer = server.sql(question, epsilon=epsilon, check=0, refresh=True)
            return {f"row {i} {name}": value for i, row in enumerate(answer) for name, value in row.items()}
        except LapwingError as error:  # that it fails is an output like any other
            return error

    def releases(server: Connection, n: int) -> list[Any]:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(release, [server] * n))

    return releases, pair


def _bundled() -> dict[str, Any]:
    """What a server of the bundled neighbours declares."""
    from lapwing.curator.description import Description
    from lapwing.curator.settings import read_settings
    from lapwing.expressions.table import Catalog
    from lapwing.lab.targets import write_neighbours

    with TemporaryDirectory() as folder:
        file, _ = write_neighbours(Path(folder) / "bundled")
        settings = read_settings(file)
        catalog = Catalog(tuple(table for table, _ in settings.tables))
        tables: dict[str, Any] = Description(catalog, "").to_dict()["tables"]
    return tables
