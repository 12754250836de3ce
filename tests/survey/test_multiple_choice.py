"""Several of k options with one epsilon: which design is used, what it estimates, and how far it errs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from lapwing.collect.probabilities import spread
from lapwing.errors import Misconfigured
from lapwing.survey.multiple_choice import Design, Several, designs
from lapwing.survey.program import run
from lapwing.survey.survey_question import NO_ANSWER
from support.surveys import simulated
from support.tape import SeededBits

LETTERS = "abcdefghijklmnop"
SHAPES = {"an option each": (2, 3), "a bit each": (3, 2), "sets": (1, 5)}


def asked(many: int, epsilon: Fraction = Fraction(1)) -> Several:
    return Several(id="q", text="?", epsilon=epsilon, options=tuple(LETTERS[:many]))


def designed(question: Several, shape: tuple[int, int]) -> Several:
    """The same question by a design of our choice."""
    made = Several(id=question.id, text=question.text, epsilon=question.epsilon, options=question.options)
    found = [one for one in designs(question.epsilon, len(question.options)) if (one.items, one.symbols) == shape]
    made.__dict__["design"] = found[0]
    return made


def coin_for_each(epsilon: Fraction, options: int) -> float:
    """n Var if the epsilon were split: a change of the set changes up to k options."""
    coin = spread(epsilon / options, 3)
    p, q = float(coin.p), float(coin.q)
    return max(p * (1 - p), q * (1 - q)) / (p - q) ** 2


@pytest.mark.parametrize(("epsilons", "options"), [(("0.1", "1", "3", "8", "16"), 10), (("0.1", "1", "3", "8"), 16)])
def test_the_design_in_use_errs_less_than_a_coin_for_each_option(epsilons: tuple[str, ...], options: int) -> None:
    for many in range(2, options + 1):
        for epsilon in map(Fraction, epsilons):
            question = asked(many, epsilon)
            assert question.variance() == min(one.worst_variance() for one in designs(epsilon, many))
            assert question.variance() < coin_for_each(epsilon, many)


def test_few_options_and_a_large_epsilon_are_sent_as_sets() -> None:
    assert (asked(2, Fraction(2)).design.items, asked(2, Fraction(2)).design.symbols) == (1, 5)
    assert (asked(3).design.items, asked(3).design.symbols) == (4, 2)
    assert (asked(8, Fraction(3)).design.items, asked(8, Fraction(3)).design.symbols) == (8, 3)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_reports_support_options_as_often_as_stated(shape: tuple[int, int]) -> None:
    """gate:G44 every word of 8 bits: P[a report holds an option], for who chose it and for who did not."""
    width, epsilon = 8, Fraction(1)
    design = Design(2, *shape, spread(epsilon, shape[1], width=width))
    program = design.program().to_dict()
    for answer in (None, *range(4)):
        for place in range(2):
            hits = asked_about = 0
            for word in range(1 << width):
                items = [word] if shape[0] == 1 else [(place << width) // shape[0] + 1, word]  # a word that draws it
                report = run(program, answer, items, width=width)
                asked_about += 1
                if shape[0] == 1:
                    hits += report < 4 and report >> place & 1
                else:
                    assert report // shape[1] == place
                    hits += report % shape[1] == 1
            p, q = design.supports
            held = answer is not None and answer >> place & 1
            assert Fraction(hits, asked_about) == (p if held else q)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_intervals_cover_the_shares_of_the_respondents(shape: tuple[int, int]) -> None:
    """400 respondents, 150 surveys: at least 93 % of the intervals hold the share, and the error is as stated."""
    question, bits = designed(asked(2, Fraction(3, 2)), shape), SeededBits(11)
    answers: list[int | None] = [0] * 120 + [1] * 100 + [3] * 80 + [None] * 100
    truth = {"a": 180 / 400, "b": 80 / 400, NO_ANSWER: 100 / 400}
    inside, errors = dict.fromkeys(truth, 0), []
    for _ in range(150):
        found = question.estimate(simulated(question, answers, bits), Fraction(95, 100))
        for one in found.values:
            inside[one.label] += one.low <= truth[one.label] <= one.high
        errors.append(found.values[0].share - truth["a"])
    assert min(inside.values()) >= 0.93 * 150 * 0.98
    assert np.mean(np.square(errors)) < 1.35 * question.variance() / 400
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(150)


def test_few_reports_leave_options_open_that_nobody_was_asked_about() -> None:
    question = asked(4)
    found = question.estimate(simulated(question, [1], SeededBits(3)), Fraction(95, 100))
    assert len(found.values) == 5
    assert [(one.low, one.high) for one in found.values if not one.n] == [(0.0, 1.0)] * 4
    assert found.moved_by_one >= 1


def test_hostile_respondents_move_a_share_by_no_more_than_stated() -> None:
    """threat:A33 ten of 300 send the reports that hurt most."""
    for shape in SHAPES.values():
        question, bits = designed(asked(2), shape), SeededBits(5)
        honest = simulated(question, [1] * 300, bits)
        forged = honest.copy()
        forged[:10] = 0  # item a, not chosen; or the empty set
        before, after = (question.estimate(rows, Fraction(95, 100)) for rows in (honest, forged))
        most = max(before.moved_by_one, after.moved_by_one)
        for one, other in zip(before.values, after.values, strict=True):
            assert abs(one.share - other.share) <= 10 * most * 1.2


def test_sets_have_a_joint_table_and_sampled_options_say_why_not() -> None:
    sets = designed(asked(2), SHAPES["sets"])
    assert sets.protocol.values == ("None of these", "a", "b", "a + b", NO_ANSWER)
    assert sets.protocol.size == sets.program().size
    with pytest.raises(Misconfigured, match="question of its own"):
        _ = asked(4).protocol


def test_too_many_or_equal_options_are_refused() -> None:
    for listed in (("a",), tuple(map(str, range(17))), ("a", "A "), ("a", "no answer"), ("a", " ")):
        with pytest.raises(Misconfigured, match="options"):
            Several(id="q", text="?", epsilon=Fraction(1), options=listed)
