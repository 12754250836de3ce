"""lapwing.lab.attacks: each succeeds without protection and on naive noise, and stays below the cap on Lapwing."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lapwing as lw
from lapwing.lab.attacks import ATTACKS, Attacked, _program, advertiser, attack, presence_cap, record_cap
from lapwing.lab.attacks.attempt import LAPWING, NAIVE, UNPROTECTED, page_of, write_page
from lapwing.lab.attacks.reconstruction import solve
from lapwing.lab.report import lower
from lapwing.noise.bits import SystemBits
from support.tape import SeededBits

pytestmark = pytest.mark.usefixtures("seeded")

LEAST = {
    "averaging": (0.99, 0.99),
    "differencing": (0.99, 0.99),
    "linkage": (0.8, 0.65),
    "membership": (0.95, 0.6),
    "model": (0.7, 0.6),
    "reconstruction": (0.95, 0.7),
    "advertiser": (0.99, 0.85),
    "lowest-bit": (0.99, 0.85),
    "oracles": (0.83, 0.83),
}
"""What an attack reaches for certain on the unprotected system and on naive noise: the lower ends of intervals."""


@pytest.fixture(scope="module")
def done() -> dict[str, Attacked]:
    return {}


def attacked(name: str, done: dict[str, Attacked]) -> Attacked:
    """Each attack runs once for all tests, always from the same stream."""
    if name not in done:
        source = SeededBits(7)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SystemBits, "words", lambda _, count, width: source.words(count, width))
            patch.setattr(SystemBits, "integer", lambda _, width: source.integer(width))
            done[name] = attack(name)
    return done[name]


@pytest.mark.parametrize("name", LEAST)
def test_an_attack_succeeds_without_lapwing_and_is_capped_by_it(name: str, done: dict[str, Attacked]) -> None:
    """lecture:L40 lecture:L41 lecture:L42 lecture:L43 threat:A21 threat:A22 threat:A23 threat:A24 threat:A25"""
    found = attacked(name, done)
    assert [attempt.system for attempt in found.attempts] == [UNPROTECTED, NAIVE, LAPWING]
    for system, least in zip((UNPROTECTED, NAIVE), LEAST[name], strict=True):
        assert found.attempt(system).success.low >= least - 0.02
    ours = found.attempt(LAPWING)
    assert ours.cap is not None
    assert lower(ours.success.hits, ours.success.trials, 1e-6) <= ours.cap
    assert ours.success.high < found.attempt(NAIVE).success.low


def test_naive_noise_breaks_its_own_promise_by_its_digits(done: dict[str, Attacked]) -> None:
    """threat:A1 threat:A3"""
    naive = attacked("lowest-bit", done).attempt(NAIVE)
    assert naive.cap is not None
    assert naive.success.low > naive.cap


def test_asking_lapwing_again_gives_the_stored_answer_until_the_budget_ends(done: dict[str, Attacked]) -> None:
    """lecture:L40"""
    assert "the same answer, free; fresh answers end after 10" in attacked("averaging", done).attempt(LAPWING).how


def test_lapwing_shows_no_rows_to_link(done: dict[str, Attacked]) -> None:
    """lecture:L41"""
    assert "rows are refused" in attacked("linkage", done).attempt(LAPWING).how


def test_what_lapwing_says_and_charges_is_the_same_with_and_without_her(done: dict[str, Attacked]) -> None:
    """threat:A11 threat:A12"""
    balances = attacked("oracles", done).view.lines
    assert set(balances[LAPWING][1].tolist()) == {0.9}
    assert set(balances[NAIVE][1].tolist()) == {0.9, 1.0}
    assert attacked("oracles", done).attempt(LAPWING).success.value == 0.5


@pytest.mark.parametrize("epsilon", [0.1, 1, 3])
def test_caps_are_reached_by_the_best_attack_on_the_worst_mechanism(epsilon: float) -> None:
    """lecture:L42 the posterior of a fair prior, and the advantage (e^epsilon - 1) / (e^epsilon + 1)"""
    belief = lw.posterior(prior=0.5, epsilon=epsilon)
    assert presence_cap(epsilon) == pytest.approx(float(belief.high), abs=1e-9)
    coin = lw.RandomizedResponse(epsilon=epsilon).probabilities()
    assert presence_cap(epsilon) == pytest.approx(coin.max(axis=0).mean())
    assert 2 * presence_cap(epsilon) - 1 == pytest.approx(math.tanh(epsilon / 2))
    assert record_cap(epsilon) == pytest.approx(presence_cap(2 * epsilon))


@pytest.mark.parametrize("epsilon", [0.5, 1, 3])
def test_the_advertiser_is_limited_by_epsilon_exactly(epsilon: float) -> None:
    """lecture:L43 by the exact laws of the two ages; the deterministic order is no mechanism at all."""
    laws = [lw.Exponential(epsilon=epsilon, sensitivity=2).probabilities(advertiser.utilities(old)) for old in (0, 1)]
    assert float(np.max(np.abs(np.log(laws[0]) - np.log(laws[1])))) <= epsilon + 1e-9
    right, first = advertiser.trade_off(epsilon)
    assert 0.5 < right <= presence_cap(epsilon)
    assert 1 / 3 < first < 1
    order = lw.classroom.deterministic(lambda ages: advertiser.LIKED[ages[0] > 49] if ages else ())
    refuted = lw.classroom.refute(
        order, [30, 60], epsilon=5, size=1, least=1, neighbours=lw.privacy.Neighbours.CHANGE_ONE
    )
    assert refuted is not None


def test_reconstruction_is_exact_for_exact_sums() -> None:
    secrets = np.array([True, False, True, True, False])
    assert np.array_equal(solve(np.eye(5, dtype=bool), secrets.astype(np.int64)), secrets)


@pytest.mark.slow
def test_timing_is_measured_and_promised_by_nobody() -> None:
    """How well it works depends on the machine; that nothing is promised does not."""
    found = attack("timing")
    assert [attempt.cap for attempt in found.attempts] == [None] * 3
    assert "Noise does not hide time" in str(found)


def test_an_attack_prints_success_beside_its_cap(done: dict[str, Attacked]) -> None:
    text = str(attacked("advertiser", done)).splitlines()
    assert len(text) == 5
    assert re.match(r"  unprotected  100\.0% \(99\.1% to 100\.0%\) +no promise", text[1])
    assert "at most 73.11% allowed" in text[3]


def test_an_attack_is_drawn(tmp_path: Path, done: dict[str, Attacked]) -> None:
    for name in ("averaging", "differencing", "lowest-bit", "oracles"):
        attacked(name, done).plot(tmp_path / "attack.png")
        assert (tmp_path / "attack.png").stat().st_size > 10_000


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def test_the_page_loads_nothing(tmp_path: Path, done: dict[str, Attacked]) -> None:
    found = [attacked(name, done) for name in ("differencing", "advertiser")]
    write_page(found, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    parsed = Tags()
    parsed.feed(text)
    tags = [tag for tag, _ in parsed.seen]
    assert (tags.count("h2"), tags.count("img"), tags.count("script"), tags.count("link")) == (2, 2, 0, 0)
    addresses = [attrs.get("src") or attrs.get("href") or "" for tag, attrs in parsed.seen if tag in ("img", "a")]
    assert all(address.startswith(("#", "data:image/png;base64,")) for address in addresses)
    assert [attrs["alt"] for tag, attrs in parsed.seen if tag == "img"] != ["", ""]


def test_the_page_escapes_what_it_is_told(done: dict[str, Attacked]) -> None:
    import dataclasses

    found = dataclasses.replace(attacked("advertiser", done), secret="<b>&")
    assert "&lt;b&gt;&amp;" in page_of([found])


def test_an_unknown_attack_is_refused_with_the_list() -> None:
    with pytest.raises(lw.Misconfigured, match="averaging, differencing"):
        attack("magic")


def test_every_attack_is_listed_once() -> None:
    assert set(LEAST) | {"timing"} == set(ATTACKS)


@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_has_a_program_of_its_own(name: str) -> None:
    assert _program(name).__module__.startswith("lapwing.lab.attacks.")
    assert [other for other in ATTACKS if other != name and _program(other) is _program(name)] == []


def test_every_naive_system_and_lapwing_say_what_they_do(done: dict[str, Attacked]) -> None:
    facts: Any = attacked("membership", done).to_dict()
    assert [len(entry["how"]) > 5 for entry in facts["attempts"]] == [True] * 3
    assert facts["attempts"][2]["cap"] == pytest.approx(0.731, abs=1e-3)


def test_the_attack_on_a_model_says_what_it_does_not_show(done: dict[str, Attacked]) -> None:
    """lecture:L42 its private model is of another kind: the numbers that say so are those of the run."""
    lesson = attacked("model", done).lesson
    share = r"(\d+)%"
    numbers = re.search(
        rf"right for {share}, always giving .* for {share}. Without noise it is right for {share}, .* for {share}",
        lesson,
    )
    assert numbers is not None
    private, common, exact, guessed = map(int, numbers.groups())
    assert max(private, exact) < common + 15
    assert guessed < 60
    assert "This does not show what noise does to a model" in lesson
