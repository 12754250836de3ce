"""A browser for the tests of surveys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lapwing.survey import parse_survey
from support.browser import launched
from support.respondent import ALL_KINDS, ONE_QUESTION
from support.survey_server import ServedSurvey, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for a file of tests: as long as it is open, no other event loop runs in this thread."""
    with launched() as opened:
        yield opened


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A profile that nobody has used."""
    made = browser.new_context()
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedSurvey]:
    """A survey with a question of every kind."""
    with serving(parse_survey(ALL_KINDS), tmp_path) as survey:
        yield survey


@pytest.fixture
def one(tmp_path: Path) -> Iterator[ServedSurvey]:
    """A survey with one question."""
    with serving(parse_survey(ONE_QUESTION), tmp_path) as survey:
        yield survey
