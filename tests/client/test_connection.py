"""A connection to a real server: the ways to ask, the answers and the errors are those of the curator."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

import lapwing as lw
from lapwing import magic
from lapwing.client import Connection
from lapwing.client.rebuilt import RemoteRelease
from lapwing.curator import Curator
from lapwing.errors import LapwingError, Misconfigured, NotServed
from support.service import RunningService, running

COUNT = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
QUESTIONS = [
    COUNT,
    "SELECT COUNT(*) AS n FROM visits WHERE age > 40",
    "SELECT sex, AVG(cost) AS mean, SUM(cost) AS total FROM visits GROUP BY sex",
    "SELECT MEDIAN(age) AS m FROM visits",
    "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex HAVING COUNT(*) > 10 ORDER BY n DESC LIMIT 1",
    "WITH c AS (SELECT site, COUNT(*) AS n FROM visits GROUP BY site) SELECT MAX(n) AS most FROM c",
    "SELECT DISTINCT sex FROM visits",
]
REFUSED = [
    ("SELECT * FROM visits", {"epsilon": 1}),
    ("SELECT COUNT( FROM visits", {"epsilon": 1}),
    ("SELECT SUM(agee) FROM visits", {"epsilon": 1}),
    ("SELECT COUNT(*) FROM visits", {}),
    ("SELECT COUNT(*) FROM visits", {"epsilon": 1, "within": 5}),
    ("SELECT COUNT(*) FROM visits", {"epsilon": -1}),
    ("SELECT COUNT(*) FROM visits", {"within": 1e-9}),
    ("SELECT COUNT(*) FROM visits WHERE age > 77", {"epsilon": 1000}),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with running(tmp_path_factory.mktemp("served"), epsilon=40, delta=1e-6) as started:
        yield started


@pytest.fixture(scope="module")
def remote(service: RunningService) -> Iterator[Connection]:
    with lw.connect(service.url, service.token) as connection:
        yield connection


@pytest.fixture(scope="module")
def local(service: RunningService) -> Iterator[Curator]:
    """A curator on the same data and the same ledger."""
    with lw.load(service.file) as curator:
        yield curator


def same(one: Any, other: Any) -> None:
    """Both look the same in every format."""
    assert str(one) == str(other)
    assert one._repr_html_() == other._repr_html_()
    assert one.to_arrow().equals(other.to_arrow())
    assert one.to_csv() == other.to_csv()
    assert one.to_pandas().equals(other.to_pandas())
    assert one.to_polars().equals(other.to_polars())
    assert one.notes == other.notes
    assert one.column_notes == other.column_notes
    assert one.methods() == other.methods()
    assert list(one) == list(other)
    assert len(one) == len(other)
    assert one.cost == other.cost
    assert one.entry == other.entry
    ours, theirs = json.loads(one.to_json()), json.loads(other.to_json())
    assert {name: ours[name] for name in theirs} == theirs


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_looks_like_the_curators(remote: Connection, local: Curator, question: str) -> None:
    remote.sql(question, epsilon=0.5)
    stored = remote.sql(question, epsilon=0.5)
    assert stored.cost.amount == 0
    same(stored, local.sql(question, epsilon=0.5))


@pytest.mark.parametrize(
    ("condition", "params"),
    [
        ("age > $age AND cost < $c", {"age": 30, "c": 20.5}),
        ("age > ? AND cost < ?", (Decimal(30), Decimal("20.5"))),
        ("age > ? AND cost < ?", [np.int64(30), np.float64(20.5)]),
        ("sex = $s AND name <> $name", {"s": "F", "name": "x' OR 1=1 --"}),
        ("COALESCE(name, $x) <> '' AND TRUE = $y", {"x": None, "y": True}),
    ],
)
def test_parameters_mean_what_they_do_to_a_curator(
    remote: Connection, local: Curator, condition: str, params: Any
) -> None:
    asked = f"SELECT COUNT(*) AS n FROM visits WHERE {condition}"
    first = remote.sql(asked, params=params, epsilon=0.1)
    assert local.sql(asked, params=params, epsilon=0.1).entry == first.entry
    assert remote.preview(asked, params=params, epsilon=0.1).stored
    assert first.intervals(0.5).num_rows == 1
    assert float(first.value) == next(iter(first))["n"]
    assert first.value == local.sql(asked, params=params, epsilon=0.1).value
    if isinstance(params, dict):
        batch = remote.batch([asked, "SELECT COUNT(*) AS n FROM visits"], params=params, epsilon=0.2)
        assert batch[0].scalar("n").value is not None
    with pytest.raises(lw.Refused, match="values are given for"):
        remote.sql(asked, params={"other": 1}, epsilon=0.1)
    with pytest.raises(NotServed, match=r"params.*Nothing was charged"):
        remote.sql(asked, params={"age": b"1"}, epsilon=0.1)


def test_a_date_is_sent_as_text(remote: Connection) -> None:
    asked = "SELECT COUNT(*) AS n FROM visits WHERE DATE '2020-01-01' < $day"
    assert remote.preview(asked, params={"day": date(2020, 1, 2)}, epsilon=0.1).cost


def test_a_key_stands_for_the_values_too(remote: Connection) -> None:
    asked = "SELECT COUNT(*) AS n FROM visits WHERE age > $age"
    first = remote.sql(asked, params={"age": 51}, epsilon=0.1, key="with values")
    assert remote.sql(asked, params={"age": 51}, epsilon=0.1, key="with values").entry == first.entry
    with pytest.raises(NotServed) as reused:
        remote.sql(asked, params={"age": 52}, epsilon=0.1, key="with values")
    assert reused.value.code == "key-reused"


def test_a_batch_looks_like_the_curators(remote: Connection, local: Curator) -> None:
    asked = {"all": "SELECT COUNT(*) AS n FROM visits", "mean": "SELECT AVG(age) AS m FROM visits"}
    first = remote.batch(asked, epsilon=0.5)
    assert first.cost.amount > 0
    one, other = remote.batch(asked, epsilon=0.5), local.batch(asked, epsilon=0.5)
    assert str(one) == str(other)
    assert one._repr_html_() == other._repr_html_()
    same(one["mean"], other["mean"])
    same(one[0], other[0])
    with pytest.raises(Misconfigured, match="Did you mean `mean`"):
        one["meen"]
    assert str(remote.preview_batch(asked, epsilon=0.5)) == str(local.preview_batch(asked, epsilon=0.5))


def test_distributions_and_marginals_are_tables_like_the_curators(remote: Connection, local: Curator) -> None:
    remote.distribution("age", epsilon=0.5, cells=None)
    same(remote.distribution("age", epsilon=0.5), local.distribution("age", epsilon=0.5))
    remote.marginals(["sex", "site"], epsilon=0.5)
    one, other = remote.marginals(["sex", "site"], epsilon=0.5), local.marginals(["sex", "site"], epsilon=0.5)
    assert list(one) == list(other)
    assert one["site", "sex"].to_arrow().equals(other["site", "sex"].to_arrow())
    assert one.methods() == other.methods()
    with pytest.raises(Misconfigured):
        one["age"]


def test_limits_are_chosen_as_with_the_curator(remote: Connection, local: Curator) -> None:
    asked = "SELECT site, SUM(cost) AS s FROM visits GROUP BY site"
    chosen: dict[str, Any] = {"epsilon": 0.5, "rows": 1, "groups": 1, "bounds": {"cost": (0, Decimal("10.5"))}}
    assert str(remote.preview(asked, **chosen)) == str(local.preview(asked, **chosen))
    paid = remote.sql(asked, **chosen)
    assert paid.to_dict()["limits"] == {"rows_per_unit": 1, "groups_per_unit": 1}
    same(remote.sql(asked, **chosen), local.sql(asked, **chosen))
    both = remote.batch([asked, COUNT], **chosen)
    assert [answer.to_dict()["limits"]["rows_per_unit"] for answer in both.releases] == [1, 1]
    for wrong in ({"rows": 0}, {"bounds": {"cost": (0,)}}, {"bounds": "some"}, {"bounds": {"costs": (0, 1)}}):
        with pytest.raises(LapwingError):
            remote.sql(asked, **{**chosen, **wrong})


@pytest.mark.parametrize("terms", [{"within": 30}, {"epsilon": 0.25}, {"share": 0.01}, {"within": {"n": 40}}])
def test_a_preview_looks_like_the_curators(remote: Connection, local: Curator, terms: dict[str, Any]) -> None:
    asked = "SELECT site, COUNT(*) AS n FROM visits WHERE age > 21 GROUP BY site"
    one, other = remote.preview(asked, **terms), local.preview(asked, **terms)
    assert str(one) == str(other)
    assert one._repr_html_() == other._repr_html_()
    assert (one.stored, one.fits, one.errors) == (other.stored, other.fits, other.errors)
    assert float(one.cost.amount) == float(other.cost.amount)


def test_tables_and_budget_look_like_the_curators(remote: Connection, local: Curator) -> None:
    assert str(remote.describe()) == str(local.describe())
    assert remote.describe()._repr_html_() == local.describe()._repr_html_()
    assert str(remote.budget) == str(local.budget)
    assert remote.budget.total == local.budget.total
    assert float(remote.budget.remaining.amount) == pytest.approx(float(local.budget.remaining.amount))


@pytest.mark.parametrize(("question", "terms"), REFUSED, ids=lambda value: str(value))
def test_a_refusal_is_that_of_the_curator(
    remote: Connection, local: Curator, question: str, terms: dict[str, Any]
) -> None:
    said: list[LapwingError] = []
    spent = local.budget.spent
    for asked in (remote, local):
        with pytest.raises(LapwingError) as refused:
            asked.sql(question, **terms)
        said.append(refused.value)
    assert type(said[0]) is type(said[1])
    assert str(said[0]) == str(said[1])
    assert said[0].to_dict() == said[1].to_dict()
    if isinstance(said[1], lw.BudgetExceeded):
        assert float(said[0].asked.amount) == float(said[1].asked.amount)
    assert local.budget.spent == spent


def test_a_key_is_paid_once_and_stands_for_one_request(remote: Connection, local: Curator) -> None:
    """ledger:B5"""
    asked = "SELECT COUNT(*) AS n FROM visits WHERE age > 50"
    first = remote.sql(asked, epsilon=0.1, refresh=True, key="mine")
    spent = local.budget.spent
    again = remote.sql(asked, epsilon=0.1, refresh=True, key="mine")
    assert again.to_json() == first.to_json()
    with pytest.raises(NotServed) as reused:
        remote.sql(COUNT, epsilon=0.1, key="mine")
    assert reused.value.code == "key-reused"
    assert local.budget.spent == spent
    other = remote.sql(asked, epsilon=0.1, refresh=True)
    assert local.budget.spent != spent
    assert other.entry != first.entry


def test_other_intervals_are_free(remote: Connection, local: Curator) -> None:
    asked = "SELECT sex, COUNT(*) AS n FROM visits WHERE age > 22 GROUP BY sex"
    for terms in ({"epsilon": 0.2}, {"within": 60}):
        answer = remote.sql(asked, **terms)
        spent = local.budget.spent
        assert answer.intervals(0.5).equals(local.sql(asked, **terms).intervals(0.5))
        assert answer.intervals(0.95).equals(answer.to_arrow())
        assert local.budget.spent == spent
    with pytest.raises(Misconfigured, match="per number"):
        answer.intervals(simultaneous=True)
    batch = remote.batch([asked, "SELECT COUNT(*) AS n FROM visits WHERE age > 23"], epsilon=0.5)
    assert batch[1].intervals(0.5)["n_low"][0].as_py() > batch[1].to_arrow()["n_low"][0].as_py()


def test_what_was_previewed_is_what_is_paid(remote: Connection, service: RunningService) -> None:
    asked = "SELECT COUNT(*) AS n FROM visits WHERE age > 24"
    seen = remote.preview(asked, within=40)
    assert remote.sql(asked, within=40, preview=seen).cost == seen.cost
    with pytest.raises(NotServed) as other:
        remote.sql("SELECT COUNT(*) AS n FROM visits WHERE age > 25", within=40, preview=seen)
    assert other.value.code == "preview-invalid"


def test_the_dummy_is_free_and_marked(remote: Connection, local: Curator) -> None:
    spent, dummy = local.budget.spent, remote.dummy()
    answer = dummy.sql(COUNT, epsilon=1)
    assert answer.notes[0].startswith("DUMMY")
    assert "dummy" in repr(dummy)
    assert "DUMMY" in str(dummy.batch([COUNT], epsilon=1))
    assert "DUMMY" in str(dummy.distribution("age", epsilon=1))
    with pytest.raises(Misconfigured):
        answer.intervals(0.5)
    assert local.budget.spent == spent


def test_a_magic_asks_a_connection(remote: Connection) -> None:
    names: dict[str, Any] = {"hospital": remote}
    answer = magic.run("--epsilon 0.5 --to counts", COUNT, names)
    assert isinstance(answer, RemoteRelease)
    assert names["counts"] is answer
    assert magic.run("--epsilon 0.5 --dummy", COUNT, names).notes[0].startswith("DUMMY")


def test_a_wrong_token_is_told(service: RunningService) -> None:
    for token in ("lw_wrong", f"{service.token[:-1]}{'a' if service.token[-1] != 'a' else 'b'}"):
        with lw.connect(service.url, token) as stranger, pytest.raises(NotServed) as refused:
            stranger.sql(COUNT, epsilon=0.5)
        assert refused.value.code == "unauthorized"
        assert token not in str(refused.value.to_dict())


def test_threads_share_a_connection(remote: Connection) -> None:
    remote.sql(COUNT, epsilon=0.5)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: str(remote.sql(COUNT, epsilon=0.5)), range(40)))
    assert len(set(answers)) == 1


@pytest.mark.parametrize(
    "number", [0.1, "0.1", Decimal("0.1"), Fraction(1, 10), np.float64(0.1)], ids=lambda number: type(number).__name__
)
def test_numbers_of_any_kind_are_read_exactly(remote: Connection, number: Any) -> None:
    assert remote.preview(COUNT, share=number).cost == remote.preview(COUNT, share=0.1).cost


def test_what_json_cannot_say_exactly_is_refused(remote: Connection) -> None:
    with pytest.raises(Misconfigured, match="1/3"):
        remote.preview(COUNT, epsilon=Fraction(1, 3))
    with pytest.raises(Misconfigured, match="SQL text"):
        remote.sql(7, epsilon=1)  # type: ignore[arg-type]
    with pytest.raises(Misconfigured, match="list of questions"):
        remote.batch(COUNT, epsilon=1)


@contextmanager
def lossy(url: str, losses: int, cut: Callable[[bytes], bytes]) -> Iterator[str]:
    """A way to the server that loses the first answers, after the server has given them."""
    target, left = (urlsplit(url).hostname, urlsplit(url).port), [losses]
    listener = socket.create_server(("127.0.0.1", 0))

    def carry() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client, socket.create_connection(target) as server:
                server.settimeout(20)
                asked = client.recv(1 << 20)
                while b"\r\n\r\n" not in asked or len(asked.split(b"\r\n\r\n", 1)[1]) < _length(asked):
                    asked += client.recv(1 << 20)
                server.sendall(asked.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
                answer = b"".join(iter(lambda: server.recv(1 << 20), b""))
                left[0] -= 1
                client.sendall(cut(answer) if left[0] >= 0 else answer)

    thread = threading.Thread(target=carry, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def _length(request: bytes) -> int:
    head = request.split(b"\r\n\r\n", 1)[0].lower()
    return int(head.split(b"content-length:")[1].split(b"\r\n")[0]) if b"content-length:" in head else 0


@pytest.mark.parametrize("cut", [lambda _: b"", lambda answer: answer[: len(answer) // 2]], ids=["none", "half"])
def test_an_answer_that_is_lost_on_the_way_is_not_paid_again(
    service: RunningService, local: Curator, cut: Callable[[bytes], bytes]
) -> None:
    """ledger:B5"""
    before = local.budget.spent.amount
    with lossy(service.url, 2, cut) as url, lw.connect(url, service.token) as connection:
        answer = connection.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.3, refresh=True, check=0)
    assert local.budget.spent.amount - before == local.ledger.budget.cost(local.ledger.budget.price(epsilon=0.3)).amount
    assert answer.cost.amount > 0
