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
import pyarrow as pa
import pytest
from matplotlib.cbook import is_math_text
from matplotlib.text import Text

from lapwing.answers.answer import asked, condition
from lapwing.answers.formats import label, plot
from lapwing.answers.picture import CELLS_AS_BARS, MOST_BARS, Picture, Shape, arrange
from lapwing.answers.table import AnswerColumn, AnswerTable
from lapwing.curator import Curator, open_data
from lapwing.errors import Misconfigured
from lapwing.expressions.types import Type
from lapwing.plan.question import Question
from lapwing.privacy import Budget

PLANS = ["free", "25%", "50%", "95%", "deductible"]
DAYS = [date(2026, 1, 1) + timedelta(day) for day in range(40)]


def key(name: str, kind: Type, values: list[Any]) -> AnswerColumn:
    cells = np.empty(len(values), object)
    cells[:] = values
    return AnswerColumn(name, kind, cells)


def number(name: str, values: list[float], error: float = 10, kind: Type = Type.INTEGER) -> AnswerColumn:
    cells = np.array(values, float if kind is Type.REAL else int)
    return AnswerColumn(name, kind, cells, cells - error, cells + error)


def cells(name: str, edges: list[Any], kind: Type = Type.REAL) -> list[AnswerColumn]:
    """A key in cells, and the column that holds their ends."""
    last = [edge - 1 for edge in edges[1:]] if kind is Type.INTEGER else edges[1:]
    return [key(name, kind, edges[:-1]), key(f"{name}_to", kind, last)]


def shown(columns: list[AnswerColumn], confidence: float = 0.95, **said: Any) -> AnswerTable:
    return AnswerTable(tuple(columns), Fraction(str(confidence)), **said)


def in_cells(*columns: AnswerColumn) -> Picture:
    return arrange(shown([*columns, number("n", [7] * len(columns[0].values))], binned=True))


def opened() -> Curator:
    data = {"age": [3, 30, 50], "cost": [1.5, 20.0, 99.0], "sex": ["F", "M", "F"], "year": [1, 1, 2]}
    facts: dict[str, Any] = {"bounds": {"age": (0, 64), "cost": (0, 100)}, "values": {"sex": ["F", "M"]}}
    return open_data(pa.table(data), name="stays", unit=None, ledger=":memory:", budget=Budget(epsilon=100), **facts)


def question(text: str) -> Question:
    return opened().sql(text, epsilon=1).plan.question


def texts(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text)]


