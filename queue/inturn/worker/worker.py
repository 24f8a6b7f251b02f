"""The lifetime of a worker: it starts threads and helpers, registers, stops or aborts, and leaves.

`loop` is what it does in between.
"""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing, nullcontext, suppress
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from inturn.database.connector import Connector
from inturn.errors import DatabaseUnavailable, InturnError, SchemaMismatch, WrongCell
from inturn.operations.engine import maintenance
from inturn.tasks.blueprint import Blueprint
from inturn.worker import signals
from inturn.worker.claiming.claiming import Claiming, Prefetch
from inturn.worker.claiming.wakeups import Wakeups
from inturn.worker.connection import WorkerConnection
from inturn.worker.error_text import describe
from inturn.worker.failures import Failures, patiently
from inturn.worker.heartbeat import Heartbeat, Reactions
from inturn.worker.listener import Listener
from inturn.worker.loop import Loop, Recovery
from inturn.worker.loop_watch import LoopWatch
from inturn.worker.maintenance import Maintenance
from inturn.worker.middleware_chain import MiddlewareChain
from inturn.worker.options import Options, options
from inturn.worker.probes import Probes, read_vitals, serve_probes
from inturn.worker.registration import Registration
from inturn.worker.retirement import retire
from inturn.worker.running_jobs import RunningJobs
from inturn.worker.scheduler import Scheduler
from inturn.worker.slots import is_cancelled
from inturn.worker.state import LoopState
from inturn.worker.unreported import ProgressReports

logger = logging.getLogger(__name__)

LEAVE_SECONDS = 10.0
ABORT_SECONDS = 2.0  # how long aborted jobs may take to end before the worker gives them up


async def run(app: Blueprint, connector: Connector, given: Mapping[str, Any]) -> str | None:
    """Run a worker until it has stopped. Return why it aborted jobs, if it did.

    The connector is open while it runs. Cancelling this call stops the worker like a first signal.
    """
    settings = options(given)
    with serve_probes(app, connector, settings) as probes:
        opens = not connector.is_open_async
        if opens:
            await connector.open_async_later()  # most workers never need the pool
        try:
            return await _stop_if_cancelled(Worker(app, connector, settings, probes=probes))
        finally:
            if opens:
                with anyio.CancelScope(shield=True):
                    await connector.close_async()


async def _stop_if_cancelled(worker: "Worker") -> str | None:
    """Run the worker. A cancellation stops it; a second one aborts its jobs."""
    running = asyncio.create_task(worker.run(), name=worker.run.__qualname__)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if running.done():
            raise
        worker.stop("it was cancelled")
    with anyio.CancelScope(shield=True):  # a scope would cancel again at once
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError:
                worker.abort("it was cancelled again")
    running.result()  # raise what ended it
    raise asyncio.CancelledError


