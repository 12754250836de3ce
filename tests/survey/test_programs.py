"""What browsers run: its law by enumeration over every word of few bits, and its agreement with collect/."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lapwing.collect import DirectEncoding, UnaryEncoding
from lapwing.collect.probabilities import spread
from lapwing.numbers import ball, enclose
from lapwing.survey.multiple_choice import Several, designs
from lapwing.survey.numeric import Numeric
from lapwing.survey.program import Program, run
from lapwing.survey.read_toml import _KINDS
from lapwing.survey.survey_question import LN_3, Coins, OneOf, SurveyQuestion, YesNo
from lapwing.survey.wire import randomize
from support.members import concrete, plant
from support.tape import SeededBits, Tape

VECTORS = Path(__file__).parent / "vectors.json"
ONE = Fraction(1)


def asked(kind: type[SurveyQuestion], epsilon: Fraction = ONE, **more: Any) -> Any:
    return kind(id="q", text="?", epsilon=epsilon, **more)


def letters(many: int) -> tuple[str, ...]:
    return tuple("abcdefghijklmnop"[:many])


def law(program: Program, answer: int | None, width: int) -> dict[int, Fraction]:
    """P[report] over every tape of words."""
    found: dict[int, int] = {}
    facts = program.to_dict()
    for words in product(range(1 << width), repeat=program.words):
        report = run(facts, answer, words, width=width)
        found[report] = found.get(report, 0) + 1
    return {report: Fraction(many, 1 << width * program.words) for report, many in found.items()}


def answers_of(program: Program) -> Iterator[int | None]:
    yield None
    yield from range(program.answers)


class Marked(OneOf):
    """By bits, however few options there are: so that all words can be tried."""

    def protocol_of(self, width: int) -> UnaryEncoding:
        return UnaryEncoding((*self.options, "no answer"), epsilon=self.epsilon, width=width)


SMALL: dict[str, tuple[SurveyQuestion, int, int]] = {
    "yes-no": (asked(YesNo), 6, 3),
    "yes-no, little epsilon": (asked(YesNo, Fraction(1, 4)), 8, 3),
    "two coins": (asked(Coins, LN_3), 6, 2),
    "one of 5": (asked(OneOf, options=letters(5)), 6, 6),
    "one of 2, by bits": (asked(Marked, options=letters(2)), 4, 8),
    "several, an option each": (asked(Several, options=letters(2)), 6, 6),
    "several, a bit each": (asked(Several, Fraction(1, 2), options=letters(4)), 6, 10),
    "several, as sets": (asked(Several, Fraction(5), options=letters(3)), 10, 9),
    "number, two points": (asked(Numeric, low=Fraction(0), high=Fraction(7)), 6, 3),
    "number, four points": (asked(Numeric, Fraction(2), high=Fraction(8), declared_points=4), 7, 5),
}


@pytest.mark.parametrize("name", SMALL)
def test_no_report_tells_two_answers_apart_by_more_than_epsilon(name: str) -> None:
    """lecture:L10 threat:A33 every word, every pair of answers and of no answer, every report, as fractions."""
    question, width, reports = SMALL[name]
    program = question.program(width)
    laws = [law(program, answer, width) for answer in answers_of(program)]
    most = enclose(lambda: ball(question.epsilon).exp())[1]
    assert all(set(one) == set(range(reports)) for one in laws)
    assert program.reports == reports
    assert 1 < max(a[report] / b[report] for a, b in product(laws, laws) for report in a) <= most


def kinds_without_a_law() -> set[str]:
    """Question kinds of the package, found by looking, that `SMALL` does not enumerate."""
    tried = {type(question) for question, _, _ in SMALL.values()}
    return {kind.__name__ for kind in concrete(SurveyQuestion, "lapwing.survey") if kind not in tried}  # type: ignore[type-abstract]


def test_every_kind_of_question_is_enumerated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind that is added without a law here fails: one is planted, which sends the truth."""
    assert kinds_without_a_law() == set()
    assert {kind.kind for kind in concrete(SurveyQuestion, "lapwing.survey")} == set(_KINDS)  # type: ignore[type-abstract]
    plant(monkeypatch, type("Truthful", (YesNo,), {}), module="lapwing.survey.survey_question")
    assert kinds_without_a_law() == {"Truthful"}


def test_a_randomizer_that_lets_no_answer_through_is_found() -> None:
    """The enumeration has power: "no answer" that is sent as it is gives a report that others never send."""
    question, width, _ = SMALL["yes-no"]
    program = question.program(width)
    laws = [law(program, answer, width) for answer in (0, 1)]
    laws.append({2: ONE})
    assert any(a.get(report, 0) > 0 == b.get(report, 0) for a, b in product(laws, laws) for report in a)


