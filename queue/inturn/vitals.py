"""What other threads may know about a running worker."""

from collections.abc import Mapping
from typing import NamedTuple


class Vitals(NamedTuple):
    """A worker at one moment."""

    is_registered: bool  # the database knows it
    is_stopping: bool  # it accepts no more jobs
    is_database_away: bool  # its last call did not reach the database
    trouble: str | None  # why the database refuses a call
    last_turn: float  # when its loop last did something, by the monotonic clock
    longest_pause: float  # seconds that its loop may wait if there is nothing to do
    slots: int  # how many jobs it can run at once
    busy_slots: int
    is_listening: bool | None  # notifications wake it; None: it wants none
    counted_wakeups: Mapping[str, int]  # what made it look for jobs, and how often
    heartbeat_failures: int  # heartbeats that could not be stored