class Worker:
    """A worker, which middleware sees as a `RunningWorker`."""

    def __init__(
        self,
        app: Blueprint,
        connector: Connector,
        options: Options,
        prefetch: Prefetch | None = None,
        probes: Probes | None = None,
    ) -> None:
        self._connector = connector
        self._options = options
        link, claims = WorkerConnection(connector), WorkerConnection(connector)
        mine = Registration(link, options, app)
        wakeups = Wakeups(options.fetch_job_polling_interval)
        observer = None if probes is None else probes.metrics
        chain = MiddlewareChain(self, options.task_middleware, options.worker_middleware)
        progress = ProgressReports(link, wakeups.interrupt_wait)
        self._running = running = RunningJobs(
            app, connector, options, wakeups.interrupt_wait, chain, progress, observer
        )
        self._state = state = LoopState(link, mine, options, running, wakeups)
        failures = Failures(state)
        prefetch = prefetch or Prefetch(options.concurrency)
        self._claims, self._claiming = claims, Claiming(state, failures, claims, prefetch)
        self._recovery = Recovery(state, failures, self._claiming)
        self._loop = Loop(
            state, failures, self._claiming, self._recovery, lambda: not self._maintenance.suspects
        )
        self._listener = self._make_listener() if options.listen_notify else None
        self._scheduler = Scheduler(connector, app)
        self._maintenance = Maintenance(
            connector, options, lambda: mine.worker_id, partial(self._in_loop, wakeups.wake)
        )
        self._heartbeat = self._make_heartbeat()
        mine.callers = failures, self._heartbeat, self._maintenance, self._scheduler, self._listener
        self._probes = probes
        if probes is not None:
            probes.attach(partial(read_vitals, state, failures, self._loop, self._heartbeat))
        self._helpers: TaskGroup | None = None
        # Tasks may have taken all threads of the default limiter, and keep them.
        self._limiter = anyio.CapacityLimiter(1)
        self._failure: Exception | None = None
        self._has_left = False
        self._owns_process = False
        self._thread, self._event_loop = threading.get_ident(), asyncio.get_running_loop()

    async def run(self) -> str | None:
        """Run until the worker has stopped. Return why it aborted jobs, if it did."""
        try:
            grace = self._options.db_grace
            connection, schema = self._state.connection, self._connector.schema
            await patiently(lambda: connection.run(maintenance.check_schema(schema)), grace)
            handles_signals = self._options.install_signal_handlers
            # Do this before others can see the worker, since they may then signal it to end.
            with signals.caught(signals.PATIENCE) if handles_signals else nullcontext() as caught:
                # An abandoned thread runs beside the next attempt at its job. Only the end of the
                # process prevents that.
                self._owns_process = caught is not None
                await patiently(
                    self._state.registration.register,
                    grace,
                    lambda: caught is not None and not caught.counted.empty(),
                )
                if self._probes is not None:
                    self._probes.note_serving()
                await self._serve(caught)
            return self._state.aborted
        finally:
            with anyio.move_on_after(LEAVE_SECONDS, shield=True):
                await self._claims.close()
                await self._state.connection.close()

    # ------------------------------------------------------------------ stopping

    def stop(self, reason: str = "stop") -> None:
        """Claim no more jobs, and end when the running ones have ended.

        After the grace period they are aborted. May be called from any thread.
        """
        if threading.get_ident() != self._thread:
            self._in_loop(self._stop_in_task, reason)
            return
        if self._state.is_stopped:
            return
        logger.info(
            "worker.stopping: %s; running jobs to wait for: %d", reason, len(self._running.attempts)
        )
        self._state.stop()
        self._recovery.note_unheard()  # its row says that it is stopping
        if self._probes is not None:
            self._probes.note_stopping()
        grace = self._options.shutdown_graceful_timeout
        # Without helpers, it is not serving yet, and will not.
        if grace is not None and self._helpers is not None:
            self._helpers.start_soon(self._keep, self._abort_at, time.monotonic() + grace)

    def _stop_in_task(self, reason: str) -> None:
        # If sniffio is installed, anyio cannot start tasks in a callback that comes from a thread.
        async def stop() -> None:
            self.stop(reason)

        self._stopping = asyncio.create_task(stop())  # kept, or it may be garbage-collected

    def abort(self, reason: str = "abort") -> None:
        """End now. Async tasks are cancelled, sync tasks are asked to end.

        Unfinished jobs go back to the heads of their lanes. May be called from any thread.
        """
        if threading.get_ident() != self._thread:
            self._in_loop(self.abort, reason)
            return
        self.stop(reason)
        count = len(self._running.attempts)
        logger.info("worker.aborting: %s; running jobs to give back: %d", reason, count)
        self._state.abort(reason, time.monotonic() + ABORT_SECONDS, may_abandon=self._owns_process)

    async def _abort_at(self, moment: float) -> None:
        await anyio.sleep(max(0.0, moment - time.monotonic()))
        grace = self._options.shutdown_graceful_timeout
        self.abort(f"still running {grace:g} s after the first signal")

    # ------------------------------------------------------------------ serving

    async def _serve(self, caught: signals.Caught | None) -> None:
        self._heartbeat.start()
        self._scheduler.start()
        try:
            async with anyio.create_task_group() as self._helpers:
                self._start_helpers(self._helpers, caught)
                if not self._options.wait:  # it does what is due, then ends
                    self._maintenance.start()
                    for thread in (self._scheduler, self._maintenance):
                        await anyio.to_thread.run_sync(
                            thread.has_looked.wait,
                            abandon_on_cancel=True,
                            limiter=self._limiter,
                        )
                await self._running.serve(self._work)
                self._helpers.cancel_scope.cancel()
        finally:
            await self._leave()
            with anyio.move_on_after(LEAVE_SECONDS, shield=True):
                await self._running.close()

    def _start_helpers(self, helpers: TaskGroup, caught: signals.Caught | None) -> None:
        helpers.start_soon(self._keep, self._start_later, helpers)
        helpers.start_soon(self._keep, self._look_now_and_then)
        if self._options.max_jobs or self._options.max_memory:
            helpers.start_soon(self._keep, retire, self._options, self._running, self.stop)
        if caught is not None:
            helpers.start_soon(self._keep, signals.obey, caught, self.stop, self.abort)

    async def _start_later(self, helpers: TaskGroup) -> None:
        """Start what can wait until the first jobs are claimed.

        A claim may take long, but the rescue of other workers' jobs must not wait for it.
        """
        with anyio.move_on_after(self._options.update_heartbeat_interval):
            await self._claiming.first_end.wait()
        await self._maintenance.begin(self._state.connection)
        if self._listener is not None:
            helpers.start_soon(self._keep, self._listener.run)

    async def _keep(self, helper: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        """Run a helper. Restart it if something other than the worker cancels it."""
        while True:
            try:
                await helper(*arguments)
                return
            except asyncio.CancelledError:
                if is_cancelled():
                    raise
                logger.warning(
                    "worker.cancelled: something cancelled %s; it is restarted",
                    helper.__name__,
                )

    async def _look_now_and_then(self) -> None:
        """Check our jobs regularly, in case a notification or a reply was lost."""
        while True:
            await anyio.sleep(self._options.abort_job_polling_interval)
            self._recovery.note_look()

    async def _work(self) -> None:
        """Run the loop.

        After an error, or if aborted jobs keep running, do not wait for threads, which cannot be
        stopped.
        """
        try:
            await self._loop.work()
        except Exception as error:
            self._failure = error
            logger.critical("worker.failed: %s: %s", self._options.name, describe(error))
            raise
        finally:
            if self._running.in_hand:
                await self._end_jobs()
                if self._running.attempts:
                    logger.warning(
                        "worker.abandoning: jobs still running that go back to their lanes: %d",
                        len(self._running.attempts),
                    )
                await self._leave()
                self._running.abandon()
            elif self._running.unreported:  # now, since resources are released beside the slots
                await self._leave()

    async def _end_jobs(self) -> None:
        """End all runs before others run the same jobs.

        If the process is ours, it may end while some still run, since that ends them too.
        """
        self._running.take_waiting()  # to the server they are ours until we leave
        self._running.give_back("the worker ends")
        limit = min(ABORT_SECONDS, self._state.seconds_left) if self._owns_process else None
        with anyio.move_on_after(limit, shield=True):
            await self._running.wait_until_empty()

    # ------------------------------------------------------------------ leaving

    async def _leave(self) -> None:
        """Give what still runs back to the heads of its lanes.

        If the database is away, other workers rescue it later.
        """
        if self._has_left:
            return
        self._has_left = True
        with anyio.move_on_after(LEAVE_SECONDS, shield=True):
            for thread in (self._scheduler, self._heartbeat, self._maintenance):
                await anyio.to_thread.run_sync(thread.stop, limiter=self._limiter)
            # Jobs that have ended need not run again just because the worker failed.
            with suppress(InturnError):
                await self._loop.report_last()
            try:
                unregister = self._state.registration.unregister(self._error_to_charge())
                count = await self._state.connection.run(unregister)
                logger.info("worker.stopped: %s; jobs given back: %d", self._options.name, count)
            except InturnError as error:
                logger.warning(
                    "worker.stopped: could not unregister in the database (%s); other workers "
                    "will take over its jobs",
                    error,
                )

    def _error_to_charge(self) -> str | None:
        """Return the error that the jobs in hand may have caused, if there is one."""
        if isinstance(self._failure, None | DatabaseUnavailable | SchemaMismatch | WrongCell):
            return None
        return f"the worker failed while it had this job in hand:\n{describe(self._failure)}"

    def _make_listener(self) -> Listener:
        listener = Listener(
            self._connector,
            self._options.queues,
            wake=partial(self._state.wakeups.wake, "notify"),
            abort=self._recovery.note_look,
        )
        self._state.registration.listens = lambda: listener.is_connected
        return listener

    # ------------------------------------------------------------------ from other threads

    def _make_heartbeat(self) -> Heartbeat:
        reactions = Reactions(
            lost=lambda worker_id: self._in_loop(self._recovery.note_lost, worker_id),
            unheard=lambda: self._in_loop(self._recovery.note_unheard),
            ticked=self._running.watch_deadlines,
            dead=self._end_with_dead_loop,
        )
        interval = self._options.update_heartbeat_interval
        watch = LoopWatch(may_pause=not signals.is_dedicated())
        return Heartbeat(self._connector, interval, self._state.registration, watch, reactions)

    def _in_loop(self, function: Callable[..., object], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._event_loop.call_soon_threadsafe(function, *arguments)

    def _end_with_dead_loop(self) -> None:
        """Unregister, and end the process if it is a worker's, or if its main thread was one.

        The heartbeat thread, all that is left of the worker, does this even if every step fails.
        """
        main = threading.main_thread()
        is_ours = signals.is_dedicated() or (main.ident == self._thread and not main.is_alive())
        try:
            with suppress(Exception):  # the log may be what is broken
                logger.critical(
                    "loop.dead: the event loop of %s will never run again; did a task close its "
                    "file descriptors?",
                    self._options.name,
                )
            with suppress(Exception):  # all jobs in hand count as lost: one may be the cause
                error = "the event loop of its worker died while it had this job in hand"
                unregister = self._state.registration.unregister(error)
                with closing(self._connector.connect("worker")) as connection:
                    self._connector.run(unregister, connection)
            if is_ours:
                logging.shutdown()
        finally:
            if is_ours:
                os._exit(1)
