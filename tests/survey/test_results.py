"""From reports to results: the lecture's estimate, coverage with and without answers, joint tables, formats."""

from __future__ import annotations

import csv
import io
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from lapwing.errors import Misconfigured
from lapwing.survey import Survey, parse_survey
from lapwing.survey.results import joint_csv, joint_results, results
from lapwing.survey.simulate import SHARE, Simulated, class_answers, class_survey
from lapwing.survey.sqlite_store import SqliteSurveyStore
from lapwing.survey.wire import Reader
from support.surveys import simulated, survey, survey_text
from support.tape import SeededBits


def collected(asked: Survey, answers: list[dict[str, int | None]], bits: SeededBits) -> list[bytes]:
    store = SqliteSurveyStore()
    assert Simulated(asked, store, bits).arrive(answers) == len(answers)
    return store.reports()


def test_the_class_survey_estimates_as_the_lecture_does() -> None:
    """lecture:L10 the share is 2 E[yes] - 1/2, and the interval holds what the class would have said."""
    asked = class_survey()
    reports = collected(asked, class_answers(2000), SeededBits(1))
    found = results(asked, reports).estimated["cheated"]
    yes = sum(report == b"\x01" for report in reports) / 2000
    assert found.values[1].share == pytest.approx(2 * yes - 0.5)
    assert found.values[1].low <= SHARE / 100 <= found.values[1].high
    assert found.moved_by_one == pytest.approx(1 / (2000 * 0.5))


