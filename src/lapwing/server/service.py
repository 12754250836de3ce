"""One curator, asked by many: from a request over HTTP to the bytes that leave, and when they leave.

Threads:    one curator is shared by the threads of a worker. Its ledger is one connection behind one lock, every query
            runs on a cursor of its own, and what it remembers is looked up in single steps.
Waiting:    an answer that is ready early waits as a timer, not as a thread.
Gone:       work that has begun goes on when its client leaves: it may have been charged, and is stored.
Seen:       an answer is stored when it leaves, not when it is ready: else whoever asks the same, or sends the same key
            again, would see how long it took (ledger/held.py). Who asks the same on this worker meanwhile waits for it.
Checked by: tests/server/test_service.py, tests/server/test_processes.py
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from lapwing.answers.formats.json import dump
from lapwing.curator import Curator
from lapwing.curator.charging import LOST
from lapwing.errors import LapwingError, LedgerFailed, PriceChanged
from lapwing.ledger.held import HeldAnswer, holding, settle_held
from lapwing.privacy.budget import Cost
from lapwing.server.bodies import Asking
from lapwing.server.dummy import DummyAnswers
from lapwing.server.limits import Turns
from lapwing.server.log import note_incident
from lapwing.server.previews import PreviewNames
from lapwing.server.problems import MEDIA_TYPE, ProblemDetails, ServerProblem, is_final, of_bug, of_error, of_server
from lapwing.server.releases import NewRelease, Releases, new_release
from lapwing.server.retries import KeptReply, KeyClaim, Retries, retry_key
from lapwing.server.settings import ANSWER_TIME, ServeSettings
from lapwing.server.timing import ServedAnswer, leave_at, longest, slot_of
from lapwing.server.tokens import Principal, TokenBook

_T = TypeVar("_T")
_WAITING = 64  # questions of one principal that wait for a thread
_TOTAL = 512  # of all
_TRIALS = 16  # questions on made-up rows of one principal that wait
_AT_HAND = 256  # stored answers whose bytes are kept


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is sent: a status, bytes, and what the log may say of it."""

    status: int
    content: bytes
    media_type: str = "application/json"
    code: str | None = None
    price: Cost | None = None
    retry_after: int | None = None
    slot: float | None = None
    """T of the grid on which it leaves; None if it leaves at once."""
    held: tuple[HeldAnswer, ...] = ()
    """Answers that are stored when it leaves."""
    release: NewRelease | None = None
    claim: KeyClaim | None = None
    final: bool = False
    """Whether a retry under the same key gets the same bytes."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """A request that must be paid: its claim, its retry key, and the price that was agreed to."""

    claim: KeyClaim | None
    key: str | None
    agreed: Cost | None


class Service:
    """What a worker holds."""

    def __init__(
        self,
        curator: Curator,
        settings: ServeSettings | None = None,
        times: Mapping[str, float] | None = None,
    ) -> None:
        self.curator, self.settings = curator, settings or ServeSettings()
        self.ledger = curator.ledger
        self.tokens = TokenBook(self.ledger)
        self.releases = Releases(self.ledger)
        self._times = dict(times or {})
        slowest = max(self._times.values(), default=ANSWER_TIME)
        self._longest = longest(max(slowest, ANSWER_TIME))
        self.retries = Retries(self.ledger, patience=self._longest)
        self._names = PreviewNames(self.ledger)
        self._waiting: set[asyncio.Future[None]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._running: dict[str, tuple[asyncio.Task[Any], tuple[str, str | None]]] = {}
        self._sent: dict[int, tuple[ServedAnswer, bytes]] = {}
        self.dummy = DummyAnswers(curator)
        threads = self.settings.threads
        self._turns = Turns(max(1, threads - 1), _WAITING, _TOTAL)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="answer")
        self._quick = ThreadPoolExecutor(4, thread_name_prefix="quick")
        self._door = ThreadPoolExecutor(2, thread_name_prefix="door")
        self._trials = Turns(1, _TRIALS, _TOTAL)
        self._trial = ThreadPoolExecutor(1, thread_name_prefix="dummy")  # one, so that they hold up nobody else

    def close(self) -> None:
        """Ends the work that has begun, and the curator."""
        self._pool.shutdown()
        self._quick.shutdown()
        self._door.shutdown()
        self._trial.shutdown()
        self.dummy.close()
        self.curator.close()

    async def find_principal(self, token: str) -> Principal | None:
        """Who shows a token."""
        return await asyncio.get_running_loop().run_in_executor(self._door, self.tokens.find, token)

    async def quickly(self, work: Callable[[], Any]) -> Outcome:
        """The outcome of what reads declarations, the ledger or released numbers, ready for JSON."""
        return await self._in_thread(self._told, work)

    async def preview(self, principal: Principal, body: Asking) -> Outcome:
        """What an answer would cost and how good it would be. Free, and reads no data."""
        return await self._in_thread(self._told, lambda: self._preview(principal, body))

    async def ask_dummy(self, principal: Principal, body: Asking) -> Outcome:
        """The answer to the same question over made-up rows. Free."""
        await self._trials.enter(principal.name)
        try:
            loop, work = asyncio.get_running_loop(), lambda: self.dummy.answer(body.request(principal.name))
            return await loop.run_in_executor(self._trial, self._told, work)
        finally:
            self._trials.leave(principal.name)

    async def ask(
        self, principal: Principal, body: Asking, *, arrived: float, key: str | None = None, preview: str | None = None
    ) -> tuple[Outcome, float | None]:
        """The answer, charged before any row is read, when it may leave; and at which place on the grid that is."""
        same, mine = body.digest(), (principal.name, key)
        begun = await self._in_thread(self._without_rows, principal, body, key, preview, None)
        while isinstance(begun, _Begun) and not body.refresh and await self._twin(same, mine):
            begun = await self._in_thread(self._without_rows, principal, body, key, preview, begun.claim)
        if isinstance(begun, Outcome):
            return begun, None
        task = asyncio.create_task(self._finish(principal, body, begun, arrived))
        self._running[same] = task, mine
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._forget(same, done))
        try:
            return await asyncio.wait_for(asyncio.shield(task), max(0.0, arrived + self._longest - time.monotonic()))
        except TimeoutError:
            return self._problem(of_server(ServerProblem("still-running"))), self._longest

    async def _finish(
        self, principal: Principal, body: Asking, begun: _Begun, arrived: float
    ) -> tuple[Outcome, float | None]:
        """Does the work, waits for the grid, and only then stores the answer: from then on it is free for all."""
        try:
            await self._turns.enter(principal.name)
        except ServerProblem:
            if begun.claim is not None:
                await self._in_thread(self.retries.give_up, begun.claim)
            raise
        try:
            work = asyncio.get_running_loop().run_in_executor(self._pool, self._answer, principal, body, begun)
            outcome = await work
        finally:
            self._turns.leave(principal.name)
        if outcome.slot is None:
            return outcome, None
        place = leave_at(time.monotonic() - arrived, outcome.slot)
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(woken)
        await asyncio.wait({woken}, timeout=max(0.0, arrived + place - time.monotonic()))
        self._waiting.discard(woken)
        return await self._in_thread(self._store, outcome), place

    async def drain(self) -> None:
        """Stores what waits for its time, before the server stops."""
        while self._tasks:
            for woken in self._waiting:
                if not woken.done():
                    woken.set_result(None)
            await asyncio.wait(set(self._tasks), timeout=0.1)

    async def _twin(self, same: str, mine: tuple[str, str | None]) -> bool:
        """Waits for whoever asks the same: its answer is stored then, and free. False if nobody else does."""
        twin, whose = self._running.get(same, (None, None))
        if twin is None or (whose == mine and mine[1] is not None):
            return False
        await asyncio.wait({twin})
        self._forget(same, twin)
        return True

    def _forget(self, same: str, done: asyncio.Task[Any]) -> None:
        self._tasks.discard(done)
        if self._running.get(same, (None, None))[0] is done:
            del self._running[same]

    def _without_rows(
        self, principal: Principal, body: Asking, key: str | None, preview: str | None, claim: KeyClaim | None
    ) -> Outcome | _Begun:
        """What can be told without reading rows: a stored answer or a refusal. Otherwise what the work begins with.

        It never waits for a thread that reads rows: how long it waited would tell how long they take.
        """
        try:
            now, written = self.tokens.now(), body.digest()
            if key is not None and claim is None:
                found = self.retries.claim(principal.name, key, written, now)
                if isinstance(found, KeptReply):
                    kind = "application/json" if found.status == 200 else MEDIA_TYPE
                    return Outcome(found.status, found.content, kind, code="repeated")
                claim = found
            agreed = None
            if preview is not None:
                seen = self.curator.preview_request(body.request(principal.name))
                agreed = self._names.agreed(preview, seen, principal=principal.name, written=written, now=now)
            begun = _Begun(claim, None if key is None else retry_key(key), agreed)
            free = self.ledger.total - self.ledger.total
            try:
                answer = self.curator.answer(body.request(principal.name, begun.key, free))
            except PriceChanged as changed:
                if agreed is not None and not changed.asked.fits(agreed):
                    raise
                if begun.key is None or not self.ledger.knows_key(principal.name, begun.key):
                    self.ledger.check_fits(changed.asked, analyst=principal.name)
                return begun
            content, release = self._content(answer, principal, body)
            outcome = Outcome(200, content, price=answer.cost, release=release, final=True)
        except ServerProblem as problem:
            outcome = self._problem(of_server(problem))
        except LapwingError as error:
            outcome = self._problem(of_error(error))
        except Exception as error:  # noqa: BLE001 (its words may hold data)
            outcome = self._problem(of_bug(note_incident(error)))
        return self._store(replace(outcome, claim=claim))

    def _answer(self, principal: Principal, body: Asking, begun: _Begun) -> Outcome:
        """The work that reads rows, in a thread. All that comes of it is held until it may be seen."""
        with holding() as held:
            try:
                answer = self.curator.answer(body.request(principal.name, begun.key, begun.agreed))
                content, release = self._content(answer, principal, body)
                slot = slot_of(answer, self._times, ANSWER_TIME)
                outcome = Outcome(200, content, price=answer.cost, slot=slot, release=release, final=True)
            except LapwingError as error:
                failed = self._problem(of_error(error))
                outcome = replace(failed, slot=self._slot(principal, body), final=is_final(error))
            except Exception as error:  # noqa: BLE001
                outcome = replace(self._problem(of_bug(note_incident(error))), slot=ANSWER_TIME)
        return replace(outcome, held=tuple(held), claim=begun.claim)

    def _store(self, outcome: Outcome) -> Outcome:
        """Stores what was held and keeps what is sent, before it leaves."""
        try:
            settle_held(outcome.held)
            if outcome.release is not None:
                self.releases.keep(outcome.release)
        except LapwingError as error:
            lost = LedgerFailed(LOST.format(entry=outcome.held[0].reservation.seq if outcome.held else 0, why=error))
            lost.charged = outcome.price
            outcome = replace(self._problem(of_error(lost)), claim=outcome.claim)
        if outcome.claim is not None:
            with suppress(LapwingError):
                if outcome.final:
                    self.retries.keep(outcome.claim, outcome.status, outcome.content)
                else:
                    self.retries.give_up(outcome.claim)
        return outcome

    def _content(self, answer: ServedAnswer, principal: Principal, body: Asking) -> tuple[bytes, NewRelease | None]:
        """The bytes of an answer, and what is to be kept of it.

        A stored answer that the curator has at hand is the same object, and so are its bytes."""
        known, content = self._sent.get(id(answer), (None, b""))
        if known is answer:
            return content, None
        release = new_release(answer.to_dict(), by=principal.name, kind=_kind(body))
        if not answer.cost:
            if len(self._sent) >= _AT_HAND:
                self._sent.clear()
            self._sent[id(answer)] = answer, release.content
        return release.content, release

    def _slot(self, principal: Principal, body: Asking) -> float:
        """T of a request that failed after its charge."""
        try:
            return slot_of(self.curator.preview_request(body.request(principal.name)), self._times, ANSWER_TIME)
        except LapwingError:
            return ANSWER_TIME

    def _preview(self, principal: Principal, body: Asking) -> dict[str, Any]:
        seen = self.curator.preview_request(body.request(principal.name))
        now, written = self.tokens.now(), body.digest()
        name, until = self._names.name(seen, principal=principal.name, written=written, now=now)
        slot = None if seen.stored else slot_of(seen, self._times, ANSWER_TIME)
        return {
            "preview": name,
            "expires": until,
            "answers_after_seconds": slot,
            **seen.to_dict(),
            "in_words": str(seen),
        }

    def _told(self, work: Callable[[], Any]) -> Outcome:
        """The result of what is free and reads no rows."""
        try:
            found = work()
            return Outcome(200, found if isinstance(found, bytes) else dump(found).encode())
        except ServerProblem as problem:
            return self._problem(of_server(problem))
        except LapwingError as error:
            return self._problem(of_error(error))
        except Exception as error:  # noqa: BLE001
            return self._problem(of_bug(note_incident(error)))

    def _problem(self, problem: ProblemDetails) -> Outcome:
        remaining = None
        with suppress(LapwingError):
            remaining = self.ledger.remaining
        content = problem.to_bytes(remaining)
        return Outcome(
            problem.status, content, MEDIA_TYPE, problem.code, problem.charged, retry_after=problem.retry_after
        )

    async def _in_thread(self, work: Callable[..., _T], *values: Any) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._quick, work, *values)


def _kind(body: Asking) -> str:
    return type(body).__name__.removesuffix("Body").lower()
