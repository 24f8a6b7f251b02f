"""A worker on a connection, which makes each call of the hot path and counts what it does."""

from typing import Any, LiteralString

import psycopg

from tests.sql.counted import Counter

LANES = 600
AT_ONCE = 100

CLAIM: LiteralString = "SELECT id, claim_id FROM claim(%s, NULL, %s)"
FINISH: LiteralString = (
    "SELECT (next).id, (next).claim_id "
    "FROM finish(%s, NULL, %s, %s, %s, %s::job_status[], %s::jsonb[])"
)

Job = tuple[Any, ...]  # id, claim_id


class Worker:
    """One worker that takes a hundred jobs at a time, and counts what the calls do."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        # It stands still, or a slow machine would see lanes given up that a fast one keeps.
        connection.execute(
            "CREATE OR REPLACE FUNCTION clock() RETURNS timestamptz LANGUAGE sql STABLE "
            "AS $$ SELECT timestamptz '2026-01-01 00:00:00+00' $$"
        )
        self.id = self.register()
        self.rows: dict[str, int] = {}
        self.counter = Counter(connection)

    def query(self, statement: LiteralString, *parameters: object) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement, parameters or None).fetchall()

    def register(self) -> object:
        return self.query("SELECT register_worker('w', 'h', 1, NULL, 1)")[0][0]

    def analyse(self) -> None:
        self.connection.execute("VACUUM ANALYZE jobs, lanes, gates, finished_jobs, workers")

    def defer(self, count: int, *, lanes: bool = False, queues: int = 1, priority: int = 0) -> None:
        """Defer as many jobs, each a token, in as many lanes, or free and in turn in the queues."""
        self.connection.execute(
            "INSERT INTO jobs (created_at, status, task, lock, queue, priority) "
            "SELECT now(), 'todo', 't', CASE WHEN %s THEN 'lane ' || n END, "
            "%s || '-' || n %% %s, %s FROM generate_series(1, %s) AS n",
            [lanes, queues, queues, priority, count],
        )

    def defer_once(self, count: int, priority: int) -> None:
        self.connection.execute(
            "INSERT INTO jobs (created_at, status, task, queueing_lock, priority) "
            "SELECT now(), 'todo', 't', 'key ' || n, %s FROM generate_series(1, %s) AS n",
            [priority, count],
        )

    def defer_due(self, count: int, priority: int) -> None:
        self.connection.execute(
            "INSERT INTO jobs (created_at, status, task, scheduled_at, priority) "
            "SELECT now(), 'scheduled', 't', clock(), %s FROM generate_series(1, %s)",
            [priority, count],
        )

    def defer_limited(self, count: int, priority: int) -> None:
        """Defer jobs of ten keys with a rate that lets all of them start."""
        self.query("SELECT set_limit('key *', NULL, 1000000, interval '1 s', 1000)")
        self.connection.execute(
            "INSERT INTO jobs (created_at, status, task, limit_key, priority) "
            "SELECT now(), 'todo', 't', 'key ' || n %% 10, %s FROM generate_series(1, %s) AS n",
            [priority, count],
        )

    def fill(self) -> None:
        for _ in range(2):  # two calls: each job is a token
            self.defer(LANES, lanes=True)
        self.connection.execute(
            "INSERT INTO gates (key, refilled_at) SELECT 'limit:' || n, clock() "
            "FROM generate_series(1, %s) AS n ON CONFLICT DO NOTHING",
            [10 * LANES],
        )

    def counted(self, what: str, statement: LiteralString, *parameters: object) -> list[Job]:
        with self.counter.count() as work:
            rows = self.query(statement, *parameters)
        assert rows, f"{what} found nothing to do"
        self.rows[what] = work.rows
        return rows

    def claim(self, what: str, limit: int = AT_ONCE) -> list[Job]:
        return self.counted(what, CLAIM, self.id, limit)

    def finish(self, what: str, jobs: list[Job], want: int = AT_ONCE) -> list[Job]:
        rows = self.counted(
            what, FINISH, self.id, want, *split(jobs), ["succeeded"] * len(jobs), [None] * len(jobs)
        )
        return [row for row in rows if row[0]]

    def retry(self, what: str, jobs: list[Job]) -> None:
        nothing = [None] * len(jobs)
        self.counted(
            what,
            "SELECT id FROM retry(%s, %s, %s::interval[], %s::jsonb[])",
            *split(jobs), ["0"] * len(jobs), nothing,
        )  # fmt: skip

    def put_back(self, what: str, jobs: list[Job]) -> None:
        self.counted(what, "SELECT count(*) FROM put_back(%s, %s)", *split(jobs))

    def drain(self) -> None:
        """Run everything there is, and forget the limits."""
        while hand := self.query(CLAIM, self.id, AT_ONCE):
            self.query(
                FINISH, self.id, 0, *split(hand), ["succeeded"] * len(hand), [None] * len(hand)
            )
        self.connection.execute("DELETE FROM gates")

    def work(self) -> None:
        """Make each call once, while half of the lanes are held."""
        hand = self.claim("claim")
        self.defer(2 * AT_ONCE, priority=1)
        free = self.claim("claim of free jobs")
        free += self.counted(
            "claim_further",
            "SELECT id, claim_id FROM claim_further(%s, '{1-0}', '{1}', %s, %s)",
            self.id, [max(job[0] for job in free)], AT_ONCE,
        )  # fmt: skip
        self.finish("finish of free jobs", free)
        hand = self.finish("finish", hand)
        assert len(hand) == AT_ONCE, "the next job of each lane is handed over"
        self.retry("retry", hand)
        self.put_back("put_back", self.claim("claim of retries"))
        self.defer_once(AT_ONCE, priority=2)
        self.put_back("put_back under queueing locks", self.query(CLAIM, self.id, AT_ONCE))
        self.defer_limited(AT_ONCE, priority=3)
        self.put_back("put_back of limited jobs", self.claim("claim of limited jobs"))
        self.defer_due(AT_ONCE, priority=4)
        self.claim("promote", 1)
        self.counted("next_wake", "SELECT * FROM next_wake(NULL)")
        [(last,)] = self.query("SELECT max(id) FROM jobs WHERE lock IS NOT NULL")
        self.counted("explain", "SELECT * FROM explain(%s)", last)
        self.connection.execute("DELETE FROM workers WHERE id = %s", [self.id])
        self.counted("rescue", "SELECT id FROM rescue()")
        self.counted("reconcile", "SELECT reconcile('', 100)")


def split(jobs: list[Job]) -> tuple[list[object], list[object]]:
    return [job[0] for job in jobs], [job[1] for job in jobs]
