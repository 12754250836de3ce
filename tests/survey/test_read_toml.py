"""survey.toml: what it may say, and how mistakes are named."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from lapwing.cli.survey import DRAFT
from lapwing.errors import Misconfigured
from lapwing.survey import parse_survey, public_description, read_survey
from lapwing.survey.definition import decimal_text
from lapwing.survey.simulate import class_survey
from support.surveys import survey, survey_text

HEAD = 'title = "t"\nrun_by = "r"\ncontact = "c"\nepsilon = 1\nreport_from = 10\n'
YES_NO = '[[questions]]\nid = "q"\ntext = "?"\nkind = "yes-no"\nepsilon = 1\n'


def test_the_draft_is_a_survey_with_every_setting_as_it_says() -> None:
    drafted = parse_survey(DRAFT)
    assert [question.kind for question in drafted.questions] == ["yes-no", "choice", "several", "number", "yes-no"]
    assert drafted.epsilon == Fraction(9, 2)
    assert drafted.report_from == 100


def test_what_all_questions_cost_is_the_exact_sum() -> None:
    """Ten times 0.1 is 1: decimals are read as they are written."""
    questions = "".join(YES_NO.replace('"q"', f'"q{i}"').replace("epsilon = 1", "epsilon = 0.1") for i in range(10))
    assert parse_survey(HEAD + questions).epsilon == 1
    with pytest.raises(Misconfigured, match=r"`epsilon` is 0\.9, but the questions add up to 1\. State"):
        parse_survey(HEAD.replace("epsilon = 1", "epsilon = 0.9") + questions)


def test_the_class_survey_costs_ln_3_rounded_up() -> None:
    assert class_survey().epsilon == Fraction("1.09862")


def test_every_kind_is_read() -> None:
    made = survey()
    assert [question.kind for question in made.questions] == [
        *("yes-no", "two-coins", "choice", "choice", "several", "number")
    ]
    assert made.question("hours").number == {"low": "0", "high": "80", "step": "1", "steps": 80, "unit": "hours"}


MISTAKES = {
    "no TOML": ("title = ", "not valid TOML"),
    "nothing": ("", "`questions` is missing"),
    "no title": (HEAD.replace('title = "t"', "") + YES_NO, "`title` is missing"),
    "no contact": (HEAD.replace('contact = "c"', "") + YES_NO, "`contact` is missing"),
    "no total": (HEAD.replace("epsilon = 1\n", "") + YES_NO, "`epsilon` is missing"),
    "an unknown key": (HEAD + 'titel = "x"\n' + YES_NO, "`titel` is not a known key. Did you mean `title`"),
    "a wrong total": (HEAD.replace("epsilon = 1", "epsilon = 2") + YES_NO, "add up to 1"),
    "a negative total": (HEAD.replace("epsilon = 1", "epsilon = -2") + YES_NO, "above 0"),
    "a total in quotes": (HEAD.replace("epsilon = 1", 'epsilon = "1"') + YES_NO, "must be a number"),
    "half a report": (HEAD.replace("= 10", "= 10.5") + YES_NO, "whole number"),
    "an empty title": (HEAD.replace('"t"', '" "') + YES_NO, "`title` must be text"),
    "a list of texts": (HEAD + 'questions = ["a"]', "list of sections"),
    "no questions": (HEAD + "questions = []", "1 to 50 questions"),
    "no id": (HEAD + YES_NO.replace('id = "q"\n', ""), r"`questions\[1\].id` is missing"),
    "an odd id": (HEAD + YES_NO.replace('"q"', '"Q 1"'), "short name"),
    "an id twice": (HEAD.replace("epsilon = 1", "epsilon = 2") + YES_NO + YES_NO, "Two questions"),
    "no text": (HEAD + YES_NO.replace('text = "?"\n', ""), "`questions.q.text` is missing"),
    "no kind": (HEAD + YES_NO.replace('kind = "yes-no"\n', ""), "`questions.q.kind` is missing"),
    "an unknown kind": (HEAD + YES_NO.replace("yes-no", "maybe"), "yes-no, two-coins, choice, several, number"),
    "options of yes or no": (HEAD + YES_NO + 'options = ["a"]\n', "`questions.q.options` is not a known key"),
    "no epsilon": (HEAD + YES_NO.replace("epsilon = 1\n", ""), "`questions.q.epsilon` is missing"),
    "too much epsilon": (HEAD + YES_NO.replace("epsilon = 1", "epsilon = 40"), "a report needs 1e-6 to 32"),
    "no options": (HEAD + YES_NO.replace("yes-no", "choice"), "`questions.q.options` is missing"),
    "one option": (HEAD + YES_NO.replace("yes-no", "choice") + 'options = ["a"]\n', "2 to 60"),
    "options in quotes": (HEAD + YES_NO.replace("yes-no", "choice") + 'options = "a"\n', "list of texts"),
    "no range": (HEAD + YES_NO.replace("yes-no", "number"), "`questions.q.range` is missing"),
    "half a range": (HEAD + YES_NO.replace("yes-no", "number") + "range = [1]\n", "two numbers"),
    "a range of texts": (HEAD + YES_NO.replace("yes-no", "number") + 'range = ["a", 1]\n', "must be a number"),
    "coins at a price": (HEAD + YES_NO.replace("yes-no", "two-coins"), "cost ln 3"),
    "a flag in quotes": (HEAD + 'invitations = "yes"\n' + YES_NO, "true or false"),
    "results for whom": (HEAD + 'results = "me"\n' + YES_NO, '"link" or "public"'),
    "no address": (HEAD + 'url = "example.org"\n' + YES_NO, "https://"),
    "an origin with a path": (HEAD + 'origins = ["https://a.org/x"]\n' + YES_NO, "without a path"),
    "an origin no browser writes": (HEAD + 'origins = ["https://A.org"]\n' + YES_NO, "small letters"),
    "an origin with the usual port": (HEAD + 'origins = ["https://a.org:443"]\n' + YES_NO, "without :80 or :443"),
    "an address that is a policy": (HEAD + 'url = "https://a.org; script-src *"\n' + YES_NO, "as browsers write it"),
    "an address with letters no browser writes": (HEAD + 'url = "https://bücher.example"\n' + YES_NO, "small letters"),
    "an address with a password": (HEAD + 'url = "https://me:secret@a.org"\n' + YES_NO, "without a name or password"),
    "an address with no such port": (HEAD + 'url = "https://a.org:99999"\n' + YES_NO, "as browsers write it"),
    "a setting below the questions": (HEAD + YES_NO + "invitations = true\n", r"above the first \[\[questions\]\]"),
    "what the form offers anyway": (
        HEAD + YES_NO.replace("yes-no", "several") + 'options = ["a", "none of these"]\n',
        "which the form adds",
    ),
    "no confidence": (HEAD + "confidence = 1\n" + YES_NO, "strictly between 0 and 1"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_its_file_and_its_key(name: str, tmp_path: Path) -> None:
    text, said = MISTAKES[name]
    file = tmp_path / "survey.toml"
    file.write_text(text)
    with pytest.raises(Misconfigured, match=said) as found:
        read_survey(file)
    assert str(found.value).startswith(str(file))


def test_a_file_that_cannot_be_read_says_how_to_start(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="lapwing survey new"):
        read_survey(tmp_path / "nothing.toml")
    with pytest.raises(Misconfigured, match="not a regular file"):
        read_survey(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"title = '\xe9'")
    with pytest.raises(Misconfigured, match="byte 10 is not UTF-8"):
        read_survey(tmp_path / "latin.toml")


def test_every_change_of_what_is_asked_is_another_survey() -> None:
    """Reports to the one are never counted for the other."""
    text = survey_text()
    changes = [('"good"', '"great"'), ("How we work", "How we rest"), ("[0, 80]", "[0, 90]"), ('"mood?"', '"Mood?"')]
    ids = {public_description(parse_survey(text.replace(*change)))["survey"] for change in [("", ""), *changes]}
    assert len(ids) == 5
    same = [("report_from = 50", "report_from = 50\nper_minute = 5"), ("", "")]
    assert len({public_description(parse_survey(text.replace(*one)))["survey"] for one in same}) == 1


@pytest.mark.parametrize(
    ("number", "text"),
    [("1", "1"), ("0.1", "0.1"), ("1.09862", "1.09862"), ("12.50", "12.5"), ("1/3", "0.333333333333")],
)
def test_an_epsilon_is_shown_with_all_of_its_digits(number: str, text: str) -> None:
    assert decimal_text(Fraction(number)) == text


@pytest.mark.parametrize(
    "url", ["https://a.org", "http://192.0.2.7:8640", "https://a.org/surveys/x", "http://[2001:db8::1]:8640"]
)
def test_addresses_that_browsers_write_are_read(url: str) -> None:
    assert parse_survey(HEAD + f'url = "{url}"\n' + YES_NO).url == url
