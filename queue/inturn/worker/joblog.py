"""The log of a worker's jobs: stable event names, with the job's fields in `extra`."""

import logging
from collections.abc import Iterable
from datetime import timedelta

from inturn.logs import describe_job
from inturn.model import Again, Committed, Ended, Job, Outcome, Status
from inturn.worker.error_text import can_be_printed, name, task_frames

logger = logging.getLogger("inturn.jobs")


def fields(job: Job, action: str | None = None, seconds: float | None = None) -> dict[str, object]:
    return {
        **describe_job(job),
        **({"action": action} if action else {}),
        **({"duration": seconds} if seconds is not None else {}),
    }


def logs_starts() -> bool:
    """Return True if `note_start` would log anything."""
    return logger.isEnabledFor(logging.DEBUG)


def logs_successes() -> bool:
    """Return True if `note_outcomes` logs successes."""
    return logger.isEnabledFor(logging.INFO)


def note_start(job: Job) -> None:
    logger.debug("job.started: %s %s", job.id, job.task_name, extra=fields(job, "start_job"))


def note_outcomes(outcomes: Iterable[Outcome]) -> None:
    """Log how these jobs ended. Successes cost nothing if they are not logged."""
    logs_success = logs_successes()
    for outcome in outcomes:
        match outcome:
            case Ended(status=Status.SUCCEEDED) | Committed(error=None):
                if logs_success:
                    _log(logging.INFO, outcome, "succeeded", "job_success")
            case Ended(status=Status.CANCELLED, error=error):
                _log(logging.INFO, outcome, "skipped", "job_skipped", error)
            case Committed():
                _log_error(logging.ERROR, outcome, "error_after_commit", "job_error_after_commit")
            case Ended(status=Status.ABORTED):
                _log_error(logging.WARNING, outcome, "aborted", "job_aborted")
            case Ended():
                _log_error(logging.ERROR, outcome, "failed", "job_error")
            case Again(delay=delay, uncharged=True):
                _log(logging.INFO, outcome, "snoozed", "job_snoozed", f"for {_span(delay)}")
            case Again(delay=delay, at=at):
                when = f", again at {at}" if at else f", again in {_span(delay)}"
                _log_error(logging.WARNING, outcome, "retry_scheduled", "job_error_retry", when)


def _log(level: int, outcome: Outcome, event: str, action: str, more: str | None = None) -> None:
    job, seconds = outcome.job, outcome.details.seconds
    logger.log(
        level,
        "job.%s: %s %s%s%s",
        event,
        job.id,
        job.task_name,
        _lasted(seconds),
        f": {more}" if more else "",
        extra=fields(job, action, seconds),
    )


def _log_error(level: int, outcome: Outcome, event: str, action: str, when: str = "") -> None:
    """Log an attempt with its exception, which error trackers read from `exc_info`.

    A retry is expected, so it takes one line. Its traceback is logged only at DEBUG.
    """
    job, details = outcome.job, outcome.details
    error = details.exception
    # After a retry by hand, it has more attempts than its task allows.
    of = f" of {details.most}" if details.most and job.attempts < details.most else ""
    template = "job.%s: %s %s, attempt %s%s%s%s"
    arguments = [event, job.id, job.task_name, job.attempts + 1, of, _lasted(details.seconds), when]
    extra = fields(job, action, details.seconds)
    if error is None or not can_be_printed(error):
        logger.log(level, f"{template}\n%s", *arguments, outcome.error, extra=extra)
    else:
        is_expected = isinstance(outcome, Again) and not logger.isEnabledFor(logging.DEBUG)
        exc_info = None if is_expected else (type(error), error, task_frames(error))
        logger.log(
            level, f"{template}: %s", *arguments, name(error), exc_info=exc_info, extra=extra
        )


def _span(delay: timedelta) -> str:
    """Return a wait as `0.5 s`, `12 s` or `0:05:00`."""
    seconds = delay.total_seconds()
    return f"{seconds:.2g} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))


def _lasted(seconds: float | None) -> str:
    return "" if seconds is None else f", lasted {seconds:.3f} s"


def note_not_stored(job: Job, why: object) -> None:
    _warn(
        job,
        "job.result_not_stored: %s %s succeeded, but its result is not stored: %s",
        why,
    )


def note_lost(job: Job) -> None:
    _warn(job, "job.lost: %s %s was taken over while it ran here; its outcome is discarded")


def note_overdue(job: Job, why: str) -> None:
    _warn(job, "job.overdue: %s %s is still running after its timeout: %s", why)


def note_found(job: Job) -> None:
    _warn(
        job,
        "job.found: %s %s was claimed by this worker, which has no record of it; it is put back",
    )


def note_held(job: Job) -> None:
    _warn(
        job,
        "job.end_held: %s %s has ended, but its end cannot be stored yet, because of an open "
        "transaction or a refusal; the worker retries",
    )


def note_refused(job: Job, why: object) -> None:
    _warn(job, "job.end_refused: %s %s: the database refuses to store its end: %s", why)


def note_unclear(job: Job) -> None:
    _warn(
        job,
        "job.end_unclear: %s %s ended as the database went away; either its end was stored, or "
        "another worker took it over",
    )


def _warn(job: Job, message: str, *more: object) -> None:
    logger.warning(message, job.id, job.task_name, *more, extra=fields(job))
