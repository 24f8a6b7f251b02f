"""What to do when a call of the worker fails: how long to wait, and when to give up."""

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
    WrongCell,
)
from inturn.operations.engine import maintenance
from inturn.worker.retrying import OUTAGE_PAUSES, Backoff, FailureLog
from inturn.worker.state import LoopState
from inturn.worker.unreported import LONGEST_PAUSE

logger = logging.getLogger(__name__)
BUSY_PAUSES = 0.02, 1.0  # seconds before the next try if another session's lock is in the way


class Failures:
    """Counts consecutive failed calls, and waits before the next one."""

    def __init__(self, state: LoopState) -> None:
        self._state = state
        self.is_database_away = False  # or it refuses calls; reset by recovery
        self._away_since = 0.0
        self._failing_since = 0.0  # when the calls began to fail
        self.last: InturnError | None = None  # of a call that will be retried, until an answer
        self.persist = False  # no claim or report has succeeded since the last failure
        self._outages = Backoff(*OUTAGE_PAUSES)
        self._locked_out = Backoff(*BUSY_PAUSES)
        self._refusals = FailureLog(logger, "database.refused")

    @property
    def trouble(self) -> str | None:
        """Return why the database refuses calls, if it has done so for a heartbeat interval.

        Outages do not count: during one, no heartbeat could report it.
        """
        error = self.last
        if error is None or (isinstance(error, DatabaseUnavailable) and error.connection_lost):
            return None
        failing = time.monotonic() - self._failing_since
        return str(error) if failing >= self._state.options.update_heartbeat_interval else None

    # ------------------------------------------------------------------ what works again

    def note_turn(self) -> None:
        """Note that no lock was in the way of the last call."""
        if self._locked_out.failures:
            self._locked_out.reset()
            self.persist = self._outages.failures > 0

    def note_answer(self, *, is_stored: bool = False) -> None:
        """Note that a claim or a report has succeeded, so the database is back if it was away.

        `is_stored`: it was a report. While `last` is None, there is nothing to note.
        """
        if self._outages.failures:
            logger.info("database.back: the worker continues")
            self._outages.reset()
            self._refusals.forget()
            self.persist = self._locked_out.failures > 0
        # Not after a claim while outcomes wait: the reports may be what the database refuses.
        if is_stored or not self._state.running.unreported:
            self.last = None

    # ------------------------------------------------------------------ what fails

    async def wait_after(self, error: InturnError) -> None:
        """Wait before the next try.

        Raise DatabaseUnavailable if the database has been away for longer than `db_grace`. Raise
        SchemaMismatch if the schema belongs to another version, and WrongCell if it is not the
        cell any more, since waiting cannot help.
        """
        match error:
            case DatabaseBusy():
                await self._wait_for_lock(error)
                return
            case WrongCell():
                raise error
            case SchemaMismatch():  # or it is missing, for example while a backup is restored
                with suppress(ConnectorException):  # the database may be away now
                    connection = self._state.connection
                    await connection.run(maintenance.check_unless_absent(connection.schema))
        self._note_outage(error)
        pause = self._outages.next()
        if isinstance(error, DatabaseUnavailable):
            logger.warning("database.lost: %s; next try in %.1f s", error, pause)
        else:  # unexpected, but if it ended one worker, none would be left once the cause is gone
            self._refusals.note(error, pause)
        await anyio.sleep(pause)

    def note_refusal(self, error: InturnError) -> None:
        """Note that the database refuses to store the ends of some jobs, and the worker goes on."""
        if self.last is None:
            self._failing_since, self.last = time.monotonic(), error
        self._refusals.note(error, LONGEST_PAUSE)

    async def _wait_for_lock(self, error: DatabaseBusy) -> None:
        """Wait until a lock on a table may be gone. The call had no effect."""
        # It may have been a claim, for which producers have already notified us.
        self._state.wakeups.expect_jobs()
        self._note_failure(error)
        pause = self._locked_out.next()
        if pause > BUSY_PAUSES[1] / 2:
            logger.warning("database.busy: %s; next try in %.1f s", error, pause)
        await anyio.sleep(pause)

    def _note_outage(self, error: InturnError) -> None:
        """Note that the outcome of the last call may be unknown."""
        self._note_failure(error)
        now = time.monotonic()
        if not self.is_database_away:
            self.is_database_away, self._away_since = True, now
        grace = self._state.options.db_grace
        if grace is not None and now - self._away_since >= grace:
            raise grace_is_over(grace, error) from error

    def _note_failure(self, error: InturnError) -> None:
        if self.last is None:
            self._failing_since = time.monotonic()
        self.last, self.persist = error, True


def grace_is_over(grace: float, error: InturnError) -> DatabaseUnavailable:
    """Return the error that ends a worker after too long an outage."""
    return DatabaseUnavailable(
        f"The database was away for longer than db_grace ({grace:g} s): {error}"
    )


async def patiently(
    step: Callable[[], Awaitable[object]],
    grace: float | None,
    is_told_to_end: Callable[[], bool] = lambda: False,
) -> None:
    """Run a step, and retry for `grace` seconds while the database is away or refuses it.

    If `grace` is None, raise the error at once, since the address may be wrong. Do so too once the
    worker is told to end.
    """
    until = time.monotonic() + (grace or 0.0)
    pauses = Backoff(*OUTAGE_PAUSES)
    while True:
        try:
            await step()
            return
        except ConnectorException as error:  # it is away, or refuses the call
            if grace is None or is_told_to_end():
                raise
            left = until - time.monotonic()
            if left <= 0:
                raise grace_is_over(grace, error) from error
            pause = min(pauses.next(), left)
            logger.warning("database.away: %s; next try in %.1f s", error, pause)
            await anyio.sleep(pause)
