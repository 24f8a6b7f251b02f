"""A call does the same work whenever the tables were analysed, and however wrong that is by now.

The tables of a queue breathe. Autovacuum analyses them when it likes, perhaps when they are empty,
and the planner then believes for a long time that they are.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
import pytest

from inturn.testing import Databases
from tests.sql.counted import Counter

LANES = 600
AT_ONCE = 100
# A plan that reads a whole table in place of a key meets a multiple of the rows.
SAME = 1.15

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
        for table in ("jobs", "lanes"):
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
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
        self.connection.execute("VACUUM ANALYZE jobs, lanes, finished_jobs, workers")

    def defer(
        self, count: int, *, lanes: bool, priority: int = 0, delay: str | None = None
    ) -> None:
        names = [f"lane {n}" if lanes else None for n in range(count)]
        self.query(
            "SELECT count(id) FROM defer_jobs(%s, %s::jsonb[], %s, %s::text[], %s, NULL, %s::interval[])",
            ["t"] * count, ["{}"] * count, ["default"] * count, names, [priority] * count,
            [delay] * count,
        )  # fmt: skip

    def defer_once(self, count: int, priority: int) -> None:
        keys = [f"key {n}" for n in range(count)]
        self.query(
            "SELECT count(id) FROM defer_jobs(%s, %s::jsonb[], %s, NULL, %s, NULL, NULL,"
            " p_queueing_locks => %s)",
            ["t"] * count, ["{}"] * count, ["default"] * count, [priority] * count, keys,
        )  # fmt: skip

    def fill(self) -> None:
        for _ in range(2):  # two calls: each job is a token
            self.defer(LANES, lanes=True)

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
        """Run everything there is."""
        while hand := self.query(CLAIM, self.id, AT_ONCE):
            self.query(
                FINISH, self.id, 0, *split(hand), ["succeeded"] * len(hand), [None] * len(hand)
            )

    def work(self) -> None:
        """Make each call once, while half of the lanes are held."""
        hand = self.claim("claim")
        self.defer(2 * AT_ONCE, lanes=False, priority=1)
        free = self.claim("claim of free jobs")
        free += self.counted(
            "claim_further",
            "SELECT id, claim_id FROM claim_further(%s, '{default}', '{1}', %s, %s)",
            self.id, [max(job[0] for job in free)], AT_ONCE,
        )  # fmt: skip
        self.finish("finish of free jobs", free)
        hand = self.finish("finish", hand)
        assert len(hand) == AT_ONCE, "the next job of each lane is handed over"
        self.retry("retry", hand)
        self.put_back("put_back", self.claim("claim of retries"))
        self.defer_once(AT_ONCE, priority=2)
        self.put_back("put_back under queueing locks", self.query(CLAIM, self.id, AT_ONCE))
        self.defer(AT_ONCE, lanes=False, priority=3, delay="1 hour")
        self.connection.execute("UPDATE jobs SET scheduled_at = clock() WHERE status = 'scheduled'")
        self.claim("promote", 1)
        self.counted("next_wake", "SELECT * FROM next_wake(NULL)")
        [(last,)] = self.query("SELECT max(id) FROM jobs WHERE lock IS NOT NULL")
        self.counted("explain", "SELECT * FROM explain(%s)", last)
        self.connection.execute("DELETE FROM workers WHERE id = %s", [self.id])
        self.counted("rescue", "SELECT id FROM rescue()")
        self.counted("reconcile", "SELECT reconcile('', 100)")


def split(jobs: list[Job]) -> tuple[list[object], list[object]]:
    return [job[0] for job in jobs], [job[1] for job in jobs]


@contextmanager
def worker(databases: Databases) -> Iterator[Worker]:
    with (
        databases.clone() as dsn,
        psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection,
    ):
        yield Worker(connection)


def hold_half(worker: Worker) -> None:
    for _ in range(LANES // 2 // AT_ONCE):
        worker.query(CLAIM, worker.id, AT_ONCE)


def never(worker: Worker) -> None:
    worker.fill()
    hold_half(worker)


def before_the_first_job(worker: Worker) -> None:
    worker.analyse()
    never(worker)


def after_the_last_job(worker: Worker) -> None:
    worker.fill()
    worker.drain()
    worker.analyse()
    never(worker)


def when_all_was_waiting(worker: Worker) -> None:
    worker.fill()
    worker.analyse()
    hold_half(worker)


def in_between(worker: Worker) -> None:
    never(worker)
    worker.analyse()


MOMENTS: list[Callable[[Worker], None]] = [
    before_the_first_job, after_the_last_job, when_all_was_waiting, in_between
]  # fmt: skip


@pytest.fixture(scope="module")
def usual(databases: Databases) -> dict[str, int]:
    """The rows that each call meets if nothing was ever analysed."""
    with worker(databases) as here:
        never(here)
        here.work()
        return here.rows


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.__name__)
def test_a_call_does_the_same_work_whenever_the_tables_were_analysed(
    databases: Databases, usual: dict[str, int], moment: Callable[[Worker], None]
) -> None:
    with worker(databases) as here:
        moment(here)
        here.work()
    different = {
        call: (usual[call], rows)
        for call, rows in here.rows.items()
        if not usual[call] / SAME - 20 < rows < usual[call] * SAME + 20
    }
    assert different == {}
