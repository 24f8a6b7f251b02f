"""Jobs come into being."""

from collections.abc import Sequence

from inturn.model import NewJob
from inturn.operations import Operation, Statement

DEFER = """
SELECT id FROM {schema}.defer_jobs(
    %s::text[], %s::text[]::jsonb[], %s::text[], %s::text[], %s::int[], %s::timestamptz[], %s::interval[],
    %s::text[]::{schema}.retry_policy[], %s::text[]::{schema}.failure_policy[]
)
"""


def defer_jobs(jobs: Sequence[NewJob]) -> Operation[list[int]]:
    """Their ids, in the order given. No statement for no jobs."""
    if not jobs:
        return []
    rows = yield Statement(
        DEFER,
        [
            [job.task_name for job in jobs],
            [job.args for job in jobs],
            [job.queue for job in jobs],
            [job.lock for job in jobs],
            [job.priority for job in jobs],
            [job.schedule_at for job in jobs],
            [job.schedule_in for job in jobs],
            [job.on_retry.value for job in jobs],
            [job.on_failure.value for job in jobs],
        ],
    )
    return [id for (id,) in rows]
