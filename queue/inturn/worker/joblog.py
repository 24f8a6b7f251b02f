"""The log of a worker's jobs: stable event names, and the fields of the job in `extra`."""

import logging
from collections.abc import Iterable

from inturn.model import Again, Committed, Ended, Job, Outcome, Status

logger = logging.getLogger("inturn.jobs")


def fields(job: Job) -> dict[str, object]:
    """Return what `extra` says about a job."""
    return {
        "job_id": job.id,
        "task": job.task_name,
        "queue": job.queue,
        "lock": job.lock,
        "attempt": job.attempts + 1,
        "fence": job.fence,
    }


def logs_starts() -> bool:
    """Return True if `note_start` would log anything."""
    return logger.isEnabledFor(logging.DEBUG)


def note_start(job: Job) -> None:
    logger.debug("job.started: %s %s", job.id, job.task_name, extra=fields(job))


def note_outcomes(outcomes: Iterable[Outcome]) -> None:
    """Log how these jobs have ended. Successes cost nothing while nobody wants to know of them."""
    logs_success = logger.isEnabledFor(logging.INFO)
    for outcome in outcomes:
        match outcome:
            case Ended(status=Status.SUCCEEDED) | Committed(error=None) if not logs_success:
                pass
            case _:
                _note_outcome(outcome)


def _note_outcome(outcome: Outcome) -> None:
    job = outcome.job
    match outcome:
        case Ended(status=Status.SUCCEEDED) | Committed(error=None):
            logger.info("job.succeeded: %s %s", job.id, job.task_name, extra=fields(job))
        case Ended(status=Status.CANCELLED, error=error):
            logger.info("job.skipped: %s %s: %s", job.id, job.task_name, error, extra=fields(job))
        case Committed(error=error):
            logger.error(
                "job.error_after_commit: %s %s had finished already, in its own transaction\n%s",
                job.id,
                job.task_name,
                error,
                extra=fields(job),
            )
        case Ended(status=status, error=error):
            logger.error(
                "job.%s: %s %s\n%s", status, job.id, job.task_name, error, extra=fields(job)
            )
        case Again(delay=delay, uncharged=True):
            if logger.isEnabledFor(logging.INFO):
                logger.info(
                    "job.snoozed: %s %s for %s", job.id, job.task_name, delay, extra=fields(job)
                )
        case Again(delay=delay, at=at, error=error):
            logger.warning(
                "job.retry_scheduled: %s %s %s\n%s",
                job.id,
                job.task_name,
                f"at {at}" if at else f"in {delay}",
                error,
                extra=fields(job),
            )


def note_not_stored(job: Job, why: object) -> None:
    _warn(
        job,
        "job.result_not_stored: %s %s succeeded, but its result cannot be stored: %s",
        why,
    )


def note_lost(job: Job) -> None:
    _warn(job, "job.lost: %s %s was taken over while it ran here, so what it reported is refused")


def note_overdue(job: Job, why: str) -> None:
    _warn(job, "job.overdue: %s %s runs on past its timeout: %s", why)


def note_found(job: Job) -> None:
    _warn(
        job, "job.found: %s %s was claimed by this worker, which has no record of it; it goes back"
    )


def note_held(job: Job) -> None:
    _warn(
        job,
        "job.end_held: %s %s has ended, but an open transaction keeps that from being stored; "
        "the worker tries again",
    )


def note_refused(job: Job, why: object) -> None:
    _warn(job, "job.end_refused: %s %s: the database refuses to store how it ended: %s", why)


def note_unclear(job: Job) -> None:
    _warn(
        job,
        "job.end_unclear: %s %s ended as the database went away; "
        "its end was stored, or another worker has taken the job over",
    )


def _warn(job: Job, message: str, *more: object) -> None:
    logger.warning(message, job.id, job.task_name, *more, extra=fields(job))
