"""Idempotency keys: one charge and the same bytes, on any worker, after a restart, in a storm; lost is lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from lapwing.curator import open_data
from lapwing.errors import EngineFailed, LedgerFailed
from lapwing.ledger import open_ledger
from lapwing.privacy import Accounting, Budget, Cost
from lapwing.server.problems import ServerProblem, of_server
from lapwing.server.retries import KeptReply, KeyClaim, Retries
from lapwing.server.schemas import BatchBody
from lapwing.server.timing import slot_of
from lapwing.server.tokens import Principal, Role
from support.serving import BY_SEX, COUNT, Asked, hold_rows, serving
from support.visits import FACTS, crowd, open_visits, write_visits


class Killed(BaseException):
    """As if the process had been killed: nothing is told and nothing is cleaned up."""


NOW = datetime(2030, 1, 1, tzinfo=UTC)


def claim_key(retries: Retries, written: str, now: datetime) -> KeyClaim | KeptReply:
    """The claim of a key, made; or what was sent under it."""
    found = retries.find("ann", "k", written, now)
    return found if isinstance(found, KeptReply) else retries.make(found, now) or found


def test_a_retry_gets_the_same_bytes_for_one_charge(asked: Asked) -> None:
    """ledger:B5: also those of its price, which was paid once."""
    first, again = asked.ask(COUNT, key="k"), asked.ask(COUNT, key="k")
    assert first.status_code == again.status_code == 200
    assert first.content == again.content
    assert first.json()["price"] == {"epsilon": 0.1, "delta": 0.0}
    assert asked.spent == Cost(Accounting.PURE, 0.1)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/batch", {"questions": [COUNT["sql"], "SELECT AVG(age) AS a FROM visits"], "epsilon": 0.1}),
        (
            "/v1/ask",
            {"sql": "SELECT MAX(n) AS m FROM (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex)", "share": 0.1},
        ),
        ("/v1/distribution", {"column": "sex", "epsilon": 0.1}),
        ("/v1/marginals", {"columns": ["sex", "site"], "epsilon": 0.1}),
    ],
)
def test_everything_that_can_be_asked_can_be_retried(path: str, body: Any) -> None:
    with serving(open_visits(groups_per_unit=2, check=None)) as asked:
        first = asked.ask(body, path, key="k")
        assert first.status_code == 200
        spent = asked.spent
        assert asked.ask(body, path, key="k").content == first.content
        assert asked.spent == spent


def test_another_body_under_the_key_is_refused_free(asked: Asked) -> None:
    assert asked.ask(COUNT, key="k").status_code == 200
    other = asked.ask({**COUNT, "epsilon": 0.2}, key="k")
    assert (other.status_code, other.json()["code"], other.json()["charged"]) == (422, "key-reused", None)
    elsewhere = asked.ask({"questions": [COUNT["sql"]], "epsilon": 0.1}, "/v1/batch", key="k")
    assert elsewhere.json()["code"] == "key-reused"
    assert asked.spent == Cost(Accounting.PURE, 0.1)


def test_a_key_belongs_to_its_principal(asked: Asked) -> None:
    assert asked.ask(COUNT, key="k").status_code == 200
    assert asked.ask(BY_SEX, key="k", name="bob").status_code == 200


def test_a_storm_under_one_key_is_one_charge(asked: Asked) -> None:
    """gate:G53: a thousand at once. Those that come while it runs are told to wait, the others get its bytes."""
    storm = [("POST", "/v1/ask", {"json": COUNT, "headers": {"Idempotency-Key": "storm"}})] * 1000
    answers = asked.calls(storm)
    answered = {answer.content for answer in answers if answer.status_code == 200}
    waiting = [answer for answer in answers if answer.status_code in (409, 429, 503)]
    assert len(answered) == 1
    assert len(waiting) + sum(answer.status_code == 200 for answer in answers) == 1000
    assert {answer.headers["retry-after"] for answer in waiting} <= {"1"}
    assert asked.spent == Cost(Accounting.PURE, 0.1)
    assert asked.ask(COUNT, key="storm").content in answered


def test_a_refusal_frees_its_key(asked: Asked) -> None:
    for _ in range(3):
        assert asked.ask({"sql": "SELECT * FROM visits", "epsilon": 0.1}, key="k").json()["code"] == "private-rows"
    assert not asked.spent


def test_a_failure_after_the_charge_is_told_again_and_never_run_again(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gate:G34: the price stays charged, and the problem is the same, byte by byte."""
    runs = []

    def fail(_: Any) -> None:
        runs.append(1)
        raise RuntimeError("ZZCANARY")

    monkeypatch.setattr(asked.service.curator._engine, "fetch", fail)
    first = asked.ask(COUNT, key="k")
    assert (first.status_code, first.json()["code"]) == (503, EngineFailed.code)
    assert first.json()["charged"] == {"epsilon": 0.1, "delta": 0.0}
    assert asked.ask(COUNT, key="k").content == first.content
    assert len(runs) == 1
    assert asked.spent == Cost(Accounting.PURE, 0.1)


