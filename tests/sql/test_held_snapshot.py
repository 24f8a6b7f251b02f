"""A hand-over costs the same however many jobs of its lane have run under an old snapshot.

The index entries of those jobs stay in front of the ones that wait. The tests count pages, which
repeat on any machine. INTURN_TEST_GROWTH, as in test_growth, sets how far the proof goes.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any, TypeVar, cast

import psycopg
import pytest
from psycopg.sql import SQL
from psycopg.types.json import Jsonb

from inturn.database import drive
from inturn.embedded import Server
from inturn.model import Again, Ended, Job, Status
from inturn.operations import Operation
from inturn.operations.engine import claim, finish
from inturn.schema.migrate import migrate
from inturn.worker import floors
from inturn.worker.connection import WorkerConnection
from inturn.worker.floors import Floors
from tests.sql.counted import Counter, Work

pytestmark = pytest.mark.fresh_database

T = TypeVar("T")
LARGEST = int(os.environ.get("INTURN_TEST_GROWTH") or 100_000)
FLAT = 1.3
TIMES = 20
LOOK_AT = "SELECT nullif(current_setting('inturn.front_at', true), '')::timestamptz - now()"
SET_LOOK = "SELECT set_config('inturn.front_at', (clock() + nullif(%s, '')::interval)::text, false)"
ALONE = 256  # jobs whose pages are counted: as many as have the same floors (EVERY in floors.py)


class Direct:
    """A connection of a worker, for one that is not asynchronous."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection

    def do(self, operation: Operation[T]) -> T:
        with self.connection.cursor() as cursor:
            return drive.run_on(cursor, operation, "inturn")

    async def run(self, operation: Operation[T]) -> T:
        return self.do(operation)


class Lane:
    """A worker that hands over the jobs of one lane, as `Reporting` does."""

    def __init__(self, connection: psycopg.Connection[Any], hold: Callable[[], object]) -> None:
        self.connection, self.hold = connection, hold
        self.direct = Direct(connection)
        self.counter = Counter(connection)
        self.floors = Floors(cast(WorkerConnection, self.direct))
        [(self.id,)] = connection.execute("SELECT register_worker('w', 'h', 1, NULL, 1)").fetchall()
        connection.execute("UPDATE workers SET heartbeat_at = heartbeat_at + interval '1 day'")
        self.ran = 0
        self.job = Job()

    def begin(self, count: int) -> None:
        """Defer as many jobs, hold what it may, and block them as claims do that meet them."""
        self.connection.execute(
            "SELECT count(defer_job('t', '{}', 'default', 'a', 0, NULL, NULL, 'hold', 'continue', "
            "NULL)) FROM generate_series(1, %s)",
            [count],
        )
        self.hold()
        [self.job] = self.direct.do(claim.claim(self.id, None, 1, False, 1))
        self.connection.execute("UPDATE jobs SET status = 'blocked' WHERE status = 'todo'")

    def hand_over(self, *, begins_at_floors: bool = True) -> list[Job]:
        """End the job, and return the next one, unless the lane gives way."""
        if self.floors.are_due:
            asyncio.run(self.floors.refresh())
        ended = [Ended(self.job, Status.SUCCEEDED)]
        known, final = self.floors.of(ended) if begins_at_floors else {}, self.floors.final
        horizon = self.floors.horizon
        call = finish.finish(self.id, None, 1, ended, (), known, horizon)
        following = self.direct.do(call).next
        self.floors.note_first(following, final)
        self.job = following[0] if following else self.job
        self.ran += 1
        return following

    def pages(self, ran: int, *, begins_at_floors: bool = True) -> float:
        """Return the pages of a hand-over, once as many jobs have run."""
        while self.ran < ran:
            self.hand_over()
        counts = []
        for _ in range(TIMES):
            with self.counter.count() as work:
                self.hand_over(begins_at_floors=begins_at_floors)
            counts.append(work.pages)
        return median(counts)

    def claim_pages(self, ran: int, *, begins_at_floors: bool = True) -> float:
        """Return the pages of a claim of the lane, which the worker has given back before.

        It looks at new jobs only, since a look at the front grows with what has run.
        """
        while self.ran < ran:
            self.hand_over()
        counts = []
        for _ in range(TIMES):
            ended = [Ended(self.job, Status.SUCCEEDED)]
            known, horizon = self.floors.of(ended), self.floors.horizon
            self.direct.do(finish.finish(self.id, None, 0, ended, (), known, horizon))
            known = known if begins_at_floors else {}
            call = claim.claim(
                self.id, None, 1, False, 1, since=self.job.id, floors=known, horizon=horizon
            )
            with self.counter.count() as work:
                [self.job] = self.direct.do(call)
            counts.append(work.pages)
            self.ran += 1
        return median(counts)

    def pages_of_one(
        self, ran: int, of: str, *, retried: bool = False, begins_at_floors: bool = True
    ) -> float:
        """Return the pages of a job that comes alone, once as many have run. `of` is its option.

        Looks at the front, which get a tenth of the time, are left out.
        """
        while self.ran < ran:
            self._run_one(of, retried, self.floors.of, self.direct.do)
        pages = 0

        def count(operation: Operation[T]) -> T:
            nonlocal pages
            with self.counter.count() as work:
                result = self.direct.do(operation)
            pages += work.pages
            return result

        for _ in range(ALONE):
            known = self.floors.of if begins_at_floors else lambda _: {}
            self._run_one(of, retried, known, count)
        return pages / ALONE

    def _run_one(
        self,
        of: str,
        retried: bool,
        known: Callable[[list[Ended]], claim.Floors],
        do: Callable[[Operation[Any]], Any],
    ) -> None:
        self.connection.execute(SET_LOOK, ["4 s"])
        [(id,)] = self.connection.execute(
            SQL("SELECT defer('t', {} => 'k')").format(SQL(of))
        ).fetchall()
        if self.floors.are_due:
            asyncio.run(self.floors.refresh())
        final, horizon = self.floors.final, self.floors.horizon
        ended = [Ended(Job(id=id, lock="k"), Status.SUCCEEDED)]

        def start() -> Operation[list[Job]]:
            options = {"since": id - 1, "floors": known(ended), "horizon": horizon}
            return claim.claim(self.id, None, 1, False, 1, **options)

        [job] = do(start())
        if retried:
            do(finish.retry([Again(job, timedelta(0))]))
            [job] = do(start())
        self.floors.note_first([job], final)
        ended = [Ended(job, Status.SUCCEEDED)]
        do(finish.finish(self.id, None, 1, ended, (), known(ended), horizon))
        self.ran += 1


