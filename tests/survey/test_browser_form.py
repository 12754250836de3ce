"""The form in a real browser: what it says, how it is filled in, and what leaves it."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import urllib.request
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lapwing.survey import parse_survey, randomize
from support.browser import assert_accessible
from support.respondent import SENT, Recorded, kept, mark, press_send, see, send, write
from support.survey_server import ServedSurvey, serving
from support.surveys import survey_text
from support.tape import SeededBits

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

OVERTIME, MOOD, REASONS, HOURS = "Did you work unpaid", "How is the mood", "Why do you stay?", "How many hours"
Filled = tuple[dict[str, int | None], dict[str, tuple[str, ...]], str]
FILLED: list[Filled] = [
    ({"overtime": None, "mood": None, "reasons": None, "hours": None}, {}, ""),
    (
        {"overtime": 1, "mood": 0, "reasons": 5, "hours": 38},
        {OVERTIME: ("Yes",), MOOD: ("Excellent",), REASONS: ("The work", "The pay")},
        "38",
    ),
    (
        {"overtime": 0, "mood": 3, "reasons": 0, "hours": 80},
        {OVERTIME: ("No",), MOOD: ("Poor",), REASONS: ("None of these",)},
        " 80,0 ",
    ),
    (
        {"overtime": None, "mood": 2, "reasons": 7, "hours": 0},
        {OVERTIME: ("No answer",), MOOD: ("Fair",), REASONS: ("The work", "The people", "The pay")},
        "0",
    ),
]
"""Answers as whole numbers, what is marked for them, and the hours that are written."""


def fill(page: Page, marked: dict[str, tuple[str, ...]], hours: str) -> None:
    for question, labels in marked.items():
        mark(page, question, *labels)
    write(page, HOURS, hours)


def known_randomness(count: int) -> tuple[list[int], str]:
    """Words, and a script after which a page draws the bytes of exactly these words, then those of a nonce."""
    words = [int(word) for word in SeededBits(count).words(count, 64)]
    drawn = b"".join(word.to_bytes(8, "big") for word in words) + bytes(range(16))
    script = """{
      const bytes = [...(BYTES)], start = bytes.slice();
      let fills = 0;
      crypto.getRandomValues = (array) => {
        if (fills++ === 0) { array.set(start.slice(0, array.length)); return array; }  // tried when the page opens
        array.set(bytes.splice(0, array.length));
        return array;
      };
    }"""
    return words, script.replace("BYTES", json.dumps(list(drawn)))


@pytest.mark.parametrize(("answers", "marked", "hours"), FILLED)
def test_the_form_sends_the_report_that_python_makes_of_the_same_words(
    served: ServedSurvey, page: Page, answers: dict[str, int | None], marked: dict[str, tuple[str, ...]], hours: str
) -> None:
    words, script = known_randomness(served.description["words"])
    page.add_init_script(script)
    page.goto(served.url)
    fill(page, marked, hours)
    send(page)
    assert served.store.reports() == [randomize(served.description, answers, words)]


def test_nothing_but_one_message_of_constant_length_leaves(served: ServedSurvey, browser: Browser) -> None:
    """threat:A33. Whatever is answered: the same requests, headers and length, to one place, and no cookie."""
    seen = []
    for _, marked, hours in FILLED:
        context = browser.new_context()
        recorded = Recorded.of(context)
        page = context.new_page()
        page.goto(served.url)
        fill(page, marked, hours)
        send(page)
        page.goto("about:blank")
        names: Counter[str] = Counter()
        for request in recorded.requests:
            headers = request.all_headers()
            assert request.url.startswith(served.url)
            assert not {"cookie", "referer", "authorization"} & headers.keys(), headers
            if "favicon" not in request.url:  # which a browser loads when it likes
                names.update(f"{name}: {value}" for name, value in headers.items())
        assert context.cookies() == []
        assert len(recorded.bodies) == 1
        sent = json.loads(recorded.bodies[0])
        assert list(sent) == ["survey", "nonce", "report", "invitation"]
        lines = sorted(line for line in recorded.lines if "favicon" not in line)
        seen.append((lines, len(recorded.bodies[0]), names))
        context.close()
    assert [one for one in seen if one != seen[0]] == []
    files = ["", "survey.css", "randomize.js", "form.js", "reports"]
    assert sorted(line.split(served.url)[1] for line in seen[0][0]) == sorted(files)


def test_cookies_of_other_programs_are_not_sent_with_the_report(
    served: ServedSurvey, page: Page, context: BrowserContext
) -> None:
    """A browser shares cookies between all ports of a host."""
    context.add_cookies([{"name": "session", "value": "alice", "url": served.url}])
    recorded = Recorded.of(context)
    page.goto(served.url)
    send(page)
    (sent,) = (request for request in recorded.requests if request.method == "POST")
    assert "cookie" not in sent.all_headers()


def test_no_answer_stays_anywhere(served: ServedSurvey, page: Page, context: BrowserContext) -> None:
    """Not in storage, the address, the history or the page; only the randomized report stays, with its number."""
    page.goto(served.url)
    fill(page, *FILLED[1][1:])
    before = page.evaluate("history.length")
    assert page.evaluate("localStorage.length") == 0
    send(page)
    ((key, stored),) = kept(page).items()
    assert key == f"lapwing:{served.description['survey']}:"
    assert stored.keys() == {"nonce", "report", "sent"}
    assert [bytes.fromhex(stored["report"])] == served.store.reports()
    assert page.evaluate("sessionStorage.length") == 0
    assert page.evaluate("indexedDB.databases()") == []
    assert page.evaluate("caches.keys()") == []
    assert page.evaluate("document.cookie") == ""
    assert (page.url, page.evaluate("history.length"), page.evaluate("history.state")) == (served.url, before, None)
    assert page.locator("input, textarea, select").count() == 0


def test_the_browser_is_told_to_remember_nothing_of_the_form(served: ServedSurvey, page: Page) -> None:
    page.goto(served.url)
    assert page.locator("form").get_attribute("autocomplete") == "off"
    assert page.locator("form").get_attribute("action") is None
    inputs = page.locator("input").all()
    assert len(inputs) == 3 + 5 + 4 + 1
    assert {field.get_attribute("autocomplete") for field in inputs} == {"off"}
    mark(page, OVERTIME, "Yes")
    page.reload()
    assert page.get_by_role("group", name=OVERTIME).get_by_label("No answer").is_checked()


def test_the_keyboard_alone_fills_in_and_sends(served: ServedSurvey, page: Page) -> None:
    """Every stop shows where the focus is."""
    words, script = known_randomness(served.description["words"])
    page.add_init_script(script)
    page.goto(served.url)
    press = page.keyboard.press
    plan: dict[str, list[str]] = {"Yes": ["ArrowUp", "ArrowUp"], "Poor": ["ArrowUp"]}
    typed = {"number-4": "41"}
    stops = []
    for _ in range(40):
        press("Tab")
        where = page.evaluate(
            """() => {
              const at = document.activeElement, shown = at.closest(".choice") ?? at, style = getComputedStyle(shown);
              return {type: at.type ?? at.tagName, name: at.name ?? "", id: at.id, value: at.value ?? "",
                      outline: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2};
            }"""
        )
        assert where["outline"], where
        stops.append(where["type"])
        if where["name"] == "choice-1":
            list(map(press, plan["Yes"]))
        elif where["name"] == "choice-2":
            list(map(press, plan["Poor"]))
        elif where["type"] == "checkbox" and where["value"] in ("0", "2"):
            press("Space")
        elif where["id"] in typed:
            page.keyboard.type(typed[where["id"]])
        elif where["type"] == "submit":
            break
    assert Counter(stops)["radio"] == 2
    press("Enter")
    see(page, SENT)
    answers = {"overtime": 1, "mood": 3, "reasons": 5, "hours": 41}
    assert served.store.reports() == [randomize(served.description, answers, words)]


def test_a_number_that_is_none_is_pointed_at_and_nothing_is_sent(
    served: ServedSurvey, page: Page, context: BrowserContext
) -> None:
    recorded = Recorded.of(context)
    page.goto(served.url)
    field = page.get_by_role("group", name=HOURS).get_by_role("textbox")
    for written in ("81", "-1", "3.5", "abc", "1e1", "0x10", "40 hours", "Infinity", "1,000", "1.000", "٣"):
        field.fill(written)
        press_send(page)
        assert field.get_attribute("aria-invalid") == "true", written
        assert "from 0 to 80 (hours), or leave it empty" in page.locator(".fault").inner_text()
        assert page.evaluate("document.activeElement.id") == field.get_attribute("id")
    assert (recorded.bodies, page.evaluate("localStorage.length")) == ([], 0)
    field.fill("39")
    send(page)
    assert served.store.count() == 1


def test_enter_in_a_field_does_not_send(served: ServedSurvey, page: Page, context: BrowserContext) -> None:
    """What is sent stands for ever, so it takes the button."""
    recorded = Recorded.of(context)
    page.goto(served.url)
    write(page, HOURS, "39")
    for field in page.locator("input").all():
        field.press("Enter")
    page.wait_for_timeout(100)
    assert (recorded.bodies, page.evaluate("localStorage.length")) == ([], 0)
    page.get_by_role("button", name="Send randomized answers").press("Enter")
    see(page, SENT)


def test_none_of_these_and_the_options_exclude_each_other(served: ServedSurvey, page: Page) -> None:
    page.goto(served.url)
    group = page.get_by_role("group", name=REASONS)
    mark(page, REASONS, "The work", "The pay", "None of these")
    assert [box.is_checked() for box in group.get_by_role("checkbox").all()] == [False, False, False, True]
    mark(page, REASONS, "The people")
    assert [box.is_checked() for box in group.get_by_role("checkbox").all()] == [False, True, False, False]


def test_the_label_says_who_sees_what_at_which_odds(served: ServedSurvey, page: Page) -> None:
    """Who runs it, the stored report, the network address, epsilon of each question and in total, the odds."""
    page.goto(served.url)
    label = page.get_by_role("region", name="Who can see what").inner_text()
    for said in (
        "The staff council",
        "randomized report, stored there and on this device",
        "Your network address and the time",
    ):
        assert said in label
    assert "You alone\nsee your answers. They do not leave this device." in label
    for fact in (
        "4 questions",
        "ε = 4.5 in total",
        "from 5 reports on",
        f"{served.description['report_bytes']} bytes sent",
    ):
        assert fact in label
    for question in served.description["questions"]:
        text = page.get_by_role("group", name=question["text"]).inner_text()
        assert f"ε = {question['epsilon']}" in text
        assert re.search(r"[Oo]f 100 people", text)
    program = served.description["questions"][0]["program"]
    truth, other = (round(100 * int(program[name]) / 2**64) for name in ("truth", "other"))
    odds = f"Of 100 people who would say yes, {truth} reports say yes; of 100 who would say no, {other} do."
    assert odds in page.get_by_role("group", name=OVERTIME).inner_text()


@pytest.mark.parametrize(("epsilon", "hides"), [(1, True), (5, False)])
def test_a_report_that_hides_little_is_said_to(tmp_path: Path, page: Page, epsilon: int, hides: bool) -> None:
    """With a large epsilon the label, the question and the thanks promise no doubt that nobody has."""
    text = survey_text("overtime").replace("epsilon = 1", f"epsilon = {epsilon}")
    with serving(parse_survey(text), tmp_path) as served:
        page.goto(served.url)
        assert ("little is hidden: see the odds" in page.inner_text("body")) is not hides
        assert ("nearly always the answer" in page.inner_text("form")) is not hides
        press_send(page)
        see(page, SENT)
        assert ("nobody can be sure" in page.inner_text("#state")) is hides
        assert ("little is hidden where" in page.inner_text("#state")) is not hides
        assert "as long as this browser keeps its data" in page.inner_text("#state")


def test_the_page_shows_the_hashes_of_what_is_served(served: ServedSurvey, page: Page) -> None:
    page.goto(served.url)
    page.get_by_text("Whom you must trust").click()
    shown = page.locator(".hashes dd").all_inner_texts()
    names = page.locator(".hashes dt").all_inner_texts()
    assert names == ["randomize.js", "form.js", "survey.json"]
    for name, value in zip(names, shown, strict=True):
        with urllib.request.urlopen(served.url + name) as answer:
            assert hashlib.sha256(answer.read()).hexdigest() == value
    assert "trust them to serve the published one" in " ".join(page.locator("details p").first.inner_text().split())
    assert json.loads(page.locator("#description").text_content() or "") == served.description


def test_the_picture_counts_the_same_people_as_the_sentence(served: ServedSurvey, page: Page) -> None:
    page.goto(served.url)
    page.get_by_role("group", name=OVERTIME).get_by_text("As a picture").click()
    counts = page.evaluate(
        """() => Array.from(document.querySelectorAll("#question-1 .said"), (path) =>
          Array.from(path.getAttribute("d").matchAll(/h([\\d.]+)/g), ([, long]) => Math.floor(long / 10) + 1)
            .reduce((sum, dots) => sum + dots, 0))"""
    )
    odds = served.description["questions"][0]["odds"]
    assert counts == [odds["truth"], odds["other"]]


def test_every_state_of_the_form_is_accessible(served: ServedSurvey, page: Page) -> None:
    page.goto(served.url)
    assert_accessible(page)
    assert page.locator("#plain").is_hidden()
    for summary in page.locator("summary").all():
        summary.click()
    write(page, HOURS, "many")
    press_send(page)
    assert_accessible(page)
    write(page, HOURS, "")
    page.route("**/reports", lambda route: route.abort())
    press_send(page)
    see(page, "Your report has not arrived")
    assert_accessible(page)
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    see(page, SENT)
    assert_accessible(page)


def test_the_first_view_is_light_and_free_of_errors(served: ServedSurvey, page: Page) -> None:
    said: list[Any] = []
    bodies: dict[str, bytes] = {}
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(error))
    page.on("requestfinished", lambda request: bodies.update({request.url: request.response().body()}))  # type: ignore[union-attr]
    page.goto(served.url, wait_until="networkidle")
    assert said == []
    assert len(bodies) >= 4
    assert sum(map(len, bodies.values())) < 80_000
    assert sum(len(gzip.compress(body)) for body in bodies.values()) < 25_000


def test_the_browser_obeys_a_strict_policy(served: ServedSurvey, page: Page) -> None:
    """No script, style or form of anybody else: what is put into the page does not run."""
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(served.url)
    page.evaluate(
        """() => {
          const script = document.createElement("script"), form = document.createElement("form");
          script.textContent = "document.title = 'taken'";
          form.action = "https://elsewhere.test/";
          document.body.append(script, form);
          form.submit();
        }"""
    )
    page.wait_for_timeout(100)
    assert page.evaluate("document.title") == "How we work"
    assert page.url == served.url
    assert len([text for text in said if "Content Security Policy" in text]) == 2
