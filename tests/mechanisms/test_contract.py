"""Every mechanism of the package, found by looking, has its page and its law; one that has not is named."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path

import pytest

from lapwing import mechanisms
from lapwing.mechanisms import Laplace
from support.members import classes_in, functions_in, lacking, plant

ROOT = Path(__file__).parents[2]
MAKER = runpy.run_path(str(ROOT / "docs" / "make_mechanisms.py"))
ACTS = ("loss", "release", "draw", "choose", "start", "answer", "above", "add")
"""What makes a class a mechanism, or a part of one. So does a guarantee, and so does a call of a sampler."""
SAMPLERS = {one.__name__ for one in functions_in("lapwing.noise") if one.__name__.startswith("sample_")} | {"draw"}
PARTS = {
    "BestGroups": "tests/plan/test_best.py::test_no_list_betrays_a_unit",
    "CellQuantiles": "tests/plan/test_add_noise.py::test_a_quantile_pays_for_every_group_that_a_unit_is_in",
    "NoisyCells": "tests/mechanisms/test_cells.py::test_every_cell_has_noise_of_its_own",
    "NoisyMarginals": (
        "tests/plan/test_workload.py::test_no_unit_moves_the_tables_by_more_than_the_mechanism_was_made_for"
    ),
    "NoisyRanges": "tests/plan/test_workload.py::test_exact_tables_are_those_of_the_definition",
    "SelectedKeys": "tests/plan/test_add_noise.py::test_counts_of_selected_keys_are_noisy",
    "UnitPowers": "tests/plan/test_bounds_search.py::test_findings_are_made_for_what_one_unit_adds",
    "PureMechanism": "tests/mechanisms/additive/test_laplace.py::test_laplace_ratio_never_exceeds_epsilon",
    "CounterRun": "tests/mechanisms/counters/test_counter.py::test_every_outcome_of_tiny_streams_stays_within_epsilon",
    "PureFamily": "tests/mechanisms/test_fitting.py::test_no_mechanism_loses_more_than_its_price",
    "ZCDPFamily": "tests/mechanisms/test_fitting.py::test_no_mechanism_loses_more_than_its_price",
    "DistanceTest": "tests/mechanisms/local/test_propose_test_release.py::test_threshold_is_the_least_that_keeps_delta",
    "SmoothNoise": "tests/mechanisms/local/test_smooth_noise.py::test_laplace_keeps_delta_under_slide_and_dilation",
    "Pieces": "tests/mechanisms/quantiles/test_single_quantile.py::test_draws_follow_the_law",
    "Aim": "tests/mechanisms/quantiles/test_grid_quantile.py::test_every_neighbour_stays_within_epsilon",
    "Crossing": "tests/mechanisms/sparse/test_crossing.py::test_laplace_loss_is_within_the_lemma",
    "Run": "tests/mechanisms/sparse/test_vector.py::test_every_neighbour_pair_stays_within_epsilon",
    "NumericRun": "tests/mechanisms/sparse/test_vector.py::test_released_values_have_fresh_noise",
}
"""What has no page, since it is used inside of something that has one; and the test that holds it to its word."""


def is_mechanism(kind: type) -> bool:
    if inspect.isabstract(kind) or getattr(kind, "_is_protocol", False) or kind.__name__.startswith("_"):
        return False
    acts = any(hasattr(kind, act) or act in getattr(kind, "__annotations__", ()) for act in ACTS)
    return acts or draws(kind) or "Guarantee" in MAKER["sections"](kind.__doc__ or "")


def draws(kind: type) -> bool:
    """Whether it calls a sampler, whatever its methods are called."""
    return not SAMPLERS.isdisjoint(re.findall(r"\b(\w+)\(", inspect.getsource(kind)))


def without_a_page() -> list[str]:
    """Mechanisms that no page describes and that are no part of another."""
    pages = {path.stem for path in (ROOT / "docs" / "mechanisms").glob("*.md")}
    described = {kind.__name__ for kind in MAKER["described"]() if kind.__name__ in pages}
    return lacking(
        (kind.__name__ for kind in classes_in("lapwing.mechanisms") if is_mechanism(kind)), described | PARTS.keys()
    )


def test_every_mechanism_has_a_page() -> None:
    """What a page must say, and that the test it names is about the mechanism, is in tests/test_docs.py."""
    assert without_a_page() == []


def test_every_part_of_a_mechanism_has_a_test() -> None:
    found = {kind.__name__ for kind in classes_in("lapwing.mechanisms")}
    assert lacking(PARTS, found) == []
    for path, name in (place.split("::") for place in PARTS.values()):
        assert re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), name


@pytest.mark.parametrize("doc", [None, "Adds little.\n\nGuarantee:  none is checked.\n"])
def test_a_planted_mechanism_without_a_page_is_named(doc: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it states a guarantee or not, and whether it is exported or not."""
    plant(monkeypatch, type("Whisper", (Laplace,), {"__doc__": doc}), module="lapwing.mechanisms.additive.laplace")
    assert without_a_page() == ["Whisper"]
    monkeypatch.setattr(mechanisms, "Whisper", type("Whisper", (Laplace,), {"__doc__": doc}), raising=False)
    monkeypatch.setattr(mechanisms, "__all__", [*mechanisms.__all__, "Whisper"])
    assert without_a_page() == ["Whisper"]
