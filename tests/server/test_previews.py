"""Names of previews: at most the price that was shown, to the one who saw it, for 15 minutes; else refused free."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from lapwing.curator import open_data
from lapwing.errors import Refused
from lapwing.privacy import Accounting, Budget, Cost
from lapwing.server import service as service_module
from support.serving import BY_SEX, COUNT, Asked, serving
from support.visits import FACTS, open_visits, write_visits


def preview(asked: Asked, body: Any, **more: Any) -> str:
    seen = asked.ask(body, "/v1/preview", **more)
    assert seen.status_code == 200
    return str(seen.json()["preview"])


def ask_with(asked: Asked, seen: str, body: Any, path: str = "/v1/ask", **more: Any) -> Any:
    return asked.call("POST", path, json=body, params={"preview": seen}, **more)


def test_an_ask_under_a_preview_charges_its_price(asked: Asked) -> None:
    seen = asked.ask(COUNT, "/v1/preview").json()
    assert (seen["price"], seen["stored"]) == ({"epsilon": 0.1, "delta": 0.0}, False)
    assert not asked.spent
    answer = ask_with(asked, seen["preview"], COUNT)
    assert answer.json()["price"] == seen["price"]
    assert asked.spent == Cost(Accounting.PURE, 0.1)


def test_what_is_stored_meanwhile_is_not_charged(asked: Asked) -> None:
    name = preview(asked, COUNT)
    asked.ask(COUNT, name="bob")
    answer = ask_with(asked, name, COUNT)
    assert (answer.status_code, answer.json()["price"]) == (200, {"epsilon": 0.0, "delta": 0.0})
    assert asked.spent == Cost(Accounting.PURE, 0.1)


def test_parts_of_a_batch_that_are_stored_meanwhile_are_not_charged(asked: Asked) -> None:
    body = {"questions": [BY_SEX["sql"], "SELECT site, COUNT(*) AS n FROM visits GROUP BY site"], "epsilon": 0.2}
    seen = asked.ask(body, "/v1/preview").json()
    asked.ask({**BY_SEX, "epsilon": 0.3}, name="bob")
    answer = ask_with(asked, seen["preview"], body, "/v1/batch")
    assert answer.status_code == 200
    assert Fraction(3, 10) < asked.spent.amount < Fraction(1, 2)


def test_a_preview_is_for_one_principal_and_one_request(asked: Asked) -> None:
    name = preview(asked, COUNT)
    for refused in (
        ask_with(asked, name, COUNT, name="bob"),
        ask_with(asked, name, BY_SEX),
        ask_with(asked, name, {**COUNT, "epsilon": 0.2}),
        ask_with(asked, name, {"questions": [COUNT["sql"]], "epsilon": 0.1}, "/v1/batch"),
    ):
        assert (refused.status_code, refused.json()["code"]) == (422, "preview-invalid")
    assert not asked.spent


def test_a_changed_name_is_refused(asked: Asked) -> None:
    name = preview(asked, COUNT)
    first, body, signature = name.split(".")
    facts = json.loads(base64.urlsafe_b64decode(body + "=="))
    cheaper = base64.urlsafe_b64encode(json.dumps({**facts, "price": ["1", "0"]}).encode()).decode().rstrip("=")
    for forged in (
        f"{first}.{cheaper}.{signature}",
        f"p2.{body}.{signature}",
        body,
        "p1..",
        "x",
        name[:-2] + "AA",
    ):
        assert ask_with(asked, forged, COUNT).json()["code"] == "preview-invalid"
    assert ask_with(asked, "p1.a.é", COUNT).json()["code"] == "invalid-request"
    assert not asked.spent


def test_a_long_batch_can_be_asked_under_its_preview(asked: Asked) -> None:
    body = {"questions": [f"SELECT COUNT(*) AS n FROM visits WHERE age < {i}" for i in range(60)], "epsilon": "0.1"}
    answer = ask_with(asked, preview(asked, body), body, "/v1/batch")
    assert (answer.status_code, len(answer.json()["answers"])) == (200, 60)


def test_another_ledger_signs_with_another_key(asked: Asked) -> None:
    name = preview(asked, COUNT)
    with serving() as other:
        assert ask_with(other, name, COUNT).json()["code"] == "preview-invalid"


def test_a_preview_ends_after_15_minutes(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    name, now = preview(asked, COUNT), asked.service.tokens.now()
    monkeypatch.setattr(asked.service.tokens, "now", lambda: now + timedelta(minutes=15, seconds=1))
    late = ask_with(asked, name, COUNT)
    assert (late.status_code, late.json()["code"], late.json()["charged"]) == (409, "preview-changed", None)
    monkeypatch.setattr(asked.service.tokens, "now", lambda: now + timedelta(minutes=14))
    assert ask_with(asked, name, COUNT).status_code == 200


def test_a_new_version_of_the_data_ends_a_preview(tmp_path: Path) -> None:
    path = write_visits(tmp_path)
    facts = {"name": "visits", "budget": Budget(1), "check": 0, **FACTS}
    with serving(open_data(path, **facts)) as asked:
        name = preview(asked, COUNT)
        token = asked.token()
    with serving(open_data(path, **{**facts, "version": "2"})) as later:
        later.tokens["ann:analyst"] = token
        changed = ask_with(later, name, COUNT)
        assert (changed.status_code, changed.json()["code"]) == (409, "preview-changed")
        assert not later.spent


def test_a_delta_that_others_took_ends_a_preview() -> None:
    """Its keys would be selected for less, so it would be another answer."""
    names = {"sql": "SELECT name, COUNT(*) AS n FROM visits GROUP BY name", "epsilon": 0.1}
    with serving(open_visits(budget=Budget(1, 1e-6), groups_per_unit=1)) as asked:
        name = preview(asked, names)
        other = {**names, "sql": "SELECT name, SUM(age) AS n FROM visits GROUP BY name"}
        assert asked.ask(other, name="bob").status_code == 200
        spent = asked.spent
        assert ask_with(asked, name, names).json()["code"] == "preview-changed"
        assert asked.spent == spent


def test_the_price_is_a_limit_of_the_request_itself() -> None:
    """Whatever happens between the comparison and the charge."""
    with open_visits() as curator:
        body = service_module.Asking.__args__[0](**COUNT)  # type: ignore[attr-defined]
        little = body.request("ann", None, Cost(Accounting.PURE, 0.05))
        with pytest.raises(Refused) as refused:
            curator.answer(little)
        assert refused.value.code == "price-changed"
        assert not curator.ledger.spent
        curator.answer(body.request("ann", None, Cost(Accounting.PURE, 0.1)))
        assert curator.answer(little).cost == Cost(Accounting.PURE, 0)


def test_checks_and_searches_count_towards_the_limit() -> None:
    asks = {"sql": "SELECT SUM(loose) AS s FROM t", "epsilon": 0.4, "bounds": "auto"}
    import pyarrow as pa

    frame = pa.table({"pid": range(20_000), "loose": [float(i % 7) for i in range(20_000)]})
    with open_data(frame, name="t", unit="pid", rows_per_unit=1, budget=Budget(1)) as curator:
        body = service_module.Asking.__args__[0](**asks)  # type: ignore[attr-defined]
        with pytest.raises(Refused, match="was agreed to"):
            curator.answer(body.request("ann", None, Cost(Accounting.PURE, 0.39)))
        assert not curator.ledger.spent
        curator.answer(body.request("ann", None, Cost(Accounting.PURE, 0.4)))
        assert curator.ledger.spent == Cost(Accounting.PURE, 0.4)
