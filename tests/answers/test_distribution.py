"""What a distribution says: ranges, shares, quantiles and tables of one paid release, with honest intervals."""

from __future__ import annotations

import json
import math
import re
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lapwing.answers.distribution import Distribution, Estimate
from lapwing.curator import Curator, open_data
from lapwing.errors import Misconfigured, Refused
from lapwing.privacy import Budget

RICH = Budget(epsilon=10**6)


def opened(budget: Budget = RICH, **columns: Any) -> Curator:
    """One row a unit; ages 0 to 99, once each, and costs of a tenth of them."""
    data = {"age": list(range(100)), "cost": [i / 10 for i in range(100)], "mood": ["low", "mid", "high", "high"] * 25}
    facts: dict[str, Any] = {"bounds": {"age": (0, 99), "cost": (0, 10)}, "values": {"mood": ["low", "mid", "high"]}}
    return open_data(pa.table({**data, **columns}), name="people", unit=None, ledger=":memory:", budget=budget, **facts)


def exact(column: str, **more: Any) -> Distribution:
    """Noise is 0 at this price, for all that a test can see."""
    return opened().distribution(column, **{"epsilon": 200, **more})


def test_ranges_of_whole_numbers_hold_both_ends() -> None:
    answer = exact("age")
    assert answer.range(10, 19).value == pytest.approx(10)
    assert answer.range(10, 10).value == pytest.approx(1)
    assert answer.range().value == pytest.approx(100)
    assert answer.range(high=9).value + answer.range(low=10).value == pytest.approx(100)


def test_ranges_of_reals_end_at_edges() -> None:
    """A value at an edge belongs to the cell above, whatever float64 makes of the edge."""
    answer = exact("cost", cells=100)
    for low in range(0, 100, 7):
        assert answer.range(low / 10, (low + 1) / 10).value == pytest.approx(1)
    thirds = exact("cost", cells=3)
    assert thirds.range(0, 10 / 3).value == pytest.approx(34)
    assert thirds.range(10 / 3, 10).value == pytest.approx(66)


def test_values_have_their_declared_order() -> None:
    answer = exact("mood")
    assert answer.range("low", "mid").value == pytest.approx(50)
    assert answer.range("mid").value == pytest.approx(75)
    assert answer.quantile(0.5).value == "mid"
    assert answer.to_arrow().column("mood").to_pylist() == ["low", "mid", "high"]


def test_whole_numbers_can_be_cut_into_cells() -> None:
    answer = exact("age", cells=7)
    table = answer.to_arrow()
    assert table.column("age").to_pylist() == [0, 14, 28, 42, 57, 71, 85]
    assert table.column("age_to").to_pylist() == [13, 27, 41, 56, 70, 84, 99]
    assert table.column("n").to_pylist() == pytest.approx([14, 14, 14, 15, 14, 14, 15])
    assert answer.range(14, 41).value == pytest.approx(28)


def test_what_lies_beyond_the_bounds_counts_at_the_ends() -> None:
    answer = exact("age", cells=None, where="age >= 0")
    far = opened(age=[-50] * 10 + [500] * 20 + [None] * 5 + [7] * 65).distribution("age", epsilon=200)
    assert answer.range(0, 0).value == pytest.approx(1)
    assert [far.range(v, v).value for v in (0, 7, 99)] == pytest.approx([10, 65, 20])
    reals = opened(cost=[math.nan] * 5 + [math.inf] * 10 + [-1.0] * 15 + [None] * 70)
    counts = reals.distribution("cost", cells=2, epsilon=200)
    assert counts.to_arrow().column("n").to_pylist() == pytest.approx([15, 10])


def test_shares_rise_to_one_and_quantiles_follow_them() -> None:
    answer = exact("age")
    shares = answer.cdf()
    assert shares == pytest.approx(np.arange(1, 101) / 100, abs=1e-6)
    assert [answer.quantile(q).value for q in (0.1, 0.5, 0.99)] == [9, 49, 98]
    real = exact("cost", cells=10)
    assert real.quantile(0.55).value == pytest.approx(5.5, abs=0.01)
    assert (real.quantile(0.55).low, real.quantile(0.55).high) == (5.0, 6.0)


