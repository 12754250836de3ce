"""examples/tour.py tells its story on real data."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from lapwing.data import births

TOUR = Path(__file__).parents[2] / "examples" / "tour.py"


def test_tour_tells_the_whole_story(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """lecture:L14 lecture:L15 lecture:L18 lecture:L10 lecture:L35 on real data, with the figures of the lectures."""
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(TOUR), run_name="__main__")
    story = capsys.readouterr().out
    for figure in ("3,688,687 people", "within 12 at once", "bound is 12.2", "1.0488", "1.0500", "Nothing was charged"):
        assert figure in story
    assert (tmp_path / "build" / "tour.png").stat().st_size > 20_000


def test_births_are_the_vendored_figures() -> None:
    table = births()
    assert table.num_rows == 33_098
    assert sum(table["births"].to_pylist()) == 3_688_687
