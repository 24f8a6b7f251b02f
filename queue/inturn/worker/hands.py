"""What a worker has in hand: attempts that run or wait for a slot, and what has ended and is not reported yet."""

import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import anyio

from inturn.arguments import Unreadable
from inturn.blueprint import Blueprint
from inturn.connectors import PsycopgConnector
from inturn.context import JobContext
from inturn.errors import TaskNotFound
from inturn.middleware import Around
from inturn.model import Again, Ended, Job, Outcome, Status
from inturn.worker import events
from inturn.worker.attempt import Attempt
from inturn.worker.options import Options
from inturn.worker.slots import Slots
from inturn.worker.transaction import Transaction

if TYPE_CHECKING:
    from inturn.worker.resources import Keeper

UNKNOWN_TASK_PAUSE = timedelta(seconds=30)  # another worker, or the next deploy, may know it


class Hands:
    def __init__(
        self,
        app: Blueprint,
        connector: PsycopgConnector,
        options: Options,
        ended: Callable[[], None],
        around: Around,
    ) -> None:
        self.ended: list[Outcome] = []
        self.slots = Slots(options.concurrency, self._perform)
        self._app = app
        self._connector = connector
        self._options = options
        self._around = around
        self._note_ended = ended
        self._limiter = anyio.CapacityLimiter(options.concurrency)
        # By job and claim: a worker that was taken for dead may get a job again that it still runs.
        self._attempts: dict[tuple[int, str], Attempt] = {}
        self._keeper: Keeper | None = None  # of the resources that jobs hold

    def __len__(self) -> int:
        return len(self._attempts)

    def start(self, job: Job) -> None:
        """At once, or when a slot is free."""
        if isinstance(job.task_kwargs, Unreadable):
            self.ended.append(Ended(job, Status.FAILED, job.task_kwargs.reason))
            return
        try:
            task = self._app.find_task(job.task_name)
        except TaskNotFound as error:
            self.ended.append(Again(job, UNKNOWN_TASK_PAUSE, str(error)))
            return
        attempt = Attempt(job, task, None)
        if task.task_middleware or self._around.is_something:
            attempt.around = self._around
        if task.pass_context or attempt.around is not None:
            o = self._options
            queues = None if o.queues is None else tuple(o.queues)
            attempt.context = JobContext(
                self._app,
                task,
                job,
                o.name,
                queues,
                time.time(),
                dict(o.additional_context or {}),
                begin=partial(Transaction, self._connector, attempt, o.forget),
            )
        if task.resources is not None:
            self._equip(attempt)
        self._attempts[job.id, job.claim_id] = attempt
        self.slots.add(attempt)

    def _equip(self, attempt: Attempt) -> None:
        if self._keeper is None:
            from inturn.worker.resources import Keeper

            self._keeper = Keeper(self._connector)
        self._keeper.equip(attempt)

    def take_ended(self) -> list[Outcome]:
        outcomes, self.ended = self.ended, []
        return outcomes if self._keeper is None else self._keeper.judged(outcomes)

    def let_go(self, outcomes: list[Outcome]) -> None:
        """Their ends are stored, so others may have the resources that they held."""
        if self._keeper is not None and (giving_back := self._keeper.reported(outcomes)):
            self.slots.start(giving_back)

    async def close(self) -> None:
        if self._keeper is not None:
            await self._keeper.close()

    def knows(self, job: Job) -> bool:
        return (job.id, job.claim_id) in self._attempts or any(outcome.job == job for outcome in self.ended)

    def abort(self, job_ids: list[int]) -> None:
        for attempt in list(self._attempts.values()):
            if attempt.job.id in job_ids:
                attempt.abort("somebody asked to end the job")

    def give_back(self, reason: str) -> None:
        """End all runs, not the jobs: they go back to their lanes."""
        for attempt in list(self._attempts.values()):
            attempt.give_back(reason)

    def take_unbegun(self) -> list[Job]:
        """What waits for a slot, out of our hands."""
        jobs = [attempt.job for attempt in self.slots.waiting]
        self.slots.waiting.clear()
        for job in jobs:
            del self._attempts[job.id, job.claim_id]
        return jobs

    async def _perform(self, attempt: Attempt) -> None:
        events.note_start(attempt.job)
        try:
            outcome = await attempt.perform(self._limiter, self._options.max_result_size)
            if attempt.holding is not None:
                outcome = await attempt.holding.ended(outcome)
            if outcome is not None:
                self.ended.append(outcome)
        finally:
            del self._attempts[attempt.job.id, attempt.job.claim_id]
            self._note_ended()
