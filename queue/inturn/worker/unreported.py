"""What the server does not know yet: how jobs ended, and how far the running ones are."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from inturn.errors import ConnectorException, DatabaseBusy, DatabaseUnavailable
from inturn.model import Outcome, ProgressReport
from inturn.operations.engine import progress
from inturn.worker import joblog
from inturn.worker.connection import WorkerConnection
from inturn.worker.retrying import Backoff

logger = logging.getLogger(__name__)
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0  # seconds before a held outcome is retried
LOGGED_AFTER = 6  # failed tries, about a second
PROGRESS_PAUSE = 1.0  # seconds between two statements, except for attempts that have ended


class UnreportedOutcomes:
    """New outcomes, and outcomes that are held.

    An outcome is held and retried later if an open transaction of yours keeps the server from
    storing it. The others do not wait for it.
    """

    def __init__(self) -> None:
        self._new: list[Outcome] = []
        self._held: list[Outcome] = []
        self._held_until = 0.0
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)

    def __len__(self) -> int:
        return len(self._new) + len(self._held)

    def claims(self) -> set[tuple[int, str]]:
        return {(each.job.id, each.job.claim_id) for each in (*self._new, *self._held)}

    def until_due(self) -> float:
        """Return the seconds until there is something to report, or infinity."""
        if self._new:
            return 0.0
        return max(0.0, self._held_until - time.monotonic()) if self._held else math.inf

    def add(self, outcome: Outcome) -> None:
        self._new.append(outcome)

    def take(self, *, everything: bool = False) -> list[Outcome]:
        """Return the outcomes that are due, or all of them, and forget them."""
        outcomes, self._new = self._new, []
        if self._held and (everything or time.monotonic() >= self._held_until):
            outcomes, self._held = self._held + outcomes, []
        return outcomes

    def requeue(self, outcomes: Iterable[Outcome]) -> None:
        """Keep these in front of the others, because the report failed."""
        self._new[:0] = outcomes

    def hold(self, outcomes: Sequence[Outcome]) -> None:
        """Keep these for later, because open transactions keep the server from storing them.

        Call it after each report. No outcomes means that the held ones are now stored.
        """
        if outcomes:
            already_held = bool(self._held)  # until their own time, which these must not extend
            self._held += outcomes
            if already_held:
                return
            self._held_until = time.monotonic() + self._backoff.next()
            if self._backoff.failures == LOGGED_AFTER:
                for each in self._held:
                    joblog.note_held(each.job)
        elif self._backoff.failures and not self._held:
            self._backoff.reset()


class ProgressReports:
    """Progress reports that the server has not stored yet, by fence.

    Tasks call `note` from their own threads. Each step there is a single dict operation, so no lock
    is needed. Everything else happens in the event loop.
    """

    def __init__(self, connection: WorkerConnection, reported: Callable[[], None]) -> None:
        self._connection = connection
        self._reported = reported
        self._loop = asyncio.get_running_loop()
        self._newest: dict[int, ProgressReport] = {}
        self._has_called = False  # the event loop knows, or will know, that there is something
        self._due_at = 0.0
        self._is_busy = False  # another session's lock was in the way

    def __len__(self) -> int:
        return len(self._newest)

    def note(self, report: ProgressReport) -> None:
        """Keep this report until it is stored. It replaces an earlier one. Never waits."""
        self._newest[report.fence] = report
        if not self._has_called:
            self._has_called = True
            with suppress(RuntimeError):  # the loop is closed, but a thread runs on
                self._loop.call_soon_threadsafe(self._reported)

    def until_due(self) -> float:
        """Return the seconds until something may be stored, or infinity if there is nothing."""
        return max(0.0, self._due_at - time.monotonic()) if self._newest else math.inf

    async def store_all(self) -> None:
        """Store all reports. Raise DatabaseUnavailable if the database is away."""
        self._due_at, self._is_busy = time.monotonic() + PROGRESS_PAUSE, False
        await self._store(list(self._newest))

    async def store_ended(self, fences: Iterable[int]) -> None:
        """Store the last reports of these attempts."""
        # Otherwise each end would wait for the same lock.
        if not self._is_busy or self.until_due() == 0:
            await self._store([fence for fence in fences if fence in self._newest])

    async def _store(self, fences: list[int]) -> None:
        self._has_called = False  # before we look, so that whatever comes later is noticed
        reports = [self._newest[fence] for fence in fences]
        if not reports:
            return
        try:
            await self._connection.run(progress.report_progress(reports))
        except DatabaseBusy as error:
            self._due_at, self._is_busy = time.monotonic() + PROGRESS_PAUSE, True
            logger.debug("progress.late: %s", error)
            return
        except DatabaseUnavailable:
            raise
        except ConnectorException as error:
            if len(reports) > 1:  # find out which ones the database refuses
                for fence in fences:
                    await self._store([fence])
                return
            logger.warning("progress.refused: job %s: %s", reports[0].job_id, error)
        for report in reports:  # forget these, but no newer ones
            newest = self._newest.pop(report.fence)
            if newest is not report:
                self._newest.setdefault(report.fence, newest)
