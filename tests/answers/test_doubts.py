"""Answers that say little say so: no group was shown, a search saw too few units, an error is the whole range."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from lapwing.answers.doubts import doubt_of
from lapwing.catalog.table import Field, Limit, Table
from lapwing.cells.bounds_search import BoundsOf, LimitOf, SearchResult, overlooked
from lapwing.curator import Curator
from lapwing.language.types import Type
from lapwing.opening import open_data
from lapwing.planning.question import Question
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


@pytest.mark.parametrize(
    ("powers", "rows", "said"),
    [
        ((-20, 13), 344, "there are about 344 rows, and it may overlook 489 units"),
        ((-20, 13), 489, "there are about 489 rows"),
        ((-20, 13), -3, "there are about 0 rows"),
        ((-20, -20), None, "no sign of a value of 9.53674e-07 or more, and of up to 489 units there may be none"),
        ((-20, 13), 490, None),
        ((-20, 13), None, None),
        ((-20, 62), 5, None),
    ],
)
def test_a_search_among_too_few_units_found_nothing(
    powers: tuple[int, ...], rows: int | None, said: str | None
) -> None:
    """The sentence is a function of the price, the released powers and a noisy count: nothing else comes in."""
    found = SearchResult(MASS, Fraction(7, 100), powers)
    assert overlooked(MASS, Fraction(7, 100)) == 489
    doubt = doubt_of(found, rows)
    assert doubt is None if said is None else said in str(doubt)


def test_limits_that_were_found_raise_no_doubt() -> None:
    question = Question(MASS.table, None, (), (), ())
    for limit in Limit:
        assert doubt_of(SearchResult(LimitOf(question, None, limit), Fraction(1), (0,)), 5) is None


def test_bounds_found_among_few_birds_are_not_used_in_silence() -> None:
    """344 birds at this price: the mean is clipped somewhere, and the answer says that nothing was found."""
    curator = birds()
    seen = curator.preview("SELECT AVG(mass) AS m FROM birds", epsilon=0.05, bounds="auto")
    least = seen.to_dict()["finds_nothing_below"]
    assert least > 344
    assert f"Among fewer than about {least:,} units it may find nothing" in str(seen)
    release = curator.sql("SELECT AVG(mass) AS m FROM birds", epsilon=0.05, bounds="auto")
    assert "The search for the bounds of `mass` in `birds` found nothing" in str(release)


def test_bounds_found_among_many_raise_no_doubt() -> None:
    frame = pd.DataFrame({"mass": np.full(20_000, 5000.0)})
    curator = open_data(frame, name="birds", unit=None, ledger=":memory:", budget=Budget(epsilon=2))
    assert "found nothing" not in str(curator.sql("SELECT AVG(mass) AS m FROM birds", epsilon=1, bounds="auto"))


def test_a_preview_says_when_the_answer_would_be_useless() -> None:
    """If the interval of a mean is as wide as its bounds allow, and what would help."""
    curator = birds(bounds={"mass": (0, 10_000)})
    asked = "SELECT AVG(mass) AS m, STDDEV(mass) AS s FROM birds"
    seen = str(curator.preview(asked, epsilon=0.01))
    assert "AVG(mass): useless in groups of 1,000 rows or fewer" in seen
    assert "AVG(mass): within" in seen
    assert "STDDEV_SAMP(mass): useless in groups of 10,000 rows or fewer" in seen
    assert "larger epsilon" in seen
    assert "useless" not in str(curator.preview(asked, epsilon=1, assume_rows=10_000))


def test_a_preview_says_when_a_quantile_would_be_anything() -> None:
    """A median off by 35 rows says nothing of 70 rows or fewer; a maximum off by as many nothing of 35."""
    curator = birds(bounds={"mass": (0, 10_000)})
    seen = str(curator.preview("SELECT MEDIAN(mass) AS m FROM birds", epsilon=1))
    off = int(re.findall(r"within ([\d,]+) rows", seen)[0].replace(",", ""))
    fewest = int(re.findall(r"useless in groups of fewer than ([\d,]+) rows", seen)[0].replace(",", ""))
    assert abs(fewest - 2 * off) <= 2
