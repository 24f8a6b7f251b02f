"""When a lock may be taken from its holder."""

import math
from dataclasses import dataclass
from functools import cached_property

from inturn.locks.redis.scripts import milliseconds


@dataclass(frozen=True)
class Policy:
    """When a lock may be taken from its holder; seconds, None: never."""

    same_host: float | None = 0.0  # our dead former self's: at once, or after its life was shortened to this
    stale_after: float | None = None  # the age from which another host's lock is taken to be dead
    stale: float = 0.0  # as same_host, for such a lock

    @cached_property
    def words(self) -> bytes:
        """For the script that takes."""
        same_host = -1 if self.same_host is None else milliseconds(self.same_host)
        stale_after = -1 if self.stale_after is None else math.ceil(self.stale_after)
        return b"%d %d %d" % (same_host, stale_after, milliseconds(self.stale))


DEFAULT = Policy()
JOB = Policy(same_host=300, stale_after=6 * 3600, stale=3600)
"""For background jobs, which have time: nothing is stolen at once."""
