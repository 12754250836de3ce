"""A server's problem becomes the error that the curator raised, with the same class, words and fields."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from lapwing.client.transport import error_of
from lapwing.errors import (
    AnswerLost,
    BudgetExceeded,
    Bug,
    Code,
    DataChanged,
    EngineFailed,
    Halted,
    LapwingError,
    LedgerFailed,
    Misconfigured,
    NotServed,
    Refused,
    Unfinished,
)
from lapwing.privacy.budget import Accounting, Cost, read_cost
from lapwing.server.problems import KINDS, ServerProblem, of_error, of_server

PRICE = Cost(Accounting.PURE, 0.25)
ERRORS = [
    Refused("unknown-column", "column `agee`", "there is no such column.", "Did you mean `age`?"),
    BudgetExceeded("This costs 2.", "Ask for 1.", asked=PRICE, remaining=PRICE),
    Misconfigured("`epsilon` is -1."),
    EngineFailed("0123456789ab"),
    Unfinished(),
    LedgerFailed("The ledger is locked."),
    Halted("It has ended."),
    Bug("A rule was broken.", free=True),
    Bug("A rule was broken."),
]


def as_problem(error: LapwingError) -> dict[str, object]:
    """The problem details of an error."""
    told = {name: value for name, value in error.to_dict().items() if name not in ("error", "message")}
    more = {}
    if isinstance(error, BudgetExceeded):
        more = {"asked": {"epsilon": 0.25, "delta": 0.0}, "remaining": {"epsilon": 0.25, "delta": 0.0}}
    return json.loads(json.dumps({"type": f"/problems/{error.code}", "detail": str(error), **told, **more}))


@pytest.mark.parametrize("charged", [None, PRICE])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_comes_back_as_it_was(error: LapwingError, charged: Cost | None) -> None:
    if isinstance(error, Bug) and charged is not None:
        return  # what a bug says of its charge is in its words
    error.charged = charged
    again = error_of(422, as_problem(error), None)
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.to_dict() == error.to_dict()


def test_what_was_asked_and_what_remains_come_back() -> None:
    again = error_of(409, as_problem(ERRORS[1]), None)
    assert isinstance(again, BudgetExceeded)
    assert again.asked == again.remaining == PRICE


def test_every_code_of_a_refusal_is_a_refusal() -> None:
    own = {error.code for error in ERRORS[1:]} | {"output-failed", "data-changed", "answer-lost"}
    for code in set(get_args(Code)) - own:
        told = {"code": code, "detail": "x", "part": "p", "why": "because.", "instead": "Do."}
        assert isinstance(error_of(422, told, None), Refused)


@pytest.mark.parametrize("code", KINDS)
def test_every_problem_of_the_server_keeps_its_words(code: str) -> None:
    """What was charged is not for the client to say."""
    told = json.loads(of_server(ServerProblem(code)).to_bytes())
    assert str(error_of(told["status"], told, None)) == told["detail"]


def test_data_that_changed_and_answers_that_are_lost_are_the_errors_of_the_curator() -> None:
    for error in (DataChanged("The data changed."), AnswerLost("It stays charged.")):
        error.charged = PRICE if isinstance(error, AnswerLost) else None
        problem = of_error(error)
        again = error_of(problem.status, json.loads(problem.to_bytes()), "key")
        assert type(again) is type(error)
        assert again.charged == error.charged
        assert str(again) == problem.detail
    assert "Nothing was charged" not in str(again)


def test_a_problem_of_the_server_itself_is_told_with_its_code() -> None:
    told = {"code": "unauthorized", "detail": "There is no valid token. Send one.", "why": "There is no valid token."}
    error = error_of(401, told, None)
    assert isinstance(error, NotServed)
    assert (error.code, str(error), error.why) == ("unauthorized", told["detail"], told["why"])


@pytest.mark.parametrize("body", [{}, {"code": 7, "detail": "x"}, {"code": "x"}, {"detail": []}])
def test_what_is_no_problem_of_a_server_is_said_so(body: dict[str, object]) -> None:
    error = error_of(500, body, "abc")
    assert isinstance(error, NotServed)
    assert error.code == "not-a-server"
    assert "abc" in str(error)


@pytest.mark.parametrize("cost", [PRICE, Cost(Accounting.ZCDP, 0.02, 1e-9), Cost(Accounting.BASIC, 1, 1e-9)])
def test_costs_are_read_from_json(cost: Cost) -> None:
    assert read_cost({cost.unit: float(cost.amount), "delta": float(cost.delta)}) == cost


def test_amounts_without_a_unit_are_refused() -> None:
    with pytest.raises(Misconfigured, match="unit"):
        read_cost({"delta": 0})
