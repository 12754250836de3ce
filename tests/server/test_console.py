"""Attacks on the console, and what its pages say: over HTTP without a browser (test_browser_console.py has one)."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pyarrow as pa
import pytest
from markupsafe import escape

from lapwing.privacy import Budget
from lapwing.server.console.sessions import same_origin
from lapwing.server.tokens import allow_share
from server.test_sessions import ORIGIN, sign_in, talk
from support.serving import BY_SEX, COUNT, QUICK, Asked, serving
from support.visits import frame, open_visits

HTML = {"accept": "text/html,application/xhtml+xml"}
NAMES = ["<b>x</b>", '"><script>alert(1)</script>', "{{ 7 * 7 }}", "=1+1", "'\"&`"]
"""Texts that a page must show as they are."""


def console(
    asked: Asked, *calls: tuple[str, str, Any], name: str = "ann", role: str = "analyst"
) -> list[httpx.Response]:
    """What the pages of one signed-in person get."""

    async def work(client: httpx.AsyncClient) -> list[httpx.Response]:
        headers = {**await sign_in(client, asked.token(name, role)), **HTML}
        return [
            await client.request(m, path, headers=headers, **({} if m == "GET" else {"json": b}))
            for m, path, b in calls
        ]

    found: list[httpx.Response] = talk(asked, work)
    return found


def entries(asked: Asked) -> int:
    return len(list(asked.service.ledger.entries()))


def test_two_uses_of_one_code_at_once_open_one_session(asked: Asked) -> None:
    code = asked.service.sessions.invite(asked.token())
    assert code is not None
    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(lambda _: asked.service.sessions.accept(code), range(8)))
    assert sum(name is not None for name in opened) == 1


def test_a_code_is_no_session_and_a_session_no_code(asked: Asked) -> None:
    sessions, token = asked.service.sessions, asked.token()
    code, name = sessions.invite(token), sessions.open(token)
    assert code is not None
    assert name is not None
    assert sessions.find(code) is None
    assert sessions.accept(name) is None
    assert sessions.find(token) is None


def test_a_code_of_a_revoked_token_opens_nothing(asked: Asked) -> None:
    code = asked.service.sessions.invite(asked.token())
    asked.service.tokens.revoke("ann")
    assert asked.service.sessions.accept(code or "") is None


def test_a_browser_cannot_choose_the_name_of_its_session(asked: Asked) -> None:
    async def work(client: httpx.AsyncClient) -> tuple[str, int]:
        client.cookies.set("lapwing", "chosen-by-another")
        entered = await client.post("/console/sign-in", json={"token": asked.token()}, headers={"origin": ORIGIN})
        client.cookies.clear()
        client.cookies.set("lapwing", "chosen-by-another")
        return entered.headers["set-cookie"], (await client.get("/console")).status_code

    cookie, status = talk(asked, work)
    assert "chosen-by-another" not in cookie
    assert status == 303


def test_strangers_write_nothing_into_the_ledger(asked: Asked) -> None:
    asked.token()
    before = entries(asked)

    async def work(client: httpx.AsyncClient) -> list[int]:
        tried = [{"token": "lw_0123456789abcdef_" + "A" * 43}, {"token": "x"}, {"code": "x"}, {}]
        found = [await client.post("/console/sign-in", json=body, headers={"origin": ORIGIN}) for body in tried]
        found += [
            await client.get("/console", headers={"cookie": "lapwing=guess"}),
            await client.get("/console/sign-in"),
        ]
        return [response.status_code for response in found]

    assert talk(asked, work) == [401, 401, 401, 401, 303, 200]
    assert entries(asked) == before


def test_signing_in_counts_as_a_request_of_its_person() -> None:
    """Each session is an entry of the ledger: a valid token does not fill it."""
    with serving(rate=1, burst=5) as asked:
        body, headers = {"token": asked.token()}, {"origin": ORIGIN}
        before = entries(asked)

        async def work(client: httpx.AsyncClient) -> list[int]:
            return [(await client.post("/console/sign-in", json=body, headers=headers)).status_code for _ in range(20)]

        found = talk(asked, work)
        assert found[:5] == [200] * 5
        assert found.count(429) >= 10
        assert entries(asked) - before == found.count(200)


@pytest.mark.parametrize(
    ("origin", "host", "secure", "same"),
    [
        (b"http://a.test:1", b"a.test:1", False, True),
        (b"https://a.test", b"a.test", True, True),
        (b"https://a.test", b"a.test", False, True),  # a proxy on this machine speaks TLS
        (b"http://a.test", b"a.test", True, False),  # a page that a network attacker wrote
        (b"http://a.test:2", b"a.test:1", False, False),
        (b"http://[", b"a.test", False, False),
        (b"null", b"a.test", False, False),
        (b"http://", b"", False, False),
        (b"", b"", False, False),
    ],
)
def test_a_page_of_the_same_origin_is_exactly_that(origin: bytes, host: bytes, secure: bool, same: bool) -> None:
    assert same_origin({b"origin": origin, b"host": host}, secure=secure) is same


def test_a_broken_origin_is_refused_and_no_fault(asked: Asked) -> None:
    async def work(client: httpx.AsyncClient) -> int:
        return (await client.post("/console/sign-in", json={"token": "x"}, headers={"origin": "http://["})).status_code

    assert talk(asked, work) == 403


@pytest.mark.parametrize("path", ["/console", "/console/budget", "/console/sign-in", "/console/static/console.js", "/"])
def test_no_page_is_kept_framed_or_read_by_another_origin(asked: Asked, path: str) -> None:
    headers = console(asked, ("GET", path, None))[0].headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    if path == "/console":
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy


def test_an_answer_of_another_opens_as_over_http(asked: Asked) -> None:
    """/v1/releases/{release} answers anyone who knows the name; lists show a person's own."""
    name = asked.ask(BY_SEX, name="bob").json()["release"]
    assert asked.call("GET", f"/v1/releases/{name}").status_code == 200
    page, listed, guessed = console(
        asked,
        ("GET", f"/console/answers/{name}", None),
        ("GET", "/console/answers", None),
        ("GET", "/console/answers/r" + "0" * 32, None),
    )
    assert page.status_code == 200
    assert name not in listed.text
    assert guessed.status_code == 404