ANSWERS: dict[str, list[AnswerColumn]] = {
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
    "no interval": [key("k", Type.TEXT, [*"ab"]), AnswerColumn("r", Type.REAL, np.array([0.5, np.nan]), reason="none")],
    "odd names": [key("$k$", Type.TEXT, ["$x$ and $y$", "", "日本", "a\nb"]), number("$n$", [1, 2, 3, 4])],
    "huge": [key("k", Type.TEXT, [*"ab"]), AnswerColumn("n", Type.INTEGER, np.array([10**400, 5], object), reason="")],
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_plot_draws_every_kind_of_answer(name: str, tmp_path: Path) -> None:
    figure = plot(shown(ANSWERS[name], title="what was asked"), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "what was asked" in texts(figure)
    assert any("Noisy, differentially private" in text and "95 %" in text for text in texts(figure))


def test_plot_writes_svg_by_the_end_of_the_path(tmp_path: Path) -> None:
    plot(shown(ANSWERS["colours"], 0.9), tmp_path / "a.SVG")
    assert ET.parse(tmp_path / "a.SVG").getroot().tag.endswith("svg")


@pytest.mark.parametrize(
    ("path", "told"), [("a.jpg", "end in .png or .svg"), ("missing/a.png", "no folder that exists")]
)
def test_plot_says_what_is_wrong_with_a_path(path: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=told):
        plot(shown(ANSWERS["text"]), tmp_path / path)


def test_plot_without_matplotlib_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "lapwing.answers.chart", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(Misconfigured, match=r"pip install 'lapwing\[plot\]'"):
        plot(shown(ANSWERS["text"]))


def test_plot_without_a_number_says_what_to_select() -> None:
    with pytest.raises(Misconfigured, match="Select an aggregate"):
        plot(shown([key("plan", Type.TEXT, PLANS)]))


def test_figure_shows_itself_in_a_notebook() -> None:
    figure: Any = plot(shown(ANSWERS["text"]))
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_plot_neither_uses_nor_changes_the_settings_of_the_caller() -> None:
    with mpl.rc_context({"font.size": 33, "axes.spines.top": True}):
        figure = plot(shown(ANSWERS["text"]))
        assert mpl.rcParams["font.size"] == 33
    assert max(text.get_fontsize() for text in figure.findobj(Text)) < 33
    assert not any(axes.spines["top"].get_visible() for axes in figure.axes)


def test_plot_never_loads_pyplot() -> None:
    program = (
        "import sys, numpy as np\n"
        "from fractions import Fraction\nfrom lapwing.answers.formats import plot\n"
        "from lapwing.answers.table import AnswerColumn, AnswerTable\n"
        "from lapwing.expressions.types import Type\n"
        "assert 'matplotlib' not in sys.modules\n"
        "one = np.array([1])\n"
        "column = AnswerColumn('n', Type.INTEGER, one, one - 1, one + 1)\n"
        "plot(AnswerTable((column,), Fraction(19, 20)))._repr_png_()\n"
        "print('matplotlib' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


def test_a_dollar_sign_starts_no_formula() -> None:
    figure = plot(shown(ANSWERS["odd names"], title="costs of $5 or $6"))
    assert not any(is_math_text(text) for text in texts(figure))
    assert r"\$x\$ and \$y\$" in texts(figure)


def test_whiskers_reach_to_the_ends_of_the_intervals() -> None:
    (axes,) = plot(shown(ANSWERS["text"])).axes
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
    assert arrange(shown(ANSWERS[name])).shape is shape


def test_few_integers_are_bars_in_the_order_of_the_answer() -> None:
    picture = arrange(shown([key("year", Type.INTEGER, [3, 1, 2]), number("n", [30, 10, 20])]))
    assert (picture.shape, picture.labels) == (Shape.BARS, ("3", "1", "2"))
    assert picture.panels[0].marks[0].values.tolist() == [30, 10, 20]


def test_lines_run_in_the_order_of_the_key() -> None:
    days = [DAYS[2], DAYS[0], DAYS[1]]
    (panel,) = arrange(shown([key("day", Type.DATE, days), number("n", [30, 10, 20])])).panels
    assert panel.marks[0].places == (DAYS[0], DAYS[1], DAYS[2])
    assert panel.marks[0].values.tolist() == [10, 20, 30]


def test_the_key_with_fewer_values_has_the_colours() -> None:
    picture = arrange(shown(ANSWERS["colours"]))
    assert (picture.along, picture.colours) == ("plan", "sex")
    assert [marks.name for marks in picture.panels[0].marks] == ["F", "M"]


def test_two_keys_with_many_values_have_a_panel_each_on_one_scale() -> None:
    picture = arrange(shown(ANSWERS["panels"]))
    assert [panel.title for panel in picture.panels] == [f"plan: {plan}" for plan in PLANS]
    assert picture.one_scale


def test_keys_that_fit_nowhere_are_joined() -> None:
    names = [f"n{i}" for i in range(20)]
    first, second = key("a", Type.TEXT, sorted(names * 20)), key("b", Type.TEXT, names * 20)
    picture = arrange(shown([first, second, number("n", [1] * 400)]))
    assert (picture.along, picture.labels[0]) == ("a, b", "n0 · n0")


def test_rows_whose_keys_are_not_all_shown_are_numbered() -> None:
    picture = arrange(shown([key("plan", Type.TEXT, ["a", "a", "b"]), number("n", [1, 2, 3])]))
    assert picture.labels == ("a (1)", "a (2)", "b (3)")
    assert arrange(shown([number("n", [1, 2, 3])])).labels == ("1", "2", "3")


def test_what_is_not_drawn_is_said() -> None:
    many = arrange(shown(ANSWERS["many"]))
    assert len(many.labels) == MOST_BARS
    assert "the first 100 of 500 groups" in many.subtitle
    assert "NULL is not shown" in arrange(shown(ANSWERS["numbers"])).subtitle


def test_title_says_what_was_asked_if_nobody_else_does() -> None:
    assert arrange(shown(ANSWERS["colours"])).title == "n by plan, sex"
    assert arrange(shown(ANSWERS["two numbers"])).title == "n, mean"


def test_cells_are_one_histogram_labelled_with_both_ends() -> None:
    picture = in_cells(*cells("spending", [0.0, 200.0, 400.0, 600.0]))
    assert (picture.shape, picture.along, picture.colours, len(picture.panels)) == (Shape.BARS, "spending", "", 1)
    assert picture.labels == ("0 to 200", "200 to 400", "400 to 600")
    assert in_cells(*cells("age", [0, 6, 12, 13], Type.INTEGER)).labels == ("0 to 5", "6 to 11", "12")


@pytest.mark.parametrize(
    ("edges", "first"),
    [
        ([0.0, 2000 / 3, 4000 / 3], "0 to 666.7"),
        ([-0.5, -0.25, 0.0], "-0.5 to -0.25"),
        ([0.0, 1e-12, 2e-12], "0 to 1e-12"),
        ([1e20, 2e20, 3e20], "1e+20 to 2e+20"),
    ],
    ids=["thirds", "negative", "tiny", "huge"],
)
def test_ends_of_cells_have_the_decimals_that_tell_them_apart(edges: list[float], first: str) -> None:
    assert in_cells(*cells("x", edges)).labels[0] == first


def test_cells_run_along_the_axis_beside_another_key() -> None:
    start, end = (np.tile(column.values, 3).tolist() for column in cells("age", [0, 33, 65], Type.INTEGER))
    site = key("site", Type.TEXT, sorted("abc" * 2))
    picture = in_cells(site, key("age", Type.INTEGER, start), key("age_to", Type.INTEGER, end))
    assert (picture.along, picture.colours, picture.labels) == ("age", "site", ("0 to 32", "33 to 64"))


def test_two_keys_in_cells_have_their_own_ends() -> None:
    first = [np.repeat(column.values, 2).tolist() for column in cells("a", [0.0, 1.0, 2.0, 3.0])]
    second = [np.tile(column.values, 3).tolist() for column in cells("b", [0.0, 5.0, 10.0])]
    both = zip(["a", "a_to", "b", "b_to"], first + second, strict=True)
    columns = [key(name, Type.REAL, values) for name, values in both]
    picture = in_cells(*columns)
    assert picture.labels == ("0 to 1", "1 to 2", "2 to 3")
    assert [marks.name for marks in picture.panels[0].marks] == ["0 to 5", "5 to 10"]


def test_many_cells_are_a_line_through_their_middles() -> None:
    picture = in_cells(*cells("x", [2.0 * i for i in range(CELLS_AS_BARS + 2)]))
    assert picture.shape is Shape.LINES
    assert picture.panels[0].marks[0].places[:3] == (1, 3, 5)
    assert "drawn at the middle of each cell" in picture.subtitle
    assert in_cells(*cells("x", [2.0 * i for i in range(CELLS_AS_BARS + 1)])).shape is Shape.BARS


def test_a_key_that_only_has_the_name_of_ends_stays_a_key() -> None:
    """Every value stands beside every other one, as no cell has two ends."""
    columns = [key("x", Type.INTEGER, [0, 0, 1, 1]), key("x_to", Type.INTEGER, [5, 6, 5, 6])]
    assert in_cells(*columns).colours == "x_to"
    pairs = [*cells("x", [0, 1, 2], Type.INTEGER), number("n", [1, 2])]
    assert arrange(shown(pairs)).colours == "x_to"


def test_distributions_and_marginals_draw_their_cells_and_their_condition() -> None:
    curator = opened()
    drawn = texts(curator.distribution("cost", cells=4, where="year = 1", epsilon=1).plot())
    assert {"COUNT(*) of stays by cost", "where year = 1", "0 to 25", "75 to 100"} <= set(drawn)
    tables = curator.marginals(["sex", "age"], cells={"age": 5}, where="year = 1", epsilon=1)
    figure = tables["sex", "age"].plot()
    assert len(figure.axes) == 1
    assert {"where year = 1", "sex: F", "sex: M", "0 to 12", "52 to 64"} <= set(texts(figure))
    assert not any("age_to" in text for text in texts(figure))


def test_a_picture_of_all_rows_has_no_condition() -> None:
    assert not any(text.startswith("where") for text in texts(opened().distribution("sex", epsilon=1).plot()))


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("year = 1", "year = 1"),
        ("year = 1 AND (sex = 'F' OR age < 3)", "year = 1 and (sex = 'F' or age < 3)"),
        ("year = 1 AND sex = 'F' OR age < 3", "year = 1 and sex = 'F' or age < 3"),
        ("NOT age < 18", "not (age < 18)"),
        ("age IS NOT NULL AND cost IS NULL", "age is not null and cost is null"),
        ("sex IN ('F', 'M') AND sex NOT IN ('O''N')", "sex in ('F', 'M') and sex not in ('O''N')"),
        ("age - (year - 1) > 2 * (age + 1)", "age - (year - 1) > 2 * (age + 1)"),
        ("(age = 3) = (year = 1)", "(age = 3) = (year = 1)"),
        ("COALESCE(age, 0) > 1", "coalesce(age, 0) > 1"),
    ],
)
def test_condition_means_what_was_asked(where: str, told: str) -> None:
    asked_for = question(f"SELECT COUNT(*) AS n FROM stays WHERE {where}").where
    assert asked_for is not None
    assert condition(asked_for) == f"where {told}"


def test_a_long_condition_is_cut_short() -> None:
    names = ", ".join(f"'name {i}'" for i in range(50))
    where = question(f"SELECT COUNT(*) AS n FROM stays WHERE sex IN ({names})").where
    assert where is not None
    told = condition(where)
    assert (len(told) <= 150, told[:29], told[-3:]) == (True, "where sex in ('name 0', 'name", "...")


def test_a_question_gives_title_and_condition() -> None:
    text = "SELECT BUCKET(age, [0, 18]) AS band, COUNT(*) AS n FROM stays WHERE year = 1 GROUP BY band"
    table = opened().sql(text, epsilon=1).table()
    picture = arrange(table)
    assert (picture.title, picture.condition) == ("COUNT(*) of stays by band", "where year = 1")
    assert "where year = 1" in texts(plot(table))


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("SELECT COUNT(*) AS n FROM stays", "COUNT(*) of stays"),
        ("SELECT sex AS s, COUNT(*) AS n FROM stays GROUP BY sex", "COUNT(*) of stays by sex"),
        ("SELECT sex, age > 17 AS adult, COUNT(*) AS n FROM stays GROUP BY 1, 2", "COUNT(*) of stays by sex, adult"),
        ("SELECT COUNT(*) AS n FROM stays GROUP BY age > 17", "COUNT(*) of stays by age > 17"),
    ],
    ids=["no key", "column", "computed", "not shown"],
)
def test_title_names_computed_keys_by_their_column(text: str, title: str) -> None:
    assert asked(question(text)) == title


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "NULL"), (True, "true"), ("", "(empty)"), ("a\n\tb\x00", "a b"), (7, "7"), (Fraction(1, 4), "0.25")],
    ids=["null", "true", "empty", "control", "integer", "fraction"],
)
def test_label_is_one_printable_line(value: Any, text: str) -> None:
    assert label(value) == text


