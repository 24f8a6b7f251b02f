"""The loop, and how a worker comes and goes. What it promises stands in the package's docstring."""

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from inturn.blueprint import Blueprint
from inturn.connectors import PsycopgConnector
from inturn.errors import DatabaseUnavailable, WorkerLost
from inturn.middleware import Around
from inturn.model import Again, Committed, Ended, Job
from inturn.operations import upkeep, work
from inturn.worker import events, signals
from inturn.worker.appetite import Appetite
from inturn.worker.hands import Hands
from inturn.worker.link import Link
from inturn.worker.listener import listen
from inturn.worker.options import Options, options
from inturn.worker.pace import Pace
from inturn.worker.schedule import Scheduler
from inturn.worker.trail import Trail
from inturn.worker.upkeep import Upkeep
from inturn.worker.vigil import Vigil

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
        self._pace = pace or Pace(options.concurrency)
        self._vigil = Vigil(self._link)
        self._trail = Trail()
        self._scheduler = Scheduler(connector, app)
        self._id: UUID
        self._upkeep: Upkeep
        self._helpers: TaskGroup | None = None
        self._thread, self._in_loop = threading.get_ident(), asyncio.get_running_loop().call_soon_threadsafe
        self._stopping = False
        self._aborting: str | None = None  # why
        self._abort_asked = False  # perhaps a job of ours is to end
        self._lost = False  # we were taken for dead
        self._outages = 0  # failed calls in a row: after one, the outcome of the last is unknown

    # ------------------------------------------------------------------ coming and going

    async def run(self) -> str | None:
        """Until it has stopped; what made it abort jobs, if anything did."""
        try:
            await self._link.run(upkeep.check_schema(self._connector.schema))
            await self._register()
            await self._serve()
            return self._aborting
        finally:
            with anyio.move_on_after(LEAVE_SECONDS, shield=True):
                await self._link.close()

    def stop(self, reason: str = "stop") -> None:
        """Claim no more; end when what runs has ended, or has been aborted after the grace. May be called in any thread."""
        if threading.get_ident() != self._thread:
            self._in_loop(self.stop, reason)
            return
        if self._stopping:
            return
        logger.info("worker.stopping: %s; waiting for %d running jobs", reason, len(self._hands))
        self._stopping = True
        self._appetite.ring()
        grace = self._options.shutdown_graceful_timeout
        if grace is not None and self._helpers is not None:  # None: it has not begun to serve, and will not
            self._helpers.start_soon(self._abort_after, grace)

    def abort(self, reason: str = "abort") -> None:
        """End now: async tasks are cancelled and their jobs go back to the head of their lanes; sync tasks are asked."""
        self.stop(reason)
        self._aborting = reason
        self._hands.give_back(f"the worker is told to end ({reason})")

    async def _abort_after(self, grace: float) -> None:
        await anyio.sleep(grace)
        self.abort(f"still running {grace:g} s after the first signal")

    async def _serve(self) -> None:
        self._upkeep = Upkeep(
            self._connector,
            self._options,
            self._id,
            lambda worker_id: self._in_loop(self._note_lost, worker_id),
        )
        self._upkeep.start()
        self._scheduler.start()
        try:
            async with anyio.create_task_group() as self._helpers:
                if self._options.listen_notify:
                    self._helpers.start_soon(
                        listen, self._connector, self._options.queues, self._appetite.wake, self._note_abort
                    )
                self._helpers.start_soon(self._look_for_aborts)
                if self._options.install_signal_handlers:
                    self._helpers.start_soon(signals.obey, self.stop, self.abort)
                if not self._options.wait:  # it does what is due, and then ends
                    await anyio.to_thread.run_sync(self._scheduler.wait_for_first_look, abandon_on_cancel=True)
                await self._hands.slots.run(self._work)
                self._helpers.cancel_scope.cancel()
        finally:
            with anyio.move_on_after(LEAVE_SECONDS, shield=True):
                await self._leave()
            with anyio.move_on_after(LEAVE_SECONDS, shield=True):
                await self._hands.close()

    async def _register(self) -> None:
        o = self._options
        self._id = await self._link.run(
            upkeep.register(o.name, socket.gethostname(), os.getpid(), o.queues, o.concurrency, self._tasks)
        )
        self._vigil.registered()
        logger.info(
            "worker.started: %s %s, %d jobs at once, queues: %s", o.name, self._id, o.concurrency, o.queues or "all"
        )

    async def _leave(self) -> None:
        """What still runs goes back to the head of its lane. If the database is away, rescue will do it."""
        await anyio.to_thread.run_sync(self._scheduler.stop)
        await anyio.to_thread.run_sync(self._upkeep.stop)
        try:
            count = await self._link.run(upkeep.leave(self._id))
            logger.info("worker.stopped: %s; %d jobs given back", self._options.name, count)
        except DatabaseUnavailable as error:
            logger.warning("worker.stopped without a word to the database (%s); its jobs are taken over later", error)

    # ------------------------------------------------------------------ the loop

    async def _work(self) -> None:
        while not self._is_over():
            try:
                await self._step()
            except WorkerLost:
                self._note_lost(self._id)
            except DatabaseUnavailable as error:
                await self._outage(error)

    def _is_over(self) -> bool:
        if self._hands:
            return False
        if self._aborting and self._outages:
            return True  # what cannot be reported now is taken over later
        has_eaten = self._appetite.sated and not self._appetite.hungry
        return not self._hands.ended and (self._stopping or (has_eaten and not self._options.wait))

    async def _step(self) -> None:
        if self._lost:
            await self._register_again()
        elif self._outages:
            await self._resume()
        elif self._abort_asked:
            await self._abort_jobs()
        elif self._holds_up_jobs:
            await self._put_back()
        elif self._may_claim and self._pace.prefers_claim(len(self._hands)):
            await self._claim()
        elif self._hands.ended:
            await self._finish()
        elif self._may_claim:
            await self._claim()
        else:
            await self._sleep()

    @property
    def _may_claim(self) -> bool:
        return self._appetite.hungry and not self._stopping and len(self._hands) < self._pace.capacity

    @property
    def _holds_up_jobs(self) -> bool:
        waiting = self._hands.slots.waiting
        return bool(waiting) and (self._stopping or self._pace.until_stale(waiting[0]) <= 0)

    async def _claim(self) -> None:
        room = self._pace.capacity - len(self._hands)
        if marks := self._trail.marks():
            jobs = await self._link.run(work.claim_further(self._id, marks, room))
            self._trail.went_on(jobs, room)
            self._start(jobs)
            return
        self._appetite.begin()
        began = time.monotonic()
        jobs = await self._link.run(work.claim(self._id, self._options.queues, room))
        self._trail.begin(jobs, room, time.monotonic() - began)
        self._start(jobs)
        if len(jobs) == room:
            self._appetite.was_filled()
            await self._vigil.was_filled(self._id)
        elif jobs and await self._vigil.found_some(self._id):
            self._appetite.rest()
        else:
            wake = await self._vigil.found_less(self._id, self._options.queues)
            self._appetite.found_less(wake.delay, wake.told)

    async def _finish(self) -> None:
        """Report everything that has ended; take over what its lanes hand back."""
        outcomes = self._hands.take_ended()
        ended = [outcome for outcome in outcomes if isinstance(outcome, Ended)]
        again = [outcome for outcome in outcomes if isinstance(outcome, Again)]
        accepted = {outcome.job.id for outcome in outcomes if isinstance(outcome, Committed)}
        handed: list[Job] = []
        try:
            if again:
                accepted |= await self._link.run(work.retry(again))
            if ended:
                want = 0 if self._stopping else len(ended)
                done, handed = await self._link.run(
                    work.finish(self._id, self._options.queues, want, ended, self._options.forget)
                )
                accepted |= done
        except DatabaseUnavailable:
            self._hands.ended[:0] = outcomes  # finish is idempotent: what took effect is not accepted twice
            raise
        self._hands.let_go(outcomes)
        self._start(handed)
        self._pace.note(len(outcomes))
        if again or len(handed) < sum(outcome.job.lock is not None for outcome in outcomes):
            self._appetite.hungry = True  # a lane went back, perhaps with a job that only we have room for
        elif not self._options.wait:
            self._appetite.hungry = True  # what jobs have deferred meanwhile is to be done too, before the end
        for outcome in outcomes:
            if outcome.job.id in accepted:
                events.note_outcome(outcome)
            else:
                events.note_lost(outcome.job)

    def _start(self, jobs: list[Job]) -> None:
        if self._aborting:
            return  # they go back with the others when we leave
        for job in jobs:
            self._hands.start(job)

    async def _put_back(self) -> None:
        """What was claimed ahead and finds no slot is for others to run."""
        self._pace.slow_down()
        await self._link.run(work.put_back(self._hands.take_unbegun()))
        self._appetite.hungry = True  # ... or for us, when a slot is free: a claim may have found no more than these

    async def _sleep(self) -> None:
        self._appetite.lie_down()
        if self._hands.ended or self._abort_asked or self._lost or self._may_claim or self._holds_up_jobs:
            return
        waiting = self._hands.slots.waiting
        await self._appetite.sleep(self._pace.until_stale(waiting[0]) if waiting else None, for_good=self._stopping)

    def _note_abort(self) -> None:
        if self._hands:
            self._abort_asked = True
            self._appetite.ring()

    async def _look_for_aborts(self) -> None:
        """In case the notification got lost."""
        while True:
            await anyio.sleep(self._options.abort_job_polling_interval)
            self._note_abort()

    async def _abort_jobs(self) -> None:
        self._abort_asked = False
        self._hands.abort(await self._link.run(work.abort_requests(self._id)))

    # ------------------------------------------------------------------ when something went wrong

    async def _outage(self, error: DatabaseUnavailable) -> None:
        pause = min(30.0, 0.1 * 2 ** min(self._outages, 20))
        self._outages += 1
        logger.warning("database.lost: %s; next try in %.1f s", error, pause)
        await anyio.sleep(pause)

    async def _resume(self) -> None:
        """A reply may have been lost: run what the server says is ours and we have not heard of."""
        jobs = await self._link.run(work.owned(self._id))
        self._start([job for job in jobs if not self._hands.knows(job)])
        self._outages = 0
        self._appetite.hungry = True

    def _note_lost(self, worker_id: UUID) -> None:
        if worker_id != self._id:
            return  # the loop was told first, and we are another worker by now
        self._lost = True
        self._appetite.ring()

    async def _register_again(self) -> None:
        logger.error(
            "worker.lost: %s was taken for dead, its jobs were taken over; registering anew", self._options.name
        )
        self._hands.take_unbegun()
        self._hands.give_back("the worker was taken for dead and the job taken over")
        await self._register()
        self._upkeep.worker_id = self._id
        self._lost = False
        self._appetite.hungry = True
