"""The chores that a worker does for all workers, besides judging which ones are dead.

If one chore fails, the others are still done.
"""

import logging
import time
from collections.abc import Callable

import psycopg

from inturn.database.connector import Connector
from inturn.errors import DatabaseUnavailable
from inturn.formatting import span
from inturn.model import Status
from inturn.operations.engine import batches, maintenance, progress, workers
from inturn.worker.options import Options
from inturn.worker.retrying import Backoff, FailureLog

logger = logging.getLogger(__name__)
HOUR, MINUTE = 3600.0, 60.0
EACH_ROUND = 0.0
FIRST_PAUSE = 1.0  # seconds until a failed chore is retried
PROGRESS_A_ROUND = 500  # rows to look at
BATCHES_A_ROUND = 1000
ROLL_UP_SECONDS = 0.5  # in a round
ROLL_UP_PAGES = 250  # of the history, in a call: some ten thousand jobs
LANES_A_ROUND = 500  # the reconciler is only a safety net, so it takes small steps


class Chore:
    """A recurring piece of work.

    `work` returns the seconds until the chore is due again. While it fails, the pause grows to at
    most `rest` seconds.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[psycopg.Connection], float],
        rest: float,
        due_at: float = 0.0,  # by the monotonic clock
    ) -> None:
        self._work = work
        self._due_at = due_at
        self.failures = FailureLog(logger, f"maintenance.failed: {name}", reminder=0)
        self._backoff = Backoff(FIRST_PAUSE, rest)

    def make_due(self) -> None:
        """Make it due in the next round."""
        self._due_at = 0.0

    @property
    def retry_at(self) -> float:
        """Return when it is retried after a failure, or infinity if it has not failed."""
        return self._due_at if self._backoff.failures else float("inf")

    def do(self, connection: psycopg.Connection) -> None:
        """Do it if it is due.

        Raise the error if the connection is broken; only log it if the chore itself failed.
        """
        if time.monotonic() < self._due_at:
            return
        pause = self._backoff.next()
        self._due_at = time.monotonic() + pause
        try:
            self._due_at = time.monotonic() + self._work(connection)
        except Exception as error:  # whatever it is, the other chores must still be done
            if connection.closed or (
                isinstance(error, DatabaseUnavailable) and error.connection_lost
            ):
                raise
            self.failures.note(error, pause)
        else:
            self.failures.forget()
            self._backoff.reset()


class Chores:
    """All chores. `rescue` is separate because it comes first."""

    def __init__(self, connector: Connector, options: Options) -> None:
        # A chore that breaks the connection each time must leave time for judging.
        rest = 2 * options.stalled_worker_timeout
        self._run = connector.run
        self._keep = options.history
        self._is_default = options.has_default_history
        self._max_lost = options.max_lost_attempts
        self._is_counting = False  # the rollup has more to count
        self._last_lane = ""  # that was reconciled
        self._last_progress = 0  # the last job whose progress was looked at
        self.rescue = Chore("rescue", self._rescue, rest)
        # At startup a worker claims jobs first, since these chores are not urgent. But a worker
        # with `wait=False` may end before one interval has passed.
        later = time.monotonic() + options.update_heartbeat_interval if options.wait else 0.0
        self._others = [
            Chore("prepare history", self._prepare, rest),
            Chore("reconcile lanes", self._reconcile, rest, later),
            Chore("roll up history", self._roll_up, rest, later),
            Chore("prune history", self._prune, rest, later),
            Chore("prune progress", self._prune_progress, rest, later),
            Chore("prune batches", self._prune_batches, rest, later),
        ]

    def do_others(self, connection: psycopg.Connection) -> None:
        for chore in self._others:
            chore.do(connection)

    @property
    def trouble(self) -> str | None:
        troubles = (each.failures.trouble for each in (self.rescue, *self._others))
        return next(filter(None, troubles), None)

    def until_retry(self) -> float:
        """Return the seconds until a failed chore is retried, or infinity."""
        return min(each.retry_at for each in (self.rescue, *self._others)) - time.monotonic()

    def _rescue(self, connection: psycopg.Connection) -> float:
        rescued = self._run(workers.rescue_jobs(self._max_lost), connection)
        for job_id, worker_id, ended_as in rescued:
            job = f"job {job_id} of dead worker {worker_id}"
            if ended_as == Status.FAILED:
                most = self._max_lost
                logger.error("job.failed: %s: more than %s of its workers died", job, most)
            elif ended_as == Status.ABORTED:
                logger.warning("job.aborted: %s: it had been asked to abort", job)
            else:
                logger.warning("job.rescued: %s waits for its next attempt", job)
        return EACH_ROUND

    def _reconcile(self, connection: psycopg.Connection) -> float:
        self._last_lane = self._run(
            maintenance.reconcile_lanes(self._last_lane, LANES_A_ROUND), connection
        )
        return EACH_ROUND

    def _prepare(self, connection: psycopg.Connection) -> float:
        prepare = maintenance.prepare_history(maintenance.DAYS_AHEAD)
        return MINUTE if self._run(prepare, connection) is None else HOUR

    def _roll_up(self, connection: psycopg.Connection) -> float:
        """Count what has ended since the last time, for half a second at most."""
        until = time.monotonic() + ROLL_UP_SECONDS
        while self._run(maintenance.roll_up_history(ROLL_UP_PAGES), connection):
            if time.monotonic() > until:
                self._is_counting = True
                return EACH_ROUND
        self._is_counting = False
        return MINUTE

    def _prune(self, connection: psycopg.Connection) -> float:
        """Drop old days, a few at a time, so that workers can store the ends of jobs in between."""
        if self._keep is not None:
            prune = maintenance.prune_history
            while dropped := self._run(prune(self._keep, self._is_default), connection):
                logger.info(
                    "history.pruned: days dropped: %d; this worker keeps %s%s",
                    dropped,
                    span(self._keep),
                    " by default, longer if a live worker is set to" if self._is_default else "",
                )
            if dropped is None:  # a day is being read
                return MINUTE
        # A day is dropped only after it was counted.
        return EACH_ROUND if self._is_counting else HOUR

    def _prune_progress(self, connection: psycopg.Connection) -> float:
        """Delete leftover progress of jobs that are gone, some rows at a time."""
        self._last_progress = self._run(
            progress.prune_progress(self._last_progress, PROGRESS_A_ROUND), connection
        )
        return EACH_ROUND if self._last_progress else HOUR

    def _prune_batches(self, connection: psycopg.Connection) -> float:
        """Delete old batches a few at a time."""
        if self._keep is None:
            return HOUR
        pruned = self._run(
            batches.prune_batches(self._keep, BATCHES_A_ROUND, self._is_default), connection
        )
        return EACH_ROUND if pruned == BATCHES_A_ROUND else HOUR