def test_an_answer_costs_at_most_what_was_shown(asked: Asked) -> None:
    """A button that says free never pays, whatever happened since."""
    asked.ask(BY_SEX)
    spent = asked.spent
    body = {"sql": BY_SEX["sql"], "epsilon": "0.1"}
    (seen,) = console(asked, ("POST", "/console/preview", body))
    assert seen.json()["button"] == "Show the answer"
    name = seen.json()["preview"]
    other = {**body, "refresh": True}
    free, more = console(
        asked, ("POST", f"/console/ask?preview={name}", body), ("POST", f"/console/ask?preview={name}", other)
    )
    assert free.status_code == 200
    assert more.json()["code"] == "preview-invalid"
    assert asked.spent == spent


def test_a_price_that_is_not_the_one_shown_any_more_is_refused(asked: Asked) -> None:
    (seen,) = console(asked, ("POST", "/console/preview", BY_SEX))
    (wrong,) = console(asked, ("POST", f"/console/ask?preview={seen.json()['preview']}", BY_SEX), name="bob")
    assert (wrong.status_code, wrong.json()["code"]) == (422, "preview-invalid")
    assert not asked.spent


def test_wrong_words_of_a_steward_are_no_fault_of_the_server(asked: Asked) -> None:
    mine = {"confirm": asked.token("boss", "steward")}
    found = console(
        asked,
        ("POST", "/console/people", {**mine, "action": "add", "name": "not a name"}),
        ("POST", "/console/people", {**mine, "action": "revoke", "name": "missing"}),
        ("POST", "/console/people", {**mine, "action": "allow", "name": "ann", "share": "2"}),
        ("POST", "/console/people", {**mine, "action": "allow", "name": "ann"}),
        name="boss",
        role="steward",
    )  # fmt: skip
    assert [response.status_code for response in found] == [422] * 4
    assert all("incident" not in response.text for response in found)


