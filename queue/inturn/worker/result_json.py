"""What a task returned, as it is stored."""

from inturn import arguments
from inturn.model import Job
from inturn.worker import joblog


def encode(job: Job, value: object, max_bytes: int) -> str | None:
    """JSON text, or None with a warning: a job that has done its work never fails for what it returned."""
    try:
        return arguments.encode_value("result", value, max_bytes)
    except Exception as error:  # the value may be of a class that breaks when it is looked at
        joblog.note_not_stored(job, _text(error))
        return None


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:
        return type(error).__name__
