"""Whether, when and how a failed job is retried. Needs no clock and no database."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from random import Random
from typing import Any

from inturn import arguments
from inturn.errors import BadArgument
from inturn.model import Job

LONGEST = timedelta(days=365)
# The waits of `retry=5`: about 2, 4, 8, 16 and 32 seconds, and never more than an hour.
GROWING: Mapping[str, Any] = {"exponential_wait": 2, "max_wait": 3600, "jitter": 0.25}


@dataclass(frozen=True, slots=True, init=False)
class RetryDecision:
    """Retry the job at once, at a given time, or after a given time.

        RetryDecision(retry_in={"minutes": 5}, queue="patient", priority=-1)

    You can also change the job's priority, queue and lock. With another lock, the job leaves its
    lane, which continues without it, and joins the other one as if deferred there now. It keeps its
    id.
    """

    retry_at: datetime | None
    retry_in: timedelta | None
    priority: int | None
    queue: str | None
    lock: str | None

    def __init__(
        self,
        *,
        retry_at: datetime | None = None,
        retry_in: timedelta | Mapping[str, float] | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        if retry_at is not None and retry_in is not None:
            raise BadArgument("retry_at", "was given together with retry_in. Pass only one")
        put = object.__setattr__  # the class is frozen
        put(self, "retry_at", arguments.check_moment("retry_at", retry_at))
        put(self, "retry_in", arguments.check_span("retry_in", retry_in))
        put(self, "priority", None if priority is None else arguments.check_priority(priority))
        put(self, "queue", None if queue is None else arguments.check_queue(queue))
        put(self, "lock", arguments.check_lock(lock))

    def check(self, job: Job) -> None:
        """Raise BadArgument if the job cannot move to the other lane."""
        if self.lock is not None and job.locks is not None:
            raise BadArgument(
                "lock", "a job with several or shared locks cannot move to another lane"
            )


class BaseRetryStrategy(ABC):
    """Subclass it to decide by exception and job. None means that the job fails for good.

    class Patient(BaseRetryStrategy):
        def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
            if job.attempts < 5 and isinstance(exception, ConnectionError):
                return RetryDecision(retry_in={"minutes": 10}, queue="patient")
            return None

    @app.task(retry=Patient())
    def fetch(url: str) -> None: ...
    """

    @abstractmethod
    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """Return a decision for a failed attempt. `job.attempts` counts the earlier attempts."""


@dataclass(kw_only=True, repr=False, unsafe_hash=True)
class RetryStrategy(BaseRetryStrategy):
    """Retry after a wait that can grow with each attempt.

        @app.task(retry=RetryStrategy(max_attempts=8, exponential_wait=2, max_wait=60, jitter=0.5))
        def fetch(url: str) -> None: ...

    After n earlier attempts, it waits `wait + linear_wait × n + exponential_wait ** (n + 1)`
    seconds.

    max_attempts: the number of retries. None means no limit.
    max_wait: the longest wait in seconds.
    jitter: the largest fraction, from 0 to 1, by which the wait is randomly shortened.
    retry_exceptions: retry only after these exceptions.
    """

    max_attempts: int | None = None
    wait: float = 0
    linear_wait: float = 0
    exponential_wait: float = 0
    retry_exceptions: Iterable[type[BaseException]] | None = None
    max_wait: float | None = None
    jitter: float = 0
    random: Random | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.retry_exceptions is not None:
            if isinstance(self.retry_exceptions, type):
                raise BadArgument("retry_exceptions", "is a single exception. Put it in a list")
            self.retry_exceptions = tuple(self.retry_exceptions)
        waits = {
            "wait": self.wait,
            "linear_wait": self.linear_wait,
            "exponential_wait": self.exponential_wait,
            "max_wait": self.max_wait or 0,
        }
        for name, value in waits.items():
            if not value >= 0:  # written this way to catch NaN
                raise BadArgument(name, f"{value} is not a number of seconds. Use 0 or more")
        if not 0 <= self.jitter <= 1:
            raise BadArgument(
                "jitter", f"{self.jitter} is not a fraction. Use a number from 0 to 1"
            )

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """Return None after `max_attempts` earlier attempts, or for other exceptions."""
        if self.max_attempts is not None and job.attempts >= self.max_attempts:
            return None
        only = self.retry_exceptions
        if only is not None and not isinstance(exception, tuple(only)):
            return None
        return RetryDecision(retry_in=self.delay(job.attempts))

    def delay(self, attempts: int) -> timedelta:
        """Return how long to wait after this number of earlier attempts.

        assert RetryStrategy(exponential_wait=2).delay(3) == timedelta(seconds=16)
        """
        longest = LONGEST.total_seconds()
        if self.max_wait is not None:
            longest = min(longest, self.max_wait)
        try:
            grown = float(self.exponential_wait) ** (attempts + 1) if self.exponential_wait else 0
            seconds = min(longest, self.wait + self.linear_wait * attempts + grown)
        except OverflowError:
            seconds = longest
        random = self.random or Random()  # noqa: S311 (no secret depends on it)
        return timedelta(seconds=seconds * (1 - self.jitter * random.random()))

    def __repr__(self) -> str:
        settings = {each.name: getattr(self, each.name) for each in fields(self) if each.compare}
        given = (f"{name}={value!r}" for name, value in settings.items() if value not in (None, 0))
        return f"{type(self).__name__}({', '.join(given)})"


Retry = bool | int | BaseRetryStrategy | None  # what a task declares


def find_strategy(retry: Retry) -> BaseRetryStrategy | None:
    """Return the strategy for a task's `retry=`, or None for no retries.

    With a number, the waits grow, so that what was broken has time to recover.
    """
    if isinstance(retry, BaseRetryStrategy):
        return retry
    if retry is None or retry is False or retry == 0:
        return None
    if retry is True:
        return RetryStrategy()
    if type(retry) is not int or retry < 0:
        raise BadArgument(
            "retry", f"{retry!r} is not a number of retries. Pass a number, True or a RetryStrategy"
        )
    return RetryStrategy(max_attempts=retry, **GROWING)


def count_attempts(strategy: BaseRetryStrategy | None) -> int | None:
    """Return the maximum number of attempts of a job, or None if unlimited or unknown."""
    if strategy is None:
        return 1
    most = strategy.max_attempts if isinstance(strategy, RetryStrategy) else None
    return None if most is None else most + 1
