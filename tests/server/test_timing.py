"""When answers leave: on a grid that the plan decides; stored answers and refusals at once, whatever the rows are."""

from __future__ import annotations

import asyncio
import threading
import time
from fractions import Fraction
from typing import Any

import anyio
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapwing.privacy import Accounting, Cost
from lapwing.server.problems import ServerProblem
from lapwing.server.schemas import AskBody, BatchBody
from lapwing.server.timing import MOST_OPERATORS, leave_at, longest, pass_time, passes, slot_of
from lapwing.server.tokens import Principal, Role
from support.serving import BY_SEX, COUNT, hold_rows, serving
from support.visits import crowd, frame, open_visits


@given(st.floats(0, 1000), st.floats(0.01, 60))
def test_an_answer_leaves_at_the_next_place_of_the_grid(elapsed: float, slot: float) -> None:
    """gate:G25: T times a power of two, never before it is ready, and not one place later."""
    at = leave_at(elapsed, slot)
    places = [slot * 2**k for k in range(40)]
    assert at in places
    assert at >= elapsed
    assert at == slot or at / 2 < elapsed


def test_the_longest_wait_is_a_place_of_the_grid() -> None:
    assert longest(2) == 128


def plan_slot(sql: str, **terms: Any) -> float:
    with open_visits(check=None, groups_per_unit=2) as curator:
        seen = curator.preview_request(AskBody(sql=sql, **{"epsilon": 0.5, **terms}).request("ann"))
        return slot_of(seen, {"visits": 3.0}, 2.0)


def test_a_plan_with_more_passes_takes_more_time() -> None:
    """By a rule of the plan: a pass for all sums, one for every measure of its own, one for the check."""
    assert plan_slot("SELECT COUNT(DISTINCT pid) AS n FROM visits", check=0) == 3
    assert plan_slot("SELECT COUNT(*) AS n, AVG(age) AS a FROM visits", check=0) == 3
    assert plan_slot("SELECT COUNT(*) AS n, MEDIAN(age) AS m FROM visits", check=0) == 6
    assert plan_slot("SELECT COUNT(*) AS n FROM visits") == 6


@pytest.mark.parametrize(
    ("second", "reads", "plans"),
    [
        ("SELECT AVG(age) AS a FROM visits", 1, 1),  # the same rows and keys
        ("SELECT MEDIAN(age) AS m FROM visits", 2, 1),
        ("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex", 2, 2),
    ],
)
@pytest.mark.parametrize("check", [0, None])
def test_a_batch_takes_the_time_of_its_plans(second: str, reads: int, plans: int, check: int | None) -> None:
    """And of their checks, one for each plan."""
    many = reads if check == 0 else reads + plans
    body = BatchBody(questions=["SELECT COUNT(*) AS n FROM visits", second], epsilon=0.5)
    with open_visits(check=check, groups_per_unit=2) as curator:
        seen = curator.preview_request(body.request("ann"))
        answer = curator.answer(body.request("ann"))
        assert slot_of(answer, {"visits": 3.0}, 2.0) == slot_of(seen, {"visits": 3.0}, 2.0) == 3.0 * many
        assert slot_of(answer, {}, 2.0) == 2.0 * many
        assert max(passes(one.plan) for one in answer) <= reads


@pytest.mark.parametrize("people", [2, 4000])
def test_a_fresh_answer_waits_for_its_place_and_a_stored_one_does_not(people: int) -> None:
    """threat:A8 threat:A9: what the log says is the place on the grid, for few rows and for many."""
    with serving(open_visits(frame(people)), {"visits": 0.5}) as asked:
        began = time.monotonic()
        assert asked.ask(COUNT).status_code == 200
        assert time.monotonic() - began >= 0.5
        stored = asked.calls(
            [("POST", "/v1/ask", {"json": COUNT}), ("POST", "/v1/ask", {"json": {**COUNT, "sql": "x"}})]
        )
        assert [one.status_code for one in stored] == [200, 422]
        assert stored[0].json()["price"]["epsilon"] == 0
        assert {line["left_after"] for line in asked.lines} == {0.5, None}