def test_decimals_follow_the_error() -> None:
    from lapwing.answers.chart import digits

    def decimals(error: float) -> int:
        column = [key("k", Type.TEXT, ["a", "b"]), number("n", [2.5, 2.75], error, Type.REAL)]
        return digits(arrange(shown(column)).panels[0].marks[0])

    assert [decimals(error) for error in (0.021, 0.3, 4.0, 400.0)] == [3, 2, 1, 0]


def test_an_answer_draws_its_condition_and_the_name_of_a_computed_key() -> None:
    text = "SELECT BUCKET(age, [0, 18]) AS band, COUNT(*) AS n FROM stays WHERE year = 1 GROUP BY band"
    drawn = texts(opened().sql(text, epsilon=1).plot())
    assert {"COUNT(*) of stays by band", "where year = 1", "band"} <= set(drawn)
    assert not any("case(" in told for told in drawn)


def test_lines_break_where_a_group_was_not_shown() -> None:
    """Months without a number are no straight line; where all groups are shown, nothing breaks."""
    months = [date(2020 + m // 12, m % 12 + 1, 1) for m in range(36) if m not in (5, 6, 20)]
    years = [5 * year for year in range(390, 404) if year != 400]
    for kind, keys, breaks in ((Type.DATE, months, [4, 17]), (Type.INTEGER, years, [9])):
        columns = [key("k", kind, keys), number("n", [7] * len(keys))]
        picture = arrange(shown(columns, gaps=True))
        assert picture.shape is Shape.LINES
        (marks,) = picture.panels[0].marks
        gone = [place for place, value in zip(marks.places, marks.values, strict=True) if np.isnan(value)]
        assert gone == [keys[at] for at in breaks]
        assert len(marks.places) == len(keys) + len(breaks)
        assert "a line breaks where a group is not shown" in picture.subtitle
        plot(shown(columns, gaps=True))
        (whole,) = arrange(shown(columns)).panels[0].marks
        assert not np.isnan(whole.values).any()
