"""`lapwing demo` tells its story: every scene is there, and its facts are what the scenes show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lapwing.cli import demo
from lapwing.cli.demo import FILE, REPEATS, truths
from lapwing.cli.scene import Scene, show
from lapwing.curator import load
from lapwing.data import health

NAMES = ["data", "file", "preview", "answer", "picture", "again", "attack", "budget", "names", "limits"]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Scene], Path]]:
    """The whole story, played once; its scenes by name, and the directory it was played in."""
    here = tmp_path_factory.mktemp("here")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        yield {scene.name: scene for scene in demo.story(tmp_path_factory.mktemp("folder"))}, here


def facts(played: tuple[dict[str, Scene], Path], name: str) -> dict[str, Any]:
    return played[0][name].facts


def text(scene: Scene) -> str:
    console = Console(file=StringIO(), width=110, highlight=False)
    show(console, scene, 1)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_story_has_all_its_scenes_in_order(played: Any) -> None:
    assert list(played[0]) == NAMES


def test_every_scene_shows_its_title_and_something_below(played: Any) -> None:
    for scene in played[0].values():
        shown = text(scene)
        assert scene.title in shown
        assert len(shown) > 100


def test_story_fits_on_a_few_pages(played: Any) -> None:
    assert sum(text(scene).count("\n") for scene in played[0].values()) < 140


def test_file_of_the_steward_is_shown_and_declares_what_the_data_keep(played: Any) -> None:
    assert facts(played, "file")["toml"] == FILE
    assert facts(played, "data") == {"rows": 20_190, "people": 5_912}
    assert 'unit = "person"' in text(played[0]["file"])


def test_preview_keeps_to_the_half_width(played: Any) -> None:
    within = facts(played, "preview")["within"]
    assert all(error <= 20 for error in within["errors"].values())
    assert within["groups"] == 10


def test_answer_stands_beside_the_truth(played: Any) -> None:
    answer = facts(played, "answer")
    assert (answer["of"], len(answer["rows"])) == (20, 10)
    assert answer["held"] == sum(sum(row["inside"].values()) for row in answer["rows"])
    assert "Only a demo knows the truth" in " ".join(text(played[0]["answer"]).split())


def test_truths_are_those_of_the_table() -> None:
    truth = truths(health())
    assert sum(found["people"] for found in truth.values()) == 5_912
    assert truth["free", "F"]["unclipped"] == pytest.approx(4.0636, abs=1e-4)
    assert all(found["visits"] <= found["unclipped"] for found in truth.values())


def test_same_question_is_free_and_equal_the_second_time(played: Any) -> None:
    assert facts(played, "again") == {"price": 0.0, "equal": True}


def test_averaging_works_on_mere_noise_and_fails_twice_here(played: Any) -> None:
    """lecture:L40 threat:A21 repeats are equal and free; fresh answers run out of budget."""
    attack = facts(played, "attack")
    assert abs(attack["only_noise"]["mean"] - attack["truth"]) < 1
    assert (attack["repeats"]["answers"], attack["repeats"]["different"]) == (REPEATS, 1)
    assert attack["refreshes"]["answers"] == 8
    assert attack["answers_needed"] > 100 * attack["refreshes"]["answers"]
    assert "Nothing was charged" in attack["refusal"]


def test_budget_is_nearly_gone_after_the_attack(played: Any) -> None:
    assert 0.9 < facts(played, "budget")["share_spent"] <= 1


def test_names_are_selected_privately(played: Any) -> None:
    names = facts(played, "names")
    assert (names["people"], names["names"]) == (3_688_687, 30_583)
    assert 2_000 < names["shown"] < 30_000
    assert names["rarest_shown"] >= 5
    assert names["top"][0]["name"] == "Emma"


def test_demo_leaves_a_picture_and_a_folder_in_which_its_command_works(played: Any) -> None:
    picture, folder = Path(facts(played, "picture")["path"]), Path(facts(played, "limits")["folder"])
    assert sorted(played[1].iterdir()) == sorted([picture, folder])
    question = facts(played, "limits")["next"].split('"')[1]
    with load(folder / "lapwing.toml") as curator:
        assert len(curator.sql(question, share=0.05)) == 5
    assert picture.stat().st_size > 20_000


def test_demo_without_matplotlib_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from lapwing.errors import Misconfigured

    class Unplottable:
        def plot(self, path: Path) -> None:
            raise Misconfigured("Pictures need matplotlib.")

    scene = demo.the_picture(Unplottable())  # type: ignore[arg-type]
    assert scene.facts == {"path": None}
    assert "Pictures need matplotlib" in text(scene)


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "text"])
def test_run_prints_the_same_facts(
    as_json: bool, played: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "story", lambda folder: iter(played[0].values()))
    demo.run(as_json=as_json)
    printed = capsys.readouterr().out
    if as_json:
        assert json.loads(printed) == json.loads(json.dumps({name: scene.facts for name, scene in played[0].items()}))
    else:
        assert all(scene.title in printed for scene in played[0].values())
