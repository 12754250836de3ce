"""The name of a preview: what was seen, signed, so that the server need not remember it.

Guarantee:  an ask under a preview is charged at most the price that was shown, to the one who saw it, within 15
            minutes, for what it was shown for: less if parts are stored by then, and nothing, with a refusal, if
            anything else changed.
Proof:      the name holds the principal, the time, the written request, the price, and for each part its identity and
            prices, under an HMAC whose key is derived from the secret of the ledger. They are compared with a preview
            made now; parts may differ only where an answer is stored. The price is a limit of the request itself
            (`Request.at_most`), which the curator keeps whatever happens in between.
Checked by: tests/server/test_previews.py
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from fractions import Fraction
from hashlib import sha256
from typing import Any

from lapwing.answers.stored import terms_of
from lapwing.curator.batch_answer import BatchPreview
from lapwing.curator.preview import Preview
from lapwing.ledger import Ledger
from lapwing.privacy.budget import Cost
from lapwing.server.problems import ServerProblem

MINUTES = 15
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_LONGEST = 100_000


class PreviewNames:
    """Signs previews of one ledger and reads their names."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._key = hmac.new(ledger.salt, b"lapwing preview names 1", sha256).digest()

    def name(self, seen: Preview | BatchPreview, *, principal: str, written: str, now: datetime) -> tuple[str, str]:
        """The name of a preview that a principal has seen now of a request as it was written, and when it ends."""
        until = (now + timedelta(minutes=MINUTES)).strftime(_TIME)
        price = [str(seen.cost.amount), str(seen.cost.delta)]
        facts = {"who": principal, "until": until, "written": written, "price": price, "parts": list(_parts(seen))}
        body = _text(json.dumps(facts, sort_keys=True).encode())
        return f"p1.{body}.{_text(self._sign(body))}", until

    def agreed(
        self, name: str, now_seen: Preview | BatchPreview, *, principal: str, written: str, now: datetime
    ) -> Cost:
        """The price that a name stands for, if what it showed is what is seen now."""
        facts = self._read(name)
        if (facts["who"], facts["written"]) != (principal, written):
            raise ServerProblem("preview-invalid")
        parts = list(_parts(now_seen))
        if now.strftime(_TIME) >= facts["until"] or len(parts) != len(facts["parts"]):
            raise ServerProblem("preview-changed")
        for seen, (identity, prices, stored) in zip(parts, facts["parts"], strict=True):
            if seen[0] != identity or not (seen[2] or (not stored and seen[1] == prices)):
                raise ServerProblem("preview-changed")
        total = self._ledger.total
        return Cost(total.accounting, *map(Fraction, facts["price"]))

    def _read(self, name: str) -> dict[str, Any]:
        first, _, rest = name.partition(".")
        body, _, signature = rest.partition(".")
        same = hmac.compare_digest(_text(self._sign(body)).encode(), signature.encode())
        if first != "p1" or len(name) > _LONGEST or not same:
            raise ServerProblem("preview-invalid")
        try:
            facts: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        except (ValueError, binascii.Error):
            raise ServerProblem("preview-invalid") from None
        return facts

    def _sign(self, body: str) -> bytes:
        return hmac.new(self._key, body.encode(), sha256).digest()


def _parts(seen: Preview | BatchPreview) -> Iterable[list[Any]]:
    """For each plan what it is, what each of its numbers is paid, and whether it is stored."""
    if isinstance(seen, BatchPreview):
        for preview in seen.previews:
            yield from _parts(preview)
    else:
        plan = seen.plan
        prices = [terms_of(plan.prices), list(seen.missing), None if seen.check is None else str(seen.check.encode())]
        yield [_hash(plan.outline.identity.text), _hash(json.dumps(prices)), seen.stored]


def _hash(text: str) -> str:
    """24 digits, so that the name of a long batch fits into an address. Its price is a limit whatever they say."""
    return sha256(text.encode()).hexdigest()[:24]


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
