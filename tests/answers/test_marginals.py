"""What marginals say: tables of one paid release that agree with each other, with intervals known beforehand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lapwing.answers.marginals import MOST_TABLES
from lapwing.curator import Curator, open_data
from lapwing.errors import Misconfigured, Refused
from lapwing.privacy import Budget

RICH = Budget(epsilon=10**6)
VALUES: dict[str, Any] = {"sex": ["F", "M"], "site": [9, 10, 11], "mood": ["low", "high", None]}


def opened(budget: Budget = RICH) -> Curator:
    """One row a unit, 120 of them."""
    data = {
        "sex": ["F", "M"] * 60,
        "site": [9, 9, 10, 10, 11, 12] * 20,
        "mood": ["low", None, "high"] * 40,
        "cost": [i / 12 for i in range(120)],
    }
    return open_data(
        pa.table(data),
        name="people",
        unit=None,
        ledger=":memory:",
        budget=budget,
        values=VALUES,
        bounds={"cost": (0, 10)},
    )


def test_every_table_of_up_to_so_many_columns_is_there() -> None:
    answer = opened().marginals(["cost", "sex", "site"], epsilon=200, cells=2)
    assert list(answer) == [("sex",), ("site",), ("cost",), ("sex", "site"), ("sex", "cost"), ("site", "cost")]
    assert (len(answer), len(answer["site", "cost"]), ("sex", "site") in answer) == (6, 6, True)
    assert answer["cost"].to_arrow(intervals=False).to_pydict() == {
        "cost": [0.0, 5.0], "cost_to": [5.0, 10.0], "n": pytest.approx([50, 50])
    }  # fmt: skip


def test_rows_with_a_value_that_is_not_declared_are_in_no_table() -> None:
    """One in six has site 12, and so counts nowhere: tables agree."""
    answer = opened().marginals(["sex", "site"], epsilon=200)
    assert answer["sex", "site"].counts == pytest.approx(np.array([[20, 20, 20], [20, 20, 0]]))
    assert answer["sex"].counts == pytest.approx(np.array([60, 40]))
    assert float(answer.total.counts) == pytest.approx(100)


def test_null_counts_where_it_is_declared() -> None:
    answer = opened().marginals(["mood"], epsilon=200)
    moods = answer["mood"]
    assert (moods["mood"], moods["n"]) == (["low", "high", None], pytest.approx([40, 40, 40]))


def test_columns_are_found_in_any_order_and_sums_too() -> None:
    answer = opened().marginals(["sex", "site", "mood"], ways=3, epsilon=200)
    assert answer["MOOD", "sex"].to_arrow() == answer["sex", "mood"].to_arrow()
    listed = opened().marginals([("sex", "site"), ("mood", "site")], epsilon=200)
    assert list(listed) == [("sex", "site"), ("site", "mood")]
    assert listed["site"].counts == pytest.approx(np.array([40, 40, 20]))


def test_columns_that_are_not_there_are_named() -> None:
    answer = opened().marginals([("sex", "site"), ("mood",)], epsilon=1)
    with pytest.raises(Misconfigured, match="not a column of this answer"):
        answer["cost"]
    with pytest.raises(Misconfigured, match="no table of this answer"):
        answer["sex", "mood"]


@pytest.mark.parametrize("names", [0, None, 2.5, ("sex", 3), [("sex", "site")]])
def test_what_names_no_columns_is_answered_with_the_tables_there_are(names: Any) -> None:
    answer = opened().marginals([("sex", "site"), ("mood",)], epsilon=1)
    with pytest.raises(Misconfigured, match=r'The tables are \["mood"\], \["sex", "site"\]\.'):
        answer[names]


def test_few_of_many_tables_are_told() -> None:
    answer = opened().marginals(["sex", "site", "mood", "cost"], ways=3, epsilon=1)
    with pytest.raises(Misconfigured, match=r", \.\.\.$") as error:
        answer[0]
    assert str(error.value).count("[") == 12


def test_the_total_is_a_table_of_one_row(tmp_path: Path) -> None:
    total = opened().marginals(["sex", "site"], epsilon=200).total
    assert str(total).splitlines()[0].split() == ["n", "n", "interval"]
    assert total.to_arrow(intervals=False).to_pydict() == {"n": pytest.approx([100])}
    assert (len(total), total.to_csv().splitlines()[0]) == (1, '"n","n_low","n_high"')
    total.plot(tmp_path / "total.svg")
    assert (tmp_path / "total.svg").stat().st_size > 1000


def test_rows_that_are_not_counted_are_told_wherever_people_look() -> None:
    """All columns of the answer decide, also of a table over one of them."""
    curator = opened()
    answer = curator.marginals(["sex", "cost"], epsilon=1)
    told = (
        "Rows without a value, or with one that is not declared, in any listed column are not counted in any table; "
        "values beyond the bounds count in the first or last cell."
    )
    for shown in (answer, answer["sex"], answer["sex", "cost"], answer.total):
        assert told in shown.explain()
    assert told in answer.methods()
    assert all(told in table["notes"] for table in answer.to_dict()["tables"])
    assert told in curator.preview_marginals(["sex", "cost"], epsilon=1).explain()


def test_an_answer_knows_what_it_cost_and_shows_itself() -> None:
    curator = opened()
    first, again = (curator.marginals(["sex", "site"], epsilon=0.5) for _ in range(2))
    assert (float(first.cost.amount), bool(again.cost)) == (0.5, False)
    for shown in (first, first["sex"], curator.preview_marginals(["sex"], epsilon=1)):
        assert repr(shown) == str(shown)
    assert repr(first).startswith("sex: 2 cells, within ")


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("budget", [Budget(epsilon=1), Budget(epsilon=1, delta=1e-6)], ids=["pure", "zcdp"])
def test_estimates_lie_in_the_middle_of_their_intervals(budget: Budget) -> None:
    """Also below 0: neither is cut."""
    answer = opened(budget).marginals(["sex", "site", "cost"], epsilon=0.1, where="cost < 1")
    rows = [row for table in answer.values() for row in table.intervals().to_pylist()]
    assert min(row["n"] for row in rows) < 0
    assert all((row["n_low"] + row["n_high"]) / 2 == pytest.approx(row["n"]) for row in rows)


CELLS: list[tuple[Any, str]] = [
    ({"coast": 5}, "`coast` is not among the columns. Did you mean `cost`"),
    ({"site": 5}, "`site` is not among the columns"),
    ({3: 5}, "`3` is not among the columns"),
    ({"sex": 5}, "declared values of `sex` are its cells"),
]


@pytest.mark.parametrize(("cells", "message"), CELLS, ids=["misspelt", "elsewhere", "number", "values"])
def test_cells_that_would_be_ignored_are_refused_and_free(cells: Any, message: str) -> None:
    curator = opened()
    with pytest.raises(Refused, match=f"{message}.*Nothing was charged"):
        curator.marginals(["sex", "cost"], cells=cells, epsilon=1)
    assert not curator.budget.spent
    assert len(curator.marginals(["sex", "cost"], cells={"COST": 5}, epsilon=1)["cost"]) == 5
    assert len(curator.marginals(["sex", "cost"], cells=4, epsilon=1)["cost"]) == 4


@pytest.mark.parametrize("columns", ["sex", 3, None, [], [()], ["sex", 3], [("sex", 3)], [["sex"], [["site"]]]])
def test_what_lists_no_columns_is_refused(columns: Any) -> None:
    curator = opened()
    for ask in (curator.marginals, curator.preview_marginals):
        with pytest.raises(Misconfigured, match=r"`columns` must list names.*Nothing was charged"):
            ask(columns, epsilon=1)
    assert not curator.budget.spent


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("budget", [Budget(epsilon=1), Budget(epsilon=1, delta=1e-6)], ids=["pure", "zcdp"])
def test_tables_agree_under_noise_and_when_stored(budget: Budget) -> None:
    curator = opened(budget)
    for answer in (curator.marginals(["sex", "site", "mood"], epsilon=0.5) for _ in range(2)):
        for names, table in answer.items():
            assert table.counts.sum() == pytest.approx(float(answer.total.counts))
            for axis, name in enumerate(names):
                assert table.counts.sum(axis=1 - axis if len(names) == 2 else ()) == pytest.approx(answer[name].counts)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("budget", [Budget(epsilon=1000), Budget(epsilon=100, delta=1e-6)], ids=["pure", "zcdp"])
def test_intervals_hold_the_truth_as_often_as_stated(budget: Budget) -> None:
    curator = opened(budget)
    exactly = np.array([20, 20, 20, 20, 20, 0])
    held = []
    for _ in range(60):
        answer = curator.marginals(["sex", "site"], epsilon=1, confidence=0.9, refresh=True)
        table = answer["sex", "site"].intervals()
        low, high = (np.array(table.column(name).to_pylist()) for name in ("n_low", "n_high"))
        held.append((low <= exactly) & (exactly <= high))
    assert 0.9 - 3 * 0.3 / 60**0.5 <= np.mean(held) <= 0.98
    one, all_ = answer["sex", "site"].intervals(), answer["sex", "site"].intervals(simultaneous=True)
    assert one.column("n_high")[0].as_py() < all_.column("n_high")[0].as_py()


def test_an_answer_goes_everywhere(tmp_path: Path) -> None:
    answer = opened(Budget(epsilon=1, delta=1e-6)).marginals(["sex", "site"], epsilon=0.5)
    table = answer["sex", "site"]
    assert table.to_pandas().shape == table.to_polars().shape == (6, 5)
    assert table.to_csv().splitlines()[0] == '"sex","site","n","n_low","n_high"'
    read = json.loads(answer.to_json())
    assert (read["measures"][0]["mechanism"], [one["over"] for one in read["tables"]]) == (
        "Marginals", [["sex"], ["site"], ["sex", "site"]],
    )  # fmt: skip
    assert "in cells of `sex` and `site`, each unit's part of a cell is clipped to" in answer.methods()
    assert "discrete Gaussian noise is added to what the tables have in common" in answer.methods()
    pure = opened(Budget(epsilon=1)).marginals(["sex", "site"], epsilon=0.5)
    assert "discrete Laplace noise is added to the cells of 1 table," in pure.methods()
    assert str(answer).splitlines()[2].startswith("sex, site: 6 cells, within ")
    assert str(table).splitlines()[-1].startswith("95% intervals; price epsilon")
    assert table._repr_html_().count("<tr>") == 7
    table.plot(tmp_path / "table.png")
    assert (tmp_path / "table.png").stat().st_size > 1000


def test_too_many_tables_or_cells_are_refused() -> None:
    names = [f"c{i:02}" for i in range(50)]
    wide = open_data(
        pa.table({name: [True] for name in names}),
        name="t",
        unit=None,
        budget=RICH,
        ledger=":memory:",
        values={n: [True, False] for n in names},
    )
    with pytest.raises(Refused, match=f"at most {MOST_TABLES:,}"):
        wide.marginals(names, epsilon=1)
    with pytest.raises(Refused, match="more than 8 columns"):
        wide.marginals([tuple(names[:9])], epsilon=1)
    reals = pa.table({name: [1.0] for name in "abc"})
    deep = open_data(reals, name="t", unit=None, ledger=":memory:", budget=RICH, bounds=dict.fromkeys("abc", (0, 1)))
    with pytest.raises(Refused, match="cells"):
        deep.marginals(["a", "b", "c"], ways=3, cells=1000, epsilon=1)


def test_the_full_table_is_never_built() -> None:
    """Thirty columns of two values have 2^30 cells; 435 pairs are read."""
    names = [f"c{i:02}" for i in range(30)]
    data = pa.table({name: [i % (k + 2) == 0 for i in range(50)] for k, name in enumerate(names)})
    curator = open_data(
        data, name="t", unit=None, budget=Budget(epsilon=10**4, delta=1e-6), values={n: [False, True] for n in names}
    )
    answer = curator.marginals(names, epsilon=10**3)
    assert len(answer) == 465
    assert answer["c00", "c01"].counts == pytest.approx(np.array([[16, 9], [17, 8]]), abs=10)


def test_columns_may_have_any_name() -> None:
    """Names of the answer's own columns give way."""
    data = pa.table({"n": ["a", "b"] * 10, 'q"x': [1, 2] * 10, "share_up_to": [True, False] * 10, "n_low": [0.4] * 20})
    values = {"n": ["a", "b"], 'q"x': [1, 2], "share_up_to": [True, False]}
    curator = open_data(
        data, name='we"ird', unit=None, ledger=":memory:", budget=RICH, values=values, bounds={"n_low": (0, 1)}
    )
    answer = curator.marginals([*values, "n_low"], epsilon=200, cells=2, where='"q""x" = 1')
    assert answer["n", 'q"x'].intervals().column_names == ["n", 'q"x', "n_", "n__low", "n__high"]
    assert answer["n_low"].intervals().column_names == ["n_low", "n_low_to", "n", "n_low_", "n_high"]
    assert answer["n", 'q"x'].counts == pytest.approx(np.array([[10, 0], [0, 0]]))
    names = curator.distribution("share_up_to", epsilon=200).to_arrow(intervals=False).column_names
    assert names == ["share_up_to", "n", "share_up_to_"]
