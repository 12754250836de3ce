"""The page of results in a real browser: a sentence below the declared number of reports, live charts from then on."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING, Any

from lapwing.survey import parse_survey
from support.browser import assert_accessible
from support.respondent import ALL_KINDS, Recorded, see
from support.survey_server import ServedSurvey, message, serving

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import BrowserContext, Page


def post(survey: ServedSurvey, many: int, **answers: int | None) -> None:
    """Reports of this many respondents with the same answers."""
    for _ in range(many):
        body = message(survey.survey, answers).encode()
        request = urllib.request.Request(
            f"{survey.url}reports", body, headers={"Content-Type": "text/plain;charset=UTF-8"}
        )
        with urllib.request.urlopen(request) as answer:
            assert json.load(answer)["status"] == "stored"


def data(survey: ServedSurvey) -> dict[str, Any]:
    with urllib.request.urlopen(survey.data_url) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def test_below_the_declared_number_there_is_a_sentence_and_no_chart(served: ServedSurvey, page: Page) -> None:
    """Then the charts appear by themselves, with the numbers of the JSON, in a table too."""
    post(served, 4, overtime=1)
    page.goto(served.results_url)
    see(page, "4 of 5 reports: do not report yet")
    assert "Do not report" in page.locator("#message").inner_text()
    assert page.locator("svg").count() == 0
    assert page.locator("table").count() == 0
    assert_accessible(page)
    post(served, 3, overtime=1, hours=40)
    see(page, "7 reports")
    assert page.locator("svg.plot").count() == 4
    page.get_by_text("As a table").first.click()
    found = data(served)["questions"]
    for question, card in zip(found, page.locator("#charts section").all(), strict=True):
        rows = [row.text_content() or "" for row in card.locator("tbody tr").all()]
        expected = [
            value["label"] + "".join(percent(value[name]) for name in ("share", "low", "high"))
            for value in question["values"]
        ]
        if question["mean"]:
            numbers = [float(f"{question['mean'][name]:.4g}") for name in ("mean", "low", "high")]
            expected.append("Mean of those who answered" + "".join(f"{number:g} hours" for number in numbers))
        assert rows == expected
    assert_accessible(page)


def test_new_reports_redraw_the_chart_and_an_open_table_stays_open(
    served: ServedSurvey, page: Page, context: BrowserContext
) -> None:
    recorded = Recorded.of(context)
    post(served, 5, overtime=1)
    page.goto(served.results_url)
    see(page, "5 reports")
    page.get_by_text("As a table").first.click()
    assert page.get_by_role("heading", name="“Yes” as reports came in").count() == 0
    for more in (6, 7):
        post(served, 1, overtime=1)
        see(page, f"{more} reports")
    assert page.get_by_role("table").count() == 1
    assert page.get_by_role("heading", name="“Yes” as reports came in").count() == 1
    trail = page.locator("path.trail").get_attribute("d") or ""
    assert trail.count("L") == 2
    assert all(line.startswith(f"GET {served.url}") for line in recorded.lines)
    assert not [one for one in recorded.requests if {"cookie", "referer"} & one.all_headers().keys()]
    assert context.cookies() == []


def test_a_server_that_is_gone_is_said(tmp_path: Path, page: Page) -> None:
    with serving(parse_survey(ALL_KINDS), tmp_path) as survey:
        post(survey, 5, overtime=0)
        page.goto(survey.results_url)
        see(page, "5 reports")
    page.get_by_text("The server cannot be reached. These are the last numbers it gave.").wait_for()
    assert page.locator("svg.plot").count() == 4
    assert_accessible(page)


def test_without_the_key_nothing_is_shown(served: ServedSurvey, page: Page) -> None:
    for link in ("results", "results?key=", "results?key=" + "a" * 26, "results.json", "nothing"):
        answer = page.goto(served.url + link)
        assert answer is not None
        assert answer.status == 404
        see(page, "Not found")
    assert_accessible(page)


def test_long_words_fit_a_phone(tmp_path: Path, page: Page) -> None:
    long = "x" * 150
    text = ALL_KINDS.replace("How we work", long).replace("Why do you stay?", long).replace("The pay", long)
    text = text.replace('unit = "hours"', f'unit = "{long[:40]}"')
    with serving(parse_survey(text), tmp_path) as survey:
        page.goto(survey.url)
        assert_accessible(page)
        post(survey, 5)
        page.goto(survey.results_url)
        see(page, "5 reports")
        assert_accessible(page)


def test_texts_of_a_survey_are_text_everywhere(tmp_path: Path, page: Page) -> None:
    """Whoever writes the survey cannot make a script of it by accident, on either page."""
    evil = "<img src=x onerror=alert(1)></script>&amp;{{ 7 * 7 }}"
    text = ALL_KINDS.replace("How we work", evil).replace("Why do you stay?", evil).replace("The pay", evil)
    said: list[str] = []
    page.on("console", lambda line: said.append(line.text))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    with serving(parse_survey(text), tmp_path) as survey:
        page.goto(survey.url)
        assert page.locator("h1").inner_text() == evil
        assert page.get_by_role("group", name=evil).get_by_label(evil, exact=True).count() == 1
        post(survey, 5)
        page.goto(survey.results_url)
        see(page, "5 reports")
        assert page.locator("#charts h2").nth(2).inner_text() == evil
        assert page.locator("img").count() == 0
    assert said == []