@pytest.fixture(params=["of a reader", "of a transaction that writes elsewhere"])
def lane(
    dsn: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lane]:
    monkeypatch.setattr(floors, "PATIENCE", 0)
    with (
        closing(psycopg.connect(dsn)) as other,
        closing(psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn")) as mine,
    ):

        def hold() -> None:
            other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            other.execute("SELECT count(*) FROM inturn.jobs")
            if request.param != "of a reader":
                other.execute("SELECT pg_current_xact_id()")

        yield Lane(mine, hold)


def test_a_hand_over_does_not_grow_with_what_has_run(lane: Lane) -> None:
    lane.begin(5_200)
    early = lane.pages(1_000)
    assert lane.pages(5_000) < FLAT * early


def test_a_claim_of_a_lane_does_not_grow_with_what_has_run(lane: Lane) -> None:
    lane.begin(3_200)
    early = lane.claim_pages(1_000)
    assert lane.claim_pages(3_000) < FLAT * early
    assert lane.claim_pages(3_100, begins_at_floors=False) > 2 * early, "it is seen"


@pytest.mark.landing
@pytest.mark.parametrize("lane", ["of a reader"], indirect=True)
@pytest.mark.parametrize("retried", [False, True])
def test_a_lane_that_runs_empty_does_not_meet_what_its_row_was(lane: Lane, retried: bool) -> None:
    """Each claim, end and retry changes the row, and the snapshot keeps what it was before."""
    lane.hold()
    early = lane.pages_of_one(200, "lock", retried=retried)
    assert lane.pages_of_one(800, "lock", retried=retried) < FLAT * early
    late = lane.pages_of_one(800, "lock", retried=retried, begins_at_floors=False)
    assert late > 2 * early, "it is seen"


def test_a_job_with_a_limit_does_not_meet_what_the_row_of_its_key_was(dsn: str, lane: Lane) -> None:
    """Each start and end changes that row, and the snapshot keeps what it was before."""
    lane.connection.execute("SELECT set_limit('k', 5)")
    lane.hold()
    early = lane.pages_of_one(200, "limit_key")
    assert lane.pages_of_one(800, "limit_key") < FLAT * early
    lane.connection.execute("SET enable_seqscan = off")
    lane.connection.execute("SET enable_bitmapscan = off")
    with psycopg.connect(dsn) as user:
        user.execute("SELECT key FROM inturn.gates FOR UPDATE")
        with lane.counter.count() as work:
            found = lane.connection.execute("SELECT try_lock_gates(ARRAY['limit:k'])").fetchall()
    assert found == [([],)]
    assert work.pages < 12, "nor does one that finds the row locked"


def test_growth_is_seen(lane: Lane) -> None:
    lane.begin(2_100)
    early = lane.pages(200, begins_at_floors=False)
    assert lane.pages(2_000, begins_at_floors=False) > 3 * early


AT_ONCE = 30  # jobs that come at the same time


def come(lane: Lane, priority: int = 0, delay: str | None = None) -> None:
    lane.connection.execute(
        "SELECT count(defer('t', lock => 'a', priority => %s, scheduled_at => clock() + %s)) "
        "FROM generate_series(1, %s)",
        [priority, delay, AT_ONCE],
    )


def run_scheduled_jobs(lane: Lane) -> None:
    come(lane, delay="1 ms")
    lane.connection.execute("SELECT pg_sleep(0.002)")
    lane.direct.do(claim.claim(lane.id, None, 0, False, 0))
    run(lane, AT_ONCE)


def run_two_priorities(lane: Lane) -> None:
    for priority in (0, 1):
        come(lane, priority)
    run(lane, 2 * AT_ONCE)


def run_and_retry_each_job(lane: Lane) -> None:
    come(lane)
    for _ in range(AT_ONCE):
        run(lane, 1)
        lane.direct.do(finish.retry([Again(lane.job, timedelta(0))]))
        [lane.job] = lane.direct.do(claim.claim(lane.id, None, 1, False, 1))


def run(lane: Lane, count: int) -> None:
    lane.connection.execute("UPDATE jobs SET status = 'blocked' WHERE status = 'todo'")
    for _ in range(count):
        assert lane.hand_over()


def search(lane: Lane, *, begins_at_floors: bool = True) -> Work:
    known = lane.floors.latest() if begins_at_floors else {}
    with lane.counter.count() as work:
        lane.connection.execute("SELECT FROM lane_heads('{a}', %s)", [Jsonb(known)])
    return work


@pytest.mark.parametrize("lane", ["of a reader"], indirect=True)
@pytest.mark.parametrize(
    "run_some", [run_scheduled_jobs, run_two_priorities, run_and_retry_each_job]
)
def test_a_search_does_not_grow_with_jobs_that_came_back(
    lane: Lane, run_some: Callable[[Lane], None]
) -> None:
    lane.begin(2 * AT_ONCE)
    pages = []
    for ran in (200, 600):
        while lane.ran < ran:
            run_some(lane)
        asyncio.run(lane.floors.refresh())
        run_some(lane)
        pages.append(search(lane).pages)
    assert pages[1] < FLAT * pages[0]
    assert search(lane, begins_at_floors=False).pages > 3 * pages[1], "it is seen"


@pytest.mark.parametrize("lane", ["of a reader"], indirect=True)
def test_a_search_does_not_read_all_jobs_that_came_back_at_once(lane: Lane) -> None:
    for _ in range(30):
        come(lane, delay="1 hour")
    lane.begin(10 * AT_ONCE)
    run(lane, 8 * AT_ONCE)
    lane.connection.execute("UPDATE jobs SET scheduled_at = now() WHERE status = 'scheduled'")
    lane.direct.do(claim.claim(lane.id, None, 0, False, 0))
    run(lane, floors.MANY_BACK + 2 * floors.SOON)
    assert search(lane).rows < 4 * AT_ONCE


STAND_STILL = "SELECT set_config('inturn.clock', now()::text, false)"


def test_a_look_for_aborted_jobs_does_not_meet_what_the_worker_has_run(lane: Lane) -> None:
    lane.begin(700)
    pages = []
    for ran in (100, 600):
        while lane.ran < ran:
            lane.hand_over()
        with lane.counter.count() as work:
            assert lane.direct.do(finish.list_abort_requests(lane.id, [lane.job.id])) == []
        pages.append(work.pages)
    assert pages[1] < FLAT * pages[0]
    lane.connection.execute("UPDATE jobs SET abort = true WHERE id = %s", [lane.job.id])
    assert lane.direct.do(finish.list_abort_requests(lane.id, [lane.job.id])) == [lane.job.id]


@pytest.mark.parametrize("when", ["-1 s", "1 hour"], ids=["in time", "after a step of the clock"])
def test_a_look_at_other_jobs_that_reads_much_is_not_repeated_at_once(
    lane: Lane, when: str
) -> None:
    lane.begin(1_300)
    while lane.ran < 1_200:
        lane.hand_over()
    [(pause,)] = lane.connection.execute(LOOK_AT).fetchall()
    assert pause < timedelta(seconds=1)
    lane.connection.execute("SELECT defer('t', priority => 1)")
    lane.connection.execute(STAND_STILL)
    lane.connection.execute(SET_LOOK, ["0.9 s"])
    assert lane.hand_over(), "it does not look"
    lane.connection.execute(SET_LOOK, [when])
    assert not lane.hand_over(), "it gives way"


def test_a_floor_is_used_only_after_a_look_that_read_much(lane: Lane) -> None:
    lane.begin(200)
    while not lane.floors.latest():
        lane.hand_over()
    beyond = lane.floors.final + 1_000  # shows whether it is used
    lane.connection.execute(STAND_STILL)
    for look_at, is_used in [("", False), ("0.9 s", True)]:
        lane.connection.execute(SET_LOOK, [look_at])
        call = finish.finish(
            lane.id, None, 1, [Ended(lane.job, Status.SUCCEEDED)], (), {"a": [(0, beyond, 0)]},
            lane.floors.horizon,
        )  # fmt: skip
        following = lane.direct.do(call).next
        assert (not following) == is_used
        lane.job = following[0] if following else lane.job


def test_without_a_snapshot_every_hand_over_looks_at_other_jobs(dsn: str) -> None:
    with closing(psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn")) as mine:
        lane = Lane(mine, lambda: None)
        lane.begin(1_300)
        while lane.ran < 1_200:
            lane.hand_over()
            if lane.ran == 100:  # begin() has left dead entries
                mine.execute("SELECT set_config('inturn.front_at', '', false)")
        assert mine.execute(LOOK_AT).fetchall() == [(None,)]


@pytest.mark.proof
def test_a_hand_over_does_not_grow_with_what_has_run_for_long(lane: Lane) -> None:
    lane.begin(LARGEST + 200)
    early = lane.pages(1_000)
    assert lane.pages(LARGEST) < FLAT * early


@pytest.mark.proof
@pytest.mark.parametrize("of", ["lock", "limit_key"])
def test_one_job_after_the_other_does_not_meet_what_a_row_was_for_long(lane: Lane, of: str) -> None:
    lane.connection.execute("SELECT set_limit('k', 5)")
    lane.hold()
    early = lane.pages_of_one(1_000, of)
    assert lane.pages_of_one(LARGEST, of) < FLAT * early


@pytest.mark.parametrize("writes_jobs", [False, True])
def test_a_forgotten_prepared_transaction_keeps_ids_open_only_if_it_has_written_jobs(
    bin_dir: Path | None, writes_jobs: bool
) -> None:
    with Server(bin_dir=bin_dir, settings={"max_prepared_transactions": "1"}) as server:
        migrate(server.dsn())
        options = "-c search_path=inturn"
        with closing(psycopg.connect(server.dsn(), autocommit=True, options=options)) as mine:
            mine.execute("CREATE TABLE elsewhere ()")
            mine.execute("BEGIN")
            mine.execute("INSERT INTO elsewhere DEFAULT VALUES")
            if writes_jobs:
                mine.execute("SELECT defer('t', lock => 'a')")
            mine.execute("PREPARE TRANSACTION 'forgotten'")
            direct = Direct(mine)
            _, noted, horizon, _ = direct.do(finish.final_ids(None, None, patient=False))
            assert direct.do(finish.final_ids(noted, horizon, patient=False)).final is None
            final = direct.do(finish.final_ids(noted, horizon, patient=True)).final
            assert final == (None if writes_jobs else noted)
            mine.execute("ROLLBACK PREPARED 'forgotten'")


def test_a_worker_of_one_queue_does_not_meet_what_has_run_in_others(dsn: str) -> None:
    """The other queue comes first in the index, with a lane for each job."""
    options = "-c search_path=inturn"
    with psycopg.connect(dsn, autocommit=True, options=options) as connection:
        [[worker]] = connection.execute("SELECT register_worker('w', 'h', 1, NULL, 1)").fetchall()
        defer = (
            "SELECT count(defer('t', queue => %s, lock => %s || i)) FROM generate_series(1, %s) i"
        )
        counter, pages = Counter(connection), []
        for ran in (0, 0, 5_000):  # the first claim pays for the plans
            connection.execute(defer, ["a", "lane ", ran])
            with psycopg.connect(dsn, options=options) as reader:
                reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                reader.execute("SELECT FROM jobs LIMIT 1")
                connection.execute("DELETE FROM jobs WHERE queue = 'a'")
                connection.execute(defer, ["z", None, 1])
                with counter.count() as work:
                    found = connection.execute(
                        "SELECT id FROM claim(%s, ARRAY['z'], 1)", [worker]
                    ).fetchall()
            assert len(found) == 1
            pages.append(work.pages)
    assert pages[2] <= pages[1] + 5
