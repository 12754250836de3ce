"""From an HTTP request to the response bytes, and when they are sent.

Threads:    the threads of a worker share one curator. Charges and everything else that reads no rows have threads of
            their own, and never wait for one that reads rows. Early answers wait on a timer.
Cancelled:  work continues when its client disconnects: it may have been charged, and is stored.
Timing:     charges are made when a turn begins, and an answer is stored when it is sent, not when it is ready:
            otherwise the budget, the same question or the same key would reveal its duration (timing.py,
            curator/purchase.py). An equal question on this worker waits for it.
Checked by: tests/server/test_service.py, tests/server/test_processes.py, tests/server/test_moments.py
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from lapwing.answers.formats import dump
from lapwing.curator import Curator
from lapwing.curator.missing_facts import ask_steward
from lapwing.curator.purchase import BeforeCharge, BeforeRows, BeforeStore, RequestSteps, Stop
from lapwing.errors import BudgetExceeded, Bug, LapwingError
from lapwing.plan.plan import Plan
from lapwing.privacy.budget import Cost
from lapwing.server.console.sessions import ConsoleSession, ConsoleSessions
from lapwing.server.dummy import DummyAnswers
from lapwing.server.limits import Turns
from lapwing.server.log import note_incident
from lapwing.server.previews import PreviewNames
from lapwing.server.problems import MEDIA_TYPE, ProblemDetails, ServerProblem, is_final, of_bug, of_error, of_server
from lapwing.server.releases import NewRelease, Releases, new_release
from lapwing.server.retries import KeptReply, KeyClaim, Retries, retry_key
from lapwing.server.schemas import Asking, BatchBody
from lapwing.server.settings import ANSWER_TIME, ServeSettings
from lapwing.server.timing import ServedAnswer, check_operators, leave_at, longest, pass_time, slot_of
from lapwing.server.tokens import Principal, TokenBook

_T = TypeVar("_T")
_WAITING = 64  # questions of one principal that wait for a thread
_TOTAL = 512  # of all
_TRIALS = 16  # questions on made-up rows of one principal that wait
_AT_HAND = 256  # stored answers whose bytes are kept


@dataclass(frozen=True, slots=True)
class Outcome:
    """A response: its status, its bytes, and what may be logged about it."""

    status: int
    content: bytes
    media_type: str = "application/json"
    code: str | None = None
    price: Cost | None = None
    retry_after: int | None = None
    problem: ProblemDetails | None = None
    """The problem, serialized when it is sent."""
    write: Callable[[], tuple[bytes, NewRelease | None]] | None = None
    """Serializes the answer when it is sent: how long that takes depends only on what was released."""
    release: NewRelease | None = None
    claim: KeyClaim | None = None
    final: bool = False
    """Whether a retry under the same key gets the same bytes."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """A request that will be charged: its stage, and its claim."""

    steps: RequestSteps[ServedAnswer]
    stop: BeforeCharge
    claim: KeyClaim | None
    seconds: float
    """After which its request ends, whether its answer is ready or not."""


class Service:
    """The curator of a worker, and its threads, queues and running requests."""

    def __init__(
        self,
        curator: Curator,
        settings: ServeSettings | None = None,
        times: Mapping[str, float] | None = None,
        marks: Sequence[str] = (),
    ) -> None:
        self.curator, self.settings = curator, settings or ServeSettings()
        curator.address(ask_steward)
        self.ledger = curator.ledger
        self.tokens = TokenBook(self.ledger)
        self.sessions = ConsoleSessions(self.ledger, self.tokens)
        self.releases = Releases(self.ledger)
        self.marks = marks  # what is still to be reviewed in lapwing.toml, for stewards
        self.verifying = asyncio.Lock()  # one at a time: it reads the whole ledger
        self._times = dict(times or {})
        slowest = max(self._times.values(), default=ANSWER_TIME)
        self._longest = longest(max(slowest, ANSWER_TIME))
        self.retries = Retries(self.ledger, patience=2 * self._longest)
        self._names = PreviewNames(self.ledger)
        self._waiting: set[asyncio.Future[None]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._running: dict[str, tuple[asyncio.Task[Any], tuple[str, str | None]]] = {}
        self._sent: dict[int, tuple[ServedAnswer, bytes]] = {}
        self.dummy = DummyAnswers(curator)
        threads = self.settings.threads
        turns = self.settings.turns
        self._turns = Turns(at_once=turns, each=max(1, turns - 1), waiting=_WAITING, total=_TOTAL)
        self._closing = False
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="answer")
        self._quick = ThreadPoolExecutor(4, thread_name_prefix="quick")
        self._door = ThreadPoolExecutor(2, thread_name_prefix="door")
        self._trials = Turns(at_once=_TOTAL, each=1, waiting=_TRIALS, total=_TOTAL)
        self._trial = ThreadPoolExecutor(1, thread_name_prefix="dummy")  # one, so that they delay no other request

    def close(self) -> None:
        for pool in (self._pool, self._quick, self._door, self._trial):
            pool.shutdown()
        self.dummy.close()
        self.curator.close()

    async def find_principal(self, token: str) -> Principal | None:
        return await self.in_door(self.tokens.find, token)

    async def find_session(self, name: str) -> ConsoleSession | None:
        """Who is signed in with the cookie of this name."""
        return await self.in_door(self.sessions.find, name)

    async def in_door(self, work: Callable[..., _T], *values: Any) -> _T:
        """The result of work on tokens and sessions."""
        return await asyncio.get_running_loop().run_in_executor(self._door, work, *values)

    async def quickly(self, work: Callable[[], Any]) -> Outcome:
        """The outcome of what reads declarations, the ledger or released numbers, ready for JSON."""
        return await self._in_thread(self._free_outcome, work)

    async def read(self, work: Callable[[], _T]) -> _T:
        """The result of such work itself, or its error."""
        return await self._in_thread(work)

    async def preview(self, principal: Principal, body: Asking) -> Outcome:
        """The price and the error of an answer. Free, and reads no data."""
        return await self._in_thread(self._free_outcome, lambda: self._preview(principal, body))

    async def ask_dummy(self, principal: Principal, body: Asking) -> Outcome:
        """The answer to the same question over made-up rows. Free."""
        await self._trials.enter(principal.name)

        def work() -> dict[str, Any]:
            return self.dummy.answer(body.request(principal.name), _questions(body))

        try:
            return await asyncio.get_running_loop().run_in_executor(self._trial, self._free_outcome, work)
        finally:
            self._trials.leave(principal.name)

    async def ask(
        self, principal: Principal, body: Asking, *, arrived: float, key: str | None = None, preview: str | None = None
    ) -> tuple[Outcome, float | None]:
        """The answer, charged before any row is read, and the time on the grid at which it may be sent."""
        same, mine = body.digest(), (principal.name, key)
        begin = partial(self._begin, principal, body, key, preview)
        begun = await self._in_thread(begin, None)
        end = arrived + (begun.seconds if isinstance(begun, _Begun) else 0.0)
        while isinstance(begun, _Begun) and not body.refresh and (twin := self._twin(same, mine)) is not None:
            await asyncio.wait({twin}, timeout=max(0.0, end - time.monotonic()))
            if not twin.done():
                await self._give_up(begun)
                return await self._still_running(begun)
            self._forget(same, twin)
            begun = await self._in_thread(begin, begun.claim)
        if isinstance(begun, Outcome):
            return begun, None
        task = asyncio.create_task(self._take_turn(principal, body, begun, begin))
        self._running[same] = task, mine
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._forget(same, done))
        try:
            return await asyncio.wait_for(asyncio.shield(task), max(0.0, end - time.monotonic()))
        except TimeoutError:
            return await self._still_running(begun, begun.stop.price)

    async def _still_running(self, begun: _Begun, charged: Cost | None = None) -> tuple[Outcome, float]:
        problem = ServerProblem("still-running", charged=charged)
        return await self._in_thread(self._problem, of_server(problem)), begun.seconds

    async def _take_turn(
        self,
        principal: Principal,
        body: Asking,
        begun: _Begun,
        begin: Callable[[KeyClaim | None], Outcome | _Begun],
    ) -> tuple[Outcome, float | None]:
        """Answers in a turn of its own, which ends when the answer is sent. A request that waited is planned again:
        the data, the budget and stored answers may have changed."""
        refused = partial(ServerProblem, retry_after=1, again=begun.claim is not None and not begun.claim.is_first)
        try:
            async with asyncio.timeout(self._longest / 2):
                waited = await self._turns.enter(principal.name)
        except (ServerProblem, TimeoutError) as error:
            await self._give_up(begun)
            raise refused(error.code if isinstance(error, ServerProblem) else "busy") from None
        try:
            if self._closing:
                await self._give_up(begun)
                raise refused("busy")
            again = await self._in_thread(begin, begun.claim) if waited else begun
            if isinstance(again, Outcome):
                return again, None
            advance = partial(self._advance, principal, body, again)
            reached, after = await self._read(again, advance)
        finally:
            self._turns.leave(principal.name)
        return await self._in_thread(self._leave, reached, advance), after

    async def _read(
        self, begun: _Begun, advance: Callable[[], Outcome | Stop]
    ) -> tuple[Outcome | BeforeStore, float | None]:
        """Charges, reads the rows and waits for the grid. Answers are stored and written after that."""
        began = on_time = time.monotonic()
        reached: Outcome | Stop = begun.stop
        slot, is_read = ANSWER_TIME, False
        while True:
            match reached:
                case BeforeCharge():
                    slot = slot_of(reached, self._times, ANSWER_TIME)
                case BeforeRows():
                    reached, is_read = await asyncio.get_running_loop().run_in_executor(self._pool, advance), True
                    continue
                case BeforeStore(search=Plan() as plan):  # what was found may show in the next charge
                    on_time += leave_at(time.monotonic() - on_time, pass_time(plan, self._times, ANSWER_TIME))
                    await self._wait_until(on_time)
                case Outcome() if not is_read:  # such as a refusal by what was found
                    return reached, None
                case Outcome() | BeforeStore():
                    after = leave_at(time.monotonic() - began, slot)
                    await self._wait_until(began + after)
                    return reached, after
            reached, is_read = await self._in_thread(advance), False

    async def _wait_until(self, moment: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(woken)
        await asyncio.wait({woken}, timeout=max(0.0, moment - time.monotonic()))
        self._waiting.discard(woken)

    async def _give_up(self, begun: _Begun) -> None:
        if begun.claim is not None:
            with suppress(LapwingError):
                await self._in_thread(self.retries.give_up, begun.claim)

    async def drain(self) -> None:
        """Stores answers that wait for their time, before the server stops; requests in the queue are refused."""
        self._closing = True
        while self._tasks:
            for woken in self._waiting:
                if not woken.done():
                    woken.set_result(None)
            await asyncio.wait(set(self._tasks), timeout=0.1)

    def _twin(self, same: str, mine: tuple[str, str | None]) -> asyncio.Task[Any] | None:
        """A running request for the same question: when it is done, its answer is stored, and free."""
        twin, whose = self._running.get(same, (None, None))
        return None if whose == mine and mine[1] is not None else twin

    def _forget(self, same: str, done: asyncio.Task[Any]) -> None:
        self._tasks.discard(done)
        if self._running.get(same, (None, None))[0] is done:
            del self._running[same]

    def _begin(
        self, principal: Principal, body: Asking, key: str | None, preview: str | None, earlier: KeyClaim | None
    ) -> Outcome | _Begun:
        """A free outcome, such as a stored answer or a refusal; otherwise the request up to its charge."""
        written, claim = body.digest(), earlier
        try:
            now = self.tokens.now()
            if key is not None and claim is None:
                claim_or_reply = self.retries.find(principal.name, key, written, now)
                if isinstance(claim_or_reply, KeptReply):
                    return _repeated(claim_or_reply)
                claim = claim_or_reply
            agreed = None
            if preview is not None:
                seen = self.curator.preview_request(body.request(principal.name))
                agreed = self._names.agreed(preview, seen, principal=principal.name, written=written, now=now)
            retry = None if key is None else retry_key(key)
            steps = self.curator.steps(body.request(principal.name, retry, agreed))
            try:
                stop = next(steps)
            except StopIteration as end:
                return self._free(end.value, principal, body, claim, is_made=earlier is not None)
            may_be_paid = claim is not None and (earlier is not None or not claim.is_first)  # with its key, before
            if not isinstance(stop, BeforeCharge):
                raise Bug("a request began without its charge")
            check_operators(stop, _questions(body))
            if not may_be_paid:  # a refusal waits for no turn
                self._check_fits(steps, stop, principal)
            seconds = max(self._longest, 2 * slot_of(stop, self._times, ANSWER_TIME))
            reply = None
            if claim is not None and earlier is None:
                reply = self.retries.make(claim, now, stop.price, seconds=2 * seconds)
            return _Begun(steps, stop, claim, seconds) if reply is None else _repeated(reply)
        except Exception as error:  # noqa: BLE001 (its words may hold data)
            return self._store(replace(self._problem(_details_of(error)), claim=earlier))

    def _check_fits(self, steps: RequestSteps[ServedAnswer], stop: BeforeCharge, principal: Principal) -> None:
        """Refuses a price that does not fit, in the words of the request."""
        try:
            self.ledger.check_fits(stop.price, analyst=principal.name)
        except BudgetExceeded as error:
            steps.throw(error)

    def _free(
        self, answer: ServedAnswer, principal: Principal, body: Asking, claim: KeyClaim | None, *, is_made: bool
    ) -> Outcome:
        """An answer that cost nothing, kept for retries of its key."""
        content, release = self._content(answer, principal, body)
        outcome = Outcome(200, content, price=answer.cost, release=release, final=True)
        if claim is None or is_made:
            return self._store(replace(outcome, claim=claim))
        stored = self._store(outcome)
        reply = self.retries.keep_free(claim, stored.status, stored.content, self.tokens.now())
        return stored if reply.content == stored.content else _repeated(reply)

    def _advance(self, principal: Principal, body: Asking, begun: _Begun) -> Outcome | Stop:
        """The next stage of a request, or its outcome."""
        try:
            return next(begun.steps)
        except StopIteration as end:
            answer: ServedAnswer = end.value
            write = partial(self._content, answer, principal, body)
            outcome = Outcome(200, b"", price=answer.cost, write=write, final=True)
        except Exception as error:  # noqa: BLE001
            outcome = replace(_unwritten(_details_of(error)), final=is_final(error))
        return replace(outcome, claim=begun.claim)

    def _leave(self, reached: Outcome | Stop, advance: Callable[[], Outcome | Stop]) -> Outcome:
        """The outcome of a request, as sent, after its answers were stored."""
        reached = advance() if isinstance(reached, BeforeStore) else reached
        if not isinstance(reached, Outcome):
            raise Bug("a request continues after its answer was stored")
        return self._store(reached)

    def _store(self, outcome: Outcome) -> Outcome:
        """Serializes and stores the response before it is sent."""
        try:
            if outcome.write is not None:
                content, release = outcome.write()
                outcome = replace(outcome, content=content, release=release, write=None)
            if outcome.release is not None:
                self.releases.keep(outcome.release)
        except Exception as error:  # noqa: BLE001
            if isinstance(error, LapwingError):
                error.charged = outcome.price
            outcome = replace(self._problem(_details_of(error)), claim=outcome.claim)
        if outcome.problem is not None:
            outcome = replace(outcome, content=outcome.problem.to_bytes(self._remaining()), problem=None)
        if outcome.claim is not None:
            with suppress(Exception):
                if outcome.final:
                    self.retries.keep(outcome.claim, outcome.status, outcome.content)
                else:
                    self.retries.give_up(outcome.claim)
        return outcome

    def _content(self, answer: ServedAnswer, principal: Principal, body: Asking) -> tuple[bytes, NewRelease | None]:
        """The bytes of an answer, and its release if that is not stored yet. Equal answers from the curator's cache
        are the same object, so their bytes are cached by identity."""
        answered, content = self._sent.get(id(answer), (None, b""))
        if answered is answer:
            return content, None
        release = new_release(answer.to_dict(), by=principal.name, kind=_kind(body))
        if not answer.cost:
            if len(self._sent) >= _AT_HAND:
                self._sent.clear()
            self._sent[id(answer)] = answer, release.content
        return release.content, release

    def _preview(self, principal: Principal, body: Asking) -> dict[str, Any]:
        seen = self.curator.preview_request(body.request(principal.name))
        check_operators(seen, _questions(body))
        now, written = self.tokens.now(), body.digest()
        name, until = self._names.name(seen, principal=principal.name, written=written, now=now)
        slot = None if seen.stored else slot_of(seen, self._times, ANSWER_TIME)
        facts = {"preview": name, "expires": until, "answers_after_seconds": slot}
        return {**facts, **seen.to_dict(), "in_words": str(seen)}

    def _free_outcome(self, work: Callable[[], Any]) -> Outcome:
        """The result of what is free and reads no rows."""
        try:
            result = work()
            return Outcome(200, result if isinstance(result, bytes) else dump(result).encode())
        except Exception as error:  # noqa: BLE001
            return self._problem(_details_of(error))

    def _problem(self, problem: ProblemDetails) -> Outcome:
        return replace(_unwritten(problem), content=problem.to_bytes(self._remaining()), problem=None)

    def _remaining(self) -> Cost | None:
        with suppress(LapwingError):
            return self.ledger.remaining
        return None

    async def _in_thread(self, work: Callable[..., _T], *values: Any) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._quick, work, *values)


def _questions(body: Asking) -> int:
    return len(body.questions) if isinstance(body, BatchBody) else 1


def _kind(body: Asking) -> str:
    return type(body).__name__.removesuffix("Body").lower()


def _details_of(error: Exception) -> ProblemDetails:
    """Of an unexpected failure, the log has the class and the response a number."""
    if isinstance(error, ServerProblem):
        return of_server(error)
    return of_error(error) if isinstance(error, LapwingError) else of_bug(note_incident(error))


def _unwritten(problem: ProblemDetails) -> Outcome:
    """A problem that is serialized when sent, with the budget that remains then."""
    facts = problem.status, b"", MEDIA_TYPE, problem.code, problem.charged, problem.retry_after
    return Outcome(*facts, problem=problem)


def _repeated(reply: KeptReply) -> Outcome:
    kind = "application/json" if reply.status == 200 else MEDIA_TYPE
    return Outcome(reply.status, reply.content, kind, code="repeated")
