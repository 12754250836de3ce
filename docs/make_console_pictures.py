"""Takes the pictures of docs/console.md from `lapwing demo --serve` in a real browser. Needs Chromium."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Page, sync_playwright

PICTURES = Path(__file__).with_name("pictures")
QUESTION = "SELECT plan, AVG(visits) AS visits\nFROM health\nGROUP BY plan"
WRONG = "SELECT plam, COUNT(*) AS n\nFROM health\nGROUP BY plam"
FLAGS = ["--no-sandbox", "--disable-gpu", "--hide-scrollbars"]


@contextmanager
def served(folder: str) -> Iterator[list[str]]:
    """The two links of the demo's console."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lapwing", "demo", "--serve"], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield [re.findall(r"http://\S+", process.stdout.readline())[0] for _ in range(2)]
    finally:
        process.terminate()
        process.wait(30)


def write(page: Page, text: str) -> None:
    page.wait_for_selector(".cm-content")
    page.click(".cm-content")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.press("Backspace")
    page.keyboard.insert_text(text)
    page.keyboard.press("Escape")


def shot(page: Page, name: str) -> None:
    page.wait_for_timeout(300)
    page.screenshot(path=PICTURES / f"console_{name}.png", full_page=True)


def ask_and_answer(browser: Any, link: str) -> None:
    """An analyst's pages."""
    page = browser.new_page(viewport={"width": 1100, "height": 640})
    for _ in range(40):
        try:
            page.goto(link)
            break
        except Exception:  # noqa: BLE001 (the server is starting)
            page.wait_for_timeout(500)
    write(page, WRONG)
    page.wait_for_selector("#fix:not([hidden])")
    shot(page, "refused")
    write(page, QUESTION.replace("AVG(visits) AS visits", "COUNT(DISTINCT person) AS people"))
    page.wait_for_selector("#ask:not([disabled])")
    page.wait_for_selector("#ghost:not([hidden])")
    shot(page, "ask")
    page.click("#ask")
    page.wait_for_url("**/console/answers/r*", timeout=60_000)
    shot(page, "answer")
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 400, "height": 800})
    shot(page, "phone")


def set_up(browser: Any, folder: str) -> None:
    """The page of `lapwing init --browser`."""
    from lapwing.cli.setup import SetupFacts
    from lapwing.cli.setup_page import serve_setup
    from lapwing.expressions.types import Type

    types = {"patient": Type.TEXT, "sex": Type.TEXT, "cost": Type.REAL}
    said: list[str] = []
    file = Path(folder) / "new.toml"
    facts = SetupFacts(Path(folder) / "visits.csv")
    facts.data.write_text("patient,sex,cost\na,F,30\n", encoding="utf-8")
    threading.Thread(target=serve_setup, args=(facts, types, file), kwargs={"say": said.append}, daemon=True).start()
    page = browser.new_page(viewport={"width": 1100, "height": 640})
    while not said:
        page.wait_for_timeout(100)
    page.goto(re.findall(r"http://\S+", said[0])[0])
    page.select_option("#unit", "patient")
    page.fill("#rows_per_unit", "5")
    page.fill("#groups_per_unit", "1")
    page.fill("#values-2", "F, M")
    page.fill("#bounds-3", "0, 500")
    page.wait_for_selector("#noise li:nth-child(3)", timeout=60_000)
    shot(page, "setup")


def main() -> None:
    with TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        with served(folder) as (analyst, _):
            ask_and_answer(browser, analyst)
        set_up(browser, folder)
        browser.close()


if __name__ == "__main__":
    main()
