"""Whether and when a failed job is tried again. Pure: no clock, no database."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from inturn.errors import BadArgument
from inturn.model import Job

LONGEST = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """Try again, this much later."""

    retry_in: timedelta = timedelta(0)


class BaseRetryStrategy(ABC):
    """Subclass it to decide by the exception and the job. None: the job has failed for good."""

    @abstractmethod
    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None: ...


class RetryStrategy(BaseRetryStrategy):
    """Wait `wait + linear_wait × n + exponential_wait ** (n + 1)` seconds before the retry after n earlier attempts."""

    def __init__(
        self,
        *,
        max_attempts: int | None = None,
        wait: float = 0,
        linear_wait: float = 0,
        exponential_wait: float = 0,
        retry_exceptions: Iterable[type[BaseException]] | None = None,
    ) -> None:
        for name, value in [("wait", wait), ("linear_wait", linear_wait), ("exponential_wait", exponential_wait)]:
            if value < 0:
                raise BadArgument(name, f"{value} is negative; give the seconds to wait")
        self.max_attempts = max_attempts
        self.wait = wait
        self.linear_wait = linear_wait
        self.exponential_wait = exponential_wait
        self.retry_exceptions = tuple(retry_exceptions) if retry_exceptions is not None else None

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        if self.max_attempts is not None and job.attempts >= self.max_attempts:
            return None
        if self.retry_exceptions is not None and not isinstance(exception, self.retry_exceptions):
            return None
        return RetryDecision(self.delay(job.attempts))

    def delay(self, attempts: int) -> timedelta:
        try:
            grown = self.exponential_wait ** (attempts + 1) if self.exponential_wait else 0
            return min(LONGEST, timedelta(seconds=self.wait + self.linear_wait * attempts + grown))
        except OverflowError:
            return LONGEST


def strategy(retry: bool | int | BaseRetryStrategy) -> BaseRetryStrategy | None:
    """What a task's `retry=` means: False never, True for ever and at once, a number that many retries."""
    if isinstance(retry, BaseRetryStrategy):
        return retry
    if retry is False or retry == 0:
        return None
    return RetryStrategy(max_attempts=None if retry is True else retry)