def test_programs_of_all_kinds_are_enumerated() -> None:
    assert {question.program().op for question, _, _ in SMALL.values()} == {
        *("whole", "coins", "option", "bits", "rounded")
    }


@pytest.mark.parametrize("name", SMALL)
def test_a_program_reads_the_same_words_whatever_the_answer(name: str) -> None:
    question, _, _ = SMALL[name]
    program = question.program()
    words = [int(word) for word in SeededBits(5).words(program.words, 64)]
    for answer in answers_of(program):
        report = run(program.to_dict(), answer, words)
        assert 0 <= report < program.reports <= 1 << 8 * program.size
    for wrong in (words[1:], [*words, 0]):
        with pytest.raises(ValueError, match="fixed number"):
            run(program.to_dict(), None, wrong)
    for answer in (-1, program.answers):
        with pytest.raises(ValueError, match="not one"):
            run(program.to_dict(), answer, words)


@pytest.mark.parametrize("many", [2, 5, 12])
def test_the_same_words_give_the_reports_of_collect(many: int) -> None:
    """Direct and unary encoding in collect/ and the program of the browser agree word by word."""
    question = asked(OneOf, Fraction(1, 2) if many == 12 else ONE, options=letters(many))
    program, protocol = question.program(), question.protocol
    assert isinstance(protocol, UnaryEncoding if many == 12 else DirectEncoding)
    stream = SeededBits(many)
    for place in range(many + 1):
        for _ in range(20):
            words = [int(word) for word in stream.words(program.words, 64)]
            report = protocol.randomize(np.array([place]), Tape.of_words(words, 64)).tobytes()
            made = run(program.to_dict(), None if place == many else place, words)
            assert made.to_bytes(program.size, "little") == report


def test_words_at_a_threshold_fall_on_its_right_side() -> None:
    question = asked(YesNo)
    program, coin = question.program().to_dict(), question.protocol.coin
    edges = {coin.truth - 1: 0, coin.truth: 1, coin.truth + coin.other - 1: 1, coin.truth + coin.other: 2}
    assert {word: run(program, 0, [word]) for word in (*edges, 2**64 - 1)} == {**edges, 2**64 - 1: 2}


def test_the_item_is_drawn_without_looking_at_the_answer() -> None:
    question = asked(Several, Fraction(1, 2), options=letters(4))
    program = question.program().to_dict()
    words = [[int(word) for word in SeededBits(seed).words(2, 64)] for seed in range(50)]
    items = [{run(program, answer, pair) // 2 for answer in (None, *range(16))} for pair in words]
    assert all(len(item) == 1 for item in items)
    assert set().union(*items) == set(range(5))


@pytest.mark.parametrize(("steps", "points"), [(7, 2), (8, 4), (10, 11)])
def test_rounding_is_right_on_average(steps: int, points: int) -> None:
    """Over all words the mean of the true point differs from the number by less than one word of the grid."""
    width = 8
    program = asked(Numeric, high=Fraction(steps), declared_points=points).program(width).to_dict()
    for answer in range(steps + 1):
        places = [run(program, answer, (word, 0), width=width) for word in range(1 << width)]  # 0: the truth is sent
        exact = Fraction(answer * (points - 1), steps)
        assert 0 <= Fraction(sum(places), 1 << width) - exact < Fraction(1, 1 << width)
        assert max(places) - min(places) <= 1


def test_two_coins_have_the_law_of_the_lecture() -> None:
    """lecture:L10 P[yes given yes] = 3/4, P[yes given no] = 1/4, and one fair coin without an answer."""
    program = asked(Coins, LN_3).program(4)
    assert [law(program, answer, 4)[1] for answer in (1, 0, None)] == [Fraction(3, 4), Fraction(1, 4), Fraction(1, 2)]
    assert enclose(lambda: ball(3).log())[1] <= LN_3 < Fraction("1.09863")


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), ONE, Fraction(4)])
def test_every_design_for_sets_keeps_epsilon(epsilon: Fraction) -> None:
    for design in designs(epsilon, 3):
        coin = spread(epsilon, design.symbols)
        assert Fraction(coin.truth, coin.other) <= enclose(lambda: ball(epsilon).exp(), bits=256)[0]


def test_shared_vectors_hold() -> None:
    """The same file is read by the script of the page: same words, same reports."""
    cases = json.loads(VECTORS.read_text())["cases"]
    assert {question["program"]["op"] for case in cases for question in case["description"]["questions"]} == {
        *("whole", "coins", "option", "bits", "rounded")
    }
    runs = 0
    for case in cases:
        for one in case["runs"]:
            made = randomize(case["description"], one["answers"], [int(word) for word in one["words"]])
            assert made.hex() == one["report"]
            runs += 1
    assert runs >= 250
