"""The server: what it hands out, what it takes, what it refuses, and what it does not keep."""

from __future__ import annotations

import gzip
import json
import logging
import re
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from lapwing.errors import StoreFailed
from lapwing.survey import Survey
from lapwing.survey.report_store import Invited, Kept, hash_code, make_code
from lapwing.survey.sqlite_store import SqliteSurveyStore
from lapwing.survey.survey_app import RateLimit, make_app, network_of
from lapwing.survey.wire import message_length, public_description
from support.survey_server import Client, message
from support.surveys import survey

TEXT = {"content-type": "text/plain;charset=UTF-8"}


class Visitor:
    """A client, the store behind it, and the key of the results."""

    def __init__(self, asked: Survey) -> None:
        self.survey, self.store = asked, SqliteSurveyStore()
        self.app = make_app(asked, self.store)
        self.key, self.server = self.app.server.key, self.app.server
        self.client = Client(self.app)

    def get(self, path: str, **more: Any) -> Any:
        return self.client.get(path, **more)

    def post(self, body: str | bytes, **headers: str) -> Any:
        return self.client.post("/reports", content=body, headers=TEXT | headers)

    def said(self, body: str | bytes, **headers: str) -> tuple[int, str]:
        answer = self.post(body, **headers)
        return answer.status_code, answer.json()["status"]


@pytest.fixture(scope="module")
def asked() -> Survey:
    return survey(per_minute=1_000_000)


@pytest.fixture
def visitor(asked: Survey) -> Visitor:
    return Visitor(asked)


class Hostile(Visitor):
    """Sends what must leave nothing."""

    def post(self, body: str | bytes, **headers: str) -> Any:
        answer = super().post(body, **headers)
        assert self.store.count() == 0
        return answer


@pytest.fixture(scope="module")
def open_door(asked: Survey) -> Hostile:
    """One visitor for many hostile messages."""
    return Hostile(asked)


@pytest.fixture(scope="module")
def half_open(asked: Survey) -> Visitor:
    """One visitor for many messages of which some may be reports."""
    return Visitor(asked)


def test_everything_has_the_same_strict_headers(visitor: Visitor) -> None:
    """No cookie, no referrer, no cache, and nothing is loaded from elsewhere, whatever is asked for."""
    asked = ["/", "/survey.json", "/form.js", "/survey.css", "/nothing", "/results", f"/results?key={visitor.key}"]
    answers = [
        *map(visitor.get, asked),
        visitor.post("x"),
        visitor.client.request("PUT", "/reports"),
        visitor.get("/reports"),
    ]
    for answer in answers:
        assert "set-cookie" not in answer.headers
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
    assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 404, 404, 200, 400, 405, 405]


def test_the_form_carries_the_description_and_the_hashes_of_what_it_runs(visitor: Visitor) -> None:
    page, sent = visitor.get("/").text, visitor.get("/survey.json").content
    assert json.loads(sent) == public_description(visitor.survey)
    carried = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert carried is not None
    assert json.loads(carried[1]) == json.loads(sent)
    for name in ("form.js", "randomize.js"):
        script = visitor.get(f"/{name}").content
        assert visitor.server.site.hashes[name]["integrity"] in page
        assert sha256(script).hexdigest() in page
    assert sha256(sent).hexdigest() in page


def test_a_text_of_the_steward_cannot_become_a_script() -> None:
    hostile = "</script><script>alert(1)</script>"
    visitor = Visitor(survey("overtime", title=hostile))
    assert "<script>alert" not in visitor.get("/").text
    assert "<script>alert" not in visitor.get(f"/results?key={visitor.key}").text


def test_a_report_is_kept_once(visitor: Visitor) -> None:
    """threat:A33 the same message again is answered alike and counts once; another report with its nonce is refused."""
    sent = message(visitor.survey, {"overtime": 1})
    other = json.loads(message(visitor.survey))
    forged = json.dumps(json.loads(sent) | {"report": _another(json.loads(sent)["report"])}, separators=(",", ":"))
    assert visitor.said(sent) == (200, "stored")
    assert visitor.said(sent) == (200, "already")
    assert visitor.said(forged) == (409, "nonce-taken")
    assert visitor.said(json.dumps(other, separators=(",", ":"))) == (200, "stored")
    assert visitor.store.count() == 2
    assert bytes.fromhex(json.loads(sent)["report"]) in visitor.store.reports()


