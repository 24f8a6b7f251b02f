"""The jobs that a worker has claimed: running, waiting for a slot, or ended but not reported."""

import math
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
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
from inturn.tasks.task import Task
from inturn.values import UndecodableArgument
from inturn.worker import joblog
from inturn.worker.attempt import Attempt
from inturn.worker.error_text import describe
from inturn.worker.middleware_chain import MiddlewareChain
from inturn.worker.options import Options
from inturn.worker.slots import Slot, Slots, Waiting, is_cancelled
from inturn.worker.transaction import FinishingTransaction
from inturn.worker.unreported import ProgressReports, UnreportedOutcomes

if TYPE_CHECKING:
    from inturn.metrics.process import ProcessMetrics
    from inturn.worker.resources import ResourceLocks

# An event loop that was blocked for this long explains a run that overruns its timeout.
BLOCKED_SECONDS = 1.0
EXPIRED = "expired: the worker that claimed it had no free slot in time"
UNKNOWN_TASK_PAUSE = timedelta(seconds=30)  # another worker, or the next deploy, may know the task


class RunningJobs:
    """The worker's jobs, from the claim until the server has stored their ends.

    `attempts` are the running ones. `ended` is called after each one.
    """

    def __init__(
        self,
        app: Blueprint,
        connector: Connector,
        options: Options,
        ended: Callable[[], None],
        chain: MiddlewareChain,
        progress: ProgressReports,
        observer: "ProcessMetrics | None" = None,
    ) -> None:
        self.observer = observer
        self.unreported = UnreportedOutcomes()
        self.progress = progress
        self._slots = Slots(options.concurrency, self._perform)
        self._app = app
        self._tracing = app.tracing
        self._connector = connector
        self._options = options
        self._chain = chain
        self._note_ended = ended
        self._limiter = anyio.CapacityLimiter(options.concurrency)
        # By job and claim: a worker that was declared dead may get a job again while still running
        # it.
        self.attempts: dict[tuple[int, str], Attempt] = {}
        self.runs = 0  # that have ended
        self._are_ours: Callable[[], bool] = lambda: True
        self._check_lock = connector.check_lock  # bound once, and not for each job
        self._is_closed = False
        self._emptied: anyio.Event | None = None  # while something waits for it
        self._notes_starts = self._measures = False
        self._lacked_task_at = -math.inf  # when a job with an unknown task last came
        self._resource_locks: ResourceLocks | None = None  # once a job needs some

    @property
    def in_hand(self) -> int:
        """Return how many jobs run or wait for a slot."""
        return len(self.attempts) + len(self._slots.waiting)

    def list_ids(self) -> list[int]:
        """Return the ids of the jobs that run or wait for a slot."""
        return [*(id for id, _ in self.attempts), *(job.id for job, _ in self._slots.waiting)]

    @property
    def lacks_task(self) -> bool:
        """Return True if a job with an unknown task may come again soon."""
        passed = time.monotonic() - self._lacked_task_at
        return passed < 2 * UNKNOWN_TASK_PAUSE.total_seconds()

    # ------------------------------------------------------------------ starting

    def serve(self, work: Callable[[], Awaitable[None]]) -> Awaitable[None]:
        """Run the slots until `work` is done and nothing runs any more."""
        return self._slots.run(work)

    def start_all(self, jobs: Sequence[Job]) -> None:
        """Start these jobs when slots are free, and not before the next turn of the event loop.

        This way the worker's next call is in progress before it prepares a batch.
        """
        if not jobs or self._is_closed:
            return  # after `close`, they go back to their lanes when the worker leaves
        is_observed = self.observer is not None
        self._notes_starts = is_observed or joblog.logs_starts()
        self._measures = is_observed or joblog.logs_successes()
        now = time.monotonic()
        self._slots.add([Waiting(job, now) for job in jobs])

    def ask_before_start(self, are_ours: Callable[[], bool], ask: Callable[[], None]) -> None:
        """Call `are_ours` before each start of a job.

        If it returns False, `ask` is called, and jobs wait for `resume`. The last check, possibly
        in the task's thread, only calls `are_ours`.
        """
        self._slots.are_ours = self._are_ours = are_ours
        self._slots.ask = ask

    def resume(self) -> None:
        """Start the waiting jobs, since the server has confirmed that they are still ours."""
        self._slots.add()

    def _prepare(self, job: Job) -> Attempt | None:
        """Return an attempt at the job, or None if it ended because it cannot be started."""
        if job.start_before is not None and time.monotonic() >= job.start_before:
            self.unreported.add(Ended(job, Status.CANCELLED, EXPIRED))
            return None
        try:
            if isinstance(job.task_kwargs, Unreadable):
                self.unreported.add(Ended(job, Status.FAILED, job.task_kwargs.reason))
            else:
                return self._make_attempt(job, self._app.find_task(job.task_name))
        except UndecodableArgument as error:
            self.unreported.add(Ended(job, Status.FAILED, str(error)))
        except TaskNotFound as error:
            self._lacked_task_at = time.monotonic()
            self.unreported.add(Again(job, UNKNOWN_TASK_PAUSE, str(error)))
        except BaseException as error:  # decoders are user code, and some raise SystemExit
            text = f"the worker could not start the job:\n{describe(error)}"
            self.unreported.add(Ended(job, Status.FAILED, text))
        return None

    def _make_attempt(self, job: Job, task: Task[..., Any]) -> Attempt:
        loads = self._connector.json_loads
        if loads is not None or not task.decoders.are_plain:
            job = job._replace(task_kwargs=task.decoders.decode(job.task_kwargs, loads))
        chain = None if self._chain.is_empty and not task.task_middleware else self._chain
        attempt = Attempt(job, task, chain, self._are_ours, self._check_lock)
        if task.pass_context or chain is not None:
            attempt.context = self._make_context(attempt)
        if task.resources is not None:
            from inturn.worker.resources import HeldLocks, ResourceLocks

            if self._resource_locks is None:
                self._resource_locks = ResourceLocks(self._connector)
            attempt.held_locks = HeldLocks(attempt, self._resource_locks)
        return attempt

    def _make_context(self, attempt: Attempt) -> JobContext:
        o = self._options
        return JobContext(
            self._app,
            attempt.task,
            attempt.job,
            o.name,
            None if o.queues is None else tuple(o.queues),
            time.time(),
            dict(o.additional_context or {}),
            begin=partial(FinishingTransaction, self._connector, attempt, o),
            note_progress=self.progress.note,
        )

    async def _perform(self, waiting: Waiting, slot: Slot) -> None:
        job = waiting.job
        attempt = self._prepare(job)
        if attempt is None:
            self._leave_slot()
            return
        self.attempts[job.id, job.claim_id] = attempt
        try:
            if self._notes_starts:
                self._note_start(waiting)
            began = time.monotonic() if self._measures else None
            run: Awaitable[Outcome | None] = attempt.perform(
                slot, self._limiter, self._options.max_result_size
            )
            if self._tracing is not None:
                run = self._tracing.process(attempt.job, self._options.name, run)
            outcome = await run
            if attempt.held_locks is not None:
                outcome = await attempt.held_locks.settle(outcome)
            if outcome is not None:
                if began is not None:
                    outcome = _note_seconds(outcome, time.monotonic() - began)
                self.unreported.add(outcome)
            elif attempt.must_wait and not self._is_closed:
                self._slots.put_back(waiting)
        except BaseException as error:
            if is_cancelled():
                raise  # the worker itself is cancelled
            text = f"the worker failed while running the job:\n{describe(error)}"
            self.unreported.add(Ended(job, Status.FAILED, text))
        finally:
            del self.attempts[job.id, job.claim_id]
            self._leave_slot()

    def _note_start(self, waiting: Waiting) -> None:
        if joblog.logs_starts():
            joblog.note_start(waiting.job)
        if self.observer is not None:
            self.observer.note_start(waiting.job, time.monotonic() - waiting.since)

    def _leave_slot(self) -> None:
        self.runs += 1
        if self._emptied is not None and not self.in_hand:
            self._emptied.set()
        self._note_ended()

    # ------------------------------------------------------------------ reporting

    def take_ended(self, *, everything: bool = False) -> list[Outcome]:
        """Take the outcomes that may be reported now, or all of them."""
        outcomes = self.unreported.take(everything=everything)
        if self._resource_locks is None:
            return outcomes
        return [self._resource_locks.judge(each) for each in outcomes]

    def release_resources(self, outcomes: list[Outcome]) -> None:
        """Release the resources of these jobs, since their ends are stored."""
        if self._resource_locks is not None:
            release = self._resource_locks.release(outcomes)
            if release is not None:
                self._slots.start(release)

    async def close(self) -> None:
        if self._resource_locks is not None:
            await self._resource_locks.close()

    def find_unknown(self, claims: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
        """Return the claims that neither run, nor wait for a slot, nor wait to be reported.

        After `close` there are none: abandoned jobs are still ours until the worker unregisters.
        """
        if self._is_closed:
            return set()
        others = set(claims) - self.attempts.keys()
        others -= {(job.id, job.claim_id) for job, _ in self._slots.waiting}
        return others - self.unreported.claims() if others else others

    # ------------------------------------------------------------------ ending runs

    def watch_deadlines(self, blocked: float) -> None:
        """Ask runs to end if their timeout has passed, and log those that continue.

        `blocked`: the seconds since the event loop last turned. Because it may be blocked, another
        thread calls this.
        """
        for attempt in list(self.attempts.values()):
            if attempt.enforce_deadline():
                why = _why_it_goes_on(attempt, loop_is_blocked=blocked > BLOCKED_SECONDS)
                joblog.note_overdue(attempt.job, why)

    def abort(self, job_ids: list[int]) -> None:
        """End these jobs for good, at an operator's request."""
        reason = "an operator asked to abort the job"
        for attempt in list(self.attempts.values()):
            if attempt.job.id in job_ids:
                attempt.abort(reason)
        if any(job.id in job_ids for job, _ in self._slots.waiting):
            waiting = self._slots.take_waiting()
            for job, _ in waiting:
                if job.id in job_ids:
                    self.unreported.add(Ended(job, Status.ABORTED, reason))
            self._slots.add(each for each in waiting if each.job.id not in job_ids)
            self._note_ended()

    def give_back(self, reason: str) -> None:
        """End all runs but not their jobs, which go back to their lanes."""
        for attempt in list(self.attempts.values()):
            attempt.end_run(reason)

    def give_back_for_good(self, reason: str) -> None:
        """End all runs, and start no more."""
        self._is_closed = True
        self.take_waiting()
        self.give_back(reason)

    async def wait_until_empty(self) -> None:
        """Wait until no attempt runs or waits for a slot."""
        self._emptied = anyio.Event()
        if self.in_hand:
            await self._emptied.wait()

    def abandon(self) -> None:
        """Abandon the threads that keep running."""
        for attempt in list(self.attempts.values()):
            attempt.abandon()

    # ------------------------------------------------------------------ waiting for a slot

    @property
    def waiting_since(self) -> float | None:
        """Return when the longest-waiting job was claimed, or None if none waits for a slot."""
        return self._slots.waiting[0].since if self._slots.waiting else None

    def take_waiting(self) -> list[Job]:
        return [job for job, _ in self._slots.take_waiting()]


def _note_seconds(outcome: Outcome, seconds: float) -> Outcome:
    return outcome._replace(details=outcome.details._replace(seconds=seconds))


def _why_it_goes_on(attempt: Attempt, *, loop_is_blocked: bool) -> str:
    if not attempt.task.is_async:
        return "a thread cannot be stopped; the task must check context.should_abort()"
    if loop_is_blocked:
        return "the event loop is blocked, so nothing can be cancelled"
    return "it was cancelled but continues"
