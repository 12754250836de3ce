"""Draws the pictures of surveys in docs/pictures, in a real browser: `python docs/make_survey_pictures.py [FOLDER]`.

All randomness is fixed, so the pictures change only with the pages. `make test` installs the browser.
"""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from lapwing.cli.survey import DRAFT
from lapwing.survey import Survey, parse_survey
from lapwing.survey.simulate import Simulated, class_answers, class_survey
from lapwing.survey.sqlite_store import SqliteSurveyStore
from support.browser import launched
from support.survey_server import ServedSurvey, serving
from support.tape import SeededBits

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PICTURES_OF_DOCS = Path(__file__).resolve().parent / "pictures"
PHONE = {"width": 360, "height": 850}
SHADES = 160  # colours of a picture
KNOWN = """{
  let state = 20150;
  const next = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) >>> 24;
  crypto.getRandomValues = (array) => array.map(next, array).forEach((byte, i) => (array[i] = byte)) ?? array;
}"""
FRAME = """<!doctype html><style>
body {{ margin: 0; padding: 28px; display: flex; gap: 28px; width: max-content; background: #e3e8e4; }}
img {{ display: block; width: 360px; border-radius: 26px; border: 6px solid #17201d; }}
</style>{}"""


def people(many: int) -> list[dict[str, int | None]]:
    """Made-up respondents to the draft of `lapwing survey new`."""
    return [
        {
            "overtime": int(i % 20 < 7),
            "mood": (0, 0, 0, 1, 1, 2, None)[i % 7],
            "trouble": (0, 1, 2, 4, 6, 0)[i % 6],
            "hours": 30 + i % 21,
            "again": int(i % 10 < 6),
        }
        for i in range(many)
    ]


def serve(survey: Survey, folder: Path) -> AbstractContextManager[ServedSurvey]:
    return serving(survey, folder, store=SqliteSurveyStore())


def draw_phones(browser: Browser, survey: ServedSurvey) -> bytes:
    """The label, a question, and what is said after sending, side by side."""
    page = browser.new_page(viewport=PHONE)  # type: ignore[arg-type]
    page.add_init_script(KNOWN)
    page.goto(survey.url)
    shots = [page.screenshot()]
    overtime = page.locator("#question-1")
    overtime.get_by_label("Yes").check()
    overtime.get_by_text("As a picture").click()
    overtime.scroll_into_view_if_needed()
    page.evaluate("document.activeElement.blur()")
    page.mouse.move(0, 0)
    page.evaluate("scrollTo(0, document.querySelector('#question-1').offsetTop - 16)")
    shots.append(page.screenshot())
    page.get_by_role("button", name="Send randomized answers").click()
    page.get_by_role("heading", name="Thank you").wait_for()
    page.evaluate("scrollTo(0, document.querySelector('#state').offsetTop - 16)")
    shots.append(page.screenshot())
    page.close()
    framed = browser.new_page(viewport={"width": 1200, "height": 920})
    images = "".join(f'<img src="data:image/png;base64,{base64.b64encode(shot).decode()}">' for shot in shots)
    framed.set_content(FRAME.format(images))
    shot = framed.locator("body").screenshot()
    framed.close()
    return shot


def draw_results(browser: Browser, survey: ServedSurvey) -> bytes:
    """All answers, after 800 reports."""
    Simulated(survey.survey, survey.store, SeededBits(7)).arrive(people(800))
    page = open_results(browser, survey)
    page.get_by_role("heading", name="800 reports").wait_for()
    name_address(page)
    shot = page.screenshot(clip={"x": 0, "y": 0, "width": 820, "height": 1000}, full_page=True)
    page.close()
    return shot


def draw_few(browser: Browser, survey: ServedSurvey) -> bytes:
    """Below the declared number."""
    Simulated(survey.survey, survey.store, SeededBits(7)).arrive(people(40))
    page = open_results(browser, survey)
    page.get_by_role("heading", name="do not report yet").wait_for()
    name_address(page)
    bottom = page.locator("#state").bounding_box() or {"y": 0, "height": 0}
    shot = page.screenshot(clip={"x": 0, "y": 0, "width": 820, "height": bottom["y"] + bottom["height"] + 28})
    page.close()
    return shot


def draw_class(browser: Browser, survey: ServedSurvey) -> bytes:
    """The class survey with two coins, as reports came in."""
    crowd, everyone = Simulated(survey.survey, survey.store, SeededBits(3)), class_answers(400)
    page = browser.new_page(viewport={"width": 820, "height": 800})
    page.clock.install()
    page.goto(survey.results_url)
    for start in range(0, 400, 20):
        crowd.arrive(everyone[start : start + 20])
        page.wait_for_timeout(520)  # results are computed at most twice a second
        page.clock.run_for(2_000)
        page.get_by_role("heading", name=f"{start + 20} reports").wait_for()
    name_address(page)
    shot = page.screenshot(full_page=True)
    page.close()
    return shot


def name_address(page: Page) -> None:
    """The port of `lapwing survey serve` instead of the free one that was taken here."""
    page.locator("#form").evaluate("link => { link.textContent = 'http://127.0.0.1:8640/'; }")


def open_results(browser: Browser, survey: ServedSurvey) -> Page:
    page = browser.new_page(viewport={"width": 820, "height": 900})
    page.goto(survey.results_url)
    return page


PICTURES: dict[str, tuple[Callable[[], Survey], Callable[[Browser, ServedSurvey], bytes]]] = {
    "survey_phones.png": (lambda: parse_survey(DRAFT), draw_phones),
    "survey_few.png": (lambda: parse_survey(DRAFT), draw_few),
    "survey_results.png": (lambda: parse_survey(DRAFT), draw_results),
    "survey_class.png": (class_survey, draw_class),
}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with launched() as browser:
        for name, (survey, draw) in PICTURES.items():
            with TemporaryDirectory() as place, serve(survey(), Path(place)) as served:
                image = Image.open(io.BytesIO(draw(browser, served))).convert("RGB")
            image.quantize(SHADES, dither=Image.Dither.NONE).save(folder / name, optimize=True)
            print(f"{folder / name}: {(folder / name).stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES_OF_DOCS)
