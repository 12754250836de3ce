"""Answers that say little say so: no group was shown, a search saw too few units, an error is the whole range."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from lapwing.answers.warnings import nothing_found
from lapwing.curator import Curator, open_data
from lapwing.expressions.table import Field, Limit, Table
from lapwing.expressions.types import Type
from lapwing.plan.bounds_search import BoundsOf, LimitOf, SearchResult, overlooked
from lapwing.plan.question import Question
from lapwing.privacy import Budget

MASS = BoundsOf(Table("birds", (Field("mass", Type.REAL),), None), Field("mass", Type.REAL))


def birds(**facts: object) -> Curator:
    frame = pd.DataFrame({"mass": [5000.0] * 344, "kind": [f"kind {i % 100}" for i in range(344)]})
    return open_data(frame, name="birds", unit=None, ledger=":memory:", budget=Budget(epsilon=2, delta=1e-6), **facts)


def test_an_answer_without_groups_says_how_large_a_group_must_be() -> None:
    """In every format that a person reads; the sizes are those of the preview."""
    curator = birds()
    asked = "SELECT kind, COUNT(*) AS n FROM birds GROUP BY kind"
    needed = curator.preview(asked, epsilon=0.1).keys
    release = curator.sql(asked, epsilon=0.1)
    assert len(release) == 0
    half, most = int(needed["units_shown_every_second_time"]), int(needed["units_shown_95_in_100"])
    said = f"No group was large enough to be shown: one of {half:,} units is shown every second time, one of {most:,} "
    assert said in str(release)
    assert said in release._repr_html_()


def test_an_answer_with_groups_says_nothing_of_the_kind() -> None:
    release = birds(values={"kind": ["kind 1"]}).sql("SELECT kind, COUNT(*) AS n FROM birds GROUP BY kind", epsilon=1)
    assert "No group" not in str(release)


FIRST = (-20, -20)


@pytest.mark.parametrize(
    ("powers", "units", "said"),
    [
        ((-20, 13), 344, "nothing to rely on: there are about 344 units, and it may overlook 543"),
        ((-20, 13), 543, "there are about 543 units"),
        ((-20, 13), -3, "there are about 0 units"),
        (FIRST, 5_000, "nothing: no sign of a value of 9.53674e-07 or more, and it may overlook 543 units"),
        (FIRST, None, "nothing: no sign of a value"),
        ((-20, 13), 544, None),
        ((-20, 13), None, None),
        ((-20, 62), 5, None),
    ],
)
def test_a_search_among_too_few_units_found_nothing(
    powers: tuple[int, ...], units: int | None, said: str | None
) -> None:
    """Decided by the price, the released powers and the released number of units: nothing else comes in."""
    found = SearchResult(MASS, Fraction(7, 100), powers, units)
    assert overlooked(MASS, Fraction(7, 100)) == 543
    assert found.is_nothing == (said is not None)
    if said is not None:
        words = nothing_found(found, Fraction(1, 4))
        assert said in words
        assert "Epsilon = 0.25 or more searches again" in words


def test_a_limit_that_no_unit_showed_was_not_found() -> None:
    """A limit of one row stands for power 1; power 0 is no sign of any unit."""
    question = Question(MASS.table, None, (), (), ())
    for limit in Limit:
        target = LimitOf(question, None, limit)
        none, one = (SearchResult(target, Fraction(1), (power,), 500) for power in (0, 1))
        assert (none.is_nothing, one.is_nothing) == (True, False)
        assert "no sign of any unit" in nothing_found(none, Fraction(2))
        assert SearchResult(target, Fraction(1), (1,), 5).is_nothing


def test_a_preview_says_among_how_many_a_search_finds_nothing() -> None:
    seen = birds().preview("SELECT AVG(mass) AS m FROM birds", epsilon=0.05, bounds="auto")
    least = seen.to_dict()["finds_nothing_below"]
    assert least > 344
    assert f"may find nothing among fewer than about {least:,} units" in str(seen)
    said = f"Among fewer than about {least:,} units it may find nothing: the answer is NULL then"
    assert said in seen.explain()
    assert said in seen.to_dict()["explained"]


def test_bounds_found_among_many_raise_no_doubt() -> None:
    frame = pd.DataFrame({"mass": np.full(20_000, 5000.0)})
    curator = open_data(frame, name="birds", unit=None, ledger=":memory:", budget=Budget(epsilon=2))
    release = curator.sql("SELECT AVG(mass) AS m FROM birds", epsilon=1, bounds="auto")
    assert "found nothing" not in str(release)
    assert "Intervals do not cover what that cuts." in str(release)


def test_a_preview_says_when_the_answer_would_be_useless() -> None:
    """If the interval of a mean is as wide as its bounds allow, and what would help."""
    curator = birds(bounds={"mass": (0, 10_000)})
    asked = "SELECT AVG(mass) AS m, STDDEV(mass) AS s FROM birds"
    preview = curator.preview(asked, epsilon=0.01)
    assert re.search(r"AVG\(mass\): useless in groups of 1,000 rows or fewer, within [\d,]+ in groups", str(preview))
    for seen in (str(preview), preview.explain()):
        assert "AVG(mass): useless in groups of 1,000 rows or fewer" in seen
        assert "STDDEV_SAMP(mass): useless in groups of 10,000 rows or fewer" in seen
    assert "AVG(mass): within" in preview.explain()
    assert "larger epsilon" in preview.explain()
    assert "larger epsilon" in preview.to_dict()["explained"]
    fine = curator.preview(asked, epsilon=1, assume_rows=10_000)
    assert "useless" not in str(fine)
    assert "useless" not in fine.explain()


def test_a_preview_says_when_a_quantile_would_be_anything() -> None:
    """A median off by 35 rows says nothing of 70 rows or fewer; a maximum off by as many nothing of 35."""
    curator = birds(bounds={"mass": (0, 10_000)})
    seen = str(curator.preview("SELECT MEDIAN(mass) AS m FROM birds", epsilon=1))
    off = int(re.findall(r"within ([\d,]+) rows", seen)[0].replace(",", ""))
    fewest = int(re.findall(r"useless in groups of fewer than ([\d,]+) rows", seen)[0].replace(",", ""))
    assert abs(fewest - 2 * off) <= 2
