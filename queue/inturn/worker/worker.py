"""How a worker comes and goes. What it promises stands in the package's docstring, what it does in between in `loop`."""

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing, nullcontext, suppress
from functools import partial
from typing import Any
from uuid import UUID

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from inturn.database import drive
from inturn.database.connector import Connector
from inturn.errors import DatabaseUnavailable, InturnError, SchemaMismatch
from inturn.operations import upkeep
from inturn.tasks.blueprint import Blueprint
from inturn.tasks.middleware import Around
from inturn.worker import signals
from inturn.worker.appetite import Appetite
from inturn.worker.attempt import describe, is_cancelled
from inturn.worker.hands import Hands
from inturn.worker.heartbeat import Heartbeat, Reactions
from inturn.worker.link import Link
from inturn.worker.listener import listen
from inturn.worker.loop import Loop
from inturn.worker.loop_watch import LoopWatch
from inturn.worker.options import Options, options
from inturn.worker.pace import Pace
from inturn.worker.schedule import Scheduler
from inturn.worker.start import patiently
from inturn.worker.upkeep import Upkeep

logger = logging.getLogger(__name__)

LEAVE_SECONDS = 10.0
ABORT_SECONDS = 2.0  # that aborted jobs have to end before they are given up


async def run(app: Blueprint, connector: Connector, given: Mapping[str, Any]) -> str | None:
    """Until it has stopped; what made it abort jobs, if anything did. The connector is open meanwhile."""
    settings = options(given)
    opens = not connector.is_open_async
    if opens:
        await patiently(connector.open_async, settings.db_grace)
    try:
        return await Worker(app, connector, settings).run()
    finally:
        if opens:
            await connector.close_async()


