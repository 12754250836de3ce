"""`lapwing survey demo` as a class sees it: the estimate and its interval sharpen while people answer."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lapwing.survey.simulate import SHARE
from support.browser import assert_accessible
from support.respondent import Recorded, mark, see, send

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page


@contextmanager
def demo(*options: str) -> Iterator[dict[str, Any]]:
    """What the command prints, while it runs."""
    command = [sys.executable, "-m", "lapwing", "survey", "demo", "--port", "0", "--json", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield json.loads(line)
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert "Traceback" not in errors


def shown(page: Page) -> tuple[int, float, float, float]:
    """Reports, the share of yes and its interval, as the page shows them."""
    count = page.locator("#count b").inner_text()
    row = page.locator("tbody tr", has_text="Yes").text_content() or ""
    share, low, high = (float(number) for number in re.findall(r"(-?[\d.]+)%", row))
    return int(count.replace(",", "")), share, low, high


def test_the_estimate_sharpens_as_the_class_answers(page: Page, context: BrowserContext) -> None:
    """lecture:L10. Simulated people and one at a phone; the final interval covers what is true of the simulated."""
    recorded = Recorded.of(context)
    with demo("--simulate", "400", "--per-second", "40") as told:
        page.goto(told["results"])
        page.locator("#charts table").first.wait_for(state="attached")
        early = shown(page)
        phone = context.new_page()
        phone.goto(told["form"])
        picture = phone.get_by_role("img", name="Your device tosses a coin.")
        assert "Tails: your answer is sent. Heads: a second coin answers" in (picture.get_attribute("aria-label") or "")
        text = phone.locator("fieldset").inner_text()
        assert "Of 100 people who would say yes, 75 reports say yes; of 100 who would say no, 25 do." in text
        mark(phone, phone.locator("legend").inner_text(), "Yes")
        send(phone)
        assert_accessible(phone)
        page.bring_to_front()
        see(page, "401 reports")
        late = shown(page)
        assert late[0] == 401 > early[0]
        assert late[3] - late[2] < early[3] - early[2]
        trail = page.locator("path.trail").get_attribute("d") or ""
        assert trail.count("L") >= 2
        assert_accessible(page)
        assert SHARE - 35 < late[1] < SHARE + 35  # 7 standard errors of the coins: 5 percentage points each
    assert all(line.split(" ")[1].startswith(told["form"]) for line in recorded.lines)


def test_without_simulated_people_the_page_waits_for_phones(page: Page) -> None:
    with demo("--simulate", "0") as told:
        page.goto(told["results"])
        page.get_by_role("heading", name="do not report yet").wait_for()
        assert page.locator("svg.plot").count() == 0
        assert page.get_by_role("link", name=told["form"]).count() == 1
        assert_accessible(page)
