"""Recovery: what the loop does first when something went wrong, or may have."""

import logging
from collections.abc import Awaitable, Callable
from uuid import UUID

from inturn.operations.engine import claim, finish
from inturn.worker import joblog
from inturn.worker.claiming.claiming import Claiming
from inturn.worker.failures import Failures
from inturn.worker.state import LoopState

logger = logging.getLogger(__name__)
Action = Callable[[], Awaitable[None]]


class Recovery:
    """Compares the server's view of this worker with what the worker has in hand.

    The `note_…` methods record what has happened. `next_action` returns what to do about it.
    """

    def __init__(
        self,
        state: LoopState,
        failures: Failures,
        claiming: Claiming,
    ) -> None:
        self._connection = state.connection
        self._registration = state.registration
        self._tenure_lasts = state.registration.tenure.lasts
        self._name = state.options.name
        self._running = state.running
        self._wakeups = state.wakeups
        self._failures = failures
        self._claiming = claiming
        self._is_lost = False  # others declared us dead
        self._beat_due = False
        self._look_due = False
        self._running.ask_before_start(self.may_start, self._tenure_lasts)

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
        if worker_id != self._registration.worker_id:
            return  # the loop already noticed, and we have a new id
        self._is_lost = True
        self._running.take_waiting()  # others run them
        self._wakeups.interrupt_wait()

    def note_unheard(self) -> None:
        """Note that the heartbeat has no connection, so the loop must store it over its own."""
        self._beat_due = True
        self._wakeups.interrupt_wait()

    def may_start(self) -> bool:
        """Return True if the jobs in hand are certainly ours. Otherwise, ask the server."""
        if self._tenure_lasts():
            return True
        if not self._beat_due:
            self.note_unheard()
        return False

    def note_look(self) -> None:
        """Soon check what the server reports about our jobs.

        An abort may have been requested, or a reply may have been lost.
        """
        self._look_due = True
        self._wakeups.interrupt_wait()

    # ------------------------------------------------------------------ what to do about it

    async def _register_again(self) -> None:
        logger.error(
            "worker.lost: others declared %s dead and took over its jobs; it registers again",
            self._name,
        )
        self._running.take_waiting()
        self._running.give_back("the worker was declared dead and the job taken over")
        await self._registration.register()
        self._claiming.note_registered()
        self._is_lost = False

    async def _resume(self) -> None:
        await self._put_back_unknown()
        # A server that answers may still refuse to write: it is read-only, or its disk is full.
        await self._beat()
        self._failures.is_database_away = False
        self._wakeups.expect_jobs()

    async def _beat(self) -> None:
        self._beat_due = False
        if not await self._registration.beat():
            self.note_lost(self._registration.worker_id)
        self._running.resume()

    async def _look_over_jobs(self) -> None:
        self._look_due = False  # first, so that a request that arrives now triggers another look
        try:
            if self._running.in_hand:
                requests = finish.list_abort_requests(self._registration.worker_id)
                self._running.abort(await self._connection.run(requests))
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
        worker_id = self._registration.worker_id
        claims = await self._connection.run(claim.list_claims_of_worker(worker_id))
        if not self._running.find_unknown(claims):
            return
        jobs = await self._connection.run(claim.list_jobs_of_worker(worker_id))
        lost = self._running.find_unknown((job.id, job.claim_id) for job in jobs)
        unknown = [job for job in jobs if (job.id, job.claim_id) in lost]
        busy = await self._connection.run(finish.put_back(unknown))
        for job in unknown:
            if job.id not in busy:
                joblog.note_found(job)
        self._wakeups.expect_jobs()
