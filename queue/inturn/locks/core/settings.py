"""How long a lock lives, and how long a caller waits for it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

OnTimeout = Literal["raise", "proceed"]


@dataclass(frozen=True, slots=True)
class LockSettings:
    """How long a lock lives, and how long a caller waits for it, in seconds."""

    ttl: float | None = None
    timeout: float | None = None
    on_timeout: OnTimeout = "raise"
    renew: bool = True
    max_hold: float | None = None
    clock: Callable[[], float] = time.monotonic

    @property
    def first_ttl(self) -> float:
        """The time to live that an acquisition requests. Only for locks that have one."""
        assert self.ttl is not None
        return self.ttl if self.max_hold is None else min(self.ttl, self.max_hold)

    def __post_init__(self) -> None:
        check_ttl(self.ttl)
        if self.max_hold is not None and not self.max_hold > 0:
            raise ValueError(f"max_hold={self.max_hold}: must be more than 0 seconds, or None")
        if self.on_timeout not in ("raise", "proceed"):
            raise ValueError(f"on_timeout={self.on_timeout!r}: choose 'raise' or 'proceed'")


def check_ttl(ttl: float | None) -> None:
    """Raise ValueError unless `ttl` is None or greater than 0."""
    if ttl is not None and not ttl > 0:
        raise ValueError(f"ttl={ttl}: a time to live must be more than 0 seconds")