def test_quantiles_of_whole_numbers_lie_within_their_cell() -> None:
    """As many in every cell as it is wide, so the answer is that of single numbers; the interval is the cell."""
    answer = exact("age", cells=3)
    assert [answer.quantile(q).value for q in (0.005, 0.105, 0.505, 0.755, 0.995)] == [0, 10, 50, 75, 99]
    assert isinstance(answer.quantile(0.505).value, int)
    assert (answer.quantile(0.505).low, answer.quantile(0.505).high) == (33, 65)
    skewed = opened(age=[0] * 90 + [99] * 10).distribution("age", cells=3, epsilon=200)
    assert [skewed.quantile(q).value for q in (0.001, 0.899, 0.901, 0.999)] == [0, 32, 66, 99]
    single = exact("age", cells=60, where="age < 99")
    assert all(e.low <= e.value <= e.high for e in (single.quantile(q / 50) for q in range(1, 50)))


def test_the_share_up_to_a_value_has_an_interval() -> None:
    answer = exact("age")
    share = answer.cdf(49)
    assert share.value == answer.cdf()[49] == pytest.approx(0.5)
    assert share.low <= share.value <= share.high
    assert (answer.cdf(99).value, answer.cdf(99).low, answer.cdf(99).high) == (1.0, 1.0, 1.0)
    real = exact("cost", cells=10)
    assert [real.cdf(x).value for x in (0, 2.0, 10)] == pytest.approx([0, 0.2, 1])
    assert exact("mood").cdf("mid").value == pytest.approx(0.5)
    for wrong in (100, "x", 0.5):
        with pytest.raises(Misconfigured, match="`value`"):
            answer.cdf(wrong)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("budget", [Budget(epsilon=1000), Budget(epsilon=100, delta=1e-6)], ids=["pure", "zcdp"])
def test_intervals_of_shares_hold_the_truth_and_the_estimate(budget: Budget) -> None:
    curator = opened(budget)
    answers = [curator.distribution("age", epsilon=1, confidence=0.9, refresh=True) for _ in range(60)]
    shares = [answer.cdf(29) for answer in answers]
    assert all(0 <= share.low <= share.value <= share.high <= 1 for share in shares)
    assert np.mean([share.low <= 0.3 <= share.high for share in shares]) >= 0.9
    assert answers[0].cdf(29, 0.99).high > shares[0].high
    little = [curator.distribution("age", epsilon=0.01, refresh=True, where="age < 5") for _ in range(5)]
    every = [answer.cdf(age) for answer in little for age in range(100)]
    assert all(0 <= share.low <= share.value <= share.high <= 1 for share in every)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("budget", [Budget(epsilon=1), Budget(epsilon=1, delta=1e-6)], ids=["pure", "zcdp"])
def test_estimates_lie_in_the_middle_of_their_intervals(budget: Budget) -> None:
    """Also below 0: neither is cut."""
    answer = opened(budget).distribution("age", epsilon=0.1, where="age < 5")
    rows = answer.intervals().to_pylist()
    assert min(row["n"] for row in rows) < 0
    assert min(row["n_high"] for row in answer.intervals(0.01).to_pylist()) < 0
    assert all((row["n_low"] + row["n_high"]) / 2 == pytest.approx(row["n"]) for row in rows)
    ranges = [answer.range(low, low + 9) for low in range(0, 90, 10)]
    assert min(one.value for one in ranges) < 0
    assert all((one.low + one.high) / 2 == pytest.approx(one.value) for one in ranges)


def test_rows_that_are_not_counted_are_told_wherever_people_look() -> None:
    curator = opened()
    answer, preview = curator.distribution("age", epsilon=1), curator.preview_distribution("age", epsilon=1)
    told = "Rows without a value are not counted; values beyond the bounds count in the first or last cell."
    assert told in answer.explain()
    assert told in answer.explain()._repr_html_()
    assert told in answer.methods()
    assert told in answer.to_dict()["notes"]
    assert told in preview.explain().splitlines()
    assert told in preview.to_dict()["notes"]
    assert "with one that is not declared, are not counted" in curator.distribution("mood", epsilon=1).explain()
    for ask in (Curator.distribution, Curator.marginals):
        assert "Rows without a value" in str(ask.__doc__)


