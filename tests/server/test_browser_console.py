"""The console in a real browser: an analyst asks, a steward gives and takes rights, an auditor verifies."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import pytest

from lapwing.server.tokens import TokenBook, allow_share
from support.browser import DESKTOP, assert_accessible, launched
from support.quick import LAPWING
from support.serving import Running, running, stop, wait_until_ready

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

COUNT = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as opened:
        yield opened


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("console"), epsilon=2, answer_time=0.3) as server:
        yield server


class Watched:
    """A page whose requests and complaints are recorded."""

    def __init__(self, page: Page, server: Running) -> None:
        self.page, self.server = page, server
        self.requests: list[tuple[str, str]] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append((request.method, request.url)))
        page.on(
            "console",
            lambda said: self.complaints.append(f"{said.text} {said.location}") if said.type == "error" else None,
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def sign_in(self, token: str) -> None:
        self.page.goto(f"{self.server.url}/console")
        self.page.fill("#token", token)
        self.page.keyboard.press("Enter")
        self.page.wait_for_selector("nav")

    def write(self, question: str) -> None:
        self.page.wait_for_selector(".cm-content")
        self.page.click(".cm-content")
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.press("Backspace")
        self.page.keyboard.insert_text(question)

    def priced(self) -> str:
        self.page.wait_for_selector("#ask:not([disabled])")
        return self.page.inner_text("#line")

    def posts(self, path: str) -> int:
        return sum(method == "POST" and urlsplit(url).path == path for method, url in self.requests)


@pytest.fixture
def watched(browser: Browser, server: Running) -> Iterator[Watched]:
    context = browser.new_context(viewport=DESKTOP)  # type: ignore[arg-type]
    seen = Watched(context.new_page(), server)
    yield seen
    context.close()
    assert seen.complaints == []
    assert all(url.startswith((server.url, "data:", "blob:")) for _, url in seen.requests), "a request left the host"


def charges(server: Running) -> int:
    with server.ledger() as ledger:
        return sum(entry.kind == "reserve" for entry in ledger.entries())


def link(**asked: Any) -> str:
    """An address of the console with a question."""
    return f"/console#{quote(json.dumps(asked))}"


def test_an_analyst_previews_asks_once_and_reloads_for_free(watched: Watched, server: Running) -> None:
    before = charges(server)
    watched.sign_in(server.token("ann"))
    watched.write(COUNT)
    assert re.match(
        r"Costs [\d.]+ % of the budget, about \d+ more like it. Typical error: COUNT\(\*\) within", watched.priced()
    )
    assert watched.page.is_visible("#ghost svg")
    watched.page.dblclick("#ask")
    watched.page.wait_for_url("**/console/answers/r*")
    assert watched.page.is_visible("svg.chart")
    watched.page.reload()
    watched.page.go_back()
    assert watched.priced().startswith("Free: a stored answer")
    assert charges(server) == before + 1
    assert watched.posts("/console/ask") == 1


def test_a_question_is_kept_in_its_own_browser_until_its_person_signs_out(
    watched: Watched, server: Running, browser: Browser
) -> None:
    """No release holds its question: elsewhere the buttons that need it are hidden."""
    page, token = watched.page, server.token("abe")
    watched.sign_in(token)
    watched.write(COUNT)
    watched.priced()
    page.click("#ask")
    page.wait_for_url("**/console/answers/r*")
    page.reload()
    assert page.is_visible("#sharper")
    assert "% of the budget" in page.inner_text("#sharper")
    fresh = browser.new_context()
    other = Watched(fresh.new_page(), server)
    other.sign_in(token)
    other.page.goto(page.url)
    other.page.wait_for_selector("#again", state="hidden")
    assert not other.page.is_visible("#sharper")
    fresh.close()
    page.click("#again")
    assert watched.priced().startswith("Free")
    page.click("#sign-out")
    page.wait_for_selector("#sign-in")
    assert page.evaluate("localStorage.length") == 0


def test_two_tabs_and_a_lost_connection_charge_once(watched: Watched, server: Running) -> None:
    question, before = "SELECT COUNT(*) AS n FROM visits WHERE cost > 7", charges(server)
    watched.sign_in(server.token("amy"))
    other = Watched(watched.page.context.new_page(), server)
    keys: list[str] = []

    def lose(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) == 1:
            route.fetch()  # the server answers, and the answer is lost
            route.abort()
        else:
            route.continue_()

    watched.page.context.route("**/console/ask*", lose)
    other.page.goto(f"{server.url}/console")
    for tab in (watched, other):
        tab.write(question)
        tab.priced()
    for tab in (watched, other):
        tab.page.evaluate("document.getElementById('ask').click()")
    for tab in (watched, other):
        tab.page.wait_for_url("**/console/answers/r*")
    assert watched.page.url == other.page.url
    assert len(keys) >= 3
    assert len(set(keys)) == 1
    assert charges(server) == before + 1
    watched.complaints[:] = [text for text in watched.complaints if "ERR_FAILED" not in text]


@pytest.mark.slow
def test_a_browser_that_stores_nothing_asks_too(watched: Watched, server: Running) -> None:
    watched.page.add_init_script(
        "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('no', 'SecurityError'); }})"
    )
    before = charges(server)
    watched.sign_in(server.token("aki"))
    watched.write("SELECT COUNT(*) AS n FROM visits WHERE cost > 11")
    watched.priced()
    watched.page.dblclick("#ask")
    watched.page.wait_for_url("**/console/answers/r*")
    assert not watched.page.is_visible("#again")
    watched.page.click("#sign-out")
    watched.page.wait_for_selector("#sign-in")
    assert charges(server) == before + 1


def test_an_earlier_preview_never_replaces_a_later_one(watched: Watched, server: Running) -> None:
    held: list[Route] = []
    watched.sign_in(server.token("ada"))
    page = watched.page
    page.route("**/console/preview", lambda route: route.continue_() if held else held.append(route))
    watched.write("SELECT SUM(cost) AS s FROM visits")
    for _ in range(400):
        if held:
            break
        page.wait_for_timeout(50)
    assert len(held) == 1
    watched.write("SELECT AVG(age) AS a FROM visits")
    page.wait_for_timeout(600)
    assert page.is_disabled("#ask")
    held[0].continue_()
    assert "AVG(age)" in watched.priced()
    assert "SUM" not in page.inner_text("#line")


def test_a_link_asks_what_it_shows_and_nothing_else(watched: Watched, server: Running) -> None:
    """Otherwise a link could have another question paid for than the one that is read."""
    bodies: list[Any] = []
    watched.page.on("request", lambda r: bodies.append(r.post_data_json) if r.url.endswith("/preview") else None)
    watched.sign_in(server.token("ali"))
    hidden = {"sql": "SELECT SUM(cost) AS s FROM visits", "share": 0.5, "refresh": True, "epsilon": 1}
    watched.page.goto(server.url + link(sql=COUNT, share=0.0105, limits="auto", terms=hidden, refresh=True, epsilon=1))
    watched.page.reload()
    watched.priced()
    assert bodies
    assert all(set(body) == {"sql", "share", "limits"} and body["sql"] == COUNT for body in bodies)
    assert all(abs(body["share"] / 0.0105 - 1) < 0.03 for body in bodies)
    for strange in ("null", "[1]", '{"sql": {"a": 1}}', "%"):
        watched.page.goto(f"{server.url}/console#{strange}")
        watched.page.reload()
        watched.page.wait_for_selector(".cm-content")


def test_a_refusal_says_why_and_one_button_mends_it(watched: Watched, server: Running) -> None:
    watched.sign_in(server.token("bea"))
    watched.write("SELECT sez, COUNT(*) AS n FROM visits GROUP BY sez")
    watched.page.wait_for_selector("#fix:not([hidden])")
    assert "has no such column" in watched.page.inner_text("#line")
    assert watched.page.is_visible(".cm-refused")
    assert not watched.page.is_visible("#ghost")
    watched.page.click("#apply")
    assert watched.priced()
    assert watched.page.inner_text(".cm-content") == "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"


@pytest.mark.slow
def test_typing_makes_few_previews_and_no_charge(watched: Watched, server: Running) -> None:
    before = charges(server)
    watched.sign_in(server.token("cid"))
    watched.page.wait_for_selector(".cm-content")
    watched.page.click(".cm-content")
    watched.page.keyboard.type("SELECT")
    watched.page.keyboard.press("ControlOrMeta+a")
    watched.page.keyboard.type("SELECT COUNT(*) AS n FROM visits WHERE " + "cost < 50 AND " * 11 + "age > 1", delay=10)
    watched.page.keyboard.press("Escape")
    assert watched.priced()
    assert watched.posts("/console/preview") <= 10
    assert charges(server) == before


def test_the_keyboard_alone_is_enough(watched: Watched, server: Running) -> None:
    page = watched.page
    watched.sign_in(server.token("dot"))
    page.wait_for_selector(".cm-content")

    def tab_to(selector: str) -> None:
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate(f"document.activeElement === document.querySelector(`{selector}`)"):
                return
        raise AssertionError(f"Tab does not reach {selector}")

    tab_to(".cm-content")
    page.keyboard.insert_text("SELECT COUNT(*) AS n FROM visits")
    page.keyboard.press("Escape")  # closes suggestions, if there are any
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "share"
    page.keyboard.press("ArrowRight")
    watched.priced()
    tab_to("#ask")
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/answers/r*")
    tab_to("a[href$='.csv']")
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert download.value.suggested_filename.endswith(".csv")


def test_texts_of_others_stay_texts(watched: Watched, server: Running) -> None:
    dialogs: list[Any] = []
    watched.page.on("dialog", lambda dialog: (dialogs.append(dialog), dialog.dismiss()))
    watched.sign_in(server.token("eve"))
    for text in ("<img src=x onerror=alert(1)>", "'; alert(1)//", "</script><script>alert(1)</script>"):
        watched.write(f'SELECT "{text}", COUNT(*) FROM visits GROUP BY 1')
        watched.page.wait_for_selector("#line.bad:not(.old)")
        watched.page.goto(f"{server.url}/console#" + f'{{"sql": "{text}", "share": 0.01}}')
        watched.page.reload()
        watched.page.wait_for_selector("#line.bad:not(.old)")
    assert dialogs == []


def test_a_steward_makes_and_ends_a_token_and_an_auditor_verifies(watched: Watched, server: Running) -> None:
    page, boss = watched.page, server.token("boss", "steward")
    watched.sign_in(boss)
    page.goto(f"{server.url}/console/people")
    page.fill("#name", "zoe")
    page.select_option("#role", "auditor")
    page.fill("#confirm", boss)
    page.click("text=Make this change")
    page.wait_for_selector("#made:not([hidden])")
    (token,) = re.findall(r"lw_[\w-]+", page.inner_text("#made"))
    page.click("#sign-out")
    page.wait_for_selector("#sign-in")
    watched.sign_in(token)
    page.goto(f"{server.url}/console/ledger")
    assert "intact" in page.inner_text("main")
    with page.expect_download() as download:
        page.click("text=Export all entries")
    head = json.loads(download.value.path().read_text().splitlines()[-1])
    with server.ledger() as ledger:
        assert head["head"]["ledger"] == ledger.id
        TokenBook(ledger).revoke("zoe")
    page.reload()
    page.wait_for_selector("#sign-in")


def test_an_empty_budget_is_said_kindly_and_stored_answers_stay(watched: Watched, server: Running) -> None:
    watched.sign_in(server.token("fay"))
    watched.write(COUNT)
    watched.priced()
    watched.page.click("#ask")
    watched.page.wait_for_url("**/console/answers/r*")
    with server.ledger() as ledger:
        allow_share(ledger, "fay", 0)
    watched.page.goto(f"{server.url}/console")
    watched.write("SELECT COUNT(*) AS n FROM visits WHERE cost > 3")
    watched.page.wait_for_selector("#line:not(.old):has-text('more than is left')")
    assert watched.page.is_disabled("#ask")
    watched.write(COUNT)
    assert watched.priced().startswith("Free")


@pytest.mark.slow
def test_every_page_and_state_is_accessible(watched: Watched, server: Running) -> None:
    """On a phone and on a desktop, light and dark, without motion for who wants none."""
    page, boss = watched.page, server.token("bob", "steward")
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"{server.url}/console")
    assert_accessible(page)
    page.fill("#token", "lw_wrong")
    page.keyboard.press("Enter")
    page.wait_for_selector("#problem:not([hidden])")
    assert_accessible(page)
    watched.complaints.clear()
    watched.sign_in(boss)
    states = [COUNT, "SELECT sez, COUNT(*) AS n FROM visits GROUP BY sez", ""]
    for question in states:
        page.goto(server.url + link(sql=question, share=0.01))
        page.reload()
        page.wait_for_selector(".cm-content")
        page.wait_for_timeout(700)
        assert page.evaluate("document.getAnimations().length") == 0
        assert_accessible(page)
    for path in ("people", "answers", "budget", "ledger", "answers/r" + "0" * 32, "nothing"):
        page.goto(f"{server.url}/console/{path}")
        assert_accessible(page)
    watched.complaints.clear()  # two of them do not exist
    page.goto(server.url + link(sql=COUNT, share=0.013))
    page.reload()
    watched.priced()
    page.click("#ask")
    page.wait_for_url("**/console/answers/r*")
    assert_accessible(page)
    for path in ("answers", "budget", "people"):
        page.goto(f"{server.url}/console/{path}")
        assert_accessible(page)
    page.fill("#name", "yan")
    page.fill("#confirm", boss)
    page.click("text=Make this change")
    page.wait_for_selector("#made:not([hidden])")
    assert_accessible(page)
    with server.ledger() as ledger:
        allow_share(ledger, "bob", 0)
    page.goto(server.url + link(sql=COUNT, share=0.3))
    page.reload()
    page.wait_for_selector("#line:not(.old):has-text('more than is left')")
    assert_accessible(page)
    page.goto(f"{server.url}/console/budget")
    assert_accessible(page)


def test_the_first_view_is_light(server: Running) -> None:
    import gzip

    from lapwing.server.console.addresses import PAGES

    files = ["console.js", "console.css", "favicon.svg", "frame.html", "ask.html"]
    assert sum(len(gzip.compress((PAGES / name).read_bytes())) for name in files) < 100_000
    assert len(gzip.compress((PAGES / "editor.js").read_bytes())) < 150_000


@pytest.mark.slow
def test_a_steward_sets_up_a_csv_on_a_page(browser: Browser, tmp_path: Path) -> None:
    from lapwing.cli.setup import SetupFacts
    from lapwing.cli.setup_page import serve_setup
    from lapwing.curator.settings import read_settings
    from lapwing.expressions.types import Type

    (tmp_path / "visits.csv").write_text("who,sex,age\na,F,30\n", encoding="utf-8")
    file, said, ready = tmp_path / "lapwing.toml", [], threading.Event()
    types = {"who": Type.TEXT, "sex": Type.TEXT, "age": Type.INTEGER}

    def say(text: str) -> None:
        said.append(text)
        ready.set()

    thread = threading.Thread(
        target=serve_setup, args=(SetupFacts(tmp_path / "visits.csv"), types, file), kwargs={"say": say}
    )
    thread.start()
    assert ready.wait(20)
    page = browser.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.goto(re.findall(r"http://\S+", said[0])[0])
    page.select_option("#unit", "who")
    page.fill("#rows_per_unit", "three")
    page.wait_for_selector("#problem:not([hidden])")
    assert "whole number" in page.inner_text("#problem")
    assert_accessible(page)
    page.fill("#rows_per_unit", "3")
    page.fill("#values-2", "F, M")
    page.fill("#bounds-3", "0, 120")
    page.wait_for_selector("#save:not([disabled])")
    page.wait_for_selector("#noise li:nth-child(3)")
    assert "+rows_per_unit = 3" in page.inner_text("#diff")
    assert_accessible(page)
    page.click("#save")
    page.wait_for_selector("text=You can close this page")
    page.close()
    thread.join(20)
    assert complaints == []
    ((table, _),) = read_settings(file).tables
    assert (table.unit, table.rows_per_unit, table.field("sex").values) == ("who", 3, ("F", "M"))


@pytest.mark.slow
def test_the_demo_opens_the_console_by_links_that_work_once(browser: Browser, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*LAPWING, "demo", "--serve"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline() for _ in range(4)]
        link = re.findall(r"http://\S+", lines[0])[0]
        wait_until_ready(link.partition("/console")[0], process)
        page = browser.new_page()
        page.goto(link)
        page.wait_for_selector(".cm-content")
        assert page.inner_text(".who span") == "demo-analyst"
        again = browser.new_context().new_page()
        again.goto(link)
        again.wait_for_selector("#problem:not([hidden])")
        assert "used before" in again.inner_text("#problem")
    finally:
        stop(process)
        if process.stdout is not None:
            process.stdout.close()
