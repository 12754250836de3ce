"""Pictures of answers: what stands where, and that it can be drawn, saved and shown."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.cbook import is_math_text
from matplotlib.text import Text

from lapwing.errors import Misconfigured
from lapwing.query.answers.plot import MOST_BARS, Shape, arranged, label, plot
from lapwing.query.answers.present import Answered
from lapwing.query.types import Type

PLANS = ["free", "25%", "50%", "95%", "deductible"]
DAYS = [date(2026, 1, 1) + timedelta(day) for day in range(40)]


def key(name: str, kind: Type, values: list[Any]) -> Answered:
    cells = np.empty(len(values), object)
    cells[:] = values
    return Answered(name, kind, cells)


def number(name: str, values: list[float], error: float = 10, kind: Type = Type.INTEGER) -> Answered:
    cells = np.array(values, float if kind is Type.REAL else int)
    return Answered(name, kind, cells, cells - error, cells + error)


def texts(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text)]


ANSWERS: dict[str, list[Answered]] = {
    "one number": [number("n", [5912])],
    "two numbers": [number("n", [5912]), number("mean", [2.86], 0.2, Type.REAL)],
    "text": [key("plan", Type.TEXT, PLANS), number("n", [1, 2, 3, 4, 5])],
    "truth values, NULL, negative": [key("child", Type.BOOLEAN, [True, False, None]), number("n", [-300, 20, 0])],
    "dates": [key("day", Type.DATE, DAYS), number("n", list(range(40)))],
    "numbers": [key("age", Type.INTEGER, [*range(64), None]), number("n", list(range(65)))],
    "reals": [key("x", Type.REAL, [Fraction(i, 3) for i in range(20)]), number("n", list(range(20)))],
    "colours": [key("plan", Type.TEXT, [*PLANS, *PLANS]), key("sex", Type.TEXT, ["F", "M"] * 5), number("n", [7] * 10)],
    "panels": [key("site", Type.TEXT, sorted("abcdef" * 5)), key("plan", Type.TEXT, PLANS * 6), number("n", [7] * 30)],
    "many": [key("name", Type.TEXT, [f"name {i} with a long tail" * 3 for i in range(500)]), number("n", [3] * 500)],
    "no rows": [key("plan", Type.TEXT, []), number("n", [])],
    "no interval": [key("k", Type.TEXT, ["a", "b"]), Answered("r", Type.REAL, np.array([0.5, np.nan]), reason="none")],
    "odd names": [key("$k$", Type.TEXT, ["$x$ and $y$", "", "日本", "a\nb"]), number("$n$", [1, 2, 3, 4])],
    "huge": [key("k", Type.TEXT, ["a", "b"]), Answered("n", Type.INTEGER, np.array([10**400, 5], object), reason="no")],
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_plot_draws_every_kind_of_answer(name: str, tmp_path: Path) -> None:
    figure = plot(ANSWERS[name], confidence=0.95, title="what was asked", path=tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "what was asked" in texts(figure)
    assert any("Noisy, differentially private" in text and "95 %" in text for text in texts(figure))


def test_plot_writes_svg_by_the_end_of_the_path(tmp_path: Path) -> None:
    plot(ANSWERS["colours"], confidence=0.9, path=tmp_path / "a.SVG")
    assert ET.parse(tmp_path / "a.SVG").getroot().tag.endswith("svg")


@pytest.mark.parametrize(("path", "told"), [("a.jpg", "end in .png or .svg"), ("missing/a.png", "no such folder")])
def test_plot_says_what_is_wrong_with_a_path(path: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=told):
        plot(ANSWERS["text"], confidence=0.95, path=tmp_path / path)


def test_plot_without_matplotlib_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "lapwing.query.answers.chart", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(Misconfigured, match=r"pip install 'lapwing\[plot\]'"):
        plot(ANSWERS["text"], confidence=0.95)


def test_plot_without_a_number_says_what_to_select() -> None:
    with pytest.raises(Misconfigured, match="Select an aggregate"):
        plot([key("plan", Type.TEXT, PLANS)], confidence=0.95)


def test_figure_shows_itself_in_a_notebook() -> None:
    figure: Any = plot(ANSWERS["text"], confidence=0.95)
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_plot_neither_uses_nor_changes_the_settings_of_the_caller() -> None:
    with mpl.rc_context({"font.size": 33, "axes.spines.top": True}):
        figure = plot(ANSWERS["text"], confidence=0.95)
        assert mpl.rcParams["font.size"] == 33
    assert max(text.get_fontsize() for text in figure.findobj(Text)) < 33
    assert not any(axes.spines["top"].get_visible() for axes in figure.axes)


def test_plot_never_loads_pyplot() -> None:
    program = (
        "import sys, numpy as np\n"
        "from lapwing.query.answers.plot import plot\nfrom lapwing.query.answers.present import Answered\n"
        "from lapwing.query.types import Type\n"
        "assert 'matplotlib' not in sys.modules\n"
        "one = np.array([1])\n"
        "plot([Answered('n', Type.INTEGER, one, one - 1, one + 1)], confidence=0.95)._repr_png_()\n"
        "print('matplotlib' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


def test_a_dollar_sign_starts_no_formula() -> None:
    figure = plot(ANSWERS["odd names"], confidence=0.95, title="costs of $5 or $6")
    assert not any(is_math_text(text) for text in texts(figure))
    assert r"\$x\$ and \$y\$" in texts(figure)


def test_whiskers_reach_to_the_ends_of_the_intervals() -> None:
    (axes,) = plot(ANSWERS["text"], confidence=0.95).axes
    segments = axes.containers[-1].lines[2][0].get_segments()
    assert [(a[0], b[0]) for a, b in segments] == [(n - 10, n + 10) for n in (1, 2, 3, 4, 5)]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("one number", Shape.POINTS),
        ("text", Shape.BARS),
        ("truth values, NULL, negative", Shape.BARS),
        ("dates", Shape.LINES),
        ("numbers", Shape.LINES),
        ("reals", Shape.LINES),
        ("colours", Shape.BARS),
        ("many", Shape.BARS),
    ],
)
def test_shape_follows_from_the_keys(name: str, shape: Shape) -> None:
    assert arranged(ANSWERS[name], confidence=0.95).shape is shape


def test_few_integers_are_bars_in_the_order_of_the_answer() -> None:
    picture = arranged([key("year", Type.INTEGER, [3, 1, 2]), number("n", [30, 10, 20])], confidence=0.95)
    assert (picture.shape, picture.labels) == (Shape.BARS, ("3", "1", "2"))
    assert picture.panels[0].marks[0].values.tolist() == [30, 10, 20]


def test_lines_run_in_the_order_of_the_key() -> None:
    days = [DAYS[2], DAYS[0], DAYS[1]]
    (panel,) = arranged([key("day", Type.DATE, days), number("n", [30, 10, 20])], confidence=0.95).panels
    assert panel.marks[0].places == (DAYS[0], DAYS[1], DAYS[2])
    assert panel.marks[0].values.tolist() == [10, 20, 30]


def test_the_key_with_fewer_values_has_the_colours() -> None:
    picture = arranged(ANSWERS["colours"], confidence=0.95)
    assert (picture.along, picture.colours) == ("plan", "sex")
    assert [marks.name for marks in picture.panels[0].marks] == ["F", "M"]


def test_two_keys_with_many_values_have_a_panel_each_on_one_scale() -> None:
    picture = arranged(ANSWERS["panels"], confidence=0.95)
    assert [panel.title for panel in picture.panels] == [f"plan: {plan}" for plan in PLANS]
    assert picture.one_scale


def test_keys_that_fit_nowhere_are_joined() -> None:
    names = [f"n{i}" for i in range(20)]
    first, second = key("a", Type.TEXT, sorted(names * 20)), key("b", Type.TEXT, names * 20)
    picture = arranged([first, second, number("n", [1] * 400)], confidence=0.95)
    assert (picture.along, picture.labels[0]) == ("a, b", "n0 · n0")


def test_rows_whose_keys_are_not_all_shown_are_numbered() -> None:
    picture = arranged([key("plan", Type.TEXT, ["a", "a", "b"]), number("n", [1, 2, 3])], confidence=0.95)
    assert picture.labels == ("a (1)", "a (2)", "b (3)")
    assert arranged([number("n", [1, 2, 3])], confidence=0.95).labels == ("1", "2", "3")


def test_what_is_not_drawn_is_said() -> None:
    many = arranged(ANSWERS["many"], confidence=0.95)
    assert len(many.labels) == MOST_BARS
    assert "the first 100 of 500 groups" in many.subtitle
    assert "NULL has no place on the axis" in arranged(ANSWERS["numbers"], confidence=0.95).subtitle


def test_title_says_what_was_asked_if_nobody_else_does() -> None:
    assert arranged(ANSWERS["colours"], confidence=0.95).title == "n by plan, sex"
    assert arranged(ANSWERS["two numbers"], confidence=0.95).title == "n, mean"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "NULL"), (True, "true"), ("", "(empty)"), ("a\n\tb\x00", "a b"), (7, "7"), (Fraction(1, 4), "0.25")],
    ids=["null", "true", "empty", "control", "integer", "fraction"],
)
def test_label_is_one_printable_line(value: Any, text: str) -> None:
    assert label(value) == text


def test_decimals_follow_the_error() -> None:
    from lapwing.query.answers.chart import digits

    def decimals(error: float) -> int:
        column = [key("k", Type.TEXT, ["a", "b"]), number("n", [2.5, 2.75], error, Type.REAL)]
        return digits(arranged(column, confidence=0.95).panels[0].marks[0])

    assert [decimals(error) for error in (0.021, 0.3, 4.0, 400.0)] == [3, 2, 1, 0]
