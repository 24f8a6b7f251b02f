"""The worker's loop. It recovers if something is wrong. Otherwise it reports, claims, and waits.

It makes one call to the server at a time. Only a claim runs beside it, and what the server says
about the worker's jobs is not looked at before that claim has ended.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio

from inturn.errors import (
    ConnectorException,
    DatabaseBusy,
    DatabaseUnavailable,
    InturnError,
    SchemaMismatch,
    WorkerLost,
)
from inturn.operations.engine import finish, maintenance
from inturn.worker.backoff import Backoff
from inturn.worker.claiming.claiming import Claiming
from inturn.worker.connection import WorkerConnection
from inturn.worker.failure_log import FailureLog
from inturn.worker.options import Options
from inturn.worker.recovery import Recovery
from inturn.worker.registration import Registration
from inturn.worker.reporting import Reporting
from inturn.worker.running_jobs import RunningJobs
from inturn.worker.start import OUTAGE_PAUSES

logger = logging.getLogger(__name__)
BUSY_PAUSES = 0.02, 1.0  # seconds before the next try if somebody's lock is in the way


class Loop:
    """Goes on until the worker has stopped and nothing is left to run or to report.

    A worker that does not wait for jobs also ends when nothing is left to do. `is_settled` returns
    False as long as another worker's jobs may soon be ours.
    """

    def __init__(
        self,
        connection: WorkerConnection,
        registration: Registration,
        options: Options,
        running: RunningJobs,
        claiming: Claiming,
        recovery: Recovery,
        is_settled: Callable[[], bool],
    ) -> None:
        self._connection = connection
        self._registration = registration
        self._options = options
        self._running = running
        self._claiming = claiming
        self._recovery = recovery
        self._reporting = Reporting(connection, registration, options, running, claiming)
        self._is_settled = is_settled
        self.turns = 0  # how often it has done something
        self._aborted: str | None = None
        self._ends_at = float("inf")  # when an aborted worker ends even if outcomes are unreported,
        self._may_abandon = False  # ... and even if jobs still run
        self._outages = Backoff(*OUTAGE_PAUSES)
        self._locked_out = Backoff(*BUSY_PAUSES)
        self._refusals = FailureLog(logger, "database.refused")

    # ------------------------------------------------------------------ from outside

    @property
    def aborted(self) -> str | None:
        """Return why the worker aborted its jobs, if it did."""
        return self._aborted

    @property
    def stopped(self) -> bool:
        """Return True if the worker takes on no more jobs."""
        return self._claiming.is_stopped

    def stop(self) -> None:
        """Take on no more jobs, and end when nothing runs any more and all is reported."""
        self._claiming.stop()
        self._claiming.interrupt_wait()

    def abort(self, reason: str, ends_at: float, *, may_abandon: bool) -> None:
        """Give all jobs back, and end at `ends_at` even if not everything has been reported.

        `may_abandon`: even if something still runs.
        """
        self._aborted, self._ends_at, self._may_abandon = reason, ends_at, may_abandon
        self._claiming.interrupt_wait()
        self._running.give_back_for_good(f"the worker is told to end ({reason})")

    @property
    def seconds_left(self) -> float:
        """Return the seconds until an aborted worker ends, infinity if it was not aborted."""
        return max(0.0, self._ends_at - time.monotonic())

    async def report_last(self) -> None:
        """Try once more to report what has ended. The worker takes over nothing in return."""
        self._claiming.stop()
        await self._reporting.report_last()

    # ------------------------------------------------------------------ the loop

    async def work(self) -> None:
        """Run until it is over."""
        try:
            while not self._is_over():
                self.turns += 1
                await self._run_once_or_recover()
        finally:
            await self._claiming.cancel()

    async def _run_once_or_recover(self) -> None:
        try:
            await self.run_once()
        except WorkerLost:
            self._recovery.note_lost(self._registration.worker_id)
        except DatabaseBusy as error:
            await self._wait_for_lock(error)
        except DatabaseUnavailable as error:
            self._recovery.note_outage(error)
            await self._wait_for_database(error)
        except SchemaMismatch as error:
            await self._wait_for_schema(error)
        except InturnError as error:
            await self._wait_after_refusal(error)
        else:
            if self._locked_out.failures:
                self._locked_out.reset()

    def run_once(self) -> Awaitable[None]:
        """Do the next thing that there is to do, or wait until there is one."""
        if self._claiming.has_ended:
            return self._take_claim()
        action = self._recovery.next_action()
        if action is None and self._claiming.should_put_back:
            action = self._put_back
        if action is not None:
            if self._claiming.is_under_way:  # the server may already call its jobs ours
                return self._claiming.wait_for_end(self._until_end())
            return action()
        if self._running.progress.is_due:
            return self._running.progress.store_all()
        report_is_due = self._running.unreported.is_due
        database_busy = self._locked_out.failures > 0 or self._outages.failures > 0
        if self._claiming.is_due(report_is_due=report_is_due, database_busy=database_busy):
            self._claiming.start()
        if report_is_due:
            return self._report()
        return self._wait()

    def _is_over(self) -> bool:
        if self._aborted and (self._recovery.is_database_away or self._is_out_of_time):
            return True  # others take over what we cannot end or report now
        if self._claiming.is_under_way or self._running.in_hand or self._running.unreported:
            return False
        if self.stopped:
            return True
        return not self._options.wait and self._claiming.found_nothing and self._is_settled()

    @property
    def _is_out_of_time(self) -> bool:
        return time.monotonic() >= self._ends_at and (
            self._may_abandon or not self._running.attempts
        )

    async def _take_claim(self) -> None:
        self._claiming.take_result()
        self._note_answer()
        if not self._running.unreported:  # else the reports may be what the database refuses
            self._recovery.note_answer()

    async def _report(self) -> None:
        await self._reporting.report()
        self._note_answer()
        self._recovery.note_answer()

    def _note_answer(self) -> None:
        """Note that a claim or a report has succeeded, so the database is back if it was away."""
        if self._outages.failures:
            logger.info("database.back: the worker goes on")
            self._outages.reset()
            self._refusals.forget()

    async def _put_back(self) -> None:
        """Let others run the jobs that were claimed ahead and find no slot."""
        self._claiming.note_put_back()
        jobs = self._running.take_waiting()
        try:
            busy = await self._connection.run(finish.put_back(jobs))
        except DatabaseBusy:
            self._running.start_all(jobs)
            raise
        self._running.start_all([job for job in jobs if job.id in busy])
        if busy:  # an open transaction keeps us from it
            await anyio.sleep(BUSY_PAUSES[0])

    def _wait(self) -> Awaitable[None]:
        limits = (
            self._running.unreported.until_due(),
            self._running.progress.until_due(),
            self._until_end(),
        )
        return self._claiming.wait(
            min((limit for limit in limits if limit is not None), default=None)
        )

    def _until_end(self) -> float | None:
        """Return the seconds until an aborted worker ends, None if there is nothing to wait for."""
        return (self.seconds_left or None) if self._aborted else None

    async def _wait_for_lock(self, error: DatabaseBusy) -> None:
        """Wait until a lock on a table may be gone. Nothing has happened so far."""
        # It may have been a claim, and producers have notified us already.
        self._claiming.expect_jobs()
        self._recovery.note_failure(error)
        pause = self._locked_out.next()
        if pause > BUSY_PAUSES[1] / 2:
            logger.warning("database.busy: %s; next try in %.1f s", error, pause)
        await anyio.sleep(pause)

    async def _wait_for_database(self, error: DatabaseUnavailable) -> None:
        pause = self._outages.next()
        logger.warning("database.lost: %s; next try in %.1f s", error, pause)
        await anyio.sleep(pause)

    async def _wait_after_refusal(self, error: InturnError) -> None:
        """Wait after an error that nobody has listed.

        It would end every worker, and none would be there when its cause is gone. As after an
        outage, it is open what has become of the call.
        """
        self._recovery.note_outage(error)
        pause = self._outages.next()
        self._refusals.note(error, pause)
        await anyio.sleep(pause)

    async def _wait_for_schema(self, error: SchemaMismatch) -> None:
        """Wait if the schema is gone, such as while a backup is restored.

        Raise SchemaMismatch if it is another version's, which no waiting changes.
        """
        with suppress(ConnectorException):  # it may be away by now
            await self._connection.run(maintenance.check_unless_absent(self._connection.schema))
        await self._wait_after_refusal(error)
