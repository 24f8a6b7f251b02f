"""Kinds of rows of which there can be many, and what an operation reads beside them."""

from types import GeneratorType
from typing import LiteralString, TypeVar

from inturn.cli.database import Database
from inturn.operations import Operation
from tests.sql.test_growth import GROW, Bench

T = TypeVar("T")
SMALL, LARGE = 12_000, 60_000  # the largest bound of a check is 10,000
# A worker runs a thousand jobs, not a hundred thousand.
KINDS: dict[str, list[LiteralString]] = {
    kind: statements for kind, statements in GROW.items() if kind != "running jobs"
} | {
    "halted lanes": [
        "INSERT INTO lanes (lock, since, stopped, stopped_at, stopped_by, failed_job_id) "
        "SELECT 'lane ' || n, now(), 'halted', now(), 'me', -n FROM numbers",
        "INSERT INTO finished_jobs (id, created_at, finished_at, status, on_retry, on_failure,"
        "  priority, attempts, queue, task, lock, args, errors, fence) "
        "SELECT -n, now(), now(), 'failed', 'hold', 'halt', 0, 1, 'default', 't', 'lane ' || n,"
        """  '{}', '[{"error": "boom"}]', 0 FROM numbers""",
    ],
    # Those in front look whether one of the others goes first.
    "jobs of several lanes": [
        "INSERT INTO jobs (created_at, status, task, lock) "
        "SELECT now(), 'todo', 't', 'hot' FROM generate_series(1, 10)",
        """
        WITH new AS (
            INSERT INTO jobs (created_at, status, task, lock, locks)
            SELECT now(), 'blocked', 't', 'a', '{a,hot}' FROM numbers
            RETURNING id
        )
        INSERT INTO waits (lock, priority, id) SELECT 'hot', 0, id FROM new
        """,
    ],
    # Long keys, so that the trees have their depth from the beginning.
    "keys of limits": [
        "INSERT INTO gates (key) SELECT repeat('key ', 15) || n FROM numbers",
        "INSERT INTO jobs (created_at, status, task, limit_key) "
        "SELECT now(), 'limited', 't', repeat('key ', 15) || n FROM numbers",
    ],
    "batches that nobody closes": [
        "INSERT INTO batches (name, opened_at, total) "
        "SELECT 'b', now() - interval '2 hours', 1 FROM numbers",
        "INSERT INTO batch_gates (batch_id) SELECT n FROM numbers",
        "INSERT INTO finished_jobs (id, created_at, finished_at, status, on_retry, on_failure,"
        "  priority, attempts, queue, task, args, errors, fence, batch_id) "
        "SELECT -n, now() - interval '2 hours', now(), 'failed', 'hold', 'halt', 0, 1, 'default',"
        "  't', '{}', '[]', 0, n FROM numbers",
    ],
    # No worker runs, so none of them becomes ready.
    "due jobs": [
        "INSERT INTO jobs (created_at, status, task, lock, scheduled_at) "
        "SELECT now(), 'scheduled', 't', 'busy', now() - interval '1 minute' FROM numbers"
    ],
    "fenced resources": ["INSERT INTO fences_seen SELECT 'resource ' || n, 0 FROM numbers"],
}


class Recorder(Database):
    """Runs operations, and counts the rows and pages that each of them meets."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench.connection, "inturn")
        self._counter = bench.counter
        self.costs: dict[str, int] = {}

    def run(self, operation: Operation[T]) -> T:
        with self._counter.count() as work:
            result = super().run(operation)
        assert isinstance(operation, GeneratorType)
        name = operation.__name__
        self.costs |= {f"rows of {name}": work.rows, f"pages of {name}": work.pages}
        return result
