"""The worker's loop: it recovers if something is wrong, and otherwise reports, claims and waits.

It makes one call to the server at a time; only claims run beside it. While a claim is in flight,
the loop ignores what the server reports about the worker's jobs.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from uuid import UUID

from inturn.errors import InturnError, WorkerLost
from inturn.operations.engine import claim, finish
from inturn.worker import joblog
from inturn.worker.claiming.claiming import Claiming
from inturn.worker.failures import Failures
from inturn.worker.reporting import Reporting
from inturn.worker.state import LoopState

logger = logging.getLogger(__name__)
Action = Callable[[], Awaitable[None]]


@dataclass(eq=False)
class Loop:
    """Runs until the worker has stopped and nothing is left to run or to report.

    With `wait=False`, the worker also ends when nothing is left to do. `is_settled` returns False
    while another worker's jobs may soon become ours.
    """

    _state: LoopState
    _failures: Failures
    _claiming: Claiming
    _recovery: "Recovery"
    _is_settled: Callable[[], bool]
    turned_at: float = field(default_factory=time.monotonic)  # when it last did something

    def __post_init__(self) -> None:
        self._reporting = Reporting(self._state, self._failures, self._claiming)

    async def work(self) -> None:
        try:
            while not self._is_over():
                self.turned_at = time.monotonic()
                try:
                    await self.run_once()
                except WorkerLost:
                    self._recovery.note_lost(self._state.registration.worker_id)
                except InturnError as error:
                    await self._failures.wait_after(error)
                else:
                    self._failures.note_turn()
        finally:
            await self._claiming.cancel()

    async def report_last(self) -> None:
        """Try once more to report what has ended. No jobs are handed over in return."""
        self._state.is_stopped = True
        await self._reporting.report_last()

    def run_once(self) -> Awaitable[None]:
        """Do the next thing, or wait until there is something to do."""
        step = self._claiming.next_step(self._recovery.next_action())
        if step is not None:
            return step
        progress = self._state.running.progress
        until_progress = progress.until_due()
        if until_progress == 0:
            return progress.store_all()
        until_report = self._state.running.unreported.until_due()
        self._claiming.start_if_due(report_is_due=until_report == 0)
        if until_report == 0:
            return self._reporting.report()
        return self._claiming.wait(min(until_progress, until_report))

    def _is_over(self) -> bool:
        state = self._state
        if state.aborted and (self._failures.is_database_away or state.is_out_of_time):
            return True  # others take over what we cannot end or report now
        if self._claiming.is_under_way or state.running.in_hand or state.running.unreported:
            return False
        if state.is_stopped:
            return True
        return not state.options.wait and state.wakeups.idle and self._is_settled()


@dataclass(eq=False)
class Recovery:
    """Compares the server's view of this worker with what the worker has in hand.

    The `note_…` methods record what has happened. `next_action` returns what to do about it.
    """

    _state: LoopState
    _failures: Failures
    _claiming: Claiming
    _is_lost: bool = False  # others declared us dead
    _beat_due: bool = False
    _look_due: bool = False

    def __post_init__(self) -> None:
        lasts = self._state.registration.tenure.lasts
        self._state.running.ask_before_start(lasts, self.note_doubt)

    def next_action(self) -> Action | None:
        """Return what to do first, or None if nothing is wrong."""
        if self._is_lost:
            return self._register_again
        if self._failures.is_database_away:
            return self._resume
        if self._beat_due:
            return self._beat
        if self._look_due:
            return self._look_over_jobs
        return None

    # ------------------------------------------------------------------ what has happened

    def note_lost(self, worker_id: UUID) -> None:
        """Note that others declared the worker with this id dead."""
        if worker_id != self._state.registration.worker_id:
            return  # the loop already noticed, and we have a new id
        self._is_lost = True
        self._state.running.take_waiting()  # others run them
        self._state.wakeups.interrupt_wait()

    def note_unheard(self) -> None:
        """Note that the heartbeat has no connection, so the loop must store it over its own."""
        self._beat_due = True
        self._state.wakeups.interrupt_wait()

    def note_doubt(self) -> None:
        """Note that jobs in hand may be another worker's now, so the loop must ask the server."""
        if not self._beat_due:
            self.note_unheard()

    def note_look(self) -> None:
        """Soon check what the server reports about our jobs.

        An abort may have been requested, or a reply may have been lost.
        """
        self._look_due = True
        self._state.wakeups.interrupt_wait()

    # ------------------------------------------------------------------ what to do about it

    async def _register_again(self) -> None:
        logger.error(
            "worker.lost: others declared %s dead and took over its jobs; it registers again",
            self._state.options.name,
        )
        self._state.running.take_waiting()
        self._state.running.give_back("the worker was declared dead and the job taken over")
        await self._state.registration.register()
        self._claiming.note_registered()
        self._is_lost = False

    async def _resume(self) -> None:
        await self._put_back_unknown()
        # A server that answers may still refuse to write: it is read-only, or its disk is full.
        await self._beat()
        self._failures.is_database_away = False
        self._state.wakeups.expect_jobs()

    async def _beat(self) -> None:
        self._beat_due = False
        if not await self._state.connection.run(self._state.registration.beat()):
            self.note_lost(self._state.registration.worker_id)
        self._state.running.resume()

    async def _look_over_jobs(self) -> None:
        self._look_due = False  # first, so that a request that arrives now triggers another look
        try:
            if ids := self._state.running.list_ids():
                requests = finish.list_abort_requests(self._state.registration.worker_id, ids)
                self._state.running.abort(await self._state.connection.run(requests))
            # A call whose reply was lost may have kept running and committed only now.
            await self._put_back_unknown()
        except BaseException:
            self._look_due = True
            raise

    async def _put_back_unknown(self) -> None:
        """Put back the jobs that are ours but not in hand: the reply to their claim was lost.

        They are not started under that claim: after a failover, one of them may be a job that we
        have already run and whose end the server has lost. Two runs would then share a fence.
        """
        worker_id = self._state.registration.worker_id
        claims = await self._state.connection.run(claim.list_claims_of_worker(worker_id))
        if not self._state.running.find_unknown(claims):
            return
        jobs = await self._state.connection.run(claim.list_jobs_of_worker(worker_id))
        lost = self._state.running.find_unknown((job.id, job.claim_id) for job in jobs)
        unknown = [job for job in jobs if (job.id, job.claim_id) in lost]
        busy = await self._state.connection.run(finish.put_back(unknown))
        for job in unknown:
            if job.id not in busy:
                joblog.note_found(job)
        self._state.wakeups.expect_jobs()