def test_a_reply_survives_a_restart_and_another_worker(tmp_path: Path) -> None:
    path = write_visits(tmp_path)

    def curator() -> Any:
        return open_data(path, name="visits", budget=Budget(1), check=0, **FACTS)

    with serving(curator()) as first, serving(curator()) as second:
        answer = first.ask(COUNT, key="k")
        assert second.ask(COUNT, key="k").content == answer.content
    with serving(curator()) as later:
        assert later.ask(COUNT, key="k").content == answer.content
        assert later.spent == Cost(Accounting.PURE, 0.1)


def test_what_was_charged_and_lost_is_never_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ledger:B5 gate:G34: the process ended between the charge and the answer. One constant problem, for ever."""
    path = write_visits(tmp_path)
    with serving(open_data(path, name="visits", budget=Budget(1), check=0, **FACTS)) as asked:

        def die(*_: Any) -> None:
            raise Killed

        monkeypatch.setattr(asked.service.curator._engine, "fetch", die)
        with pytest.raises(BaseExceptionGroup):
            asked.ask(COUNT, key="k")
        running = asked.ask(COUNT, key="k")
        assert (running.status_code, running.json()["code"]) == (409, "key-running")
        assert running.headers["retry-after"] == "1"
    with serving(open_data(path, name="visits", budget=Budget(1), check=0, **FACTS)) as later:
        monkeypatch.setattr(Retries, "_is_over", lambda *_: True)
        lost = [later.ask(COUNT, key="k") for _ in range(3)]
        assert [(one.status_code, one.json()["code"]) for one in lost] == [(409, "answer-lost")] * 3
        assert len({one.content for one in lost}) == 1
        assert later.spent == Cost(Accounting.PURE, 0.1)


RUNNING: dict[str, tuple[str, dict[str, Any]]] = {
    "question": ("/v1/ask", COUNT),
    "batch": ("/v1/batch", {"questions": [f"{COUNT['sql']} WHERE age < {i}" for i in range(7)], "epsilon": "0.07"}),
    "search": ("/v1/ask", {"sql": "SELECT AVG(age) AS a FROM visits", "epsilon": "0.5", "bounds": "auto"}),
}


@pytest.mark.parametrize("kind", RUNNING)
def test_a_key_that_is_being_answered_says_what_it_is_charged(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never that nothing was: it may be charged already, and the budget shows it."""
    path, body = RUNNING[kind]
    with serving(open_visits(crowd(), bounds={"cost": (0, 100)})) as asked:
        going, key = hold_rows(asked.service, monkeypatch), {"Idempotency-Key": "k"}
        told: list[Any] = []

        async def run() -> None:
            own = {"Authorization": f"Bearer {asked.token()}", **key}
            transport = httpx.ASGITransport(app=asked.app)
            async with (
                httpx.AsyncClient(transport=transport, base_url="http://t", timeout=60, headers=own) as client,
                anyio.create_task_group() as group,
            ):
                group.start_soon(lambda: client.post(path, json=body))
                try:
                    while not asked.spent:
                        await anyio.sleep(0.01)
                    told.append((await client.post(path, json=body)).json())
                finally:
                    going.set()

        anyio.run(run)
        (said,) = told
        assert said["code"] == "key-running"
        assert said["charged"] == {"epsilon": float(body["epsilon"]), "delta": 0}
        assert asked.spent == Cost(Accounting.PURE, Fraction(str(body["epsilon"])))
        assert f"It is charged at most epsilon = {body['epsilon']}, once." in said["detail"]
        assert "Nothing was charged" not in said["detail"]


def test_a_claim_of_an_older_version_does_not_say_that_nothing_was_charged() -> None:
    ledger, now = open_ledger(None, Budget(1)), datetime.now(UTC)
    retries = Retries(ledger, patience=60)
    assert isinstance(claim_key(retries, "body", now), KeyClaim)  # without a price
    with pytest.raises(ServerProblem) as running:
        claim_key(retries, "body", now)
    assert of_server(running.value).detail.endswith("What it was charged before stays charged: see /v1/budget.")


