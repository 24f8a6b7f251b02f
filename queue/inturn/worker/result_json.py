"""What a task returned, as the JSON text that is stored."""

from inturn import arguments
from inturn.model import Job
from inturn.worker import joblog


def encode(job: Job, value: object, max_bytes: int) -> str | None:
    """Return the JSON text of a value, or log a warning and return None.

    A job that has done its work never fails because of its return value.
    """
    try:
        return arguments.encode_value("result", value, max_bytes)
    except Exception as error:  # even the value's own methods may fail
        joblog.note_not_stored(job, _text(error))
        return None


def check_stored(job: Job, value: object, stored: str | None, max_bytes: int) -> None:
    """Warn if the task returned a value that its own transaction has not stored."""
    text = None if value is None else encode(job, value, max_bytes)
    if text is not None and text != stored:
        joblog.note_not_stored(job, "the task's own transaction had already ended the job")


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:
        return type(error).__name__