@pytest.mark.parametrize("after", ["-1", "9" * 30, "x"])
def test_the_ledger_starts_at_an_entry(asked: Asked, after: str) -> None:
    (found,) = console(asked, ("GET", f"/console/ledger?after={after}", None), name="aud", role="auditor")
    assert found.status_code == 422
    assert "incident" not in found.text


@pytest.mark.parametrize("path", ["/console/ledger", "/console/answers/r" + "0" * 32, "/console/nothing", "/console/"])
def test_a_browser_gets_a_page_for_every_problem(asked: Asked, path: str) -> None:
    (found,) = console(asked, ("GET", path, None))
    assert found.status_code in (403, 404)
    assert found.headers["content-type"].startswith("text/html")
    assert "Back to the console" in found.text
    assert "incident" not in found.text


def test_the_log_has_questions_of_the_console_if_its_steward_says_so() -> None:
    for wanted in (False, True):
        with serving(log_questions=wanted) as asked:
            console(asked, ("POST", "/console/preview", BY_SEX), ("POST", "/console/ask", BY_SEX))
            lines = [line for line in asked.lines if line["route"] in ("/console/preview", "/console/ask")]
            assert [("GROUP BY" in str(line.get("question"))) for line in lines] == [wanted, wanted]


@pytest.mark.parametrize("text", NAMES)
def test_declared_texts_columns_and_aliases_are_shown_as_texts(text: str) -> None:
    quoted = '"' + text.replace('"', '""') + '"'
    rows = frame().append_column(text, frame()["sex"])
    question = f"SELECT {quoted}, COUNT(*) AS n FROM visits GROUP BY {quoted}"
    with serving(open_visits(rows, values={text: [text, "M"]})) as asked:
        answered = asked.ask({"sql": question, "epsilon": "0.1"})
        release = answered.json()["release"]
        paths = ["/console", "/console/answers", *(f"/console/answers/{release}{end}" for end in ("", ".svg"))]
        pages = console(asked, *(("GET", path, None) for path in paths))
        people = console(asked, ("GET", "/console/people", None), name="boss", role="steward")
        entries_page = console(asked, ("GET", "/console/ledger", None), name="boss", role="steward")
    assert str(escape(text)) in pages[0].text
    for page in [*pages, *people, *entries_page]:
        assert page.status_code == 200
        assert "<script>alert" not in page.text
        assert "<b>x</b>" not in page.text


def ghost(data: Any, question: str, **facts: Any) -> dict[str, Any]:
    with serving(open_visits(data, **facts)) as asked:
        (seen,) = console(asked, ("POST", "/console/preview", {"sql": question, "epsilon": "0.1"}))
    return {**seen.json(), "preview": ""}


def test_the_example_is_a_function_of_the_plan_and_never_of_the_rows() -> None:
    """Neighbouring tables, and an empty one: byte for byte the same."""
    first = ghost(frame(40), BY_SEX["sql"])
    assert "EXAMPLE" in first["ghost"]
    assert ghost(frame(41), BY_SEX["sql"]) == ghost(frame(0), BY_SEX["sql"]) == first


def test_keys_that_are_selected_privately_have_no_example() -> None:
    """How many bars there are would be a guess at how many keys there are."""
    question = "SELECT name, COUNT(*) AS n FROM visits GROUP BY name"
    seen = ghost(frame(40), question, budget=Budget(1, 1e-6), groups_per_unit=1)
    assert seen["button"]
    assert seen["ghost"] == ""


def test_a_question_without_a_price_is_free(asked: Asked) -> None:
    body = {"sql": "SELECT DISTINCT sex FROM visits", "epsilon": "0.1"}
    (seen,) = console(asked, ("POST", "/console/preview", body))
    assert seen.json()["line"] == "Free: no rows are read."
    assert console(asked, ("POST", f"/console/ask?preview={seen.json()['preview']}", body))[0].status_code == 200
    assert not asked.spent


