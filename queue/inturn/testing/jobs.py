"""The jobs that a test sees."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from inturn.arguments import decode
from inturn.model import Progress, Status
from inturn.operations import Operation, Statement, get_value
from inturn.operations.changes.jobs import make_progress
from inturn.states import WAITING

ALL = """
SELECT id, status::text, queue, task, lock, priority, attempts, args::text, errors,
    scheduled_at, started_at, finished_at, fence, locks, shared, limit_key, group_key, batch_id,
    expires_at, progress
FROM {schema}.all_jobs ORDER BY id
"""
# The engine's functions look up tables on the search path.
SEARCH = "SELECT set_config('search_path', '{schema}, pg_temp', false)"
# A claim looks at a full limit every few seconds. The clock advances to the next token instead.
NEXT_DUE = """
SELECT min(due.at) FROM (
    SELECT scheduled_at FROM jobs WHERE status = 'scheduled'
    UNION ALL
    SELECT expires_at FROM jobs WHERE status <> 'doing' AND NOT was_attempted
    UNION ALL
    SELECT coalesce(look_at, stopped_until) FROM lanes
    UNION ALL
    SELECT CASE WHEN room.free <= 0 THEN room.next_at ELSE gates.look_at END
    FROM gates
    LEFT JOIN LATERAL gate_rule(gates.key) AS rule ON true
    CROSS JOIN LATERAL fold_key(gates, rule) AS room
    WHERE EXISTS (SELECT FROM gated_jobs WHERE gate = gates.key)
    UNION ALL
    SELECT until FROM pauses
    UNION ALL
    SELECT look_at FROM ends
    UNION ALL
    SELECT due_at FROM batch_events
) AS due(at) WHERE due.at > clock()
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """A job, live or finished. `attempts` counts the attempts that have started.

    write.defer(letter="a")
    [job] = queue.jobs()
    assert job.args == {"letter": "a"} and job.is_waiting
    """

    id: int
    status: Status
    queue: str
    task: str
    lock: str | None
    priority: int
    attempts: int
    args: dict[str, Any]
    errors: list[dict[str, Any]]
    scheduled_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    fence: int | None
    locks: list[str] | None  # all of them, if it has several or shares one
    shared: list[str] | None
    limit: str | None
    group: str | None
    batch: int | None
    expires_at: datetime | None
    progress: Progress | None

    @property
    def lanes(self) -> list[str]:
        """All of its locks."""
        return self.locks or ([] if self.lock is None else [self.lock])

    @property
    def is_waiting(self) -> bool:
        """True if the job has yet to start or restart."""
        return self.status in (*WAITING, Status.CLAIMED)

    def __str__(self) -> str:
        lane = "".join(f', lock "{lock}"' for lock in self.lanes)
        return f"job {self.id} {self.task}({format_args(self.args)}){lane}, {self.status}"


def all_jobs() -> Operation[list[Seen]]:
    """Return all jobs, in the order in which they were deferred."""
    rows = yield Statement(ALL)
    return [_see(row) for row in rows]


def _see(row: Sequence[Any]) -> Seen:
    cells = list(row)
    cells[1], cells[7] = Status(cells[1]), decode(cells[7])
    cells[-1] = make_progress(cells[-1])
    return Seen(*cells)


def next_due() -> Operation[datetime | None]:
    """Return the next time that may make a job ready, such as its due time or a token, or None.

    It needs its own connection, since it sets the search path.
    """
    yield Statement(SEARCH)
    due: datetime | None = yield from get_value(NEXT_DUE)
    return due


def format_args(args: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in args.items())