def places_on_the_grid(curator: Any, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """The places of an answer, of the same asked again, and of a refusal."""
    with serving(curator, {"visits": 50.0}) as asked:
        service, ann = asked.service, Principal("ann", Role.ANALYST, "0")

        async def wait_until(_: float) -> None:
            pass

        async def places() -> list[float | None]:
            bodies = [AskBody(**body), AskBody(**body), AskBody(sql="SELECT * FROM visits", epsilon=0.1)]
            return [(await service.ask(ann, one, arrived=time.monotonic()))[1] for one in bodies]

        monkeypatch.setattr(service, "_wait_until", wait_until)
        return asyncio.run(places())


@pytest.mark.parametrize("body", [COUNT, BY_SEX, {"sql": "SELECT MEDIAN(age) AS m FROM visits", "epsilon": 0.1}])
def test_the_grid_does_not_depend_on_the_rows(body: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """gate:G25: no row, two people, four thousand: the same places, and none for what reads no rows."""
    tables = [frame(0), frame(2), frame(4000)]
    found = [places_on_the_grid(open_visits(table), body, monkeypatch) for table in tables]
    assert found[0] == found[1] == found[2]
    assert found[0][1:] == [None, None]
    assert found[0][0] == 50.0


def test_a_failure_after_the_charge_leaves_on_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(open_visits(), {"visits": 0.05}) as asked:

        def fail(_: Any) -> None:
            raise RuntimeError

        monkeypatch.setattr(asked.service.curator._engine, "fetch", fail)
        began = time.monotonic()
        failed = asked.ask(COUNT)
        assert (failed.status_code, failed.json()["code"]) == (503, "engine-failed")
        assert time.monotonic() - began >= 0.05
        assert asked.spent == Cost(Accounting.PURE, 0.1)


def test_waiting_holds_no_thread() -> None:
    """Six answers with one thread: if one held it while it waits, the next could not be ready at the same place."""
    asks = [{"sql": f"SELECT COUNT(*) AS n FROM visits WHERE age < {i}", "share": 0.01} for i in range(6)]
    with serving(open_visits(), {"visits": 4.0}, threads=1, at_once=8) as asked:
        answers = asked.calls([("POST", "/v1/ask", {"json": body}) for body in asks])
        assert [one.status_code for one in answers] == [200] * 6
        assert [line["left_after"] for line in asked.lines] == [4.0] * 6


def test_nobody_sees_an_answer_before_it_leaves() -> None:
    """threat:A9 gate:G25: when rows were read is told neither by the same question, nor by the key, nor by previews."""
    with serving(open_visits(), {"visits": 3.0}) as asked:
        headers = {"Idempotency-Key": "k"}
        seen: list[tuple[int, Any]] = []

        async def run() -> None:
            own = {"Authorization": f"Bearer {asked.token()}"}
            transport = httpx.ASGITransport(app=asked.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://t", timeout=60, headers=own) as client:

                async def poll() -> None:
                    while not asked.service.ledger.spent:
                        await anyio.sleep(0.01)
                    for _ in range(5):
                        again = await client.post("/v1/ask", json=COUNT, headers=headers)
                        told = (await client.post("/v1/preview", json=COUNT)).json()
                        listed = (await client.get("/v1/releases")).json()["releases"]
                        seen.append((again.status_code, (told["stored"], len(listed))))
                        await anyio.sleep(0.1)

                async with anyio.create_task_group() as group:
                    group.start_soon(poll)
                    first = await client.post("/v1/ask", json=COUNT, headers=headers)
                    assert first.status_code == 200
                again = await client.post("/v1/ask", json=COUNT, headers=headers)
                assert again.content == first.content

        anyio.run(run)
        assert seen == [(409, (False, 0))] * 5
        assert [line["left_after"] for line in asked.lines if line["left_after"]] == [3.0]


def test_who_asks_the_same_meanwhile_waits_and_pays_nothing() -> None:
    with serving(open_visits(), {"visits": 0.5}) as asked:
        answers = asked.calls([("POST", "/v1/ask", {"json": COUNT})] * 40)
        assert sorted(one.json()["price"]["epsilon"] for one in answers) == [0.0] * 39 + [0.1]
        assert sum(line["left_after"] is not None for line in asked.lines) == 1
        assert asked.spent == Cost(Accounting.PURE, 0.1)


def test_who_waits_for_a_twin_waits_no_longer_than_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """And its key is free again: nothing was charged under it."""
    with serving(open_visits(), {"visits": 0.05}) as asked:
        service, going = asked.service, hold_rows(asked.service, monkeypatch)
        monkeypatch.setattr(service, "_longest", 0.3)
        told: list[tuple[int, float | None]] = []

        async def run() -> None:
            ann, body = Principal("ann", Role.ANALYST, "0"), AskBody(**COUNT)
            for key in ("first", "second"):
                with anyio.fail_after(30):
                    outcome, place = await service.ask(ann, body, arrived=time.monotonic(), key=key)
                told.append((outcome.status, place))
            going.set()
            await service.drain()
            outcome, _ = await service.ask(ann, body, arrived=time.monotonic(), key="second")
            told.append((outcome.status, None))

        anyio.run(run)
        assert told == [(503, 0.3), (503, 0.3), (200, None)]
        assert asked.spent == Cost(Accounting.PURE, 0.1)


def test_what_waits_is_stored_when_the_server_stops() -> None:
    with serving(open_visits(), {"visits": 3000.0}) as asked:
        ann = Principal("ann", Role.ANALYST, "0")

        async def run() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: asked.service.ask(ann, AskBody(**COUNT), arrived=time.monotonic()))
                while not asked.service._tasks or not asked.service.ledger.spent:
                    await anyio.sleep(0.01)
                await asked.service.drain()

        anyio.run(run)
        assert asked.ask(COUNT).json()["price"]["epsilon"] == 0


def test_what_reads_no_rows_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """threat:A9: stored answers and refusals leave while all threads read rows: else they would tell when one ends."""
    with serving(open_visits(), {"visits": 0.05}, threads=1) as asked:
        assert asked.ask(COUNT).status_code == 200
        going = hold_rows(asked.service, monkeypatch)
        told: list[int] = []

        async def run() -> None:
            own = {"Authorization": f"Bearer {asked.token()}"}
            transport = httpx.ASGITransport(app=asked.app)
            async with (
                httpx.AsyncClient(transport=transport, base_url="http://t", timeout=60, headers=own) as client,
                anyio.create_task_group() as group,
            ):
                group.start_soon(lambda: client.post("/v1/ask", json=BY_SEX))
                while not asked.service._tasks:
                    await anyio.sleep(0.01)
                try:
                    with anyio.fail_after(30):
                        told.append((await client.post("/v1/ask", json=COUNT)).status_code)
                        for odd in ({"sql": "SELECT * FROM visits", "epsilon": 0.1}, {**BY_SEX, "epsilon": 9}):
                            answer = await client.post("/v1/ask", json=odd)
                            told.append(answer.status_code)
                finally:
                    going.set()

        anyio.run(run)
        assert told == [200, 422, 409]


def questions(many: int) -> list[tuple[str, str, dict[str, Any]]]:
    texts = [f"SELECT COUNT(*) AS n FROM visits WHERE age < {number}" for number in range(many)]
    return [("POST", "/v1/ask", {"json": {"sql": text, "share": "0.01"}}) for text in texts]


class Timed:
    """When a server charges, and when it reads rows."""

    def __init__(self, service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.charged: list[float] = []
        self.read: list[float] = []
        reserve, fetch = service.ledger.reserve_all, service.curator._engine.fetch

        def reserve_all(*args: Any, **names: Any) -> Any:
            made = reserve(*args, **names)
            self.charged.append(time.monotonic())
            return made

        def timed_fetch(query: Any) -> Any:
            self.read.append(time.monotonic())
            return fetch(query)

        monkeypatch.setattr(service.ledger, "reserve_all", reserve_all)
        monkeypatch.setattr(service.curator._engine, "fetch", timed_fetch)


def test_who_waits_for_a_turn_is_charged_when_an_answer_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """threat:A9 gate:G25: not when the rows before it were read, which anybody could see in the budget."""
    with serving(open_visits(), {"visits": 1.0}, threads=1, at_once=3) as asked:
        timed = Timed(asked.service, monkeypatch)
        began = time.monotonic()
        answers = asked.calls(questions(5))
        assert [one.status_code for one in answers] == [200] * 5
        first, later = sorted(timed.charged)[:2], sorted(timed.charged)[2:]  # one turn is left for others
        assert all(one - began >= 1.0 for one in later[:2])
        assert all(one - began >= 2.0 for one in later[2:])
        assert len(first) == 2
        assert {line["left_after"] for line in asked.lines} == {1.0}


def test_a_charge_waits_for_no_thread_that_reads_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """threat:A9: five questions and one thread, which reads for as long as it likes: all are charged on arrival."""
    with serving(open_visits(), {"visits": 0.05}, threads=1, at_once=8) as asked:
        going = hold_rows(asked.service, monkeypatch)

        def release_later() -> None:
            end = time.monotonic() + 60
            while asked.spent != Cost(Accounting.PURE, 0.05) and time.monotonic() < end:
                time.sleep(0.01)
            seen.append(asked.spent)
            going.set()

        seen: list[Cost] = []
        thread = threading.Thread(target=release_later)
        thread.start()
        answers = asked.calls(questions(5))
        thread.join()
        assert seen == [Cost(Accounting.PURE, 0.05)]
        assert [one.status_code for one in answers] == [200] * 5


def test_what_follows_a_search_is_charged_on_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """threat:A9 gate:G25: the second charge of a question would tell how long its search took."""
    body = {"sql": "SELECT AVG(age) AS a FROM visits", "epsilon": "0.5", "bounds": "auto"}
    with serving(open_visits(crowd(), bounds={"cost": (0, 100)}), {"visits": 0.5}) as asked:
        timed = Timed(asked.service, monkeypatch)
        answer = asked.ask(body)
        assert answer.status_code == 200
        assert len(timed.charged) == len(timed.read) == 2
        assert timed.charged[1] - timed.charged[0] >= 0.45  # a turn begins before its first charge
        assert timed.charged[0] < timed.read[0] < timed.charged[1] < timed.read[1]
        assert asked.lines[-1]["left_after"] == 1.0
        assert asked.spent == Cost(Accounting.PURE, 0.5)


def test_who_waits_for_a_turn_is_refused_free_when_the_server_stops() -> None:
    with serving(open_visits(), {"visits": 3000.0}, at_once=1) as asked:
        ann, codes = Principal("ann", Role.ANALYST, "0"), []

        async def ask(number: int) -> None:
            body = AskBody(**{**COUNT, "sql": f"SELECT COUNT(*) AS n FROM visits WHERE age < {number}"})
            try:
                outcome, _ = await asked.service.ask(ann, body, arrived=time.monotonic(), key=f"k{number}")
                codes.append(str(outcome.status))
            except ServerProblem as problem:
                codes.append(problem.code)

        async def run() -> None:
            async with anyio.create_task_group() as group:
                for number in range(2):
                    group.start_soon(ask, number)
                while len(asked.service._tasks) < 2 or not asked.service.ledger.spent:
                    await anyio.sleep(0.01)
                await asked.service.drain()

        anyio.run(run)
        assert sorted(codes) == ["200", "busy"]
        assert asked.spent == Cost(Accounting.PURE, 0.1)


def terms(many: int) -> str:
    """A question of this many operators, which cost something on one person's row only."""
    named = " OR ".join(f"age = {i}" for i in range((many - 2) // 2))
    return f"SELECT COUNT(*) AS n FROM visits WHERE CASE WHEN name = 'n1' THEN {named} ELSE age < 50 END"


@pytest.mark.parametrize("path", ["/v1/ask", "/v1/preview", "/v1/batch", "/v1/ask?dummy=true", "/v1/batch?dummy=true"])
def test_a_question_of_too_many_operators_is_refused_free(path: str) -> None:
    """threat:A9: whoever asks chooses the work, and could choose it so that one person's row makes an answer late."""
    with serving(open_visits(), {"visits": 0.05}) as asked:
        for many, status in ((MOST_OPERATORS - 2, 200), (484, 422)):
            asks = {"questions": [terms(many)]} if "batch" in path else {"sql": terms(many)}
            told = asked.call("POST", path, json={**asks, "epsilon": "0.01"})
            assert told.status_code == status, told.text
        assert told.json()["code"] == "too-large"
        assert "Nothing was charged" in told.json()["detail"]
        assert asked.spent.amount <= Fraction(1, 100)


def test_each_question_of_a_batch_has_operators_of_its_own() -> None:
    with serving(open_visits(), {"visits": 0.05}) as asked:
        body = {"questions": [terms(MOST_OPERATORS - 2 * i) for i in range(1, 5)], "epsilon": "0.01"}
        assert asked.call("POST", "/v1/batch", json=body).status_code == 200


def test_a_retry_of_what_was_given_up_is_counted_too() -> None:
    with serving(open_visits(), {"visits": 0.05}) as asked:
        answers = [asked.ask({"sql": terms(484), "epsilon": "0.01"}, key="k") for _ in range(3)]
        assert {one.json()["code"] for one in answers} == {"too-large"}
        assert not asked.spent


@pytest.mark.parametrize(("rows", "many", "times"), [(2, 8, 1), (2, 398, 1), (5, 398, 2), (10, 398, 4), (10, 98, 1)])
def test_more_operators_take_more_time_in_whole_steps(rows: int, many: int, times: int) -> None:
    """threat:A9: by the text and declared rows, so that what one person adds stays a small part of T."""
    with open_visits(check=0, rows_per_unit=rows) as curator:
        seen = curator.preview_request(AskBody(sql=terms(many), epsilon=0.1).request("ann"))
        assert slot_of(seen, {"visits": 3.0}, 2.0) == 3.0 * times
        assert pass_time(seen.plan, {"visits": 3.0}, 2.0) == 3.0 * times


def test_an_answer_is_written_after_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """threat:A9: the words of a large answer take long, and would be a part of its T."""
    order: list[str] = []
    with serving(open_visits(), {"visits": 0.05}) as asked:
        service = asked.service
        leave, content = service._turns.leave, service._content

        def left(name: str) -> None:
            order.append("turn ends")
            leave(name)

        def written(*given: Any) -> Any:
            order.append("written")
            return content(*given)

        monkeypatch.setattr(service._turns, "leave", left)
        monkeypatch.setattr(service, "_content", written)
        assert asked.ask(COUNT).status_code == 200
    assert order == ["turn ends", "written"]