class Worker:
    """A worker that runs, as middleware sees it.

    async def fragile(call_next, context, worker):
        try:
            return await call_next()
        except MemoryError:
            worker.stop("out of memory")
            raise

    app.run_worker(worker_middleware=[fragile], wait=False)
    """

    def __init__(
        self,
        app: Blueprint,
        connector: Connector,
        options: Options,
        pace: Pace | None = None,
    ) -> None:
        self._tasks = app.tasks
        self._connector = connector
        self._options = options
        self._link = Link(connector)
        self._appetite = Appetite(options.fetch_job_polling_interval)
        around = Around(self, options.task_middleware, options.worker_middleware)
        self._hands = Hands(app, connector, options, self._appetite.ring, around)
        pace = pace or Pace(options.concurrency)
        self._loop = Loop(
            self._link, options, self._hands, self._appetite, pace, self._register, self._is_settled
        )
        self._scheduler = Scheduler(connector, app)
        self._upkeep = Upkeep(
            connector, options, lambda: self._loop.id, partial(self._in_loop, self._appetite.wake)
        )
        self._heartbeat = self._make_heartbeat()
        self._helpers: TaskGroup | None = None
        self._limiter = anyio.CapacityLimiter(
            1
        )  # tasks may have taken all threads of the common one, and keep them
        self._failure: Exception | None = None
        self._has_left = False
        self._owns_process = False
        self._thread, self._event_loop = threading.get_ident(), asyncio.get_running_loop()

    async def run(self) -> str | None:
        """Until it has stopped; what made it abort jobs, if anything did."""
        try:
            grace = self._options.db_grace
            await patiently(
                lambda: self._link.run(upkeep.check_schema(self._connector.schema)), grace
            )
            # Before others can see us: whoever does may end us in order.
            with (
                signals.caught()
                if self._options.install_signal_handlers
                else nullcontext() as caught
            ):
                # Threads that run on would do so beside the next attempts at their jobs, unless they end with the process.
                self._owns_process = self._loop.may_abandon = caught is not None
                await patiently(
                    self._loop.register,
                    grace,
                    lambda: caught is not None and not caught.counted.empty(),
                )
                await self._serve(caught)
            return self._loop.aborting
        finally:
            with anyio.move_on_after(LEAVE_SECONDS, shield=True):
                await self._link.close()

    def stop(self, reason: str = "stop") -> None:
        """Claim no more; end when what runs has ended, or has been aborted after the grace. May be called in any thread."""
        if threading.get_ident() != self._thread:
            self._in_loop(self.stop, reason)
            return
        if self._loop.stopping:
            return
        logger.info("worker.stopping: %s; waiting for %d running jobs", reason, len(self._hands))
        self._loop.stopping = True
        self._appetite.ring()
        grace = self._options.shutdown_graceful_timeout
        if (
            grace is not None and self._helpers is not None
        ):  # None: it has not begun to serve, and will not
            self._helpers.start_soon(self._keep, self._abort_at, time.monotonic() + grace)

    def abort(self, reason: str = "abort") -> None:
        """End now: async tasks are cancelled and their jobs go back to the head of their lanes; sync tasks are asked."""
        self.stop(reason)
        logger.info("worker.aborting: %s; %d running jobs are to go back", reason, len(self._hands))
        self._loop.aborting = reason
        self._loop.ends_at = time.monotonic() + ABORT_SECONDS
        self._appetite.ring()
        self._hands.give_back(f"the worker is told to end ({reason})")

    async def _abort_at(self, moment: float) -> None:
        await anyio.sleep(max(0.0, moment - time.monotonic()))
        grace = self._options.shutdown_graceful_timeout
        self.abort(f"still running {grace:g} s after the first signal")

    async def _serve(self, caught: signals.Caught | None) -> None:
        for thread in (self._heartbeat, self._upkeep, self._scheduler):
            thread.start()
        try:
            async with anyio.create_task_group() as self._helpers:
                if self._options.listen_notify:
                    queues, appetite = self._options.queues, self._appetite
                    self._helpers.start_soon(
                        self._keep,
                        listen,
                        self._connector,
                        queues,
                        appetite.wake,
                        self._loop.note_look,
                    )
                self._helpers.start_soon(self._keep, self._look_now_and_then)
                if caught is not None:
                    self._helpers.start_soon(
                        self._keep, signals.obey, caught, self.stop, self.abort
                    )
                if not self._options.wait:  # it does what is due, and then ends
                    for wait in (
                        self._scheduler.wait_for_first_look,
                        self._upkeep.wait_for_first_look,
                    ):
                        await anyio.to_thread.run_sync(
                            wait, abandon_on_cancel=True, limiter=self._limiter
                        )
                await self._hands.slots.run(self._work)
                self._helpers.cancel_scope.cancel()
        finally:
            await self._leave()
            with anyio.move_on_after(LEAVE_SECONDS, shield=True):
                await self._hands.close()

    async def _work(self) -> None:
        """After an error, and when aborted jobs run on, it does not wait for threads, which nobody can stop."""
        try:
            await self._loop.work()
        except Exception as error:
            self._failure = error
            logger.critical("worker.failed: %s: %s", self._options.name, describe(error))
            raise
        finally:
            if self._hands:
                await self._end_jobs()
                if self._hands:
                    logger.warning(
                        "worker.abandoning: %d jobs run on; they go back to their lanes",
                        len(self._hands),
                    )
                await self._leave()
                self._hands.abandon()

    async def _end_jobs(self) -> None:
        """Their code has ended before others run it; only a process of our own takes with it what does not end."""
        self._hands.take_unbegun()  # still ours at the server, until we leave
        self._hands.give_back("the worker ends")
        limit = (
            min(ABORT_SECONDS, max(0.0, self._loop.ends_at - time.monotonic()))
            if self._owns_process
            else None
        )
        with anyio.move_on_after(limit, shield=True):
            await self._hands.wait_until_empty()

    async def _keep(self, helper: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        """Run a helper, again if something other than the worker cancels it."""
        while True:
            try:
                await helper(*arguments)
                return
            except asyncio.CancelledError:
                if is_cancelled():
                    raise
                logger.warning(
                    "worker.cancelled: something has cancelled %s; it is started again",
                    helper.__name__,
                )

    async def _register(self) -> UUID:
        o = self._options
        worker_id = await self._link.run(
            upkeep.register(
                o.name, socket.gethostname(), os.getpid(), o.queues, o.concurrency, self._tasks
            )
        )
        logger.info(
            "worker.started: %s %s, concurrency %d, queues: %s",
            o.name,
            worker_id,
            o.concurrency,
            o.queues or "all",
        )
        return worker_id

    async def _leave(self) -> None:
        """What still runs goes back to the head of its lane. If the database is away, rescue will do it."""
        if self._has_left:
            return
        self._has_left = True
        with anyio.move_on_after(LEAVE_SECONDS, shield=True):
            for thread in (self._scheduler, self._heartbeat, self._upkeep):
                await anyio.to_thread.run_sync(thread.stop, limiter=self._limiter)
            with suppress(
                InturnError
            ):  # what has ended need not run again only because the worker has failed
                await self._loop.report_last()
            try:
                count = await self._link.run(
                    upkeep.leave(self._loop.id, self._blame(), self._options.max_lost_attempts)
                )
                logger.info("worker.stopped: %s; %d jobs given back", self._options.name, count)
            except InturnError as error:
                logger.warning(
                    "worker.stopped: the database could not be told (%s); its jobs are taken over later",
                    error,
                )

    def _blame(self) -> str | None:
        """What the jobs in hand may have to do with it; None: nothing."""
        if self._failure is None or isinstance(self._failure, DatabaseUnavailable | SchemaMismatch):
            return None
        return f"the worker failed while it had this job in hand:\n{describe(self._failure)}"

    async def _look_now_and_then(self) -> None:
        """In case a notification, or a reply, got lost."""
        while True:
            await anyio.sleep(self._options.abort_job_polling_interval)
            self._loop.note_look()

    # ------------------------------------------------------------------ what other threads say

    def _make_heartbeat(self) -> Heartbeat:
        reactions = Reactions(
            lost=lambda worker_id: self._in_loop(self._loop.note_lost, worker_id),
            unheard=lambda: self._in_loop(self._loop.note_beat),
            ticked=self._hands.watch_deadlines,
            dead=self._end_with_dead_loop,
        )
        interval = self._options.update_heartbeat_interval
        return Heartbeat(self._connector, interval, lambda: self._loop.id, LoopWatch(), reactions)

    def _in_loop(self, function: Callable[..., object], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._event_loop.call_soon_threadsafe(function, *arguments)

    def _is_settled(self) -> bool:
        return not self._upkeep.suspects

    def _end_with_dead_loop(self) -> None:
        """In the heart's thread, which is all that is left. Whatever goes wrong here, a process of our own ends."""
        try:
            with suppress(Exception):  # it may be the log that is broken
                logger.critical(
                    "loop.dead: the event loop of %s will never run again; did a task close its file descriptors?",
                    self._options.name,
                )
            with suppress(Exception):
                self._leave_charged()
            if self._owns_process:
                logging.shutdown()
        finally:
            if self._owns_process:
                os._exit(1)

    def _leave_charged(self) -> None:
        """A job may have done it: whatever was in hand is charged."""
        with closing(self._connector.connect("worker")) as connection:
            error = "the event loop of its worker died while it had this job in hand"
            leave = upkeep.leave(self._loop.id, error, self._options.max_lost_attempts)
            drive.run(leave, connection, self._connector.schema)
