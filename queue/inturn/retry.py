"""Names that programs written for procrastinate import."""

from inturn.tasks.retry import BaseRetryStrategy, RetryDecision, RetryStrategy
from inturn.tasks.retry import Retry as RetryValue

__all__ = ["BaseRetryStrategy", "RetryDecision", "RetryStrategy", "RetryValue"]
