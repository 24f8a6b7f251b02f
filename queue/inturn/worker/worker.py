"""The loop. What it promises stands in the package's docstring."""

import asyncio
import logging
import os
import socket
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from inturn.connectors import PsycopgConnector
from inturn.context import JobContext
from inturn.errors import DatabaseUnavailable, TaskNotFound, WorkerLost
from inturn.model import Again, Ended, Job, Outcome
from inturn.operations import upkeep, work
from inturn.tasks import Blueprint, Task
from inturn.worker import events, signals
from inturn.worker.attempt import Attempt
from inturn.worker.link import Link
from inturn.worker.listener import listen
from inturn.worker.options import Options, options
from inturn.worker.pace import Pace
from inturn.worker.slots import Slots
from inturn.worker.upkeep import Upkeep

logger = logging.getLogger(__name__)

UNKNOWN_TASK_PAUSE = timedelta(seconds=30)  # another worker, or the next deploy, may know it
BUSY_PAUSE = 0.02  # seconds before looking again at a lane that somebody was at work on
LEAVE_SECONDS = 10.0


async def run(app: Blueprint, connector: PsycopgConnector, given: Mapping[str, Any]) -> str | None:
    """Until it has stopped; what made it abort jobs, if anything did."""
    return await Worker(app, connector, options(given)).run()


