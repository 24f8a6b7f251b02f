"""Does what is due beside the claims, which do it only if it is little.

Many jobs of one queue may expire, become due or open with their limit in the same instant. Claims
of other queues must not do all of this work.
"""

import logging
from collections.abc import Callable
from threading import Event

import psycopg

from inturn.database.connector import Connector
from inturn.operations.engine import maintenance
from inturn.worker.beside import ThreadBeside
from inturn.worker.retrying import OUTAGE_PAUSES, Backoff, FailureLog

logger = logging.getLogger(__name__)
A_CALL = 500  # jobs of each kind: some hundredths of a second
BUSY_PAUSE = 0.02  # seconds before the next try if another worker is at it
LONGEST_SLEEP = 3600.0  # `wake` ends it, and no connection is kept


class Settling(ThreadBeside):
    """Settles what is due whenever a claim has left some of it, until nothing is left.

    It connects only while there is something to do. The thread calls `settled` after each step,
    since there may be jobs to claim.
    """

    def __init__(self, connector: Connector, settled: Callable[[], object]) -> None:
        failures = FailureLog(logger, "maintenance.failed")
        super().__init__(connector, "maintenance", failures, Backoff(*OUTAGE_PAUSES))
        self._settled = settled
        self._is_due = Event()

    def wake(self) -> None:
        """Settle what is due now. May be called from any thread."""
        self._is_due.set()
        self.start()

    def stop(self) -> None:
        """Stop the thread, if it was started, and wait briefly for it."""
        self._end.set()
        self._is_due.set()
        super().stop()

    def run_once(self, connection: psycopg.Connection) -> float:
        """Settle some of what is due. Return the seconds until the next step."""
        self._is_due.clear()
        count = self._connector.run(maintenance.settle(A_CALL), connection)
        if count == 0:
            return LONGEST_SLEEP
        self._settled()  # at every step: another worker may have made our jobs ready
        return BUSY_PAUSE if count is None else 0.0

    def _wait(self, seconds: float) -> None:
        self._is_due.wait(seconds)
