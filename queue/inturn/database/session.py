"""inturn's connections, which are configured when opened and detect a dead peer.

See `deadlines` for how they tell a dead peer from a long statement.
"""

import asyncio
import contextlib
from collections.abc import Generator
from time import monotonic
from typing import Any, Self

import anyio
import psycopg
from psycopg import waiting
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow, tuple_row

from inturn.database.deadlines import (
    ASK_STATE,
    GRACE,
    LONGEST_PAUSE,
    Terms,
    Verdict,
    judge_refusal,
    judge_state,
)

NO_ASYNCIO = (
    "This is not an asyncio event loop, which psycopg needs. Under trio, defer from a thread: "
    "await trio.to_thread.run_sync(lambda: task.defer(…)). Run workers in a separate process."
)
INTERVAL = 0.1  # seconds between two looks at the clock
INTERRUPTIONS = (KeyboardInterrupt, SystemExit, asyncio.CancelledError)
NOTHING = waiting.Ready.NONE
Steps = Generator[Any, Any, Any]


def check_event_loop() -> None:
    """Raise ConfigurationError unless this is asyncio's event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        from inturn.errors import ConfigurationError  # locks import little, and do not need these

        raise ConfigurationError(NO_ASYNCIO) from None


class PeerSilent(Exception):
    """The peer has been silent for so long that the caller must act."""


class WatchedCall:
    """A running psycopg generator, which can be suspended and resumed."""

    def __init__(self, steps: Steps, terms: Terms, timeout: float | None = None) -> None:
        self._steps = steps
        self._terms = terms
        self._until = None if timeout is None else monotonic() + timeout
        self._wanted: Any = None  # what it waits for, once it has started
        # True if the peer has answered since the last look at the clock. Most calls end before the
        # first.
        self._is_heard = True

    def resume(self) -> Steps:
        """Run until the call ends, or raise PeerSilent."""
        steps = self._steps
        try:
            wanted = self._wanted or next(steps)
            while True:
                self._wanted = wanted
                if ready := (yield wanted):
                    self._is_heard = True
                    wanted = steps.send(ready)
                else:
                    wanted = steps.send(NOTHING)
                    self._look_at_clock()
        except StopIteration as end:
            return end.value

    def time_left(self) -> dict[str, float]:
        """Return the argument of the next wait: with the whole timeout, it would never end."""
        return {} if self._until is None else {"timeout": max(0.0, self._until - monotonic())}

    def _look_at_clock(self) -> None:
        if self._is_heard:
            self.wait(self._terms.ask_after or self._terms.give_up_after or LONGEST_PAUSE)
        elif monotonic() >= self._alarm:
            raise PeerSilent

    def wait(self, seconds: float) -> None:
        """Wait this many seconds from now until the next PeerSilent."""
        self._is_heard = self._is_doubted = False
        self._pause = seconds
        self._since = monotonic()
        self._alarm = self._since + seconds

    def judge(self, verdict: Verdict) -> None:
        """Raise if there is nothing left to wait for. Otherwise schedule the next look."""
        silence = monotonic() - self._since
        if verdict == "idle":
            if self._is_doubted:
                raise psycopg.OperationalError(
                    f"no answer for {silence:.1f} s, and the server is not working on the call: "
                    "the call or its answer was lost"
                )
            self._is_doubted = True
            self._alarm = monotonic() + GRACE
            return
        limit = self._terms.give_up_after if verdict == "unknown" else None
        if limit is not None and silence >= limit:
            raise psycopg.OperationalError(f"no answer for {silence:.1f} s")
        self._is_doubted = False
        self._pause = min(LONGEST_PAUSE, 2 * self._pause)
        self._alarm = monotonic() + self._pause
        if limit is not None:
            self._alarm = min(self._alarm, self._since + limit)


class Session(psycopg.Connection[TupleRow]):
    """A connection that detects when its peer is gone."""

    terms: Terms = Terms("")
    connecting_since = 0.0  # by the monotonic clock
    is_direct = False  # True if there is no pooler in between
    _kept: psycopg.Cursor[TupleRow] | None = None

    @classmethod
    def connect(cls, conninfo: str = "", *, terms: Terms, **options: Any) -> Self:  # type: ignore[override]  # terms are required
        try:
            began = monotonic()
            own = super().connect(conninfo, **options)
            own.connecting_since = began
            with contextlib.ExitStack() as unless_settled:
                unless_settled.callback(own.close)
                own.terms = Terms("", give_up_after=terms.settle_within)
                own._settle(terms)
                own.terms = terms
                unless_settled.pop_all()
        except psycopg.Error as error:
            terms.failure = error
            raise
        terms.failure = None
        return own

    def wait(self, gen: Steps, interval: float = INTERVAL, **more: Any) -> Any:  # type: ignore[override]  # old psycopg has no timeout
        call = WatchedCall(gen, self.terms, **more)
        try:
            while True:
                try:
                    return waiting.wait(
                        call.resume(), self.pgconn.socket, interval=interval, **more
                    )
                except PeerSilent:
                    self._look(call)
                    more = call.time_left()
        except INTERRUPTIONS:
            self._cancel_call(call)
            raise

    def kept_cursor(self) -> psycopg.Cursor[TupleRow]:
        """Return a cursor that stays open between calls. Only one call at a time may use it.

        A new cursor would have to find out how to send each parameter, which takes longer than the
        rest of a short call.
        """
        if self._kept is None or self._kept.closed:
            self._kept = psycopg.Cursor(self, row_factory=tuple_row)
        return self._kept

    def _look(self, call: WatchedCall) -> None:
        if self.pgconn.transaction_status != TransactionStatus.ACTIVE:
            call.wait(INTERVAL)  # it waits for notifications, which may never come
            return
        try:
            call.judge(self._ask())
        except psycopg.Error:
            self.pgconn.finish()
            raise

    def _ask(self) -> Verdict:
        if self.terms.ask_after is None:
            return "unknown"
        address, terms = self.terms.question(self.info)
        try:
            with Session.connect(address, terms=terms, autocommit=True) as other:
                rows = other.execute(ASK_STATE, (self.info.backend_pid,)).fetchall()
        except psycopg.Error as error:
            return judge_refusal(error)
        return judge_state(rows, is_direct=self.is_direct)

    def _settle(self, terms: Terms) -> None:
        if not terms.is_question:
            self.is_direct = self.execute(*terms.settle(self.info.backend_pid)).fetchall()[0][0]

    def _cancel_call(self, call: WatchedCall) -> None:
        """Cancel the call on the server.

        Close the connection if the server does not respond soon.
        """
        if self.pgconn.transaction_status != TransactionStatus.ACTIVE:
            return
        try:
            with contextlib.suppress(psycopg.Error, PeerSilent):
                self.cancel_safe(timeout=GRACE)
                call.wait(GRACE)
                waiting.wait(call.resume(), self.pgconn.socket, interval=INTERVAL)
        finally:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()


class AsyncSession(psycopg.AsyncConnection[TupleRow]):
    """The same as `Session`, for an event loop."""

    terms: Terms = Terms("")
    connecting_since = 0.0  # by the monotonic clock
    is_direct = False
    _kept: psycopg.AsyncCursor[TupleRow] | None = None

    @classmethod
    async def connect(cls, conninfo: str = "", *, terms: Terms, **options: Any) -> Self:  # type: ignore[override]  # terms are required
        check_event_loop()
        try:
            began = monotonic()
            own = await super().connect(conninfo, **options)
            own.connecting_since = began
            async with contextlib.AsyncExitStack() as unless_settled:
                unless_settled.push_async_callback(own.close)
                own.terms = Terms("", give_up_after=terms.settle_within)
                await own._settle(terms)
                own.terms = terms
                unless_settled.pop_all()
        except psycopg.Error as error:
            terms.failure = error
            raise
        terms.failure = None
        return own

    async def __aexit__(self, *error: Any) -> None:
        """Close the session even if a cancellation interrupts the ROLLBACK that psycopg sends."""
        try:
            await super().__aexit__(*error)
        except BaseException:
            if not hasattr(self, "_pool"):
                await self.close()
            raise

    async def wait(self, gen: Steps, interval: float = INTERVAL, **more: Any) -> Any:  # type: ignore[override]  # old psycopg has no timeout
        call = WatchedCall(gen, self.terms, **more)
        try:
            while True:
                try:
                    return await waiting.wait_async(
                        call.resume(), self.pgconn.socket, interval=interval, **more
                    )
                except PeerSilent:
                    await self._look(call)
                    more = call.time_left()
        except INTERRUPTIONS:
            with anyio.CancelScope(shield=True):
                await self._cancel_call(call)
            raise

    def kept_cursor(self) -> psycopg.AsyncCursor[TupleRow]:
        if self._kept is None or self._kept.closed:
            self._kept = psycopg.AsyncCursor(self, row_factory=tuple_row)
        return self._kept

    async def _look(self, call: WatchedCall) -> None:
        if self.pgconn.transaction_status != TransactionStatus.ACTIVE:
            call.wait(INTERVAL)
            return
        try:
            call.judge(await self._ask())
        except psycopg.Error:
            self.pgconn.finish()
            raise

    async def _ask(self) -> Verdict:
        if self.terms.ask_after is None:
            return "unknown"
        address, terms = self.terms.question(self.info)
        try:
            async with await AsyncSession.connect(address, terms=terms, autocommit=True) as other:
                rows = await (await other.execute(ASK_STATE, (self.info.backend_pid,))).fetchall()
        except psycopg.Error as error:
            return judge_refusal(error)
        return judge_state(rows, is_direct=self.is_direct)

    async def _settle(self, terms: Terms) -> None:
        if not terms.is_question:
            cursor = await self.execute(*terms.settle(self.info.backend_pid))
            self.is_direct = (await cursor.fetchall())[0][0]

    async def _cancel_call(self, call: WatchedCall) -> None:
        if self.pgconn.transaction_status != TransactionStatus.ACTIVE:
            return
        try:
            with contextlib.suppress(psycopg.Error, PeerSilent):
                await self.cancel_safe(timeout=GRACE)
                call.wait(GRACE)
                await waiting.wait_async(call.resume(), self.pgconn.socket, interval=INTERVAL)
        finally:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()
