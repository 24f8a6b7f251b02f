"""The worker's loop: it recovers if something is wrong, and otherwise reports, claims and waits.

It makes one call to the server at a time; only claims run beside it. While a claim is in flight,
the loop ignores what the server reports about the worker's jobs.
"""

import time
from collections.abc import Awaitable, Callable

from inturn.errors import InturnError, WorkerLost
from inturn.worker.claiming.claiming import Claiming
from inturn.worker.failures import Failures
from inturn.worker.recovery import Recovery
from inturn.worker.reporting import Reporting
from inturn.worker.state import LoopState


class Loop:
    """Runs until the worker has stopped and nothing is left to run or to report.

    With `wait=False`, the worker also ends when nothing is left to do. `is_settled` returns False
    while another worker's jobs may soon become ours.
    """

    def __init__(
        self,
        state: LoopState,
        failures: Failures,
        claiming: Claiming,
        recovery: Recovery,
        is_settled: Callable[[], bool],
    ) -> None:
        self._state = state
        self._failures = failures
        self._claiming = claiming
        self._recovery = recovery
        self._reporting = Reporting(state, failures, claiming)
        self._is_settled = is_settled
        self.turned_at = time.monotonic()  # when it last did something

    async def work(self) -> None:
        """Run until there is nothing left to do."""
        try:
            while not self._is_over():
                self.turned_at = time.monotonic()
                await self._run_once_or_recover()
        finally:
            await self._claiming.cancel()

    async def report_last(self) -> None:
        """Try once more to report what has ended. No jobs are handed over in return."""
        self._state.is_stopped = True
        await self._reporting.report_last()

    async def _run_once_or_recover(self) -> None:
        try:
            await self.run_once()
        except WorkerLost:
            self._recovery.note_lost(self._state.registration.worker_id)
        except InturnError as error:
            await self._failures.wait_after(error)
        else:
            self._failures.note_turn()

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
