"""Questions in notebook cells: on a curator or a connection, under IPython and in a real kernel."""

from __future__ import annotations

from decimal import Decimal
from importlib.util import find_spec
from typing import Any

import pytest

import lapwing as lw
from lapwing import magic
from lapwing.answers.answer import Release
from lapwing.curator.preview import Preview
from lapwing.errors import Misconfigured, Refused
from support import needs
from support.visits import open_visits

COUNT = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"


def test_a_cell_is_answered_and_named() -> None:
    with open_visits() as curator:
        names: dict[str, Any] = {"visits": curator, "x": 3, "_hidden": open_visits()}
        found = magic.run("--epsilon 0.25 --to counts", COUNT, names)
        assert isinstance(found, Release)
        assert names["counts"] is found
        assert found.cost.amount * 4 == 1
        assert curator.budget.spent.amount * 4 == 1


def test_within_is_a_number_or_one_for_each_column() -> None:
    with open_visits() as curator:
        names = {"visits": curator}
        one = magic.run("--within 30 --preview", COUNT, names)
        each = magic.run("--within n=30 --preview", COUNT, names)
        assert isinstance(one, Preview)
        assert one.cost == each.cost == curator.preview(COUNT, within=30).cost
        assert curator.budget.spent.amount == 0


def test_the_dummy_is_asked_for_nothing() -> None:
    with open_visits() as curator:
        found = magic.run("--epsilon 1 --dummy", COUNT, {"visits": curator})
        assert found.notes[0].startswith("DUMMY")
        assert curator.budget.spent.amount == 0


def test_a_line_alone_shows_the_tables() -> None:
    with open_visits() as curator:
        assert str(magic.run("", None, {"visits": curator})) == str(curator.describe())


def test_who_is_asked_must_be_clear() -> None:
    with open_visits() as one, open_visits() as other:
        with pytest.raises(Misconfigured, match="no variable is a curator"):
            magic.run("--epsilon 1", COUNT, {"x": 1, "lw": lw})
        with pytest.raises(Misconfigured, match=r"a, b.*--on a"):
            magic.run("--epsilon 1", COUNT, {"a": one, "b": other})
        with pytest.raises(Misconfigured, match="`c` is not"):
            magic.run("--epsilon 1 --on c", COUNT, {"a": one})
        assert isinstance(magic.run("--epsilon 0.1 --on b", COUNT, {"a": one, "b": other}), Release)
        assert isinstance(magic.run("--epsilon 0.1", COUNT, {"a": one, "same": one}), Release)
        assert one.budget.spent == other.budget.spent


@pytest.mark.parametrize(
    "line", ["--epsilon x", "--eps 1", "--within n=", "--to 2x", "--on", "'", "more words", "--bounds no"]
)
def test_a_wrong_option_is_refused_and_charges_nothing(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with open_visits() as curator:
        with pytest.raises(Misconfigured, match=r"Nothing was charged\.$"):
            magic.run(line, COUNT, {"visits": curator})
        assert curator.budget.spent.amount == 0
    assert capsys.readouterr().err == ""


def test_numbers_are_read_as_they_are_written() -> None:
    assert magic._options().parse_args(["--epsilon", "0.1"]).epsilon == Decimal("0.1")


def test_a_refusal_is_that_of_the_curator() -> None:
    with open_visits() as curator, pytest.raises(Refused) as refused:
        magic.run("--epsilon 1", "SELECT * FROM visits", {"visits": curator})
    assert refused.value.code == "private-rows"


def test_help_lists_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert magic.run("--help", None, {}) is None
    said = capsys.readouterr().out
    assert all(f"--{name}" in said for name in ("within", "epsilon", "share", "preview", "dummy", "on", "to"))


OPENED = """
import lapwing as lw, pandas as pd
frame = pd.DataFrame({"pid": range(40), "sex": ["F", "M"] * 20})
visits = lw.open(frame, name="visits", unit=None, values={"sex": ["F", "M"]}, budget=lw.Budget(epsilon=1))
"""
NOTEBOOK = [
    OPENED,
    "%load_ext lapwing.magic",
    f"%%lapwing --within 30 --to counts\n{COUNT}",
    "price = 0.125",
    f"%%lapwing --epsilon {{price}}\n{COUNT} ORDER BY sex",
    "%lapwing",
    "%%lapwing --epsilon 1\nSELECT * FROM visits",
    "print(counts.cost, visits.budget.spent)",
]


@pytest.fixture(scope="module")
def cells() -> list[Any]:
    """The cells of a notebook after a real kernel has run them."""
    if find_spec("nbclient") is None or find_spec("ipykernel") is None:
        needs.missing("a notebook's kernel", "python3-nbclient python3-ipykernel")
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in NOTEBOOK])
    NotebookClient(book, timeout=120, kernel_name="python3", allow_errors=True).execute()
    return list(book.cells)


@pytest.mark.filterwarnings("ignore")  # of the notebook's own programs
def test_a_kernel_shows_tables_prices_and_refusals(cells: list[Any]) -> None:
    (counts,) = cells[2].outputs
    assert counts.output_type == "execute_result"
    assert "<table>" in counts.data["text/html"]
    assert "intervals" in counts.data["text/plain"]
    (again,) = cells[4].outputs
    assert "epsilon = 0.125" in again.data["text/plain"] or "stored" in again.data["text/plain"]
    (described,) = cells[5].outputs
    assert "Budget" in described.data["text/plain"]
    (refused,) = cells[6].outputs
    assert refused.output_type == "error"
    assert refused.ename == "Refused"
    assert "│" in "\n".join(refused.traceback)
    assert cells[7].outputs[0].text.startswith("epsilon = ")
