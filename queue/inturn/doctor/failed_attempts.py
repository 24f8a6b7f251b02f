"""The failed attempts of a job, from its stored errors."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from inturn.model import StoredJob


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    number: int
    started_at: datetime | None
    at: datetime | None
    worker: str | None
    error: str

    @property
    def lasted(self) -> timedelta | None:
        return self.at - self.started_at if self.at and self.started_at else None


def read_attempts(job: StoredJob) -> list[FailedAttempt]:
    """Return the failed attempts stored with the job, newest last."""
    stored: list[Any] = job.errors  # may be written by others, in any form
    return [
        FailedAttempt(
            error["attempt"] if isinstance(error.get("attempt"), int) else number,
            _read_time(error.get("started_at")),
            _read_time(error.get("at")),
            str(error["worker"]) if error.get("worker") else None,
            str(error.get("error") or ""),
        )
        for number, error in enumerate(stored, 1)
        if isinstance(error, dict)
    ]


def _read_time(text: Any) -> datetime | None:
    """Return the time in a job's error, or None if it is not in inturn's format."""
    try:
        at = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return at if at.tzinfo else None
