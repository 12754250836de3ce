"""A connection to a server: every way to ask that a curator has, with the same arguments and the same answers.

Checked by: tests/client/test_transport.py
"""

from __future__ import annotations

import json
import numbers
import os
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, Self, Unpack
from urllib.parse import urlencode

from lapwing.client.rebuilt import (
    Json,
    RemoteBatch,
    RemoteDescription,
    RemoteMarginals,
    RemotePreview,
    RemoteRelease,
    statement_of,
)
from lapwing.client.transport import Transport, new_key, read_address, read_token
from lapwing.errors import Misconfigured
from lapwing.numbers import exact, shown
from lapwing.privacy.budget import read_cost
from lapwing.privacy.filter import Statement
from lapwing.privacy.phrases import decimal_text
from lapwing.terms import (
    BatchTerms,
    PreviewTerms,
    RemoteAskTerms,
    RemoteBatchTerms,
    RemoteDistributionTerms,
    RemoteMarginalsTerms,
    check_names,
    takes,
)

_LITTLE = 0.001  # epsilon: whatever was stored is at least that good
TIMEOUT = 120.0
"""Seconds to wait for an answer before it is asked for again, with the same key."""


def connect(
    url: str,
    token: str | None = None,
    *,
    timeout: float = TIMEOUT,
    ca: str | os.PathLike[str] | None = None,
    insecure: bool = False,
) -> Connection:
    """Connects to a `lapwing serve`.

    The token is that of the environment variable LAPWING_TOKEN unless it is given; it is never shown. `ca` is a file of
    certificates to trust, if the server's is signed by your own authority. `timeout` is in seconds, for one attempt.
    `insecure` allows http:// to another machine, where anyone on the way can read token and answers.
    """
    return Connection(Transport(read_address(url, insecure=insecure), read_token(token), timeout=timeout, ca=ca))


