"""The console in a real browser: an analyst asks, a steward gives and takes rights, an auditor verifies."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.browser import DESKTOP, assert_accessible, launched
from support.quick import LAPWING
from support.serving import Running, running, stop, wait_until_ready

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

COUNT = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as opened:
        yield opened


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("console"), epsilon=2, answer_time=1) as server:
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
        return sum(method == "POST" and url.endswith(path) for method, url in self.requests)


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


def test_an_analyst_previews_asks_once_and_reloads_for_free(watched: Watched, server: Running) -> None:
    before = charges(server)
    watched.sign_in(server.token("ann"))
    watched.write(COUNT)
    assert re.match(
        r"Costs [\d.]+ % of the budget, about \d+ more like it. Typical error: COUNT\(\*\) within", watched.priced()
    )
    assert watched.page.is_visible("#ghost svg")
    assert_accessible(watched.page)
    watched.page.dblclick("#ask")
    watched.page.wait_for_url("**/console/answers/r*")
    assert watched.page.is_visible("svg.chart")
    assert_accessible(watched.page)
    watched.page.reload()
    watched.page.go_back()
    assert watched.priced().startswith("Free: a stored answer")
    assert charges(server) == before + 1
    assert watched.posts("/console/ask") == 1


def test_a_refusal_says_why_and_one_button_mends_it(watched: Watched, server: Running) -> None:
    watched.sign_in(server.token("bea"))
    watched.write("SELECT sez, COUNT(*) AS n FROM visits GROUP BY sez")
    watched.page.wait_for_selector("#fix:not([hidden])")
    assert "has no such column" in watched.page.inner_text("#line")
    assert watched.page.is_visible(".cm-refused")
    assert not watched.page.is_visible("#ghost")
    assert_accessible(watched.page)
    watched.page.click("#apply")
    assert watched.priced()
    assert watched.page.inner_text(".cm-content") == "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"


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


@pytest.mark.parametrize(
    "text", ["<img src=x onerror=alert(1)>", "'; alert(1)//", "</script><script>alert(1)</script>"]
)
def test_texts_of_others_stay_texts(watched: Watched, server: Running, text: str) -> None:
    dialogs: list[Any] = []
    watched.page.on("dialog", lambda dialog: (dialogs.append(dialog), dialog.dismiss()))
    watched.sign_in(server.token("eve"))
    watched.write(f'SELECT "{text}", COUNT(*) FROM visits GROUP BY 1')
    watched.page.wait_for_selector("#line.bad")
    watched.page.goto(f"{server.url}/console#" + f'{{"sql": "{text}", "share": 0.01}}')
    watched.page.reload()
    watched.page.wait_for_timeout(600)
    assert dialogs == []


def test_a_steward_makes_and_ends_a_token_and_an_auditor_verifies(watched: Watched, server: Running) -> None:
    page, boss = watched.page, server.token("boss", "steward")
    watched.sign_in(boss)
    for name in ("people", "answers", "budget", "ledger"):
        page.goto(f"{server.url}/console/{name}")
        assert_accessible(page)
    assert "intact" in page.inner_text("main")
    page.goto(f"{server.url}/console/people")
    page.fill("#name", "zoe")
    page.select_option("#role", "auditor")
    page.fill("#confirm", boss)
    page.click("text=Make this change")
    page.wait_for_selector("#made:not([hidden])")
    (token,) = re.findall(r"lw_\w+", page.inner_text("#made").replace("-", "_")) or [""]
    assert token
    page.click("#sign-out")
    page.wait_for_selector("#sign-in")
    assert_accessible(page)
    watched.sign_in(server.token("aud", "auditor"))
    page.goto(f"{server.url}/console/ledger")
    assert "intact" in page.inner_text("main")


def test_an_empty_budget_is_said_kindly_and_stored_answers_stay(watched: Watched, server: Running) -> None:
    watched.sign_in(server.token("fay"))
    watched.write(COUNT)
    watched.priced()
    watched.page.click("#ask")
    watched.page.wait_for_url("**/console/answers/r*")
    watched.page.goto(f"{server.url}/console")
    with server.ledger() as ledger:
        ledger.reserve(ledger.remaining, analyst="steward", body="the rest")
    watched.write("SELECT COUNT(*) AS n FROM visits WHERE cost > 3")
    watched.page.wait_for_selector("#line:not(.old):has-text('more than is left')")
    assert watched.page.is_disabled("#ask")
    assert_accessible(watched.page)
    watched.write(COUNT)
    assert watched.priced().startswith("Free")


def test_the_first_view_is_light(server: Running) -> None:
    import gzip

    from lapwing.server.console.addresses import PAGES

    files = ["console.js", "console.css", "favicon.svg", "frame.html", "ask.html"]
    assert sum(len(gzip.compress((PAGES / name).read_bytes())) for name in files) < 100_000
    assert len(gzip.compress((PAGES / "editor.js").read_bytes())) < 150_000


def test_a_steward_sets_up_a_csv_on_a_page(browser: Browser, tmp_path: Path) -> None:
    from lapwing.cli.setup import TableDraft
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
        target=serve_setup, args=(TableDraft(tmp_path / "visits.csv"), types, file), kwargs={"say": say}
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
        process.stdout.close()