def test_a_request_lasts_until_its_answer_leaves() -> None:
    """A batch of 70 takes 70 times as long, and its key is not taken for lost meanwhile."""
    sql = [f"{COUNT['sql']} WHERE age < {i}" for i in range(70)]
    with serving(open_visits(check=0), {"visits": 2.0}) as asked:
        ann = Principal("ann", Role.ANALYST, "0")
        begun: Any = asked.service._begin(ann, BatchBody(questions=sql, epsilon=0.07), "k", None, None)
        assert slot_of(begun.stop, {"visits": 2.0}, 2.0) == 140
        assert begun.seconds == 280
        claim = asked.service.ledger.recorded(begun.claim.key, analyst="ann")[0]
        assert claim is not None
        assert claim.remark("seconds") == 560


def test_a_claim_is_running_until_its_time_is_over() -> None:
    retries = Retries(open_ledger(None, Budget(1)), patience=60)
    now = datetime.now(UTC)
    first = claim_key(retries, "body", now)
    assert isinstance(first, KeyClaim)
    with pytest.raises(ServerProblem, match="key-running"):
        claim_key(retries, "body", now + timedelta(seconds=50))
    with pytest.raises(ServerProblem, match="key-reused"):
        claim_key(retries, "other", now + timedelta(seconds=50))
    second = claim_key(retries, "body", now + timedelta(seconds=70))
    assert isinstance(second, KeyClaim)
    retries.keep(second, 200, b"answer")
    assert claim_key(retries, "body", now + timedelta(seconds=70)) == KeptReply(200, b"answer")


def test_a_claim_has_the_time_of_the_server_that_made_it() -> None:
    """Another one, whose tables answer sooner, does not take it for lost."""
    ledger, now = open_ledger(None, Budget(1)), datetime.now(UTC)
    slow, quick = Retries(ledger, patience=600), Retries(ledger, patience=1)
    assert isinstance(claim_key(slow, "body", now), KeyClaim)
    with pytest.raises(ServerProblem, match="key-running"):
        claim_key(quick, "body", now + timedelta(seconds=500))
    assert isinstance(claim_key(quick, "body", now + timedelta(seconds=700)), KeyClaim)


def test_a_kept_reply_is_given_back() -> None:
    retries = Retries(open_ledger(None, Budget(1)), patience=60)
    claim = claim_key(retries, "body", NOW)
    assert isinstance(claim, KeyClaim)
    retries.keep(claim, 503, b"problem")
    assert claim_key(retries, "body", NOW) == KeptReply(503, b"problem")
    with pytest.raises(ServerProblem, match="key-reused"):
        claim_key(retries, "other", NOW)


def test_what_costs_nothing_is_kept_in_one_entry_and_a_refusal_in_none(asked: Asked) -> None:
    assert asked.ask(COUNT, key="first").status_code == 200
    before = len(list(asked.service.ledger.entries()))
    stored = asked.ask(COUNT, key="k")
    assert stored.json()["price"]["epsilon"] == 0
    again = asked.ask(COUNT, key="k")
    assert again.content == stored.content
    one = [entry.kind for entry in asked.service.ledger.entries(before)]
    assert one.count("claim") == 0
    assert one.count("keep") <= 2  # the reply, and once the release
    before = len(list(asked.service.ledger.entries()))
    assert asked.ask(COUNT, key="other").status_code == 200
    assert [entry.kind for entry in asked.service.ledger.entries(before)] == ["keep"]
    before = len(list(asked.service.ledger.entries()))
    assert asked.ask({**COUNT, "sql": "SELECT * FROM visits"}, key="refused").status_code == 422
    assert list(asked.service.ledger.entries(before)) == []
    assert asked.ask({**COUNT, "epsilon": 0.2}, key="k").json()["code"] == "key-reused"


def test_a_free_reply_and_a_claim_exclude_each_other() -> None:
    """Whoever writes first decides: two requests under one key, of which one found a stored answer meanwhile."""
    retries = Retries(open_ledger(None, Budget(1)), patience=60)
    now = datetime.now(UTC)
    paying, finding = (retries.find("ann", "k", "body", now) for _ in range(2))
    assert isinstance(paying, KeyClaim)
    assert isinstance(finding, KeyClaim)
    assert retries.make(paying, now) is None
    with pytest.raises(ServerProblem, match="key-running"):
        retries.keep_free(finding, 200, b"stored", now)
    retries.keep(paying, 200, b"paid")
    assert claim_key(retries, "body", now) == KeptReply(200, b"paid")