class Connection:
    """Answers questions about the private tables of a server, within its budget.

    Every call has a retry key of its own, so that a lost connection is never paid twice; `key` names another one.
    """

    def __init__(self, transport: Transport, *, dummy: bool = False) -> None:
        self._transport, self._dummy = transport, dummy

    @property
    def url(self) -> str:
        return str(self._transport.address)

    @property
    def budget(self) -> Statement:
        """What was spent and what is left, in plain words when printed."""
        return statement_of(self._transport.get("/v1/budget"))

    def describe(self) -> RemoteDescription:
        """Tables, columns, declared facts, limits and the budget. Free; reads no data."""
        return RemoteDescription(self._transport.get("/v1/tables")["tables"], self.budget)

    @takes(RemoteAskTerms)
    def sql(
        self, question: str, *, preview: RemotePreview | None = None, **terms: Unpack[RemoteAskTerms]
    ) -> RemoteRelease:
        """The noisy answer to a question, charged before any row is read; arguments are those of `curator.sql`.

        With `preview` it is answered at the price that was shown, or refused.
        """
        return self._release("/v1/ask", RemoteAskTerms, {"sql": _text(question)}, terms, preview)

    ask = sql

    @takes(PreviewTerms)
    def preview(self, question: str, **terms: Unpack[PreviewTerms]) -> RemotePreview:
        """Price and error of a question. Free; reads no data."""
        return self._preview(_body(PreviewTerms, {"sql": _text(question)}, terms))

    @takes(RemoteBatchTerms)
    def batch(
        self,
        questions: Sequence[str] | Mapping[str, str],
        *,
        preview: RemotePreview | None = None,
        **terms: Unpack[RemoteBatchTerms],
    ) -> RemoteBatch:
        """Answers to several questions at one price, as a list or by name; arguments are those of `curator.batch`."""
        asked = _body(RemoteBatchTerms, {"questions": _texts(questions)}, terms)
        body = self._ask("/v1/batch", asked, terms.get("key"), preview)
        answers, release = body["answers"], body.get("release")
        again = partial(self._again, "/v1/batch", asked)
        releases = tuple(RemoteRelease(answer, partial(again, name), release) for name, answer in answers.items())
        return RemoteBatch(tuple(answers), releases, read_cost(body["price"]), body["in_words"], release)

    @takes(BatchTerms)
    def preview_batch(self, questions: Sequence[str] | Mapping[str, str], **terms: Unpack[BatchTerms]) -> RemotePreview:
        """Price and error of each question of a batch. Free; reads no data."""
        return self._preview(_body(BatchTerms, {"questions": _texts(questions)}, terms))

    @takes(RemoteDistributionTerms)
    def distribution(self, column: str, **terms: Unpack[RemoteDistributionTerms]) -> RemoteRelease:
        """How many rows lie in every cell of a column, for one price, as a table of its cells."""
        return self._release("/v1/distribution", RemoteDistributionTerms, {"column": column}, terms)

    @takes(RemoteMarginalsTerms)
    def marginals(
        self, columns: Sequence[str | Sequence[str]], **terms: Unpack[RemoteMarginalsTerms]
    ) -> RemoteMarginals:
        """The counts over every set of up to `ways` of these columns, consistent with each other, for one price."""
        asked = _body(RemoteMarginalsTerms, {"columns": columns}, terms)
        body = self._ask("/v1/marginals", asked, terms.get("key"), None)
        return RemoteMarginals(body, body.get("release"))

    def dummy(self) -> Connection:
        """The same connection, but questions are answered from made-up rows: free, and every answer says so."""
        return Connection(self._transport, dummy=True)

    def close(self) -> None:
        self._transport.close()

    def __repr__(self) -> str:
        return f"<Lapwing server at {self.url}{', dummy: made-up rows' if self._dummy else ''}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, path: str, asked: Json, key: str | None, preview: RemotePreview | None) -> dict[str, Any]:
        body = {name: _json(value, name) for name, value in asked.items()}
        if self._dummy:
            return self._transport.post(f"{path}?dummy=true", body)
        agreed = "" if preview is None or preview.id is None else f"?{urlencode({'preview': preview.id})}"
        return self._transport.post(f"{path}{agreed}", body, key=new_key() if key is None else key)

    def _preview(self, asked: Json) -> RemotePreview:
        body = self._transport.post("/v1/preview", {name: _json(value, name) for name, value in asked.items()})
        return RemotePreview(body, body.get("preview"))

    def _release(
        self, path: str, kind: Any, asked: Json, terms: Mapping[str, Any], preview: RemotePreview | None = None
    ) -> RemoteRelease:
        sent = _body(kind, asked, terms)
        body = self._ask(path, sent, terms.get("key"), preview)
        return RemoteRelease(body, partial(self._again, path, sent, None), body.get("release"))

    def _again(self, path: str, asked: Json, name: str | None, confidence: Fraction, simultaneous: bool) -> Json:
        """The stored answer with other intervals. Never charged: its preview must be free."""
        if simultaneous:
            raise Misconfigured("a server's intervals are per number. Pass a larger confidence for all rows together.")
        cheap = {"within": None, "epsilon": _LITTLE} if asked.get("within") is not None else {}
        again = {**asked, **cheap, "refresh": None, "combine": None, "confidence": confidence}
        preview = self._preview(again)
        if self._dummy or not preview.stored:
            raise Misconfigured(
                "this answer is not stored as it is, so it has no other intervals. Ask it at another `confidence`."
            )
        body = self._ask(path, again, None, preview)
        return body if name is None else body["answers"][name]


def _body(kind: Any, asked: Json, terms: Mapping[str, Any]) -> dict[str, Any]:
    """What is sent: what is asked, and the terms that were named."""
    check_names(kind, terms)
    return {**asked, **{name: value for name, value in terms.items() if name != "key"}}


def _text(question: Any) -> str:
    if isinstance(question, str):
        return question
    raise Misconfigured(
        "a question to a server is SQL text. Write an Ibis expression as text first: str(ibis.to_sql(expression)). "
        "Nothing was charged."
    )


def _texts(questions: Sequence[str] | Mapping[str, str]) -> list[str] | dict[str, str]:
    if isinstance(questions, Mapping):
        return {str(name): _text(question) for name, question in questions.items()}
    if isinstance(questions, str):
        raise Misconfigured("a batch is a list of questions, or a mapping by name. Nothing was charged.")
    return [_text(question) for question in questions]


def _json(value: Any, name: str = "a number") -> Any:
    """Numbers as exact decimals, as which the server reads them; numbers among `params` are those of JSON."""
    match value:
        case None | bool() | int() | str():
            return value
        case date():
            return str(value)
        case Decimal() if name == "params":
            return json.loads(str(value))
        case numbers.Real() if name == "params":
            return int(value) if isinstance(value, numbers.Integral) else float(value)
        case numbers.Number():
            number = exact(value, name)
            text = decimal_text(number)
            if Fraction(text) != number:
                raise Misconfigured(
                    f"`{name}` is {shown(value)}; a server takes decimals of at most 18 digits. Round it."
                )
            return text
        case Mapping():
            return {str(key): _json(part, name) for key, part in value.items()}
        case _:
            return [_json(part, name) for part in value]
