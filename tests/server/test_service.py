"""What the server says and does not say: declared facts, problems, logs, releases, dummies; never data."""

from __future__ import annotations

import json
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lapwing.curator import open_data
from lapwing.errors import LapwingError
from lapwing.privacy import Accounting, Budget, Cost
from lapwing.server.problems import CODES, KINDS, STATUSES
from support.serving import BY_SEX, COUNT, Asked, serving
from support.visits import CANARY, FACTS, frame, open_visits, write_visits

FREE = ("/v1/health", "/v1/tables", "/v1/budget", "/v1/dummy", "/v1/releases", "/", "/v1/openapi.json")


def test_free_addresses_do_not_depend_on_the_rows() -> None:
    """threat:A19 gate:G24: no person, two, four thousand; byte by byte, but for the random name of the ledger."""
    seen = []
    for people in (0, 2, 4000):
        with serving(open_visits(frame(people))) as asked:
            name = asked.service.ledger.id
            seen.append([asked.call("GET", path).text.replace(name, "LEDGER") for path in FREE])
            previews = [asked.ask(body, "/v1/preview").json() for body in (COUNT, BY_SEX)]
            seen[-1] += [json.dumps({**one, "preview": None, "expires": None}) for one in previews]
    assert seen[0] == seen[1] == seen[2]


def test_grants_and_balances_do_not_depend_on_the_rows() -> None:
    """threat:A11: the same script on neighbours gets the same statuses, codes, prices and balances."""
    script: list[tuple[str, Any]] = [
        ("/v1/ask", COUNT),
        ("/v1/ask", {"sql": "SELECT SUM(cost / (age - 20)) AS s FROM visits", "epsilon": 0.1}),
        ("/v1/ask", {"sql": "SELECT AVG(TRY_CAST(name AS INTEGER)) AS s FROM visits", "epsilon": 0.1}),
        ("/v1/ask", {"sql": "SELECT MEDIAN(age) AS m FROM visits WHERE name = 'ZZCANARY1'", "epsilon": 0.1}),
        ("/v1/batch", {"questions": [BY_SEX["sql"], COUNT["sql"]], "epsilon": 0.2}),
        ("/v1/ask", {"sql": BY_SEX["sql"], "epsilon": 0.9}),
        ("/v1/ask", COUNT),
    ]
    told = []
    for people in (0, 39, 40):
        with serving(open_visits(frame(people))) as asked:
            answers = [asked.ask(body, path) for path, body in script]
            told.append(
                [
                    (one.status_code, one.json().get("code"), one.json().get("price"), one.json().get("charged"))
                    for one in answers
                ]
                + [asked.call("GET", "/v1/budget").json()["spent"]]
            )
    assert told[0] == told[1] == told[2]
    assert [status for status, *_ in told[0][:-1]] == [200, 422, 422, 200, 200, 409, 200]


FAILING = [
    f"SELECT COUNT(*) FROM visits WHERE CAST(name AS INTEGER) = {i}"
    if i % 2
    else f"SELECT SUM(LN(cost - {i})) FROM visits"
    for i in range(20)
]


def test_canaries_are_seen_nowhere(tmp_path: Path) -> None:
    """threat:A13: not in bodies, headers, logs, the ledger or temporary files, whatever fails."""
    path = tmp_path / "visits.parquet"
    pq.write_table(frame(40), path)
    curator = open_data(
        path, name="visits", budget=Budget(50), check=0, memory="200MB", **{**FACTS, "groups_per_unit": 2}
    )
    with serving(curator, log_questions=True) as asked:
        requests = [("POST", "/v1/ask", {"json": {"sql": sql, "epsilon": 0.1}}) for sql in FAILING]
        requests += [("POST", "/v1/ask", {"json": {**BY_SEX, "bounds": "auto"}}), ("GET", "/v1/tables", {})]
        requests += [("POST", "/v1/distribution", {"json": {"column": "sex", "epsilon": 0.1}})]
        requests += [("GET", "/v1/dummy", {}), ("POST", "/v1/ask?dummy=true", {"json": COUNT}), ("GET", "/v1/x", {})]
        engine = asked.service.curator._engine
        answers = asked.calls(requests)
        real = engine.fetch

        def fail(query: Any) -> Any:
            real(query)
            raise ValueError(f"Could not convert string '{CANARY}1' to INT32")

        engine.fetch = fail  # type: ignore[method-assign]
        answers += [asked.ask({**COUNT, "sql": f"{COUNT['sql']} WHERE age > {i}"}) for i in range(3)]
        assert {answer.json()["code"] for answer in answers[-3:]} == {"engine-failed"}
        for answer in answers:
            assert CANARY not in answer.text
            assert CANARY not in str(answer.headers)
        assert not [line for line in asked.logged if CANARY in line]
    for file in tmp_path.rglob("*"):
        if file.is_file() and file != path:
            assert CANARY.encode() not in file.read_bytes()