def test_a_claim_finds_a_free_reply_that_came_first() -> None:
    retries = Retries(open_ledger(None, Budget(1)), patience=60)
    now = datetime.now(UTC)
    paying, finding, third = (retries.find("ann", "k", "body", now) for _ in range(3))
    assert isinstance(paying, KeyClaim)
    assert isinstance(finding, KeyClaim)
    assert isinstance(third, KeyClaim)
    assert retries.keep_free(finding, 200, b"stored", now) == KeptReply(200, b"stored")
    assert retries.make(paying, now) == KeptReply(200, b"stored")
    assert retries.keep_free(third, 200, b"newer", now) == KeptReply(200, b"stored")
    with pytest.raises(ServerProblem, match="key-reused"):
        retries.find("ann", "k", "other", now)


def test_a_claim_that_was_given_up_is_free_for_the_next(asked: Asked) -> None:
    retries = Retries(open_ledger(None, Budget(1)), patience=60)
    now = datetime.now(UTC)
    first, other = claim_key(retries, "body", now), retries.find("ann", "j", "body", now)
    assert isinstance(first, KeyClaim)
    assert isinstance(other, KeyClaim)
    retries.give_up(first)
    second = claim_key(retries, "body", now)
    assert isinstance(second, KeyClaim)
    assert second.name != first.name


def test_a_key_that_was_given_up_often_is_looked_up_as_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one client with one key could make the server read its ledger for minutes."""
    ledger, looks = open_ledger(None, Budget(1)), []
    retries, recorded = Retries(ledger, patience=60), ledger.recorded

    def look(*keys: str, **names: Any) -> Any:
        looks.append(keys)
        return recorded(*keys, **names)

    monkeypatch.setattr(ledger, "recorded", look)
    now = datetime.now(UTC)
    for _ in range(50):
        claim = claim_key(retries, "body", now)
        assert isinstance(claim, KeyClaim)
        retries.give_up(claim)
    with pytest.raises(ServerProblem, match="key-reused"):
        claim_key(retries, "other", now)
    assert len(looks) <= 4 * 51
    claim = claim_key(Retries(ledger, patience=60), "body", now)  # after a restart
    assert isinstance(claim, KeyClaim)
    retries.keep(claim, 200, b"answer")
    assert claim_key(retries, "body", now) == KeptReply(200, b"answer")


@pytest.mark.parametrize("error", [RuntimeError, StopIteration])
def test_what_fails_while_an_answer_is_stored_holds_up_nobody(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """The key is free again, and so is the turn; a task whose thread ends with StopIteration would never end."""
    with monkeypatch.context() as broken:

        def fail(_: Any) -> None:
            raise error

        broken.setattr(asked.service.releases, "keep", fail)
        broken.setattr(asked.service, "_longest", 5.0)
        failed = asked.ask(COUNT, key="k")
        assert (failed.status_code, failed.json()["code"]) == (503, "bug")
    assert not asked.service._tasks
    again = asked.ask(COUNT, key="k")
    assert (again.status_code, again.json()["price"]["epsilon"]) == (200, 0)
    assert asked.spent == Cost(Accounting.PURE, 0.1)


def test_a_ledger_that_cannot_be_read_is_told(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    asked.token()

    def fail() -> None:
        raise LedgerFailed("It cannot be read.")

    monkeypatch.setattr(asked.service.tokens, "now", fail)
    failed = asked.ask(COUNT, key="k")
    assert (failed.status_code, failed.json()["code"]) == (503, LedgerFailed.code)
    assert not asked.spent


def test_what_does_not_fit_the_budget_writes_nothing(asked: Asked) -> None:
    asked.token()
    before = len(list(asked.service.ledger.entries()))
    for _ in range(3):
        refused = asked.ask({**COUNT, "epsilon": 2}, key="k")
        assert (refused.status_code, refused.json()["code"]) == (409, "budget-exceeded")
    assert list(asked.service.ledger.entries(before)) == []


@pytest.mark.parametrize("key", ["", "x" * 201, "a\tb", "é"])
def test_odd_keys_are_refused(asked: Asked, key: str) -> None:
    headers = {"Idempotency-Key": key.encode("latin-1")}
    refused = asked.call("POST", "/v1/ask", json=COUNT, headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid-request")
    assert not asked.spent
