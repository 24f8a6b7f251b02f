"""When a smart lock may be taken from its holder."""

import math
from dataclasses import dataclass
from functools import cached_property

from inturn.locks.redis.scripts import milliseconds


@dataclass(frozen=True)
class Policy:
    """When a lock may be taken from its holder, in seconds. None means never."""

    # A lock of our own host whose process is dead: at once, or with its life cut to this.
    same_host: float | None = 0.0
    # The age from which another host's lock counts as stale.
    stale_after: float | None = None
    # Like same_host, for a stale lock.
    stale: float = 0.0

    @cached_property
    def words(self) -> bytes:
        """The policy in the form that take.lua reads."""
        same_host = -1 if self.same_host is None else milliseconds(self.same_host)
        stale_after = -1 if self.stale_after is None else math.ceil(self.stale_after)
        return b"%d %d %d" % (same_host, stale_after, milliseconds(self.stale))


DEFAULT = Policy()
JOB = Policy(same_host=300, stale_after=6 * 3600, stale=3600)
"""For background jobs, which can wait. Nothing is taken over at once."""
