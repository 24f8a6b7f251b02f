"""What other threads may read about a running worker."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from inturn.worker.failures import Failures
from inturn.worker.heartbeat import Heartbeat
from inturn.worker.loop import Loop
from inturn.worker.state import LoopState


@dataclass
class Vitals:
    """Reads the parts of a worker, which need not know about it."""

    state: LoopState
    failures: Failures
    loop: Loop
    heartbeat: Heartbeat

    def __post_init__(self) -> None:
        self._turns = self.loop.turns
        self.last_turn = time.monotonic()

    def look_at_loop(self) -> None:
        """Note when the worker's loop last did something. Call it regularly."""
        if self._turns != self.loop.turns:
            self._turns = self.loop.turns
            self.last_turn = time.monotonic()

    @property
    def longest_pause(self) -> float:
        """Return how many seconds its loop may wait if there is nothing to do."""
        return self.state.options.abort_job_polling_interval

    @property
    def is_registered(self) -> bool:
        """Return True once the database knows the worker."""
        return hasattr(self.state.registration, "worker_id")

    @property
    def is_stopping(self) -> bool:
        """Return True if the worker accepts no more jobs."""
        return self.state.is_stopped

    @property
    def is_database_away(self) -> bool:
        """Return True if the worker's last call did not reach the database."""
        return self.failures.is_database_away

    @property
    def trouble(self) -> str | None:
        """Return why the database refuses a call of the worker, or None if it does not."""
        return self.state.registration.trouble

    @property
    def is_listening(self) -> bool | None:
        """Return True if notifications wake the worker, or None if it wants none."""
        return self.state.registration.listens()

    @property
    def slots(self) -> int:
        """Return how many jobs the worker can run at once."""
        return self.state.options.concurrency

    @property
    def busy_slots(self) -> int:
        """Return how many jobs it runs."""
        return len(self.state.running.attempts)

    @property
    def counted_wakeups(self) -> Mapping[str, int]:
        """Return what made the worker look for jobs, and how often."""
        return self.state.wakeups.counted

    @property
    def heartbeat_failures(self) -> int:
        """Return how many heartbeats could not be stored."""
        return self.heartbeat.failures