@pytest.mark.parametrize("skipping", [0, 100, 300])
def test_intervals_of_two_coins_cover_whoever_does_not_answer(skipping: int) -> None:
    """300 respondents, 200 surveys: who skips counts half, and the interval holds it as often as it says."""
    question, bits = survey("coins").question("coins"), SeededBits(skipping + 7)
    rest = 300 - skipping
    answers: list[int | None] = [int(i < rest // 3) for i in range(rest)]
    answers += [None] * skipping
    truth = (rest // 3 + skipping / 2) / 300
    inside = 0
    for _ in range(200):
        yes = question.estimate(simulated(question, answers, bits), Fraction(95, 100)).values[1]
        inside += yes.low <= truth <= yes.high
    assert inside >= 0.93 * 200


def test_shares_of_every_kind_are_those_of_the_respondents() -> None:
    """One large survey with every kind of question: each interval at 99.9 % holds its share, "no answer" too."""
    asked, n = survey(confidence=0.999), 2000
    answers: list[dict[str, int | None]] = [
        {
            "overtime": (0, 1, None)[i % 3],
            "coins": i % 2,
            "mood": (0, 0, 1, 2, None)[i % 5],
            "month": None if i % 10 == 0 else i % 12,
            "trouble": (0, 1, 3, 7, None)[i % 5],
            "hours": None if i % 4 == 0 else i % 81,
        }
        for i in range(n)
    ]
    found = results(asked, collected(asked, answers, SeededBits(77)))
    for question in asked.questions:
        given = [one[question.id] for one in answers]
        for place, value in enumerate(found.estimated[question.id].values):
            none = place == len(question.options)
            if question.kind == "several":
                truth = sum(one is None if none else one is not None and one >> place & 1 for one in given) / n
            elif question.kind == "number":
                continue
            else:
                truth = sum(one is None if none else one == place for one in given) / n
            assert value.low <= truth <= value.high, (question.id, value)
    mean = found.estimated["hours"].mean
    hours = [one["hours"] for one in answers if one["hours"] is not None]
    assert mean is not None
    assert mean.low <= float(np.mean(hours)) <= mean.high
    assert mean.high - mean.low < 30


def test_below_the_declared_number_nothing_is_estimated() -> None:
    asked = survey("overtime", "trouble")
    few = results(asked, collected(asked, [{}] * 40, SeededBits(2)))
    assert few.estimated == {}
    assert "Do not report" in few.message
    assert "At n = 40 an interval reaches about 0." in few.message
    assert "do not report yet" in str(few)
    assert [one["values"] for one in few.to_dict()["questions"]] == [[], []]
    assert few.to_csv().count("\n") == 1
    with pytest.raises(Misconfigured, match="Wait for more"):
        few.moved_by("overtime", 1)
    with pytest.raises(Misconfigured, match="Do not report"):
        joint_results(survey("overtime", "mood"), [b"\0\0"] * 40, "overtime", "mood")
    none = results(asked, [])
    assert none.half_width("overtime") is None
    assert "Do not report" in none.message


def test_what_is_said_to_be_wide_is_about_as_wide() -> None:
    asked = survey("overtime", "mood", "coins")
    found = results(asked, collected(asked, [{"overtime": 1, "mood": 0, "coins": 1}] * 900, SeededBits(3)))
    for question in asked.questions:
        widths = [(one.high - one.low) / 2 for one in found.estimated[question.id].values if 0 < one.low < one.high < 1]
        stated = found.half_width(question.id)
        assert stated is not None
        assert all(0.5 * stated < width < 1.35 * stated for width in widths)


def test_a_confidence_is_said_as_it_is_and_widens_what_is_said_to_be_wide() -> None:
    usual, sure = (results(survey("overtime", confidence=level), [b"\0"] * 60) for level in (0.95, 0.995))
    assert "Intervals hold at 95% for" in usual.message
    assert "Intervals hold at 99.5% for" in sure.message
    assert (usual.to_dict()["level"], sure.to_dict()["level"]) == ("95%", "99.5%")
    narrow, wide = (found.half_width("overtime") for found in (usual, sure))
    assert narrow is not None
    assert wide is not None
    assert wide / narrow == pytest.approx(2.807 / 1.960, rel=1e-3)


@pytest.mark.parametrize("hostile", [0, 1, 10])
def test_hostile_respondents_move_a_share_by_no_more_than_the_bound(hostile: int) -> None:
    """threat:A33 k of n who send what they like move a share by at most k / (n (p - q)), for each protocol."""
    asked = survey("overtime", "coins", "mood", "month")
    reports = collected(asked, [{}] * 1000, SeededBits(9))
    before = results(asked, reports)
    worst = bytes([1, 1, 1]) + bytes([0xFF, 0x1F])
    after = results(asked, [worst] * hostile + reports[hostile:])
    for question in asked.questions:
        pairs = zip(before.estimated[question.id].values, after.estimated[question.id].values, strict=True)
        moved = max(abs(one.share - other.share) for one, other in pairs)
        assert moved <= before.moved_by(question.id, hostile) + 1e-12


def test_the_joint_table_is_that_of_the_pairs() -> None:
    asked = survey("overtime", "mood", "trouble")
    pairs: list[dict[str, int | None]] = [{"overtime": i % 2, "mood": 2 * (i % 2)} for i in range(2500)]
    reports = collected(asked, pairs, SeededBits(31))
    table = joint_results(asked, reports, "overtime", "mood")
    assert table.share("Yes", "poor") == pytest.approx(0.5, abs=0.15)
    assert table.share("No", "good") == pytest.approx(0.5, abs=0.15)
    assert table.share("No", "poor") == pytest.approx(0, abs=0.15)
    with pytest.raises(Misconfigured, match="two questions"):
        joint_results(asked, reports, "mood", "mood")
    with pytest.raises(Misconfigured, match="no question 'nothing'"):
        joint_results(asked, reports, "mood", "nothing")
    with pytest.raises(Misconfigured, match="one option"):
        joint_results(asked, reports, "mood", "trouble")


def test_results_can_be_read_as_json_and_csv() -> None:
    asked = survey()
    found = results(asked, collected(asked, [{"mood": 1}] * 60, SeededBits(8)))
    read: dict[str, Any] = json.loads(json.dumps(found.to_dict()))
    assert [one["id"] for one in read["questions"]] == [question.id for question in asked.questions]
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert sum(row["value"] == "(mean)" for row in rows) == 1
    shares = {(row["question"], row["value"]): float(row["estimate"]) for row in rows}
    assert shares["mood", "fair"] == read["questions"][2]["values"][1]["share"]
    assert all(question.text in str(found) for question in asked.questions)


def test_a_label_is_no_formula_in_a_spreadsheet() -> None:
    from lapwing.survey.survey_question import OneOf

    asked = survey("overtime")
    question = OneOf(id="overtime", text="?", epsilon=Fraction(1), options=("=1+1", "-5", "@x"))
    hostile = Survey(title="t", run_by="r", contact="c", questions=(question,), epsilon=Fraction(1), report_from=1)
    text = results(hostile, [b"\0"] * 3).to_csv()
    assert "'=1+1" in text
    assert "'@x" in text
    assert "overtime,-5," in text
    assert asked.report_size == hostile.report_size


def test_a_label_is_no_formula_in_the_csv_of_a_joint_table() -> None:
    asked = parse_survey(survey_text("overtime", "mood").replace('"good"', '"=1+1"'))
    lines = joint_csv(joint_results(asked, [b"\0\0"] * 60, "overtime", "mood")).splitlines()
    assert lines[0] == "first,second,share,share_low,share_high"
    assert lines[1].startswith("No,'=1+1,")
    assert len(lines) == 1 + 3 * 4


def test_reports_of_another_survey_are_not_read() -> None:
    with pytest.raises(Misconfigured, match="another length"):
        Reader(survey("overtime")).rows([b"\0\0"])