@pytest.mark.parametrize(
    "question",
    [
        "SELECT (SELECT COUNT(*) FROM visits) - 3 AS n",
        "SELECT sex, COUNT(*) AS n, AVG(cost) AS c FROM visits GROUP BY ROLLUP (sex)",
        "SELECT sex, n FROM (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex) ORDER BY n LIMIT 1",
        "SELECT COUNT(*) AS n FROM visits UNION ALL SELECT COUNT(*) AS n FROM visits WHERE cost > 3",
        "SELECT MEDIAN(cost) AS m FROM visits",
        "SELECT COUNT(*) AS n FROM visits HAVING COUNT(*) > 3",
        "SELECT 1 AS n",
        "SELEC",
    ],
)
def test_every_question_has_a_line(asked: Asked, question: str) -> None:
    """Also a refused one, and a statement of several questions."""
    body = {"sql": question, "share": 0.1}
    (seen,) = console(asked, ("POST", "/console/preview", body))
    assert seen.status_code == 200, seen.text
    facts = seen.json()
    assert facts.get("line") or facts["refused"]
    if "line" in facts:
        preview = facts["preview"]
        (answer,) = console(asked, ("POST", f"/console/ask?preview={preview}", body))
        assert console(asked, ("GET", f"/console/answers/{answer.json()['release']}", None))[0].status_code == 200


def test_the_file_of_the_ledger_is_its_export(asked: Asked) -> None:
    asked.ask(COUNT)
    (found,) = console(asked, ("GET", "/console/ledger.jsonl", None), name="aud", role="auditor")
    lines = [json.loads(line) for line in found.text.splitlines()]
    assert lines[-1]["head"]["ledger"] == asked.service.ledger.id
    assert [line["seq"] for line in lines[:-1]] == list(range(1, len(lines)))


def test_every_form_of_answer_opens_as_a_page_and_as_files() -> None:
    """A question, a batch, a distribution, marginals, and a statement computed from several."""
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("/v1/ask", BY_SEX),
        ("/v1/ask", {"sql": "SELECT (SELECT COUNT(*) FROM visits) - 3 AS n", "epsilon": "0.1"}),
        ("/v1/batch", {"questions": [COUNT["sql"], BY_SEX["sql"]], "epsilon": "0.1"}),
        ("/v1/distribution", {"column": "site", "epsilon": "0.1"}),
        ("/v1/marginals", {"columns": ["sex", "site"], "ways": 1, "epsilon": "0.1"}),
    ]
    with serving(open_visits(groups_per_unit=1)) as asked:
        for path, body in bodies:
            release = asked.ask(body, path).json()["release"]
            page, raw = console(
                asked, ("GET", f"/console/answers/{release}", None), ("GET", f"/console/answers/{release}.json", None)
            )
            assert (page.status_code, raw.status_code) == (200, 200), path
            assert raw.json() == asked.call("GET", f"/v1/releases/{release}").json()
        (listed,) = console(asked, ("GET", "/console/answers", None))
        assert listed.status_code == 200
        assert listed.text.count('href="/console/answers/r') == len(bodies)


@pytest.mark.parametrize("limit", [None, "person", "team"])
def test_the_budget_is_told_in_questions_like_the_last(asked: Asked, limit: str | None) -> None:
    who = "ann@ward"
    asked.tokens[f"{who}:analyst"] = asked.service.tokens.add("ann", "analyst", team="ward")[0]
    if limit is not None:
        allow_share(asked.service.ledger, who if limit == "person" else "@ward", 0.35)
    asked.ask(COUNT, name=who)
    (facts,) = console(asked, ("GET", "/console/budget.json", None), name=who)
    (page,) = console(asked, ("GET", "/console/budget", None), name=who)
    assert facts.json()["like_last"] == (9 if limit is None else 2)
    assert f"About {9 if limit is None else 2} more like it" in page.text
    (seen,) = console(asked, ("POST", "/console/preview", BY_SEX), name=who)
    assert f"about {9 if limit is None else 2} more like it" in seen.json()["line"]
    (seen,) = console(asked, ("POST", "/console/preview", {**BY_SEX, "epsilon": "0.3"}), name=who)
    assert seen.json()["fits"] is (limit is None)
    for _ in range(9 if limit is None else 2):
        assert asked.ask({**COUNT, "refresh": True}, name=who).status_code == 200
    assert asked.ask({**COUNT, "refresh": True}, name=who).status_code == 409


