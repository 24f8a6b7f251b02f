"""How a worker comes and goes. What it promises stands in the package's docstring, what it does in between in `loop`."""

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any
from uuid import UUID

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from inturn.blueprint import Blueprint
from inturn.connectors import PsycopgConnector
from inturn.errors import DatabaseUnavailable
from inturn.middleware import Around
from inturn.operations import upkeep
from inturn.worker import signals
from inturn.worker.appetite import Appetite
from inturn.worker.hands import Hands
from inturn.worker.link import Link
from inturn.worker.listener import listen
from inturn.worker.loop import Loop
from inturn.worker.options import Options, options
from inturn.worker.pace import Pace
from inturn.worker.schedule import Scheduler
from inturn.worker.upkeep import Upkeep

logger = logging.getLogger(__name__)

LEAVE_SECONDS = 10.0


async def run(app: Blueprint, connector: PsycopgConnector, given: Mapping[str, Any]) -> str | None:
    """Until it has stopped; what made it abort jobs, if anything did."""
    return await Worker(app, connector, options(given)).run()


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

    def __init__(self, app: Blueprint, connector: PsycopgConnector, options: Options, pace: Pace | None = None) -> None:
        self._tasks = app.tasks
        self._connector = connector
        self._options = options
        self._link = Link(connector)
        self._appetite = Appetite(options.fetch_job_polling_interval)
        around = Around(self, options.task_middleware, options.worker_middleware)
        self._hands = Hands(app, connector, options, self._appetite.ring, around)
        pace = pace or Pace(options.concurrency)
        self._loop = Loop(self._link, options, self._hands, self._appetite, pace, self._register)
        self._scheduler = Scheduler(connector, app)
        self._upkeep: Upkeep | None = None
        self._helpers: TaskGroup | None = None
        self._thread, self._in_loop = threading.get_ident(), asyncio.get_running_loop().call_soon_threadsafe

    async def run(self) -> str | None:
        """Until it has stopped; what made it abort jobs, if anything did."""
        try:
            await self._link.run(upkeep.check_schema(self._connector.schema))
            # Before others can see us: whoever does may end us in order.
            with signals.caught() if self._options.install_signal_handlers else nullcontext() as caught:
                await self._loop.register()
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
        if grace is not None and self._helpers is not None:  # None: it has not begun to serve, and will not
            self._helpers.start_soon(self._abort_after, grace)

    def abort(self, reason: str = "abort") -> None:
        """End now: async tasks are cancelled and their jobs go back to the head of their lanes; sync tasks are asked."""
        self.stop(reason)
        logger.info("worker.aborting: %s; %d running jobs are to go back", reason, len(self._hands))
        self._loop.aborting = reason
        self._hands.give_back(f"the worker is told to end ({reason})")

    async def _abort_after(self, grace: float) -> None:
        await anyio.sleep(grace)
        self.abort(f"still running {grace:g} s after the first signal")

    async def _serve(self, caught: signals.Caught | None) -> None:
        self._upkeep = Upkeep(
            self._connector,
            self._options,
            self._loop.id,
            lambda worker_id: self._in_loop(self._loop.note_lost, worker_id),
        )
        self._upkeep.start()
        self._scheduler.start()
        try:
            async with anyio.create_task_group() as self._helpers:
                if self._options.listen_notify:
                    self._helpers.start_soon(
                        listen, self._connector, self._options.queues, self._appetite.wake, self._loop.note_abort
                    )
                self._helpers.start_soon(self._look_for_aborts)
                if caught is not None:
                    self._helpers.start_soon(signals.obey, caught, self.stop, self.abort)
                if not self._options.wait:  # it does what is due, and then ends
                    await anyio.to_thread.run_sync(self._scheduler.wait_for_first_look, abandon_on_cancel=True)
                await self._hands.slots.run(self._loop.work)
                self._helpers.cancel_scope.cancel()
        finally:
            with anyio.move_on_after(LEAVE_SECONDS, shield=True):
                await self._leave()
            with anyio.move_on_after(LEAVE_SECONDS, shield=True):
                await self._hands.close()

    async def _register(self) -> UUID:
        o = self._options
        worker_id = await self._link.run(
            upkeep.register(o.name, socket.gethostname(), os.getpid(), o.queues, o.concurrency, self._tasks)
        )
        if self._upkeep is not None:
            self._upkeep.worker_id = worker_id
        logger.info(
            "worker.started: %s %s, concurrency %d, queues: %s", o.name, worker_id, o.concurrency, o.queues or "all"
        )
        return worker_id

    async def _leave(self) -> None:
        """What still runs goes back to the head of its lane. If the database is away, rescue will do it."""
        await anyio.to_thread.run_sync(self._scheduler.stop)
        if self._upkeep is not None:
            await anyio.to_thread.run_sync(self._upkeep.stop)
        try:
            count = await self._link.run(upkeep.leave(self._loop.id))
            logger.info("worker.stopped: %s; %d jobs given back", self._options.name, count)
        except DatabaseUnavailable as error:
            logger.warning("worker.stopped without a word to the database (%s); its jobs are taken over later", error)

    async def _look_for_aborts(self) -> None:
        """In case the notification got lost."""
        while True:
            await anyio.sleep(self._options.abort_job_polling_interval)
            self._loop.note_abort()