class Worker:
    def __init__(self, app: Blueprint, connector: PsycopgConnector, options: Options) -> None:
        self._app = app
        self._connector = connector
        self._options = options
        self._link = Link(connector)
        self._limiter = anyio.CapacityLimiter(options.concurrency)
        self._id: UUID
        self._upkeep: Upkeep
        self._helpers: TaskGroup
        self._slots = Slots(options.concurrency, self._perform)
        self._attempts: dict[int, Attempt] = {}  # in hand: running, or waiting for a slot
        self._ended: list[Outcome] = []
        self._pace = Pace(options.concurrency)
        self._bell = anyio.Event()
        self._hungry = True  # there may be something to claim
        self._nap: float = 0  # how long to sleep at most when not hungry
        self._misses = 0  # claims in a row that saw a job they could not take
        self._idle = False  # the last claim left nothing to start
        self._stopping = False
        self._aborting: str | None = None  # why
        self._abort_asked = False  # perhaps a job of ours is to end
        self._lost = False
        self._outages = 0  # failed calls in a row: after one, the outcome of the last is unknown

    async def run(self) -> str | None:
        try:
            await self._link.run(upkeep.check_schema(self._connector.schema))
            await self._register()
            await self._serve()
            return self._aborting
        finally:
            with anyio.move_on_after(LEAVE_SECONDS, shield=True):
                await self._link.close()

    async def _serve(self) -> None:
        in_loop = asyncio.get_running_loop().call_soon_threadsafe
        self._upkeep = Upkeep(
            self._connector,
            self._options,
            self._id,
            partial(in_loop, self._note_lost),
            partial(in_loop, self._note_abort),
        )
        self._upkeep.start()
        try:
            async with anyio.create_task_group() as self._helpers:
                if self._options.listen_notify:
                    self._helpers.start_soon(
                        listen, self._connector, self._options.queues, self._wake, self._note_abort
                    )
                if self._options.install_signal_handlers:
                    self._helpers.start_soon(signals.obey, self.stop, self.abort)
                await self._slots.run(self._work)
                self._helpers.cancel_scope.cancel()
        finally:
            with anyio.move_on_after(LEAVE_SECONDS, shield=True):
                await self._leave()

    def stop(self, reason: str = "stop") -> None:
        """Claim no more; end when what runs has ended, or has been aborted after the grace."""
        if self._stopping:
            return
        logger.info("worker.stopping: %s; waiting for %d running jobs", reason, len(self._attempts))
        self._stopping = True
        self._bell.set()
        grace = self._options.shutdown_graceful_timeout
        if grace is not None:
            self._helpers.start_soon(self._abort_after, grace)

    def abort(self, reason: str = "abort") -> None:
        """End now: async tasks are cancelled and their jobs go back to the head of their lanes; sync tasks are asked."""
        self.stop(reason)
        self._aborting = reason
        for attempt in list(self._attempts.values()):
            attempt.give_back(f"the worker is told to end ({reason})")

    async def _abort_after(self, grace: float) -> None:
        await anyio.sleep(grace)
        self.abort(f"still running {grace:g} s after the first signal")

    # ------------------------------------------------------------------ the loop

    async def _work(self) -> None:
        while not self._is_over():
            try:
                await self._step()
            except WorkerLost:
                self._note_lost()
            except DatabaseUnavailable as error:
                await self._outage(error)

    def _is_over(self) -> bool:
        if self._attempts:
            return False
        if self._aborting and self._outages:
            return True  # what cannot be reported now is taken over later
        return not self._ended and (self._stopping or (self._idle and not self._hungry and not self._options.wait))

    async def _step(self) -> None:
        if self._lost:
            await self._register_again()
        elif self._outages:
            await self._resume()
        elif self._abort_asked:
            await self._abort_jobs()
        elif self._slots.waiting and (self._stopping or self._pace.is_stale(self._slots.waiting[0])):
            await self._put_back()
        elif self._may_claim and self._pace.prefers_claim(len(self._attempts)):
            await self._claim()
        elif self._ended:
            await self._finish()
        elif self._may_claim:
            await self._claim()
        else:
            await self._sleep()

    @property
    def _may_claim(self) -> bool:
        return self._hungry and not self._stopping and len(self._attempts) < self._pace.capacity

    async def _claim(self) -> None:
        free = self._pace.capacity - len(self._attempts)
        self._hungry = False  # before we ask: who rings while we do has news that our answer may lack
        self._idle = False
        jobs = await self._link.run(work.claim(self._id, self._options.queues, free))
        for job in jobs:
            self._start(job)
        if len(jobs) == free:
            self._hungry = True
            self._misses = 0
        else:
            await self._plan_sleep()

    async def _plan_sleep(self) -> None:
        due = await self._link.run(work.next_wake(self._options.queues))
        self._idle = due is None or bool(due)
        if self._idle:
            self._misses = 0
            self._nap = self._options.fetch_job_polling_interval
            if due is not None:
                self._nap = min(self._nap, due.total_seconds())
        else:  # somebody was at work on a lane: look again soon, but do not spin
            self._nap = min(self._options.fetch_job_polling_interval, BUSY_PAUSE * 2**self._misses)
            self._misses = min(self._misses + 1, 20)

    async def _sleep(self) -> None:
        self._bell = anyio.Event()
        if (
            self._ended
            or self._abort_asked
            or self._lost
            or self._may_claim
            or (self._stopping and self._slots.waiting)
        ):
            return
        nap = None if self._stopping else self._nap
        if self._slots.waiting:
            nap = self._pace.until_stale(self._slots.waiting[0])
        with anyio.move_on_after(nap) as napping:
            await self._bell.wait()
        if napping.cancelled_caught:
            self._hungry = True

    async def _put_back(self) -> None:
        """What was claimed ahead and finds no slot is for others to run."""
        attempts = [attempt for attempt in self._slots.waiting if not attempt.begun]
        self._slots.waiting.clear()
        for attempt in attempts:
            del self._attempts[attempt.job.id]
        self._pace.slow_down()
        await self._link.run(work.put_back([attempt.job for attempt in attempts]))

    async def _finish(self) -> None:
        """Report everything that has ended; take over what its lanes hand back."""
        outcomes, self._ended = self._ended, []
        ended = [outcome for outcome in outcomes if isinstance(outcome, Ended)]
        again = [outcome for outcome in outcomes if isinstance(outcome, Again)]
        accepted: set[int] = set()
        handed: list[Job] = []
        try:
            if again:
                accepted |= await self._link.run(work.retry(again))
            if ended:
                want = 0 if self._stopping else len(ended)
                done, handed = await self._link.run(work.finish(self._id, self._options.queues, want, ended))
                accepted |= done
        except DatabaseUnavailable:
            self._ended = outcomes + self._ended  # finish is idempotent: what took effect is not accepted twice
            raise
        for job in handed:
            self._start(job)
        self._pace.note(len(outcomes))
        lanes = sum(outcome.job.lock is not None for outcome in outcomes)
        if again or len(handed) < lanes:
            self._hungry = True  # a lane went back, perhaps with a job that only we have room for
        for outcome in outcomes:
            if outcome.job.id in accepted:
                events.note_outcome(outcome)
            else:
                events.note_lost(outcome.job)

    def _start(self, job: Job) -> None:
        if self._aborting:
            return  # it goes back with the others when we leave
        try:
            task = self._app.find_task(job.task_name)
        except TaskNotFound as error:
            self._ended.append(Again(job, UNKNOWN_TASK_PAUSE, str(error)))
            return
        context = self._context(task, job) if task.pass_context else None
        attempt = self._attempts[job.id] = Attempt(job, task, context)
        self._slots.add(attempt)

    def _context(self, task: Task[..., Any], job: Job) -> JobContext:
        o = self._options
        queues = None if o.queues is None else tuple(o.queues)
        return JobContext(self._app, task, job, o.name, queues, datetime.now(UTC), dict(o.additional_context))

    async def _perform(self, attempt: Attempt) -> None:
        events.note_start(attempt.job)
        try:
            outcome = await attempt.perform(self._limiter)
            if outcome is not None:
                self._ended.append(outcome)
        finally:
            self._attempts.pop(attempt.job.id, None)
            self._bell.set()

    def _wake(self) -> None:
        self._hungry = True
        self._bell.set()

    def _note_abort(self) -> None:
        if self._attempts:
            self._abort_asked = True
            self._bell.set()

    async def _abort_jobs(self) -> None:
        self._abort_asked = False
        for job_id in await self._link.run(work.abort_requests(self._id)):
            if job_id in self._attempts:
                self._attempts[job_id].abort("somebody asked to end the job")

    # ------------------------------------------------------------------ when something went wrong

    async def _outage(self, error: DatabaseUnavailable) -> None:
        pause = min(30.0, 0.1 * 2 ** min(self._outages, 20))
        self._outages += 1
        logger.warning("database.lost: %s; next try in %.1f s", error, pause)
        await anyio.sleep(pause)

    async def _resume(self) -> None:
        """A reply may have been lost: run what the server says is ours and we have not heard of."""
        known = {*self._attempts, *(outcome.job.id for outcome in self._ended)}
        for job in await self._link.run(work.owned(self._id)):
            if job.id not in known:
                self._start(job)
        self._outages = 0
        self._hungry = True

    def _note_lost(self) -> None:
        self._lost = True
        self._bell.set()

    async def _register_again(self) -> None:
        logger.error(
            "worker.lost: %s was taken for dead, its jobs were taken over; registering anew", self._options.name
        )
        for attempt in list(self._attempts.values()):
            attempt.give_back("the worker was taken for dead and the job taken over")
        await self._register()
        self._upkeep.worker_id = self._id
        self._lost = False
        self._hungry = True

    # ------------------------------------------------------------------ coming and going

    async def _register(self) -> None:
        o = self._options
        self._id = await self._link.run(
            upkeep.register(o.name, socket.gethostname(), os.getpid(), o.queues, o.concurrency, self._app.tasks)
        )
        logger.info(
            "worker.started: %s %s, %d jobs at once, queues: %s", o.name, self._id, o.concurrency, o.queues or "all"
        )

    async def _leave(self) -> None:
        """What still runs goes back to the head of its lane. If the database is away, rescue will do it."""
        await anyio.to_thread.run_sync(self._upkeep.stop)
        try:
            count = await self._link.run(upkeep.leave(self._id))
            logger.info("worker.stopped: %s; %d jobs given back", self._options.name, count)
        except DatabaseUnavailable as error:
            logger.warning("worker.stopped without a word to the database (%s); its jobs are taken over later", error)
