"""The command that retries the job that a lane waits for."""

from collections.abc import Sequence

from inturn.formatting import argument
from inturn.model import Reason

SAY_SO = ("finished", "lane halted", "retry wait")  # reasons whose advice is to retry the job


def advise_retry(lock: str, reasons: Sequence[Reason]) -> str:
    """Return the command, after the condition that `explain` puts first."""
    return f"{find_condition(reasons)}queue lanes retry-head {argument(lock)}"


def find_condition(reasons: Sequence[Reason]) -> str:
    """Return the condition that `explain` puts before the command that retries the job."""
    advised = (each.unblock for each in reasons if each.reason in SAY_SO and each.unblock)
    return next(advised, "").partition("queue ")[0]
