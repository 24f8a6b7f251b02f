"""What a worker has in hand: attempts that run or wait for a slot, and what has ended and is not reported yet."""

import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from inturn.arguments import Unreadable
from inturn.database.connector import Connector
from inturn.errors import TaskNotFound
from inturn.model import Again, Ended, Job, Outcome, Status
from inturn.tasks.blueprint import Blueprint
from inturn.tasks.context import JobContext
from inturn.tasks.middleware import Around
from inturn.tasks.task import Task
from inturn.worker import events
from inturn.worker.attempt import Attempt, describe
from inturn.worker.options import Options
from inturn.worker.reports import Reports
from inturn.worker.slots import Slots
from inturn.worker.transaction import FinishingTransaction

if TYPE_CHECKING:
    from inturn.worker.resources import Keeper

OVERDUE_SECONDS = 1.0  # past its timeout, before a run that goes on is said
UNKNOWN_TASK_PAUSE = timedelta(seconds=30)  # another worker, or the next deploy, may know it


class Hands:
    def __init__(
        self,
        app: Blueprint,
        connector: Connector,
        options: Options,
        ended: Callable[[], None],
        around: Around,
    ) -> None:
        self.reports = Reports()
        self.slots = Slots(options.concurrency, self._perform)
        self._app = app
        self._connector = connector
        self._options = options
        self._around = around
        self._note_ended = ended
        self._limiter = anyio.CapacityLimiter(options.concurrency)
        # By job and claim: a worker that was taken for dead may get a job again that it still runs.
        self._attempts: dict[tuple[int, str], Attempt] = {}
        self._emptied = anyio.Event()  # anew for each that waits for it
        self._keeper: Keeper | None = None  # of the resources that jobs hold

    def __len__(self) -> int:
        return len(self._attempts)

    def start(self, job: Job) -> None:
        """At once, or when a slot is free. A job that cannot be started has failed, whatever the reason."""
        try:
            if isinstance(job.task_kwargs, Unreadable):
                self.reports.add(Ended(job, Status.FAILED, job.task_kwargs.reason))
            else:
                self._start(job, self._app.find_task(job.task_name))
        except TaskNotFound as error:
            self.reports.add(Again(job, UNKNOWN_TASK_PAUSE, str(error)))
        except Exception as error:
            self.reports.add(
                Ended(job, Status.FAILED, f"the worker could not start it:\n{describe(error)}")
            )

    def _start(self, job: Job, task: Task[..., Any]) -> None:
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
                begin=partial(FinishingTransaction, self._connector, attempt, o.forget),
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

    def take_ended(self, *, everything: bool = False) -> list[Outcome]:
        """What has ended and may be reported now."""
        outcomes = self.reports.take(everything=everything)
        return outcomes if self._keeper is None else self._keeper.judged(outcomes)

    def let_go(self, outcomes: list[Outcome]) -> None:
        """Their ends are stored, so others may have the resources that they held."""
        if self._keeper is not None and (giving_back := self._keeper.reported(outcomes)):
            self.slots.start(giving_back)

    async def close(self) -> None:
        if self._keeper is not None:
            await self._keeper.close()

    def unknown(self, claims: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
        """Those that are not in hand, and have not ended and wait to be reported either."""
        others = set(claims) - self._attempts.keys()
        return others - self.reports.claims() if others else others

    def watch_deadlines(self, blocked: float) -> None:
        """Ask runs to end whose time is over, and say it of those that go on. `blocked`: for how many
        seconds the loop has not turned, which is why this is called in another thread."""
        now = time.monotonic()
        for attempt in list(self._attempts.values()):
            deadline = attempt.deadline
            if deadline is None or now < deadline:
                continue
            attempt.ask_to_end()
            if not attempt.is_overdue and now > deadline + OVERDUE_SECONDS:
                attempt.is_overdue = True
                events.note_overdue(
                    attempt.job, _why_it_goes_on(attempt, loop_is_blocked=blocked > OVERDUE_SECONDS)
                )

    def abort(self, job_ids: list[int]) -> None:
        for attempt in list(self._attempts.values()):
            if attempt.job.id in job_ids:
                attempt.abort("somebody asked to end the job")

    def give_back(self, reason: str) -> None:
        """End all runs, not the jobs: they go back to their lanes."""
        for attempt in list(self._attempts.values()):
            attempt.give_back(reason)

    async def wait_until_empty(self) -> None:
        """Until no attempt runs or waits any more."""
        self._emptied = anyio.Event()
        if self._attempts:
            await self._emptied.wait()

    def abandon(self) -> None:
        """Wait for nobody any more: threads that run on are left behind."""
        for attempt in list(self._attempts.values()):
            attempt.abandon()

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
                self.reports.add(outcome)
        finally:
            del self._attempts[attempt.job.id, attempt.job.claim_id]
            if not self._attempts:
                self._emptied.set()
            self._note_ended()


def _why_it_goes_on(attempt: Attempt, *, loop_is_blocked: bool) -> str:
    if not attempt.task.is_async:
        return "a thread cannot be stopped, only asked: context.should_abort()"
    if loop_is_blocked:
        return "the event loop is blocked, so that nothing can be cancelled"
    return "it was cancelled, and goes on"
