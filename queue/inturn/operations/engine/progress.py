"""Progress of running jobs, as they report it."""

from collections.abc import Sequence

from inturn.model import ProgressReport
from inturn.operations import Operation, Statement, get_value

REPORT = """
SELECT {schema}.report_progress(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[])
"""
PRUNE = "SELECT {schema}.prune_progress(%s, %s)"


def report_progress(reports: Sequence[ProgressReport]) -> Operation[None]:
    """Store the reports of attempts at different jobs."""
    yield Statement(REPORT, [list(column) for column in zip(*reports, strict=True)])


def prune_progress(after: int, limit: int) -> Operation[int]:
    """Delete progress of jobs that are gone. Return where to continue, 0 for the start."""
    return (yield from get_value(PRUNE, after, limit)) or 0