def test_an_answer_knows_what_it_cost_and_shows_itself() -> None:
    curator = opened()
    preview = curator.preview_distribution("mood", epsilon=0.5)
    first, again = (curator.distribution("mood", epsilon=0.5) for _ in range(2))
    assert (first.cost.amount, bool(again.cost)) == (Fraction(1, 2), False)
    assert repr(first) == str(first)
    assert repr(preview) == str(preview)
    assert repr(preview).startswith("Price: epsilon = 0.5, ")


def test_days_that_are_none_are_refused_with_those_that_are() -> None:
    days = [date(2020, 1, 1 + i) for i in range(4)]
    curator = open_data(
        pa.table({"day": days}), name="people", unit=None, ledger=":memory:", budget=RICH, values={"day": days}
    )
    with pytest.raises(Misconfigured, match="Pass one of 2020-01-01"):
        curator.distribution("day", epsilon=1).range("2020-13-01")


@pytest.mark.parametrize("column", [["age"], ("age",), 3, None])
def test_what_is_no_name_of_a_column_is_refused(column: Any) -> None:
    curator = opened()
    for ask in (curator.distribution, curator.preview_distribution):
        with pytest.raises(Misconfigured, match=r"name of one column.*Nothing was charged"):
            ask(column, epsilon=1)
    with pytest.raises(Misconfigured, match="name of a table"):
        curator.distribution("age", epsilon=1, table=column or 3)
    assert not curator.budget.spent


def test_cells_of_declared_values_are_refused_and_free() -> None:
    curator = opened()
    with pytest.raises(Refused, match=r"declared values of `mood` are its cells.*Nothing was charged"):
        curator.distribution("mood", cells=5, epsilon=1)
    assert not curator.budget.spent


def test_truth_values_and_dates_are_ordered_too() -> None:
    days = [date(2020, 1, 1 + i) for i in range(4)]
    data = pa.table({"day": days * 5, "sick": [True, False, False, False] * 5})
    curator = open_data(data, name="people", unit=None, ledger=":memory:", budget=RICH, values={"day": days})
    answer = curator.distribution("day", epsilon=200)
    assert answer.range(days[1], days[2]).value == pytest.approx(10)
    assert answer.range("2020-01-02", "2020-01-03").value == pytest.approx(10)
    assert curator.distribution("sick", epsilon=200).range(True, True).value == pytest.approx(5)


@pytest.mark.parametrize(
    ("column", "ends"),
    [
        ("age", (5, 100)),
        ("age", (0.5, 3)),
        ("age", (9, 3)),
        ("age", (True, 3)),
        ("cost", (0.05, 1)),
        ("cost", (0, 11)),
        ("mood", ("low", "lower")),
        ("mood", ("high", "low")),
    ],
)
def test_ends_that_are_none_are_refused_with_those_that_are(column: str, ends: tuple[Any, Any]) -> None:
    with pytest.raises(Misconfigured, match=r"Pass|Swap"):
        exact(column, cells=10 if column == "cost" else None).range(*ends)


def test_a_distribution_needs_an_order() -> None:
    data = pa.table({"a": ["x"], "b": [1.0]})
    for values in (["x"], ["x", None]):
        curator = open_data(
            data, name="t", unit=None, ledger=":memory:", budget=RICH, values={"a": values}, bounds={"b": (1, 1)}
        )
        with pytest.raises(Refused, match="at least two values"):
            curator.distribution("a", epsilon=1)
        with pytest.raises(Refused, match="one value only"):
            curator.distribution("b", epsilon=1)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("budget", [Budget(epsilon=1000), Budget(epsilon=100, delta=1e-6)], ids=["pure", "zcdp"])
def test_intervals_hold_the_truth_as_often_as_stated(budget: Budget) -> None:
    curator = opened(budget)
    answers = [
        curator.distribution("age", epsilon=1, confidence=0.9, refresh=True, where="age < 80") for _ in range(60)
    ]
    held = [low <= 20 <= high for low, high in ((e.low, e.high) for e in (a.range(30, 49) for a in answers))]
    medians = [e.low <= 39 <= e.high for e in (a.quantile(0.5) for a in answers[:30])]
    assert 0.9 - 3 * math.sqrt(0.09 / 60) <= np.mean(held)
    assert np.mean(medians) >= 0.9
    cells = np.array(
        [[row["n_low"] <= (row["age"] < 80) <= row["n_high"] for row in a.intervals().to_pylist()] for a in answers]
    )
    assert 0.88 <= cells.mean() <= 0.98
    wide, sure = (answers[0].intervals(c, simultaneous=True).column("n_high")[3].as_py() for c in (0.9, 0.99))
    assert answers[0].intervals().column("n_high")[3].as_py() < wide < sure


