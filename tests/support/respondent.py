"""A person in front of the form of a survey."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page, Request

SENT = "Thank you, your report has arrived"
UNSENT = "Your report has not arrived"
EARLIER = "This device has answered before"

ALL_KINDS = """
title = "How we work"
about = "Four short questions."
run_by = "The staff council"
contact = "council@example.org"
epsilon = 4.5
report_from = 5

[[questions]]
id = "overtime"
text = "Did you work unpaid overtime last week?"
kind = "yes-no"
epsilon = 1

[[questions]]
id = "mood"
text = "How is the mood in your team?"
kind = "choice"
options = ["Excellent", "Good", "Fair", "Poor"]
epsilon = 1

[[questions]]
id = "reasons"
text = "Why do you stay?"
help = "Think of the last year."
kind = "several"
options = ["The work", "The people", "The pay"]
epsilon = 1

[[questions]]
id = "hours"
text = "How many hours did you work last week?"
kind = "number"
range = [0, 80]
unit = "hours"
epsilon = 1.5
"""

ONE_QUESTION = """
title = "One question"
run_by = "Statistics 101"
contact = "lecturer@example.org"
epsilon = 3
report_from = 5

[[questions]]
id = "smokes"
text = "Do you smoke?"
kind = "yes-no"
epsilon = 3
"""


def mark(page: Page, question: str, *labels: str) -> None:
    """Marks these options of a question."""
    for label in labels:
        page.get_by_role("group", name=question).get_by_label(label, exact=True).check()


def write(page: Page, question: str, text: str) -> None:
    page.get_by_role("group", name=question).get_by_role("textbox").fill(text)


def press_send(page: Page) -> None:
    page.get_by_role("button", name="Send randomized answers").click()


def see(page: Page, title: str) -> None:
    """Waits until the page says this."""
    page.get_by_role("heading", name=title).wait_for()


def send(page: Page) -> None:
    press_send(page)
    see(page, SENT)


def kept(page: Page) -> dict[str, dict[str, Any]]:
    """What the device keeps, read."""
    found: dict[str, str] = page.evaluate("({...localStorage})")
    return {key: json.loads(value) for key, value in found.items()}


@dataclass
class Recorded:
    """Every request of a browser context."""

    requests: list[Request] = field(default_factory=list)

    @classmethod
    def of(cls, context: BrowserContext) -> Recorded:
        made = cls()
        context.on("request", lambda request: made.requests.append(request))
        return made

    @property
    def lines(self) -> list[str]:
        """Method and address of each."""
        return [f"{one.method} {one.url}" for one in self.requests]

    @property
    def bodies(self) -> list[str]:
        """What was sent."""
        return [one.post_data or "" for one in self.requests if one.method == "POST"]
