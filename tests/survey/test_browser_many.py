"""Many respondents answer in a real browser with its own randomness, and the estimates cover the truth."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING

from lapwing.survey import parse_survey
from support.respondent import mark, see, send
from support.survey_server import serving

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Page

SURVEY = """
title = "Many"
run_by = "Statistics 101"
contact = "lecturer@example.org"
epsilon = 12
report_from = 100
confidence = 0.9999999999

[[questions]]
id = "smokes"
text = "Do you smoke?"
kind = "yes-no"
epsilon = 4

[[questions]]
id = "mood"
text = "How are you?"
kind = "choice"
options = ["Well", "So so", "Ill"]
epsilon = 4

[[questions]]
id = "hours"
text = "How many hours?"
kind = "number"
range = [0, 60]
epsilon = 4
"""
# One respondent after the other in one tab: the device forgets, the page starts anew as it does when a tab comes back.
CROWD = """async (people) => {
  for (const [smokes, mood, hours] of people) {
    localStorage.clear();
    dispatchEvent(new PageTransitionEvent("pageshow", {persisted: true}));
    const fields = document.querySelectorAll("fieldset");
    fields[0].querySelector(`input[value="${smokes}"]`).checked = true;
    fields[1].querySelector(`input[value="${mood}"]`).checked = true;
    fields[2].querySelector("input").value = hours;
    document.querySelector("form").requestSubmit();
    while (!document.getElementById("state-title").textContent.startsWith("Thank you")) {
      await new Promise((done) => setTimeout(done));
    }
  }
}"""

# The page waits a second for another tab that sends at the same moment. Here is one tab, and the five devices do wait.
AT_ONCE = "const wait = setTimeout; window.setTimeout = (work, time) => wait(work, time > 2000 ? time : 0);"


def everyone() -> list[tuple[str, str, str]]:
    """300 people: 30 % smoke, 10 % do not say; half are well; they work 20, 30 or 40 hours."""
    return [
        (
            "1" if i % 10 < 3 else "" if i % 10 == 3 else "0",
            ("0", "0", "0", "1", "2", "")[i % 6],
            ("20", "30", "40")[i % 3],
        )
        for i in range(300)
    ]


TRUTH = {
    "smokes": {"No": 0.6, "Yes": 0.3, "No answer": 0.1},
    "mood": {"Well": 0.5, "So so": 1 / 6, "Ill": 1 / 6, "No answer": 1 / 6},
}


def test_estimates_from_a_real_browser_cover_the_truth(tmp_path: Path, browser: Browser, page: Page) -> None:
    """lecture:L10. It fails by chance less than once in a million runs, and intervals are short.

    Each of the seven intervals of a share is Clopper and Pearson's at 1 - 10^-10: together they miss in 7 of 10^10 runs
    at most. That of the mean reaches 6.5 standard errors to each side, for which Bernstein's inequality gives 10^-6.
    """
    people = everyone()
    with serving(parse_survey(SURVEY), tmp_path) as survey:
        for _, _, hours in people[:5]:  # as people do it, each with a device of their own
            context: BrowserContext = browser.new_context()
            one = context.new_page()
            one.goto(survey.url)
            mark(one, "Do you smoke?", "Yes")
            one.get_by_role("textbox").fill(hours)
            send(one)
            context.close()
        with urllib.request.urlopen(survey.data_url) as answer:
            assert json.load(answer)["n"] == 5
        page.add_init_script(AT_ONCE)
        page.goto(survey.url)
        page.evaluate(CROWD, people)
        assert survey.store.count() == 305
        with urllib.request.urlopen(survey.data_url) as answer:
            found = {question["id"]: question for question in json.load(answer)["questions"]}
        page.goto(survey.results_url)
        see(page, "305 reports")
    slack = 5 / 305  # the first five move a share by no more
    for name, shares in TRUTH.items():
        for value in found[name]["values"]:
            truth = shares[value["label"]]
            assert value["low"] - slack <= truth <= value["high"] + slack, value
            assert value["high"] - value["low"] < 0.5
    mean = found["hours"]["mean"]
    assert mean["low"] - 60 * slack <= 30 <= mean["high"] + 60 * slack
    assert mean["high"] - mean["low"] < 30
