"""Debian's Chromium through playwright: one browser at a time in a test process, a fresh profile for every context."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from support.needs import missing

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run", "--disable-dev-shm-usage"),
    "--host-resolver-rules=MAP *.test 127.0.0.1",  # a name for this machine that no browser takes for it
)
PHONE = {"width": 360, "height": 740}
DESKTOP = {"width": 1280, "height": 800}


@contextmanager
def launched(**more: Any) -> Iterator[Browser]:
    """A browser without a profile, closed at the end. Playwright's event loop runs as long as it is open."""
    chromium = shutil.which("chromium", path="/usr/bin")
    if chromium is None:
        missing("Chromium", "chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=list(FLAGS), **more)
        try:
            yield browser
        finally:
            browser.close()


def assert_accessible(page: Page) -> None:
    """axe-core finds nothing, of any impact: in light and in dark, on a phone and on a desktop."""
    size = page.viewport_size
    for scheme in ("light", "dark"):
        for viewport in (PHONE, DESKTOP):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            page.set_viewport_size(viewport)  # type: ignore[arg-type]
            found = violations(page)
            assert found == [], f"{page.url}, {scheme}, {viewport['width']} px: {found}"
            wide = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
            assert not wide, f"{page.url} scrolls sideways at {viewport['width']} px"
    page.emulate_media(color_scheme="light")
    if size is not None:
        page.set_viewport_size(size)


def violations(page: Page) -> list[str]:
    """What axe-core finds on the page as it stands: the rule, and where."""
    if not page.evaluate("'axe' in globalThis"):
        script = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
        page.evaluate(script)  # not as a script tag, which the page's policy forbids
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    return [f"{one['id']} ({one['impact']}): {[node['target'] for node in one['nodes']]}" for one in found]
