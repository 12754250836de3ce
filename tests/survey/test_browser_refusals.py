"""Where a report could not be hidden, kept or accepted, the form explains, and nothing leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lapwing.survey import parse_survey
from lapwing.survey.report_store import hash_code, make_code
from support.browser import assert_accessible
from support.respondent import ONE_QUESTION, SENT, UNSENT, Recorded, kept, mark, press_send, see, send
from support.survey_server import ServedSurvey, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Page

NO_RANDOMNESS = "This browser has no secure randomness"
NO_STORAGE = "This browser keeps nothing"
LACKING = {
    "no crypto": ("Object.defineProperty(globalThis, 'crypto', {value: undefined})", NO_RANDOMNESS),
    "no getRandomValues": ("crypto.getRandomValues = undefined", NO_RANDOMNESS),
    "only zeros": ("crypto.getRandomValues = (array) => array.fill(0)", NO_RANDOMNESS),
    "no storage": (
        "Object.defineProperty(globalThis, 'localStorage', {get() { throw new DOMException('', 'SecurityError') }})",
        NO_STORAGE,
    ),
    "storage that is null": ("Object.defineProperty(globalThis, 'localStorage', {value: null})", NO_STORAGE),
    "full storage": (
        "Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError') }",
        NO_STORAGE,
    ),
    "storage that forgets": ("Storage.prototype.setItem = () => {}", NO_STORAGE),
}


def assert_nothing_can_be_sent(page: Page, recorded: Recorded) -> None:
    assert page.locator("form, input, button:visible").count() == 0
    page.keyboard.press("Enter")
    assert recorded.bodies == []


@pytest.mark.parametrize("lacking", LACKING)
def test_a_browser_that_cannot_protect_explains_instead_of_sending(
    one: ServedSurvey, page: Page, context: BrowserContext, lacking: str
) -> None:
    script, title = LACKING[lacking]
    recorded = Recorded.of(context)
    page.add_init_script(script)
    page.goto(one.url)
    see(page, title)
    assert "nothing can be sent" in page.locator("#state-text").inner_text()
    assert_nothing_can_be_sent(page, recorded)
    assert one.store.count() == 0


def test_without_javascript_the_page_explains(one: ServedSurvey, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    recorded = Recorded.of(context)
    page = context.new_page()
    page.goto(one.url)
    see(page, "Nothing can be sent without JavaScript")
    assert page.get_by_role("region", name="Who can see what").is_visible()
    assert_nothing_can_be_sent(page, recorded)
    context.close()


def test_storage_that_fails_only_when_the_report_is_written_sends_nothing(
    one: ServedSurvey, page: Page, context: BrowserContext
) -> None:
    recorded = Recorded.of(context)
    page.add_init_script(
        """{
          const set = Storage.prototype.setItem;
          Storage.prototype.setItem = function (key, value) {
            if (value.includes("report")) throw new DOMException("", "QuotaExceededError");
            set.call(this, key, value);
          };
        }"""
    )
    page.goto(one.url)
    mark(page, "Do you smoke?", "Yes")
    press_send(page)
    see(page, NO_STORAGE)
    assert_nothing_can_be_sent(page, recorded)


@pytest.mark.parametrize("name", ["randomize.js", "form.js"])
def test_a_script_that_is_not_the_published_one_does_not_run(
    one: ServedSurvey, page: Page, context: BrowserContext, name: str
) -> None:
    """The page names the hash of each script, and the browser refuses another."""
    recorded = Recorded.of(context)
    page.route(
        f"**/{name}", lambda route: route.fulfill(body="document.title = 'taken'", content_type="text/javascript")
    )
    page.goto(one.url)
    see(page, "This page is damaged" if name == "randomize.js" else "Checking this browser")
    assert page.evaluate("document.title") == "One question"
    assert_nothing_can_be_sent(page, recorded)


def test_a_stored_report_that_is_damaged_is_neither_sent_nor_replaced(
    one: ServedSurvey, page: Page, context: BrowserContext
) -> None:
    recorded = Recorded.of(context)
    key = f"lapwing:{one.description['survey']}:"
    page.goto(one.url)
    for damaged in ("", "{", "null", '{"nonce":"1","report":"00"}', f'{{"nonce":"{"0" * 32}","report":"0000"}}'):
        page.evaluate("([key, text]) => localStorage.setItem(key, text)", [key, damaged])
        page.reload()
        see(page, "What this device kept is damaged")
        assert_nothing_can_be_sent(page, recorded)
        assert page.evaluate("key => localStorage.getItem(key)", key) == damaged


def test_plain_http_on_another_name_is_enough(one: ServedSurvey, page: Page) -> None:
    """Phones in a classroom open the form by an address without TLS: no crypto.subtle, no locks, and it works."""
    page.goto(one.url.replace("127.0.0.1", "survey.test"))
    assert page.evaluate("[isSecureContext, Boolean(crypto.subtle), Boolean(navigator.locks)]") == [False] * 3
    page.get_by_text("Whom you must trust").click()
    assert page.get_by_text("This page came without https").is_visible()
    mark(page, "Do you smoke?", "Yes")
    send(page)
    assert one.store.count() == 1


REFUSALS = {
    "rate": (429, '{"status":"too-many","message":"Too many messages came from this network."}', "Too many messages"),
    "store": (503, '{"status":"store-failed","message":"The server could not keep it."}', "could not keep it"),
    "taken": (409, '{"status":"nonce-taken","message":"Another report has arrived."}', "Another report has arrived"),
    "proxy": (502, "<h1>Bad gateway</h1>", "could not be reached"),
    "redirect": (302, "", "could not be reached"),
    "not JSON": (200, "stored", "could not be reached"),
    "odd": (200, '{"status":"stored later"}', "gave no reason"),
}


def test_what_the_server_refuses_is_said_and_can_be_tried_again(
    one: ServedSurvey, page: Page, context: BrowserContext
) -> None:
    recorded = Recorded.of(context)
    answers = iter(REFUSALS.values())

    def refuse(route: object) -> None:
        status, body, _ = refusal
        route.fulfill(status=status, body=body, headers={"Location": "https://elsewhere.test/"})  # type: ignore[attr-defined]

    refusal = next(answers)
    page.route("**/reports", refuse)
    page.goto(one.url)
    press_send(page)
    see(page, UNSENT)
    assert_accessible(page)
    while True:
        said = page.locator("#state-text").inner_text()
        assert refusal[2] in said
        assert "undefined" not in said
        assert "the same report is sent, not a new one" in said
        refusal = next(answers, None)  # type: ignore[assignment]
        if refusal is None:
            break
        page.get_by_role("button", name="Try again").click()
        see(page, UNSENT)
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    see(page, SENT)
    assert len(set(recorded.bodies)) == 1
    assert not [line for line in recorded.lines if "elsewhere" in line]
    assert one.store.count() == 1


@pytest.fixture
def invited(tmp_path: Path) -> Iterator[tuple[ServedSurvey, list[str]]]:
    """A survey by invitation, and three invitations."""
    codes = [make_code() for _ in range(3)]
    with serving(parse_survey("invitations = true\n" + ONE_QUESTION), tmp_path) as survey:
        survey.store.invite(map(hash_code, codes))
        yield survey, codes


def test_an_invitation_is_used_once_and_never_stands_in_an_address(
    invited: tuple[ServedSurvey, list[str]], browser: Browser, page: Page, context: BrowserContext
) -> None:
    survey, (code, second, _) = invited
    recorded = Recorded.of(context)
    page.goto(f"{survey.url}#{code}")
    send(page)
    assert survey.store.invited() == (3, 1)
    assert len(recorded.bodies[0]) == len(recorded.bodies[0].replace(code, "a" * 26))
    assert not [request for request in recorded.requests if code in request.url.split("#")[0]]
    page.get_by_role("button", name="Send the same report again").click()
    see(page, SENT)

    page.goto(f"{survey.url}#{second}")  # somebody else at the same device
    page.get_by_role("button", name="Send randomized answers").wait_for()
    send(page)
    assert len(kept(page)) == 2

    elsewhere = browser.new_context()
    stranger = elsewhere.new_page()
    stranger.goto(f"{survey.url}#{code}")
    press_send(stranger)
    see(stranger, UNSENT)
    assert "This invitation has been used" in stranger.locator("#state-text").inner_text()
    elsewhere.close()
    assert survey.store.count() == 2


def test_without_a_whole_invitation_there_is_no_form(
    invited: tuple[ServedSurvey, list[str]], page: Page, context: BrowserContext
) -> None:
    survey, (code, *_) = invited
    recorded = Recorded.of(context)
    for link in ("", "#", f"#{code[:-1]}", f"#{code}x", "#" + "A" * 26):
        page.goto("about:blank")
        page.goto(survey.url + link)
        see(page, "You need an invitation")
        assert_nothing_can_be_sent(page, recorded)
    assert_accessible(page)
    page.goto("about:blank")
    page.goto(f"{survey.url}#{'a' * 26}")
    press_send(page)
    see(page, UNSENT)
    assert "not known" in page.locator("#state-text").inner_text()
    assert survey.store.count() == 0
