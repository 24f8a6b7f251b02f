"""What programs import from here that were written for procrastinate."""

from inturn.tasks.retry import BaseRetryStrategy, RetryDecision, RetryStrategy
from inturn.tasks.retry import Retry as RetryValue

__all__ = ["BaseRetryStrategy", "RetryDecision", "RetryStrategy", "RetryValue"]
