"""ORDER BY ... LIMIT k without the numbers: which groups have the most is chosen privately, nothing else is paid."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lapwing as lw
from lapwing.mechanisms.additive.laplace import Laplace
from lapwing.mechanisms.cells import BestGroups
from lapwing.mechanisms.choice.exponential import TopK
from lapwing.plan.add_noise import Arranged, release
from lapwing.plan.plan import Plan
from support.cells import exact_cells

PURE, ZCDP = lw.Budget(epsilon=200), lw.Budget(epsilon=200, delta=1e-6)
TOWNS = ("Ayr", "Bath", "Cork", "Deal", "Ely", "Fife")
MOST = "SELECT town FROM trips GROUP BY town ORDER BY COUNT(DISTINCT who) DESC LIMIT 2"


def trips(who: list[int], town: list[str], cost: list[float]) -> pa.Table:
    return pa.table({"who": pa.array(who, pa.int64()), "town": town, "cost": pa.array(cost, pa.float64())})


def opened(data: pa.Table, budget: lw.Budget = PURE, **facts: Any) -> lw.Curator:
    told: dict[str, Any] = {"rows_per_unit": 2, "bounds": {"cost": (0, 10)}, "values": {"town": TOWNS}, **facts}
    return lw.open(data, name="trips", unit="who", ledger=":memory:", budget=budget, **told)


def planned(asked: lw.Curator, text: str, epsilon: Any = 1) -> tuple[Plan, TopK]:
    plan = asked.preview(text, epsilon=epsilon).plan
    (measure,) = plan.measures
    assert isinstance(measure.mechanism, BestGroups)
    return plan, measure.mechanism.choice


def exact(asked: lw.Curator, plan: Plan) -> Arranged:
    return exact_cells(asked._engine, plan)


def many() -> pa.Table:
    """Nobody went to Ayr; 200 more went to each town than to the one before."""
    pairs = [(who, town) for place, town in enumerate(TOWNS) for who in range(200 * place)]
    return trips([who for who, _ in pairs], [town for _, town in pairs], [1.0] * len(pairs))


def test_the_groups_with_the_most_come_first() -> None:
    asked = opened(many())
    assert asked.sql(MOST, epsilon=4).to_arrow().to_pydict() == {"town": ["Fife", "Ely"]}
    least = "SELECT town FROM trips GROUP BY town ORDER BY COUNT(*) LIMIT 3"
    assert asked.sql(least, epsilon=4).to_arrow()["town"].to_pylist() == ["Ayr", "Bath", "Cork"]
    total = "SELECT town FROM trips GROUP BY town ORDER BY SUM(cost) DESC, town LIMIT 1"
    assert asked.sql(total, epsilon=4).to_arrow()["town"].to_pylist() == ["Fife"]


def test_only_the_largest_part_of_a_unit_counts_whatever_groups_it_is_in() -> None:
    """A unit in all six towns moves each count by one; the counts themselves would need six times the noise."""
    plan, mechanism = planned(opened(many()), MOST)
    assert (mechanism.sensitivity, mechanism.k, mechanism.epsilon, mechanism.monotone) == (1, 2, 1, True)
    assert not plan.outline.limit_groups
    paid = opened(many()).preview(MOST.replace("SELECT town", "SELECT town, COUNT(DISTINCT who) AS n"), epsilon=1)
    (noise,) = (measure.noise for measure in paid.plan.measures)
    assert isinstance(noise, Laplace)
    assert noise.scale == len(TOWNS)


def test_groups_per_unit_does_not_cut_what_is_only_compared() -> None:
    asked = opened(many(), groups_per_unit=2)
    plan, _ = planned(asked, MOST)
    ((cells,),) = exact(asked, plan).cells
    assert cells.tolist() == [200 * place for place in range(len(TOWNS))]


@pytest.mark.parametrize("budget", [PURE, ZCDP], ids=["pure", "zcdp"])
def test_the_price_is_the_one_that_was_asked(budget: lw.Budget) -> None:
    plan, mechanism = planned(opened(many(), budget), MOST)
    assert budget.cost(plan.loss) == budget.cost(budget.price(epsilon=1, delta=0))
    asked, used = budget.cost(plan.loss).amount, budget.cost(mechanism.loss).amount
    assert used <= asked < used * (1 + Fraction(1, 10**9))


def test_numbers_that_are_shown_or_filtered_by_are_paid() -> None:
    for text in (
        "SELECT town, COUNT(*) AS n FROM trips GROUP BY town ORDER BY n DESC LIMIT 2",
        "SELECT town FROM trips GROUP BY town HAVING COUNT(*) > 5 ORDER BY COUNT(*) DESC LIMIT 2",
        "SELECT town FROM trips GROUP BY town ORDER BY COUNT(*) DESC",
        "SELECT town FROM trips GROUP BY town ORDER BY COUNT(*) DESC, SUM(cost) LIMIT 2",
        "SELECT town FROM trips GROUP BY town ORDER BY AVG(cost) DESC LIMIT 2",
        "SELECT town FROM trips GROUP BY town ORDER BY COUNT(*) DESC LIMIT 0",
    ):
        plan = opened(many()).preview(text, epsilon=1).plan
        assert not any(isinstance(measure.mechanism, BestGroups) for measure in plan.measures), text


def test_noisy_numbers_decide_where_a_unit_is_in_fewer_groups_than_are_asked() -> None:
    one = lw.open(many(), name="trips", unit=None, ledger=":memory:", budget=PURE, values={"town": TOWNS})
    text = "SELECT town FROM trips GROUP BY town ORDER BY COUNT(*) DESC LIMIT "
    assert isinstance(one.preview(text + "1", epsilon=1).plan.measures[0].mechanism, BestGroups)
    assert isinstance(one.preview(text + "2", epsilon=1).plan.measures[0].noise, Laplace)
    assert "simultaneous" not in str(one.sql(text + "2", epsilon=1))


def test_more_than_there_are_is_all_of_them() -> None:
    found = opened(many()).sql(MOST.replace("LIMIT 2", "LIMIT 99"), epsilon=20).to_arrow()["town"].to_pylist()
    assert found == list(reversed(TOWNS))


def test_a_stored_choice_is_found_again_for_the_same_number_and_direction_only() -> None:
    asked = opened(many())
    first = asked.sql(MOST, epsilon=1)
    again = asked.sql(MOST, epsilon=1)
    assert (again.entry, bool(again.cost)) == (first.entry, False)
    for other in (MOST.replace("LIMIT 2", "LIMIT 3"), MOST.replace("DESC ", "")):
        assert asked.sql(other, epsilon=1).entry != first.entry
    assert asked.sql(MOST, epsilon=Fraction(1, 2)).entry == first.entry
    assert asked.sql(MOST, epsilon=2).entry != first.entry


def test_the_answer_says_how_it_was_made_and_shows_no_number() -> None:
    asked = opened(many())
    seen = asked.preview(MOST, epsilon=1)
    assert "within" in str(seen)
    assert "of its place" in str(seen)
    answer = asked.sql(MOST, epsilon=1)
    assert "permute-and-flip" in answer.methods()
    assert answer.to_dict()["measures"][0]["mechanism"] == "permute-and-flip"
    assert set(answer.intervals().column_names) == {"town"}
    assert "simultaneous" not in str(answer)


def test_what_cannot_be_said_of_a_choice_is_refused_and_free() -> None:
    asked = opened(many())
    for more in ({"within": 5}, {"epsilon": 1, "refresh": True, "combine": True}):
        with pytest.raises(lw.Refused, match="Nothing was charged"):
            asked.sql(MOST, **more)
    assert not asked.ledger.spent


SMALL: list[list[tuple[int, str, float]]] = [
    [],
    [(1, "Ayr", 3.0)],
    [(1, "Ayr", 3.0), (1, "Bath", 4.0), (2, "Bath", 9.0)],
    [(1, "Ayr", 1.0), (1, "Ayr", 1.0), (1, "Ayr", 99.0), (2, "Cork", 5.0), (3, "Ayr", -3.0), (3, "Deal", 2.0)],
    [(1, town, cost) for town, cost in zip(TOWNS[:4], (10.0, 10.0, 0.0, 0.0), strict=True) for _ in range(2)],
    [(who, town, 10.0) for who in (1, 2) for town in TOWNS[:3] for _ in range(3)],
]


@pytest.mark.parametrize("by", ["COUNT(*) DESC", "COUNT(DISTINCT who)", "SUM(cost) DESC", "SUM(cost - 5)"])
@pytest.mark.parametrize("rows", SMALL, ids=range(len(SMALL)))
def test_no_list_betrays_a_unit(by: str, rows: list[tuple[int, str, float]]) -> None:
    """lecture:L15 lecture:L17 threat:A12 every probability of every list, of each table with and without one unit."""
    text = f"SELECT town FROM trips GROUP BY town ORDER BY {by} LIMIT 2"
    laws = []
    for gone in (None, *sorted({who for who, _, _ in rows})):
        kept = [row for row in rows if row[0] != gone]
        asked = opened(trips(*([row[i] for row in kept] for i in range(3))), values={"town": TOWNS[:4]})
        plan, mechanism = planned(asked, text)
        ((cells,),) = exact(asked, plan).cells
        laws.append(mechanism.law([int(c) if by.endswith("DESC") else -int(c) for c in cells.tolist()]))
    for law in laws[1:]:
        for key, (low, high) in laws[0].items():
            other_low, other_high = law[key]
            assert float(high) <= math.exp(1) * float(other_low) * (1 + 1e-9)
            assert float(other_high) <= math.exp(1) * float(low) * (1 + 1e-9)


def test_the_places_say_no_more_than_the_list() -> None:
    """What is stored are the numbers k, ..., 1 of the chosen groups and zeros, whatever the counts were."""
    asked = opened(many())
    plan, _ = planned(asked, MOST)
    ((places,),) = release(plan, exact(asked, plan)).cells
    assert sorted(places.tolist()) == [0, 0, 0, 0, 1, 2]
    assert places.dtype == np.int64
    smallest = planned(asked, MOST.replace("DESC ", ""))[0]
    ((places,),) = release(smallest, exact(asked, smallest)).cells
    assert sorted(places.tolist()) == [-2, -1, 0, 0, 0, 0]


def test_long_lists_are_one_race() -> None:
    """Permute-and-flip would draw for all groups again and again."""
    data = pa.table({"who": [1], "n": [1]})
    asked = lw.open(data, name="t", unit="who", ledger=":memory:", budget=PURE, rows_per_unit=1, bounds={"n": (0, 999)})
    text = "SELECT n FROM t GROUP BY n ORDER BY COUNT(*) DESC LIMIT "
    assert [planned(asked, text + many)[1].peeling for many in ("100", "101")] == [True, False]
    assert len(asked.sql(text + "1000", epsilon=1)) == 1000


def test_a_lower_price_errs_more() -> None:
    errors = [planned(opened(many()), MOST, e)[1].error(0.95, candidates=6) for e in (4, 1, Fraction(1, 10))]
    assert all(less < more for less, more in pairwise(errors))
