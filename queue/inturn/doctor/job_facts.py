"""What is stored with a job, as people see it."""

from collections.abc import Sequence
from datetime import timedelta

from inturn.formatting import exact
from inturn.model import StoredJob

REPEATED = ("limit", "group", "timeout")  # by the command that defers a job again
FACTS = ("priority", "queueing_lock", *REPEATED, "batch", "fence")


def list_facts(job: StoredJob, names: Sequence[str] = FACTS) -> list[tuple[str, str]]:
    """Return the title and the text of each of these that the job has."""
    return [
        (name.replace("_", " "), exact(value) if isinstance(value, timedelta) else str(value))
        for name in names
        if (value := getattr(job, name)) is not None
    ]