def _another(report: str) -> str:
    return ("00" if report[:2] != "00" else "01") + report[2:]


def test_every_answer_and_none_gives_a_message_of_one_length(asked: Survey) -> None:
    """threat:A33 the length of what leaves the browser says nothing."""
    programs = {question.id: question.program() for question in asked.questions}
    every: list[dict[str, int | None]] = [{}]
    for name, program in programs.items():
        every += [{name: answer} for answer in (None, *range(min(program.answers, 20)), program.answers - 1)]
    assert {len(message(asked, answers)) for answers in every for _ in range(3)} == {message_length(asked)}


MALFORMED: dict[str, Any] = {
    "spaces": lambda sent: sent.replace(":", ": ", 1)[:-1],
    "another order": lambda sent: json.dumps(dict(reversed(json.loads(sent).items())), separators=(",", ":")),
    "capitals": lambda sent: sent.replace('"nonce":"', '"nonce":"A', 1)[: len(sent) - 3] + '"}',
    "no JSON": lambda sent: "x" * len(sent),
    "not ASCII": lambda sent: (sent[:-3] + "é}").encode(),
    "invalid UTF-8": lambda sent: sent.encode()[:-2] + b"\xff\xfe",
    "a null byte": lambda sent: sent[:20] + "\0" + sent[21:],
    "a report out of its domain": lambda sent: sent.replace('"report":"', '"report":"ff', 1).replace('","inv', "X", 1),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_messages_are_refused(open_door: Hostile, name: str) -> None:
    sent = message(open_door.survey)
    assert open_door.said(MALFORMED[name](sent))[1] == "malformed"


def test_reports_out_of_their_domain_are_refused(open_door: Hostile) -> None:
    """threat:A33 each question in turn: the least number beyond its domain, and the largest that its bytes hold."""
    sent = json.loads(message(open_door.survey))
    start = 0
    for question in open_door.survey.questions:
        program = question.program()
        for number in {program.reports, 256**program.size - 1} & set(range(program.reports, 256**program.size)):
            made = bytearray.fromhex(sent["report"])
            made[start : start + program.size] = number.to_bytes(program.size, "little")
            forged = json.dumps(sent | {"report": made.hex()}, separators=(",", ":"))
            assert open_door.said(forged) == (400, "malformed"), question.id
        start += program.size


def test_a_message_to_a_changed_survey_says_so(open_door: Hostile) -> None:
    sent = json.loads(message(open_door.survey)) | {"survey": "0" * 32}
    assert open_door.said(json.dumps(sent, separators=(",", ":"))) == (409, "other-survey")


def test_wrong_lengths_types_and_encodings_are_refused(open_door: Hostile) -> None:
    sent = message(open_door.survey)
    assert open_door.said(sent[:-1]) == (400, "malformed")
    assert open_door.said(sent + " ") == (413, "malformed")
    assert open_door.said("x" * 10_000_000) == (413, "malformed")
    assert open_door.said("") == (400, "malformed")
    for kind in ("application/json", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", ""):
        assert open_door.client.post("/reports", content=sent, headers={"content-type": kind}).status_code == 415
    packed = gzip.compress(sent.encode())
    assert open_door.post(packed, **{"content-encoding": "gzip"}).status_code == 415
    assert open_door.post(sent, **{"content-encoding": "br"}).status_code == 415

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(1000):
            yield b"x" * 100

    assert open_door.client.post("/reports", content=parts(), headers=TEXT).status_code == 413


@settings(max_examples=150, deadline=None)
@given(body=st.binary(max_size=300))
def test_random_bytes_are_refused(open_door: Hostile, body: bytes) -> None:
    assert open_door.post(body).status_code in (400, 413)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_changed_messages_are_refused_or_are_reports(asked: Survey, half_open: Visitor, data: st.DataObject) -> None:
    """One byte of a message changed: it is another valid report, nonce or survey, or it is refused."""
    visitor, before = half_open, half_open.store.count()
    sent = bytearray(message(asked).encode())
    place = data.draw(st.integers(0, len(sent) - 1))
    sent[place] = data.draw(st.integers(0, 255))
    answer = visitor.post(bytes(sent))
    assert answer.status_code in (200, 400, 409)
    assert visitor.store.count() == before + (answer.status_code == 200)
    limits = [question.program().reports for question in asked.questions]
    for report in visitor.store.reports():
        numbers = visitor.server.reader.numbers(report)
        assert all(number < most for number, most in zip(numbers, limits, strict=True))


def test_an_invitation_works_once() -> None:
    visitor = Visitor(survey("overtime", "mood", invitations=True))
    code = make_code()
    visitor.store.invite([hash_code(code)])
    sent = message(visitor.survey, {"mood": 1}, code=code)
    assert visitor.said(message(visitor.survey, code=make_code())) == (403, "invitation-unknown")
    assert visitor.said(message(visitor.survey)) == (400, "malformed")
    assert visitor.said(sent) == (200, "stored")
    assert visitor.said(sent) == (200, "already")
    assert visitor.said(message(visitor.survey, code=code)) == (409, "invitation-used")
    assert visitor.store.invited() == Invited(1, 1)
    assert visitor.store.count() == 1
    assert {len(message(visitor.survey, code=make_code())) for _ in range(5)} == {len(sent)}


def test_a_survey_with_an_open_link_takes_no_invitation(open_door: Hostile) -> None:
    assert open_door.said(message(open_door.survey, code=make_code())) == (413, "malformed")


RIGHTS = {
    "/": "everyone",
    "/survey.json": "everyone",
    "/results": "key",
    "/results.json": "key",
    "/reports": "everyone",
    "/{name}": "everyone",
}
"""Every address, and whether it needs the key of the results."""


def unsaid(visitor: Visitor) -> set[str]:
    """The addresses of the application itself that the table of rights does not have."""
    return {str(getattr(route, "path", route)) for route in visitor.app._app.routes} - RIGHTS.keys()


def test_every_address_is_in_the_table_of_rights(visitor: Visitor) -> None:
    """One that is not is named: one is planted, which shows all reports to everybody."""
    assert unsaid(visitor) == set()
    for path, right in RIGHTS.items():
        answer = visitor.get(path.replace("{name}", "form.js"))
        assert answer.status_code == {"key": 404, "everyone": 405 if path == "/reports" else 200}[right]

    async def planted(_: Request) -> Response:
        return Response(b"".join(visitor.store.reports()))

    visitor.app._app.router.routes.insert(0, Route("/all", planted))
    assert unsaid(visitor) == {"/all"}


def test_results_need_their_link(visitor: Visitor) -> None:
    for path in ("/results", "/results.json", "/results?key=", "/results.json?key=wrong", "/results?key=%00%ff"):
        assert visitor.get(path).status_code == 404
    assert visitor.get(f"/results?key={visitor.key}").status_code == 200
    assert visitor.get(f"/results.json?key={visitor.key}").json()["n"] == 0
    public = Visitor(survey("overtime", results="public"))
    assert public.get("/results").status_code == public.get("/results.json").status_code == 200


def test_results_say_do_not_report_until_there_are_enough() -> None:
    visitor = Visitor(survey("overtime", "hours", results="public", report_from=12, per_minute=1000))
    for number in range(12):
        found = results_now(visitor)
        assert found["n"] == number
        assert not found["enough"]
        assert "Do not report" in found["message"]
        assert [one["values"] for one in found["questions"]] == [[], []]
        assert [one["mean"] for one in found["questions"]] == [None, None]
        visitor.post(message(visitor.survey, {"overtime": number % 2}))
    found = results_now(visitor)
    assert found["enough"]
    assert "Do not report" not in found["message"]
    assert [value["label"] for value in found["questions"][0]["values"]] == ["No", "Yes", "No answer"]
    assert all(0 <= value["low"] <= value["high"] <= 1 for value in found["questions"][0]["values"])


def results_now(visitor: Visitor) -> Any:
    visitor.server._computed = None  # they are kept for half a second
    return visitor.get("/results.json").json()


def test_results_are_not_computed_again_without_new_reports(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    first = visitor.get(f"/results.json?key={visitor.key}").json()
    monkeypatch.setattr(visitor.store, "reports", lambda: pytest.fail("they were read again"))
    assert visitor.get(f"/results.json?key={visitor.key}").json() == first


def test_too_many_messages_from_one_address_have_to_wait() -> None:
    visitor = Visitor(survey("overtime", per_minute=3))
    sent = [visitor.post(message(visitor.survey)) for _ in range(4)]
    assert [answer.status_code for answer in sent] == [200, 200, 200, 429]
    assert 1 <= int(sent[-1].headers["retry-after"]) <= 20
    assert visitor.store.count() == 3


def test_the_rate_limit_fills_up_evenly_and_forgets() -> None:
    now = [0.0]
    limit = RateLimit(6, lambda: now[0])
    assert [limit.wait("a") for _ in range(6)] == [0.0] * 6
    assert limit.wait("a") == 10.0
    assert limit.wait("b") == 0.0
    now[0] = 10.0
    assert limit.wait("a") == 0.0
    assert limit.wait("a") > 0
    now[0] = 100.0
    assert limit.wait("c") == 0.0
    assert len(limit) == 1  # addresses that asked before are gone
    for number in range(20_000):
        limit.wait(str(number))
    assert len(limit) <= 10_000


def test_an_ipv6_network_is_limited_as_one() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:2") != network_of("2001:db8:0:1::1")
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") == "192.0.2.1"
    assert network_of("fe80::1%eth0") == "fe80::"
    assert network_of("") == ""


def test_a_form_elsewhere_may_send_if_it_is_listed() -> None:
    place = "https://forms.example.org"
    visitor = Visitor(survey("overtime", url="https://survey.example.org", origins=[place]))
    sent = message(visitor.survey)
    assert visitor.post(sent, origin=place).headers["access-control-allow-origin"] == place
    assert "access-control-allow-origin" not in visitor.post(sent, origin="https://elsewhere.example").headers
    assert "access-control-allow-origin" not in visitor.get("/results", headers={"origin": place}).headers
    assert visitor.get("/survey.json").json()["post"] == "https://survey.example.org/reports"
    assert "connect-src 'self' https://survey.example.org;" in visitor.get("/").headers["content-security-policy"]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_elsewhere_cannot_let_its_visitors_answer(site: str) -> None:
    place = "https://forms.example.org"
    visitor = Visitor(survey("overtime", origins=[place]))
    sent = message(visitor.survey)
    assert visitor.said(sent, origin="https://elsewhere.example", **{"sec-fetch-site": site}) == (403, "elsewhere")
    assert visitor.said(sent, **{"sec-fetch-site": site}) == (403, "elsewhere")
    assert visitor.store.count() == 0
    assert visitor.said(sent, origin=place, **{"sec-fetch-site": site}) == (200, "stored")
    assert visitor.said(message(visitor.survey), **{"sec-fetch-site": "same-origin"}) == (200, "stored")


def test_refusals_are_words_for_people(open_door: Hostile) -> None:
    said = [
        answer.json()["message"] for answer in (open_door.post("x"), open_door.client.post("/reports", content="x"))
    ]
    assert said[0].endswith("Load the form again and send it from there.")
    assert said[1].endswith("Send it from the form.")


class Broken(SqliteSurveyStore):
    def add(self, nonce: bytes, report: bytes, invitation: bytes | None = None) -> Kept:
        raise StoreFailed("the secret path is full")

    def count(self) -> int:
        raise StoreFailed("the secret path is full")


def test_a_store_that_fails_acknowledges_nothing_and_tells_nothing(asked: Survey) -> None:
    app = make_app(asked, Broken())
    client = Client(app)
    answers = [
        client.post("/reports", content=message(asked), headers=TEXT),
        client.get(f"/results.json?key={app.server.key}"),
        client.get(f"/results.json?key={app.server.key}", headers={"accept": "text/html"}),
    ]
    assert [answer.status_code for answer in answers] == [503, 503, 503]
    assert all("secret" not in answer.text for answer in answers)


def test_nothing_of_a_respondent_is_kept_or_logged(
    asked: Survey, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Canaries in every header that a browser may send are neither in the store nor in a log."""
    caplog.set_level(logging.DEBUG)
    store = SqliteSurveyStore(tmp_path / "survey.db")
    client = Client(make_app(asked, store), "203.0.113.77")
    names = ("user-agent", "referer", "cookie", "x-forwarded-for", "accept-language", "authorization")
    client.get("/", headers={name: f"canary-{name}" for name in names})
    client.post("/reports?canary-query", content=message(asked), headers=TEXT | {n: f"canary-{n}" for n in names})
    assert store.count() == 1
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    store.close()
    own = [record.getMessage() for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    for canary in (b"canary", b"203.0.113.77"):
        assert canary not in written
        assert not any(canary.decode() in text for text in own)
