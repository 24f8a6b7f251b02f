"""Stores the progress of running jobs: the newest report of each attempt, at intervals."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from inturn.errors import ConnectorException, DatabaseBusy, DatabaseUnavailable
from inturn.model import ProgressReport
from inturn.operations.engine import progress
from inturn.worker.connection import WorkerConnection

logger = logging.getLogger(__name__)
PAUSE = 1.0  # seconds between two statements, except for attempts that have ended


class ProgressReports:
    """Progress reports that the server has not stored yet, by fence.

    Tasks call `note` from their own threads. Each step there is a single dict operation, so no lock
    is needed. Everything else happens in the event loop.
    """

    def __init__(self, connection: WorkerConnection, reported: Callable[[], None]) -> None:
        self._connection = connection
        self._reported = reported
        self._loop: asyncio.AbstractEventLoop | None = None
        self._newest: dict[int, ProgressReport] = {}
        self._has_called = False  # the event loop knows, or will know, that there is something
        self._due_at = 0.0
        self._is_busy = False  # another session's lock was in the way

    def __len__(self) -> int:
        return len(self._newest)

    def in_this_loop(self) -> "ProgressReports":
        """Note which event loop the worker runs in. Call it before the first `note`."""
        self._loop = asyncio.get_running_loop()
        return self

    def note(self, report: ProgressReport) -> None:
        """Keep this report until it is stored. It replaces an earlier one. Never waits."""
        self._newest[report.fence] = report
        if not self._has_called and self._loop is not None:
            self._has_called = True
            with suppress(RuntimeError):  # the loop is closed, but a thread runs on
                self._loop.call_soon_threadsafe(self._reported)

    def until_due(self) -> float:
        """Return the seconds until something may be stored, or infinity if there is nothing."""
        return max(0.0, self._due_at - time.monotonic()) if self._newest else math.inf

    async def store_all(self) -> None:
        """Store all reports. Raise DatabaseUnavailable if the database is away."""
        self._due_at, self._is_busy = time.monotonic() + PAUSE, False
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
            self._due_at, self._is_busy = time.monotonic() + PAUSE, True
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
        self._forget(reports)

    def _forget(self, reports: list[ProgressReport]) -> None:
        """Forget these reports, but no newer ones."""
        for report in reports:
            newest = self._newest.pop(report.fence)
            if newest is not report:
                self._newest.setdefault(report.fence, newest)
