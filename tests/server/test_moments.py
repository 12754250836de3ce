"""What a request looks at, and when: nothing that is sent tells whether something happened before or after rows were
read. Each step is taken by hand, so no test here has a clock."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lapwing.curator.purchase import BeforeRows, BeforeStore
from lapwing.privacy import Accounting, Budget, Cost
from lapwing.server.schemas import AskBody, Asking, BatchBody, DistributionBody, MarginalsBody
from lapwing.server.service import Outcome
from lapwing.server.tokens import Principal, Role
from support.serving import COUNT, Asked, serving
from support.visits import crowd, open_visits

ANN, BOB = Principal("ann", Role.ANALYST, "0"), Principal("bob", Role.ANALYST, "1")
MOMENTS = ["before rows are read", "after rows were read"]
BY_SEX = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
ASKED: dict[str, Asking] = {
    "question": AskBody(sql=BY_SEX, epsilon=1),
    "combined": AskBody(sql=BY_SEX, epsilon=1, refresh=True, combine=True),
    "computed": AskBody(sql=f"SELECT MAX(n) AS m FROM ({BY_SEX}) AS t", epsilon=1),
    "searched": AskBody(sql="SELECT AVG(age) AS a, MEDIAN(loose) AS m FROM visits", epsilon=1, bounds="auto"),
    "batch": BatchBody(questions=[BY_SEX, "SELECT MEDIAN(cost) AS m FROM visits"], epsilon=1),
    "distribution": DistributionBody(column="cost", cells=4, epsilon=1),
    "marginals": MarginalsBody(columns=["sex", "site"], epsilon=1),
}


def take_steps(asked: Asked, body: Asking, who: Principal, reading: Callable[[str], None]) -> Outcome:
    """All steps of a request; `reading` is told the moment whenever rows are about to be read, and when they were."""
    service = asked.service
    begun: Any = service._begin(who, body, None, None, None)
    if isinstance(begun, Outcome):
        return begun
    reached: Any = begun.stop
    while not isinstance(reached, Outcome):
        is_reading = isinstance(reached, BeforeRows)
        if is_reading:
            reading(MOMENTS[0])
        reached = service._advance(who, body, begun)
        if is_reading:
            assert isinstance(reached, BeforeStore)
            reading(MOMENTS[1])
    return service._store(reached)


def seen_if(moment: str, happens: Callable[[Asked], None], asked: Asked, body: Asking) -> dict[str, Any]:
    """What Ann is sent if something happens, once, at that moment."""
    happened: list[str] = []

    def reading(now: str) -> None:
        if now == moment and not happened:
            happened.append(now)
            happens(asked)

    sent: dict[str, Any] = json.loads(take_steps(asked, body, ANN, reading).content)
    assert happened == [moment]
    return sent


def spend(asked: Asked) -> None:
    asked.service.ledger.reserve(Cost(Accounting.PURE, 0.25), analyst="bob", body="x")


def nothing(_: str) -> None:
    pass


def test_a_failure_does_not_tell_what_was_left_when_it_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """threat:A9: who spends a little every millisecond would read off `remaining` when the engine failed."""
    seen = []
    for moment in MOMENTS:
        with serving(open_visits()) as asked:

            def fail(_: Any) -> None:
                raise RuntimeError

            monkeypatch.setattr(asked.service.curator._engine, "fetch", fail)
            sent = seen_if(moment, spend, asked, AskBody(**COUNT))
            assert sent["code"] == "engine-failed"
            seen.append((sent["charged"], sent["remaining"]))
    assert seen == [({"epsilon": 0.1, "delta": 0}, {"epsilon": 0.65, "delta": 0})] * 2


@pytest.mark.parametrize("broken", ["engine", "bytes"])
@pytest.mark.parametrize(
    "sql", ["SELECT COUNT(*) AS n FROM visits", "SELECT AVG(age) AS a, MEDIAN(age) AS m FROM visits"]
)
def test_a_failure_leaves_on_the_grid_of_its_answer(broken: str, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """threat:A9: on a finer grid it would tell when it failed, while an answer does not tell when it was ready."""
    left = []
    for fails in (False, True):
        with serving(open_visits(crowd(), bounds={"cost": (0, 100)}), {"visits": 500.0}) as asked:

            def fail(*_: Any) -> None:
                raise RuntimeError

            async def wait_until(_: float) -> None:
                pass

            monkeypatch.setattr(asked.service, "_wait_until", wait_until)
            if fails and broken == "engine":
                monkeypatch.setattr(asked.service.curator._engine, "fetch", fail)
            if fails and broken == "bytes":
                monkeypatch.setattr(asked.service, "_content", fail)
            sent = asked.ask({"sql": sql, "epsilon": "0.5", "bounds": "auto"})
            assert sent.status_code == (503 if fails else 200)
            left.append(asked.lines[-1]["left_after"])
    assert left[0] == left[1] >= 500.0


def test_a_combined_answer_joins_what_was_stored_when_it_was_charged() -> None:
    """threat:A9: who lets an answer to the same question leave meanwhile would see which came first."""
    seen = []
    for moment in MOMENTS:
        with serving(open_visits()) as asked:
            again = AskBody(**COUNT, refresh=True)

            def ask_again(asked: Asked, again: Asking = again) -> None:
                take_steps(asked, again, BOB, nothing)

            ask_again(asked)
            sent = seen_if(moment, ask_again, asked, AskBody(**COUNT, refresh=True, combine=True))
            seen.append(len(sent["joined"]))
    assert seen == [2, 2]


@pytest.mark.parametrize("fails", [False, True], ids=["read", "failed"])
@pytest.mark.parametrize("name", ASKED)
def test_a_step_that_reads_rows_does_not_look_at_the_ledger(
    name: str, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """threat:A9 gate:G25: so nothing that comes of it, a price, a search, a stored answer that will do, depends on what
    others had stored or spent when the rows were read."""
    facts: dict[str, Any] = {"bounds": {"cost": (0, 100)}, "types": {"loose": "real"}, "check": None}
    rows = crowd().append_column("loose", pa.array([1.0] * 40_000))
    with serving(open_visits(rows, budget=Budget(epsilon=8), groups_per_unit=2, **facts)) as asked:
        if name == "combined":
            take_steps(asked, ASKED["question"], BOB, nothing)
        store, engine, moments = asked.service.ledger._store, asked.service.curator._engine, [MOMENTS[1]]
        looks: list[str] = []

        def watched(inner: Callable[..., Any]) -> Callable[..., Any]:
            def look(*args: Any, **names: Any) -> Any:
                looks.append(moments[-1])
                return inner(*args, **names)

            return look

        monkeypatch.setattr(store, "reading", watched(store.reading))
        monkeypatch.setattr(store, "writing", watched(store.writing))
        if fails:
            monkeypatch.setattr(engine, "fetch", lambda _: 1 // 0)
        outcome = take_steps(asked, ASKED[name], ANN, moments.append)
        assert outcome.status == (503 if fails else 200), outcome.content
        assert moments.count(MOMENTS[0]) == (3 if name == "searched" and not fails else 1)
        assert set(looks) == {MOMENTS[1]}


@pytest.mark.parametrize("name", ASKED)
def test_nothing_that_was_read_is_seen_before_it_is_stored(name: str) -> None:
    """threat:A9: until then the same question has its price for everyone, and the next stop stores it."""
    facts: dict[str, Any] = {"bounds": {"cost": (0, 100)}, "types": {"loose": "real"}, "check": None}
    rows = crowd().append_column("loose", pa.array([1.0] * 40_000))
    with serving(open_visits(rows, budget=Budget(epsilon=8), groups_per_unit=2, **facts)) as asked:
        service, ledger, body = asked.service, asked.service.ledger, ASKED[name]
        asking = body.model_copy(update={"refresh": False, "combine": False})
        begun: Any = service._begin(ANN, body, None, None, None)
        reached: Any = begun.stop
        stored = 0
        while not isinstance(reached, Outcome):
            before = [entry.kind for entry in ledger.entries()].count("settle")
            seen = service._preview(BOB, asking)
            is_last = isinstance(reached, BeforeStore) and reached.search is None
            reached = service._advance(ANN, body, begun)
            after = [entry.kind for entry in ledger.entries()].count("settle")
            assert seen["price"]["epsilon"] > 0
            stored += after - before
        assert is_last
        assert service._store(reached).status == 200
        assert stored == [entry.kind for entry in ledger.entries()].count("reserve")