@pytest.mark.usefixtures("seeded")
def test_counts_shares_and_ranges_agree() -> None:
    for budget in (Budget(epsilon=1), Budget(epsilon=1, delta=1e-6)):
        answer = opened(budget).distribution("age", epsilon=0.5)
        counts = answer.to_arrow().column("n").to_pylist()
        assert sum(counts[10:20]) == pytest.approx(answer.range(10, 19).value)
        assert answer.to_arrow().column("share_up_to").to_pylist() == answer.cdf().tolist()
        assert all(a <= b for a, b in zip(answer.cdf(), answer.cdf()[1:], strict=False))


def test_an_answer_goes_everywhere(tmp_path: Path) -> None:
    answer = opened(Budget(epsilon=1)).distribution("cost", epsilon=0.5, cells=4)
    assert answer.to_pandas().shape == answer.to_polars().shape == (4, 6)
    assert answer.to_csv().splitlines()[0] == '"cost","cost_to","n","n_low","n_high","share_up_to"'
    read = json.loads(answer.to_json())
    assert (read["measures"][0]["mechanism"], read["price"]["epsilon"], len(read["rows"])) == ("Ranges", 0.5, 4)
    assert "epsilon = 0.5" in answer.methods()
    assert "Laplace" in answer.methods()
    assert "price epsilon = 0.5; ledger entry" in answer.explain()
    assert "share_up_to" in str(answer).splitlines()[0]
    assert all("share_up_to" in row for row in read["rows"])
    assert answer._repr_html_().count("<tr>") == 5
    answer.plot(tmp_path / "cost.svg")
    assert (tmp_path / "cost.svg").stat().st_size > 1000


def test_estimates_print_their_interval() -> None:
    assert str(Estimate(1234.5, 1000.0, 1500.25, Fraction(19, 20))) == "1,234 (1,000 to 1,500, 95% confidence)"
    assert str(Estimate("mid", "low", "high", Fraction(9, 10))) == "mid (low to high, 90% confidence)"


def test_a_number_taken_out_of_an_answer_says_what_limits_cut() -> None:
    """Everywhere it is shown: 3 of the 4 rows of each person are left out."""
    rows = pa.table({"person": [i // 4 for i in range(400)], "age": [i % 100 for i in range(400)]})
    curator = open_data(
        rows, name="visits", unit="person", rows_per_unit=1, groups_per_unit=1, bounds={"age": (0, 99)}, budget=RICH
    )
    answer = curator.distribution("age", epsilon=200)
    cut = "a person in at most 1 cell; the rest is left out."
    for taken in (answer.range(0, 99), answer.cdf(50), answer.quantile(0.5)):
        assert taken.notes == answer.notes
        assert cut in taken.to_json()
        for shown in (str(taken), repr(taken), taken._repr_html_(), taken.to_json()):
            assert "True counts are higher: " in shown
    assert cut in curator.marginals(["age"], epsilon=200)["age"].explain()
    assert answer.range(0, 99).value == pytest.approx(100)
    assert json.loads(answer.range(0, 9).to_json())["notes"] == list(answer.notes)
    assert answer.to_pandas().attrs["notes"] == list(answer.notes)
    assert json.loads(answer.intervals(0.9).schema.metadata[b"notes"]) == list(answer.notes)


def test_numbers_of_the_tutorial_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked at a price at which the noise is 0, they are those of the table."""
    page = (Path(__file__).parents[2] / "docs" / "tutorials" / "analyst.md").read_text(encoding="utf-8")
    first, *_ = re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    monkeypatch.chdir(tmp_path)  # it keeps a ledger
    exec(first.replace("epsilon=2)", "epsilon=10**6)"), names)
    asked = re.findall(r'distribution\("(\w+)".*?\.range\((\d+), (\d+)\)', page, flags=re.DOTALL)
    assert asked
    table = names["health"]().to_pandas()
    for column, low, high in asked:
        found = names["curator"].distribution(column, epsilon=500).range(int(low), int(high))
        assert found.value == pytest.approx(table[column].between(int(low), int(high)).sum(), abs=1)
