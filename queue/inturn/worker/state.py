"""What the parts of a worker share."""

import math
import time
from dataclasses import dataclass

from inturn.worker.claiming.wakeups import Wakeups
from inturn.worker.connection import WorkerConnection
from inturn.worker.options import Options
from inturn.worker.registration import Registration
from inturn.worker.running_jobs import RunningJobs


@dataclass(eq=False)
class LoopState:
    """A worker's connection, its row, its jobs, and whether it is about to end."""

    connection: WorkerConnection  # of the loop; claims have another one
    registration: Registration
    options: Options
    running: RunningJobs
    wakeups: Wakeups
    is_stopped: bool = False  # it accepts no more jobs, neither claimed nor handed over
    aborted: str | None = None  # why it gives all its jobs back
    ends_at: float = math.inf  # when an aborted worker ends even if outcomes are unreported,
    may_abandon: bool = False  # ... and even if jobs still run

    def stop(self) -> None:
        """Accept no more jobs, and end once nothing runs any more and everything is reported."""
        self.is_stopped = self.registration.is_stopping = True
        self.wakeups.interrupt_wait()

    def abort(self, reason: str, ends_at: float, *, may_abandon: bool) -> None:
        """Give all jobs back, and end at `ends_at` even if not everything has been reported.

        `may_abandon`: even if something still runs.
        """
        self.aborted, self.ends_at, self.may_abandon = reason, ends_at, may_abandon
        self.wakeups.interrupt_wait()
        self.running.give_back_for_good(f"the worker was told to end ({reason})")

    @property
    def seconds_left(self) -> float:
        """Return the seconds until an aborted worker ends, or infinity if it was not aborted."""
        return max(0.0, self.ends_at - time.monotonic())

    @property
    def is_out_of_time(self) -> bool:
        """Return True if an aborted worker must end now."""
        return self.seconds_left == 0 and (self.may_abandon or not self.running.attempts)
