"""Every way to ask takes the same terms, and each has a meaning."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import lapwing as lw
from lapwing import terms
from lapwing.cli.main import app
from lapwing.client.connection import Connection
from lapwing.curator import Curator
from lapwing.curator.request import _CELLS, _CHOSEN, _HOW, _PRICE
from lapwing.magic import _options
from lapwing.server.schemas import AskBody, BatchBody, DistributionBody, MarginalsBody
from lapwing.terms import TERMS, names_of

CURATOR = {
    "sql": terms.AskTerms,
    "preview": terms.PreviewTerms,
    "batch": terms.AskBatchTerms,
    "preview_batch": terms.BatchTerms,
    "distribution": terms.AskDistributionTerms,
    "preview_distribution": terms.PreviewDistributionTerms,
    "marginals": terms.AskMarginalsTerms,
    "preview_marginals": terms.PreviewMarginalsTerms,
}
REMOTE = {
    "sql": terms.RemoteAskTerms,
    "preview": terms.PreviewTerms,
    "batch": terms.RemoteBatchTerms,
    "preview_batch": terms.BatchTerms,
    "distribution": terms.RemoteDistributionTerms,
    "marginals": terms.RemoteMarginalsTerms,
}
BODIES = {
    AskBody: terms.QuestionTerms,
    BatchBody: terms.BatchTerms,
    DistributionBody: terms.DistributionTerms,
    MarginalsBody: terms.MarginalsTerms,
}
COMMANDS = {
    "ask": terms.AskTerms,
    "preview": terms.PreviewTerms,
    "batch": terms.AskBatchTerms,
    "distribution": terms.AskDistributionTerms,
    "marginals": terms.AskMarginalsTerms,
}


def opened() -> Curator:
    frame = pa.table({"id": [1, 2, 3], "age": [20, 30, 40]})
    return lw.open(frame, name="people", unit="id", rows_per_unit=1, budget=lw.Budget(epsilon=1), ledger=":memory:")


@pytest.mark.parametrize(("owner", "ways"), [(Curator, CURATOR), (Connection, REMOTE)], ids=["curator", "connection"])
def test_signatures_show_the_terms_with_their_defaults(owner: type, ways: dict[str, Any]) -> None:
    for name, kind in ways.items():
        found = inspect.signature(getattr(owner, name)).parameters
        shown = {one.name: one.default for one in found.values() if one.name in TERMS}
        assert shown == {term: TERMS[term].default for term in names_of(kind)}, name
        assert not any(one.kind is one.VAR_KEYWORD for one in found.values())


def test_help_and_completion_show_them() -> None:
    from IPython.core.completer import IPCompleter

    assert "epsilon: 'Number | None' = None" in inspect.getdoc(Curator.sql) + str(inspect.signature(Curator.sql))
    completer = IPCompleter(namespace={"curator": opened()})
    assert set(CURATOR["sql"].__annotations__) <= set(completer._default_arguments(Curator.sql))


@pytest.mark.parametrize("body", BODIES, ids=lambda one: one.__name__)
def test_bodies_of_http_have_them(body: Any) -> None:
    fields = body.model_fields
    assert {name for name in fields if name in TERMS} == set(names_of(BODIES[body]))
    assert {name: fields[name].default for name in names_of(BODIES[body])} == {
        name: TERMS[name].default for name in names_of(BODIES[body])
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_have_an_option_for_each(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}).output
    special = {"weights": "--weight", "cells": "--cells"}
    for name in names_of(COMMANDS[command]):
        flags = TERMS[name].flags or (special.get(name, f"--{name.replace('_', '-')}"),)
        assert all(re.search(rf"(?<![\w-]){flag}(?![\w-])", shown) for flag in flags), name


def test_the_notebook_has_the_terms_of_a_preview() -> None:
    assert {action.dest for action in _options()._actions} >= set(names_of(terms.PreviewTerms))


def test_every_term_has_a_meaning() -> None:
    """One that is listed and that nothing reads would be taken without effect."""
    searched, batch, bound = {"bounds", "limits", "find_share"}, {"weights"}, {"params"}
    assert _PRICE | set(_HOW) | set(_CELLS) | set(_CHOSEN) | searched | batch | bound == set(TERMS)
    kinds = [kind for kind in vars(terms).values() if hasattr(kind, "__total__")]
    assert {name for kind in kinds for name in kind.__annotations__} == set(TERMS)


@pytest.mark.parametrize(
    ("written", "hint"), [({"epsilom": 1}, "`epsilon`"), ({"zzz": 1}, "Terms are: "), ({"weights": [1]}, "Terms are")]
)
def test_a_keyword_that_is_no_term_is_refused(written: dict[str, Any], hint: str) -> None:
    with opened() as curator:
        for ask in (curator.sql, curator.preview):
            with pytest.raises(TypeError, match=re.escape(hint)):
                ask("SELECT COUNT(*) AS n FROM people", **written)
        assert not curator.budget.spent


def test_a_planted_term_reaches_every_door() -> None:
    """It is added to the list before anything else is imported."""
    code = """
import json
from lapwing import terms
terms.TERMS["planted"] = terms.TermInfo("A planted term.")
for kind in vars(terms).values():
    if hasattr(kind, "__total__") and "within" in kind.__annotations__:
        kind.__annotations__["planted"] = "int | None"
import inspect
from typer.testing import CliRunner
from lapwing.cli.main import app
from lapwing.client.connection import Connection
from lapwing.curator import Curator
from lapwing.magic import _options
from lapwing.server.schemas import AskBody
print(json.dumps([
    "planted" in inspect.signature(Curator.sql).parameters,
    "planted" in inspect.signature(Connection.preview).parameters,
    "planted" in AskBody.model_fields,
    "--planted" in CliRunner().invoke(app, ["ask", "--help"], env={"COLUMNS": "200"}).output,
    "--planted" in _options().format_help(),
]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert json.loads(done.stdout or "[]") == [True] * 5, done.stderr
