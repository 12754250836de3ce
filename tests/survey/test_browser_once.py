"""One report a device: it is stored before it is sent, and the first stands over reloads, tabs, edits and failures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lapwing.survey import parse_survey
from support.respondent import EARLIER, ONE_QUESTION, SENT, UNSENT, Recorded, kept, mark, press_send, see, send
from support.survey_server import ServedSurvey, serving

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import BrowserContext, Page

SMOKES = "Do you smoke?"
WATCH_SENDING = """{
  const send = fetch;
  globalThis.storedWhenSent = [];
  globalThis.fetch = (...all) => { storedWhenSent.push(Object.values({...localStorage})); return send(...all); };
}"""


def test_the_report_is_stored_before_it_is_sent(one: ServedSurvey, page: Page, context: BrowserContext) -> None:
    recorded = Recorded.of(context)
    page.add_init_script(WATCH_SENDING)
    page.goto(one.url)
    mark(page, SMOKES, "Yes")
    send(page)
    ((stored,),) = page.evaluate("storedWhenSent")
    sent = json.loads(recorded.bodies[0])
    assert json.loads(stored) == {"nonce": sent["nonce"], "report": sent["report"], "sent": False}


def test_coming_back_sends_nothing_new(one: ServedSurvey, page: Page, context: BrowserContext) -> None:
    """threat:A33. By reload, by the back button, by a new tab, and on purpose."""
    recorded = Recorded.of(context)
    page.goto(one.url)
    mark(page, SMOKES, "Yes")
    send(page)
    before = kept(page)
    page.reload()
    see(page, SENT)
    page.goto("about:blank")
    page.go_back()
    see(page, SENT)
    other = context.new_page()
    other.goto(one.url)
    see(other, SENT)
    assert other.locator("input").count() == page.locator("input").count() == 0
    assert len(recorded.bodies) == 1
    other.get_by_role("button", name="Send the same report again").click()
    see(other, SENT)
    assert recorded.bodies == [recorded.bodies[0]] * 2
    assert (one.store.count(), kept(page)) == (1, before)


def test_an_answer_edited_in_another_tab_is_not_used(one: ServedSurvey, page: Page, context: BrowserContext) -> None:
    """The tab learns of the first answer. Where it does not, it finds the stored report when it sends."""
    recorded = Recorded.of(context)
    told, untold = context.new_page(), context.new_page()
    untold.add_init_script("addEventListener('storage', (event) => event.stopImmediatePropagation(), true)")
    for tab in (page, told, untold):
        tab.goto(one.url)
    mark(untold, SMOKES, "No")
    mark(page, SMOKES, "Yes")
    send(page)
    see(told, SENT)
    assert told.locator("input").count() == 0
    press_send(untold)
    see(untold, EARLIER)
    assert "first answer stands" in untold.locator("#state-text").inner_text()
    assert recorded.bodies == [recorded.bodies[0]] * 2
    assert one.store.count() == 1


def test_a_double_click_sends_one_report(one: ServedSurvey, page: Page, context: BrowserContext) -> None:
    recorded = Recorded.of(context)
    page.goto(one.url)
    page.get_by_role("button", name="Send randomized answers").dblclick()
    see(page, SENT)
    page.goto(one.url)
    page.evaluate("localStorage.clear()")
    page.reload()
    page.evaluate("{const form = document.querySelector('form'); form.requestSubmit(); form.requestSubmit();}")
    see(page, SENT)
    assert len(recorded.bodies) == 2
    assert one.store.count() == 2


LATE = """{
  const get = Storage.prototype.getItem, set = Storage.prototype.setItem;
  const ours = (key) => /^lapwing:[0-9a-f]{32}/.test(key);
  let known = false;
  addEventListener("storage", ({ key }) => ours(key) && setTimeout(() => (known = true), 300));
  Storage.prototype.setItem = function (key, value) { known ||= ours(key); return set.call(this, key, value); };
  Storage.prototype.getItem = function (key) { return ours(key) && !known ? null : get.call(this, key); };
}"""
"""What another tab wrote is seen 300 ms later, as in a busy browser whose tabs are processes."""


def test_a_tab_that_sees_the_report_of_another_late_sends_no_second_one(
    one: ServedSurvey, context: BrowserContext
) -> None:
    """A lock says that the other tab has written, not that its writing can be read here."""
    context.add_init_script(LATE)
    recorded = Recorded.of(context)
    tabs = [context.new_page() for _ in range(2)]
    for tab in tabs:
        tab.goto(one.url)
    at = tabs[0].evaluate("Date.now() + 400")
    for tab in tabs:
        tab.evaluate("at => setTimeout(() => document.querySelector('form')?.requestSubmit(), at - Date.now())", at)
    for tab in tabs:
        tab.get_by_role("button", name="Send the same report again").wait_for()
    assert one.store.count() == 1
    assert len(set(recorded.bodies)) == 1


@pytest.mark.parametrize("locks", [True, False], ids=["with locks", "without locks"])
def test_of_two_tabs_that_send_at_once_both_send_one_report(
    one: ServedSurvey, context: BrowserContext, locks: bool
) -> None:
    """A browser has locks in secure contexts only; on plain http the tabs wait until they have seen each other."""
    recorded = Recorded.of(context)
    if not locks:
        context.add_init_script("Object.defineProperty(navigator, 'locks', {value: undefined})")
    tabs = [context.new_page() for _ in range(4)]
    for place, tab in enumerate(tabs):
        tab.goto(one.url)
        mark(tab, SMOKES, "Yes" if place % 2 else "No")
        assert tab.evaluate("Boolean(navigator.locks)") == locks
    at = tabs[0].evaluate("Date.now() + 400")
    press = "at => setTimeout(() => document.querySelector('form')?.requestSubmit(), at - Date.now())"
    for tab in tabs:
        tab.evaluate(press, at)
    for tab in tabs:
        tab.get_by_role("button", name="Send the same report again").wait_for()
    assert one.store.count() == 1
    assert len(set(recorded.bodies)) == 1
    assert {tuple(kept(tab)) for tab in tabs} == {(f"lapwing:{one.description['survey']}:",)}


def test_a_server_that_is_away_gets_the_same_report_later(tmp_path: Path, page: Page, context: BrowserContext) -> None:
    """Also after the page was closed in between."""
    recorded = Recorded.of(context)
    survey = parse_survey(ONE_QUESTION)
    with serving(survey, tmp_path) as first:
        page.goto(first.url)
        mark(page, SMOKES, "Yes")
    press_send(page)
    see(page, UNSENT)
    page.get_by_role("button", name="Try again").click()
    see(page, UNSENT)
    assert "could not be reached" in page.locator("#state-text").inner_text()
    with serving(survey, tmp_path, port=int(first.url.rsplit(":", 1)[1].strip("/"))) as again:
        page.close()
        other = context.new_page()
        other.goto(again.url)
        see(other, UNSENT)
        assert other.locator("input").count() == 0
        other.get_by_role("button", name="Try again").click()
        see(other, SENT)
        assert len(set(recorded.bodies)) == 1
        assert len(recorded.bodies) == 3
        assert [report.hex() for report in again.store.reports()] == [json.loads(recorded.bodies[0])["report"]]


def test_a_server_that_never_answers_is_given_up(one: ServedSurvey, page: Page) -> None:
    page.clock.install()
    page.route("**/reports", lambda route: None)
    page.goto(one.url)
    press_send(page)
    see(page, "Your report is on its way")
    page.clock.fast_forward(29_000)
    see(page, "Your report is on its way")
    page.clock.fast_forward(2_000)
    see(page, UNSENT)
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    see(page, SENT)
    assert one.store.count() == 1


def test_an_answer_that_got_lost_on_the_way_back_counts_once(one: ServedSurvey, page: Page) -> None:
    """The server stored the report, but its answer never came: the next try is told that it had arrived."""

    def lose(route: object) -> None:
        route.fetch()  # type: ignore[attr-defined]
        route.abort()  # type: ignore[attr-defined]

    page.route("**/reports", lose)
    page.goto(one.url)
    press_send(page)
    see(page, UNSENT)
    assert one.store.count() == 1
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    see(page, SENT)
    assert one.store.count() == 1


def test_what_left_the_device_is_shown_in_words(served: ServedSurvey, page: Page) -> None:
    """For every report that a survey can have, Python and the page read the same."""
    page.goto(served.url)
    page.evaluate(
        """([key, report]) => localStorage.setItem(key, JSON.stringify({nonce: "0".repeat(32), report, sent: true}))""",
        [f"lapwing:{served.description['survey']}:", "01030401"],
    )
    page.reload()
    see(page, SENT)
    program = served.description["questions"][2]["program"]
    item = served.description["questions"][2]["options"][4 // program["symbols"]] if program["op"] == "option" else ""
    assert page.locator("#left-words li").all_inner_texts() == [
        "Did you work unpaid overtime last week? Yes",
        "How is the mood in your team? Poor",
        f"Why do you stay? {item}: {['no', 'yes', 'no answer'][4 % program['symbols']]}"
        if item
        else "Why do you stay? The pay",
        "How many hours did you work last week? 40 hours",
    ]
    assert page.locator("#left-bytes").inner_text() == "01030401 (4 bytes)"
