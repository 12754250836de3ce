"""A copy of the form that is hosted elsewhere sends to the survey's server, and to nobody else."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from lapwing.sockets import listen
from lapwing.survey import parse_survey
from lapwing.survey.site import Site
from support.browser import assert_accessible
from support.respondent import ONE_QUESTION, UNSENT, Recorded, mark, press_send, see, send
from support.survey_server import serving

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import BrowserContext, Page


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def hosted(folder: Path) -> Iterator[str]:
    """An ordinary web server over a folder; its origin."""
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def spare_port() -> int:
    with listen("127.0.0.1", 0) as at:
        return int(at.getsockname()[1])


def test_a_copy_elsewhere_sends_to_the_survey_and_only_there(
    tmp_path: Path, page: Page, context: BrowserContext
) -> None:
    recorded, said = Recorded.of(context), []
    page.on("console", lambda line: said.append(line.text))
    folder, port = tmp_path / "copy", spare_port()
    with hosted(folder) as origin:
        head = f'url = "http://127.0.0.1:{port}"\norigins = ["{origin}"]\n'
        survey = parse_survey(head + ONE_QUESTION)
        Site(survey).export(folder)
        with serving(survey, tmp_path, port=port) as served:
            page.goto(f"{origin}/")
            assert_accessible(page)
            mark(page, "Do you smoke?", "Yes")
            send(page)
            assert served.store.count() == 1
            assert [one.url for one in recorded.requests if one.method == "POST"] == [f"{served.url}reports"]
            assert not [one for one in recorded.requests if {"cookie", "referer"} & one.all_headers().keys()]
        sums = (folder / "SHA256SUMS").read_text().splitlines()
        assert all(hashlib.sha256((folder / line[66:]).read_bytes()).hexdigest() == line[:64] for line in sums)
        for name in ("randomize.js", "form.js", "survey.json"):
            assert f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}" in page.content()
        page.evaluate("fetch('http://elsewhere.test/').catch(() => {})")
    assert [line for line in said if "Content Security Policy" not in line] == []
    assert len(said) >= 1  # the copy has the policy too


def test_a_copy_that_the_survey_does_not_know_never_hears_that_it_arrived(tmp_path: Path, page: Page) -> None:
    folder, port = tmp_path / "copy", spare_port()
    with hosted(folder) as origin:
        survey = parse_survey(f'url = "http://127.0.0.1:{port}"\norigins = ["https://forms.test"]\n{ONE_QUESTION}')
        Site(survey).export(folder)
        with serving(survey, tmp_path, port=port) as served:
            page.goto(f"{origin}/")
            press_send(page)
            see(page, UNSENT)
            page.get_by_role("button", name="Try again").click()
            see(page, UNSENT)
            assert served.store.count() == 0
