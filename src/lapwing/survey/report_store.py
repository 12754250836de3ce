"""Stores of survey reports: what each must do, and how one is opened. tests/survey/test_stores.py tries every store.

Once:      of all messages with one nonce the first is kept. The same report again is `ALREADY` there; another report
           is `NONCE_TAKEN`, and nothing changes.
One each:  an invitation is spent in the same transaction that keeps the report: both happen or none. It is kept as a
           hash, with whether it was used, and nothing connects it with a report.
Durable:   what `add` returned STORED for survives the end of the process and a loss of power.
No trace:  a store keeps nonces and reports. It keeps no time, no address and no order of arrival, and gives reports
           back in the order of their nonces, which are random.
One survey: a store belongs to one version of one survey. While it is empty another may take its place; then `add`
           fails for the first.
Failure:   every failure is a StoreFailed that names the next step, and nothing was kept.
Threads:   every method may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Protocol

from lapwing.errors import Misconfigured
from lapwing.noise.bits import SYSTEM
from lapwing.postgres import is_postgres, load_driver, read_address


class Kept(Enum):
    """The fate of a message."""

    STORED = "stored"
    ALREADY = "already"
    NONCE_TAKEN = "nonce-taken"
    INVITATION_USED = "invitation-used"
    INVITATION_UNKNOWN = "invitation-unknown"


class Invited(NamedTuple):
    """How many invitations there are, and how many of them were used."""

    made: int
    used: int


class SurveyStore(Protocol):
    """Keeps the reports of one survey."""

    @property
    def name(self) -> str:
        """The store's name in messages."""

    def prepare(self, survey: str, key: str) -> str:
        """Binds the store to a survey, and gives the key of its results: this one, or the one that was kept before.

        Raises Misconfigured if the store holds reports or invitations of another survey.
        """

    def survey(self) -> str | None:
        """The survey that the store is bound to; None if it is bound to none yet."""

    def add(self, nonce: bytes, report: bytes, invitation: bytes | None = None) -> Kept:
        """Keeps a report, and spends the invitation with this hash if the survey has invitations."""

    def count(self) -> int:
        """How many reports there are."""

    def reports(self) -> list[bytes]:
        """All of them, in the order of their nonces."""

    def invite(self, hashes: Iterable[bytes]) -> None:
        """Adds invitations."""

    def invited(self) -> Invited:
        """How many invitations there are."""

    def close(self) -> None:
        """Ends the connection. May be called again."""


def open_survey_store(file: Path, store: str | None = None, *, exists: bool = False) -> SurveyStore:
    """The store with this path or address, or the file beside the survey's; with `exists` it must be there already."""
    missing = "{}: there are no reports yet. Run `lapwing survey serve` first, or name --store."
    if is_postgres(store):
        address = read_address(str(store), public=True)  # commands are visible in process lists
        load_driver()
        from lapwing.survey.postgres_store import PostgresSurveyStore

        database = PostgresSurveyStore(address)
        if exists and database.survey() is None:
            database.close()
            raise Misconfigured(missing.format(address))
        return database
    if store is not None and "://" in store:
        raise Misconfigured(
            f"{store.split('://')[0]}:// is not a supported store. Name a file or a postgresql:// address with --store."
        )
    from lapwing.survey.sqlite_store import SqliteSurveyStore

    path = file.with_suffix(".db") if store is None else Path(store)
    if exists and not path.is_file():
        raise Misconfigured(missing.format(path))
    return SqliteSurveyStore(path)


_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"


def make_code() -> str:
    """A new invitation, or a key: 26 letters, 130 random bits."""
    drawn = SYSTEM.integer(130)
    return "".join(_LETTERS[drawn >> shift & 31] for shift in range(0, 130, 5))


def hash_code(code: str) -> bytes:
    """The hash that is kept of an invitation. It has 130 random bits, so its hash does not reveal it."""
    return sha256(f"lapwing invitation {code}".encode()).digest()


OTHER_SURVEY = (
    "{name} holds reports to another survey, or to this one before it was changed. Reports to two versions cannot be "
    "joined: undo the change, or name another store with --store."
)
TAKEN_OVER = (
    "{name} was given to another survey meanwhile. Nothing was kept: start this survey again with its own store."
)
