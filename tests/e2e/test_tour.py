"""`lapwing tour` tells its story on real data."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from lapwing.cli.main import app
from lapwing.data import births


def test_tour_tells_the_whole_story(tmp_path: Path) -> None:
    """lecture:L14 lecture:L15 lecture:L18 lecture:L10 lecture:L35 on real data, with the figures of the lectures."""
    story = CliRunner().invoke(app, ["tour", "--plot", str(tmp_path / "tour.png")]).output
    for figure in ("3,688,687 people", "within 12 at once", "bound is 12.2", "1.0488", "1.0500", "Nothing was charged"):
        assert figure in story
    assert (tmp_path / "tour.png").stat().st_size > 20_000


def test_births_are_the_vendored_figures() -> None:
    table = births()
    assert table.num_rows == 33_098
    assert sum(table["births"].to_pylist()) == 3_688_687