def test_a_failure_that_nobody_foresaw_says_its_kind_to_the_log_alone(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """threat:A12 threat:A13"""

    def fail(*_: Any) -> None:
        raise RuntimeError(CANARY)

    monkeypatch.setattr(asked.service.curator, "steps", fail)
    monkeypatch.setattr(asked.service.curator, "preview_request", fail)
    monkeypatch.setattr(asked.service.curator, "describe", fail)
    answers = [asked.ask(COUNT), asked.ask(COUNT, "/v1/preview"), asked.call("GET", "/v1/tables")]
    monkeypatch.setattr(asked.service.tokens, "find", fail)
    answers.append(asked.call("GET", "/v1/tables", name="bob"))
    for answer in answers:
        assert (answer.status_code, answer.json()["code"]) == (503, "bug")
        assert CANARY not in answer.text
    assert sum('"kind": "RuntimeError"' in line for line in asked.logged) == 4
    assert not [line for line in asked.logged if CANARY in line]


def test_one_line_is_logged_for_each_request(asked: Asked) -> None:
    asked.ask(COUNT)
    asked.ask({"sql": "SELECT secret_name FROM visits", "epsilon": 0.1})
    asked.call("GET", "/v1/releases/r" + "0" * 32)
    asked.call("GET", "/v1/budget?name=secret_name")
    fresh, refused, missing, free = asked.lines
    assert fresh["left_after"] >= 0.05
    assert {**fresh, "at": None, "left_after": None, "token": None} == {
        "at": None,
        "method": "POST",
        "route": "/v1/ask",
        "status": 200,
        "token": None,
        "code": None,
        "price": "epsilon = 0.1",
        "left_after": None,
    }
    assert (refused["status"], refused["code"], refused["left_after"]) == (422, "unknown-column", None)
    assert (missing["route"], missing["status"]) == ("/v1/releases/{release}", 404)
    assert free["token"] == asked.token().split("_")[1]
    assert not [line for line in asked.logged if "secret_name" in line]


def test_questions_are_logged_only_if_the_steward_says_so() -> None:
    for told in (False, True):
        with serving(log_questions=told) as asked:
            asked.ask(COUNT)
            asked.ask(COUNT, "/v1/preview")
            assert ["question" in line for line in asked.lines] == [told, told]


def test_a_problem_has_every_field_and_a_page(asked: Asked) -> None:
    problem = asked.ask({"sql": "SELECT SUM(agee) FROM visits", "epsilon": 0.1})
    assert problem.headers["content-type"] == "application/problem+json"
    fields = problem.json()
    assert fields == {
        "type": "/problems/unknown-column",
        "title": "unknown column",
        "status": 422,
        "detail": fields["detail"],
        "code": "unknown-column",
        "part": fields["part"],
        "why": fields["why"],
        "instead": fields["instead"],
        "charged": None,
        "remaining": {"epsilon": 1.0, "delta": 0.0},
    }
    assert "age" in fields["instead"]
    assert "Nothing was charged." in fields["detail"]
    for code in CODES:
        page = asked.call("GET", f"/problems/{code}", headers={"Authorization": ""})
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert code in page.text
    assert asked.call("GET", "/problems/nothing").status_code == 404


def test_the_budget_is_409_and_says_what_is_left(asked: Asked) -> None:
    over = asked.ask({**COUNT, "epsilon": 2})
    assert (over.status_code, over.json()["code"], over.json()["charged"]) == (409, "budget-exceeded", None)
    assert over.json()["remaining"] == {"epsilon": 1.0, "delta": 0.0}
    assert asked.ask({**COUNT, "epsilon": 1}).status_code == 200
    assert not asked.service.ledger.remaining


def test_data_that_changed_pause_the_server(tmp_path: Path) -> None:
    path = write_visits(tmp_path)
    with serving(open_data(path, name="visits", budget=Budget(1), check=0, **FACTS)) as asked:
        write_visits(tmp_path, people=41)
        paused = asked.ask(COUNT)
        assert (paused.status_code, paused.json()["code"]) == (503, "data-changed")
        assert not asked.spent


def test_a_session_is_not_served_and_says_so(asked: Asked) -> None:
    for answer in (asked.call("GET", "/v1/watch"), asked.ask({"threshold": 1}, "/v1/watch")):
        assert (answer.status_code, answer.json()["code"]) == (404, "not-served")
        assert "curator.watch" in answer.json()["instead"]


def test_a_release_is_found_again_by_its_name(asked: Asked) -> None:
    answer = asked.ask(BY_SEX)
    release = answer.json()["release"]
    assert asked.call("GET", f"/v1/releases/{release}", name="eve", role="auditor").content == answer.content
    again = asked.ask(BY_SEX, name="bob").json()
    assert (again["release"], again["price"]["epsilon"]) == (release, 0.0)
    assert asked.call("GET", "/v1/releases/r" + "0" * 32).status_code == 404
    assert asked.call("GET", "/v1/releases/17").status_code == 422


def test_verify_tells_released_numbers_from_others(asked: Asked) -> None:
    """Twenty answers, and twenty with one altered digit: all told apart, for nothing."""
    digits = random.Random(20)
    for i in range(20):
        body = {
            "sql": f"SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM visits WHERE age < {i} GROUP BY sex",
            "share": 0.01,
        }
        answer = asked.ask(body).json()
        row = digits.randrange(2)
        for column in ("n", "a", "a_low", "sex"):
            value = answer["rows"][row][column]
            altered = "X" if column == "sex" else (value or 0) + digits.choice([1, -1, 10, 0.001])
            for said, expected in ((value, True), (altered, False)):
                cited = {"release": answer["release"], "row": row, "column": column, "value": said}
                assert asked.ask(cited, "/v1/verify").json()["is_what_was_released"] is expected
    assert asked.spent == Cost(Accounting.PURE, 0.2)


def test_verify_knows_rounded_numbers_and_parts_of_batches(asked: Asked) -> None:
    answer = asked.ask({"questions": {"all": COUNT["sql"]}, "epsilon": 0.1}, "/v1/batch").json()
    n = answer["answers"]["all"]["rows"][0]["n"]
    cited = {"release": answer["release"], "answer": "all", "column": "n"}
    near = {**cited, "value": round(n, -1), "precision": 10}
    assert asked.ask(near, "/v1/verify").json()["is_what_was_released"]
    assert not asked.ask({**near, "value": round(n, -1) + 20}, "/v1/verify").json()["is_what_was_released"]
    for wrong in ({"row": 7}, {"column": "m"}, {"answer": "none"}, {"answer": None}):
        assert asked.ask({**cited, "value": n, **wrong}, "/v1/verify").status_code == 404


@pytest.mark.parametrize("said", ["NaN", "sNaN", "Infinity", "-9e999999", "1e-999999"])
def test_verify_takes_odd_numbers_for_others(asked: Asked, said: str) -> None:
    """threat:A26"""
    cited = {"release": asked.ask(COUNT).json()["release"], "column": "n", "value": said, "precision": 1e-9}
    told = asked.ask(cited, "/v1/verify")
    assert (told.status_code, told.json()["is_what_was_released"]) == (200, False)


def test_questions_on_made_up_rows_hold_up_nobody(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """While eight of them run or wait, tokens are looked up, and previews and health are answered."""
    going, real = threading.Event(), asked.service.dummy.answer

    def slow(*request: Any) -> Any:
        going.wait(60)
        return real(*request)

    monkeypatch.setattr(asked.service.dummy, "answer", slow)
    with ThreadPoolExecutor(1) as pool:
        trials = pool.submit(asked.calls, [("POST", "/v1/ask?dummy=true", {"json": COUNT})] * 8)
        try:
            while asked.service._trials._count < 8:
                time.sleep(0.01)
            assert asked.call("GET", "/v1/health").status_code == 200
            assert asked.ask(BY_SEX, "/v1/preview", name="bob").status_code == 200
        finally:
            going.set()
        assert [one.status_code for one in trials.result()] == [200] * 8


def test_a_dummy_is_free_and_marked(asked: Asked) -> None:
    answer = asked.ask(BY_SEX, "/v1/ask?dummy=true").json()
    assert answer["dummy"] is True
    assert "release" not in answer
    assert not asked.spent
    for _ in range(12):  # more than its own budget holds
        assert asked.ask({**COUNT, "refresh": True}, "/v1/ask?dummy=true").status_code == 200
    assert not asked.spent


def test_every_status_of_a_problem_is_documented(asked: Asked) -> None:
    assert {kind.status for kind in KINDS.values()} - {405} == set(STATUSES)
    described = asked.call("GET", "/v1/openapi.json").json()
    for path, operations in described["paths"].items():
        for operation in operations.values():
            expected = {"200", "503"} if path == "/v1/health" else {"200", *map(str, STATUSES)}
            assert set(operation["responses"]) == expected


def test_the_page_of_the_server_loads_nothing(asked: Asked) -> None:
    page = asked.call("GET", "/", headers={"Authorization": ""})
    assert page.status_code == 200
    assert "/v1/ask" in page.text
    assert not [word for word in ("<script", "http://", "https://", "@import", "url(") if word in page.text]
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"


def test_errors_of_the_ledger_are_503(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """gate:G36"""
    from lapwing.errors import LedgerFailed

    def fail(*_: Any, **__: Any) -> None:
        raise LedgerFailed("The ledger cannot be written.")

    monkeypatch.setattr(asked.service.ledger, "reserve_all", fail)
    failed = asked.ask(COUNT)
    assert (failed.status_code, failed.json()["code"]) == (503, "ledger-failed")
    assert issubclass(LedgerFailed, LapwingError)
    assert not asked.spent