def test_only_a_steward_sees_the_marks_that_were_open_at_the_start(asked: Asked) -> None:
    asked.service.marks = ["7: unit = 'pid' # REVIEW: <b>who</b>"]
    pages = console(
        asked, *(("GET", f"/console{path}", None) for path in ("/people", "", "/budget")), name="boss", role="steward"
    )
    assert "7: unit = &#39;pid&#39; # REVIEW: &lt;b&gt;who&lt;/b&gt;" in pages[0].text
    assert all("REVIEW" not in page.text for page in pages[1:])
    assert all("REVIEW" not in page.text for page in console(asked, ("GET", "/console", None)))


def test_a_file_of_a_chart_has_colours_of_its_own(asked: Asked) -> None:
    """Outside the page nothing else says that intervals are drawn."""
    release = asked.ask(BY_SEX).json()["release"]
    (found,) = console(asked, ("GET", f"/console/answers/{release}.svg", None))
    assert ".whisker line{stroke:" in found.text
    assert "attachment" in found.headers["content-disposition"]


def test_an_answer_leaves_on_the_grid_and_is_stored_then(asked: Asked) -> None:
    """As over /v1: T, 2T, 4T, ... after its turn began, and what is free at once."""
    began = time.monotonic()
    console(asked, ("POST", "/console/ask", BY_SEX), ("POST", "/console/ask", BY_SEX))
    assert time.monotonic() - began >= QUICK
    fresh, stored = [line["left_after"] for line in asked.lines if line["route"] == "/console/ask"]
    assert fresh in [QUICK * 2**k for k in range(7)]
    assert stored is None


@pytest.mark.parametrize("path", ["/console/sign-in", "/console/ask", "/console/people", "/console/sign-out"])
@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b'{"token": "' + b"x" * 1_100_000 + b'"}', "application/json", 413),
        (b'{"token": ' + b"[" * 30 + b"]" * 30 + b"}", "application/json", 422),
        (b'{"sql": "SELECT 1", "share": 0.1}', "text/plain", 415),  # what a form of another page can send
        (b"token=x", "application/x-www-form-urlencoded", 415),
        (b'{"token": "x", "more": 1}', "application/json", 422),
        (b"{", "application/json", 422),
    ],
)
def test_a_body_is_short_json_of_the_known_form(
    asked: Asked, path: str, content: bytes, kind: str, status: int
) -> None:
    async def work(client: httpx.AsyncClient) -> int:
        headers = {**await sign_in(client, asked.token("boss", "steward")), "content-type": kind}
        return (await client.post(path, content=content, headers=headers)).status_code

    assert talk(asked, work) == status
    assert not asked.spent


@pytest.mark.parametrize("name", ["sign_in.html", "..%2fsessions.py", "%2e%2e/addresses.py", "console.css%00"])
def test_static_files_are_scripts_styles_and_pictures_alone(asked: Asked, name: str) -> None:
    async def work(client: httpx.AsyncClient) -> int:
        return (await client.get(f"/console/static/{name}")).status_code

    assert talk(asked, work) in (401, 404)


def test_a_file_for_a_sheet_has_no_formula() -> None:
    rows = frame().set_column(2, "sex", pa.array(["=1+1"] * 80))
    with serving(open_visits(rows, values={"sex": ["=1+1"]})) as asked:
        release = asked.ask(BY_SEX).json()["release"]
        (found,) = console(asked, ("GET", f"/console/answers/{release}.csv", None))
    assert "1+1" in found.text
    assert not any(cell.strip('"').startswith("=") for line in found.text.splitlines() for cell in line.split(","))
