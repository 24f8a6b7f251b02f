"""The rollup counts each end once, however late it commits and whatever becomes of its row."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, LiteralString

import psycopg
import pytest

from tests.sql.counted import Counter

pytestmark = pytest.mark.fresh_database

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
TABLE: LiteralString = "finished_jobs_20300101"
ROOT_OF_TWO = 2**0.5
COUNTED = """
SELECT task, sum(succeeded)::int, sum(failed)::int, sum(cancelled)::int, sum(aborted)::int
FROM rollups WHERE minutes = %s GROUP BY task ORDER BY task
"""
# A finished job, as large as you like.
END = """
INSERT INTO finished_jobs (id, created_at, started_at, finished_at, status, on_retry, on_failure,
    priority, attempts, queue, task, args, errors, fence)
SELECT nextval('jobs_id_seq'), clock(), clock(), clock(), 'succeeded', 'hold', 'continue', 0, 1,
    'default', %s, jsonb_build_object('text', repeat('x', %s)), '[]', 0
FROM generate_series(1, %s) RETURNING id
"""


class Session:
    """A session at any time around noon. Its calls are those of a worker and of a person."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.at(NOON)

    def query(self, statement: Any, *parameters: object) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement, parameters or None).fetchall()

    def run(self, statement: LiteralString) -> None:
        self.connection.execute(statement)

    def at(self, moment: datetime) -> "Session":
        self.now = moment
        self.connection.execute("SELECT set_config('inturn.clock', %s, false)", [str(moment)])
        return self

    def later(self, **length: float) -> "Session":
        return self.at(self.now + timedelta(**length))

    def start(self, *tasks: str, lock: str | None = None) -> list[tuple[Any, ...]]:
        """Return the worker, the id and the claim of new jobs that run."""
        [(worker,)] = self.query("SELECT register_worker('w', 'h', 1, NULL, 100)")
        for task in tasks:
            self.query("SELECT defer(%s, lock => %s)", task, lock)
        claims = self.query("SELECT id, claim_id FROM claim(%s, NULL, 100)", worker)
        return [(worker, *claim) for claim in claims]

    def finish(self, job: tuple[Any, ...], status: str = "succeeded") -> int:
        worker, id, claim = job
        self.query(
            "SELECT count(*) FROM finish(%s, NULL, 0, ARRAY[%s::bigint], ARRAY[%s::uuid], "
            "ARRAY[%s::job_status], '{NULL}')",
            worker, id, claim, status,
        )  # fmt: skip
        return int(id)

    def end(self, task: str, status: str = "succeeded") -> int:
        [job] = self.start(task)
        return self.finish(job, status)

    def fill(self, task: str, count: int, size: int = 10) -> list[int]:
        return [id for (id,) in self.query(END, task, size, count)]

    def roll_up(self, pages: int = 1000) -> bool:
        [(more,)] = self.query("SELECT roll_up(%s)", pages)
        return bool(more)

    def count(self, pages: int = 1000) -> dict[str, tuple[int, ...]]:
        """Make a whole pass, and return how many jobs of each task ended in which way."""
        self.connection.execute("UPDATE rollup_days SET due_at = clock() WHERE due_at IS NOT NULL")
        while self.roll_up(pages):
            pass
        return self.counted()

    def counted(self, minutes: int = 5) -> dict[str, tuple[int, ...]]:
        return {task: tuple(counts) for task, *counts in self.query(COUNTED, minutes)}

    def value(self, statement: Any, *parameters: object) -> Any:
        [(value,)] = self.query(statement, *parameters)
        return value


Open = Callable[[], Session]


@pytest.fixture
def sessions(dsn: str) -> Iterator[Open]:
    with ExitStack() as ends:

        def connect() -> Session:
            connection = psycopg.connect(
                dsn, autocommit=True, options="-c search_path=inturn -c timezone=UTC"
            )
            return Session(ends.enter_context(closing(connection)))

        connect().query("SELECT prepare_history(2)")
        yield connect


@pytest.fixture
def session(sessions: Open) -> Session:
    return sessions()


def test_ends_are_counted_by_task_and_outcome_in_five_minutes_and_hours(session: Session) -> None:
    for minutes, task, status in (
        (-70, "mail", "succeeded"),
        (-4, "mail", "succeeded"),
        (-3, "mail", "failed"),
        (-2, "mail", "aborted"),
        (1, "mail", "cancelled"),
        (2, "pay", "succeeded"),
    ):
        session.at(NOON + timedelta(minutes=minutes)).end(task, status)
    assert session.count() == {"mail": (2, 1, 1, 1), "pay": (1, 0, 0, 0)}
    assert session.counted(minutes=60) == session.counted()
    assert session.query("SELECT minutes, at, task, succeeded + failed + cancelled + aborted "
                         "FROM rollups ORDER BY 1, 2, 3") == [
        (5, NOON - timedelta(minutes=70), "mail", 1),
        (5, NOON - timedelta(minutes=5), "mail", 3),
        (5, NOON, "mail", 1),
        (5, NOON, "pay", 1),
        (60, NOON - timedelta(hours=2), "mail", 1),
        (60, NOON - timedelta(hours=1), "mail", 3),
        (60, NOON, "mail", 1),
        (60, NOON, "pay", 1),
    ]  # fmt: skip
    assert session.count() == {"mail": (2, 1, 1, 1), "pay": (1, 0, 0, 0)}, "once"


def test_a_pass_begins_once_a_minute(session: Session) -> None:
    session.end("t")
    assert session.roll_up()
    session.end("t")
    assert not session.later(seconds=59).roll_up()
    assert session.counted() == {"t": (1, 0, 0, 0)}
    assert session.later(seconds=1).roll_up()
    assert session.counted() == {"t": (2, 0, 0, 0)}


def test_a_clock_that_is_set_back_holds_up_no_pass(session: Session) -> None:
    session.later(hours=1).end("t")
    while session.roll_up():
        pass
    session.at(NOON).end("t")
    while session.roll_up():
        pass
    assert session.counted() == {"t": (2, 0, 0, 0)}


def test_percentiles_differ_from_the_exact_ones_by_less_than_a_bin(session: Session) -> None:
    session.connection.execute(
        "INSERT INTO finished_jobs (id, created_at, started_at, finished_at, status, on_retry,"
        "    on_failure, priority, attempts, queue, task, args, errors) "
        "SELECT n, clock() - run - wait, clock() - run, clock(), 'succeeded', 'hold', 'continue',"
        "    0, 1, 'q' || n % 2, 't' || n % 3, '{}', '[]' "
        "FROM (SELECT n, make_interval(secs => exp(8 * random() - 4)) AS wait,"
        "    make_interval(secs => 0.01 + n * n / 1e6) AS run FROM generate_series(1, 3000) AS n)"
        "    AS job"
    )
    session.count(pages=7)
    exact = session.query(
        "SELECT task, "
        "percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY started_at - created_at) "
        "|| percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY finished_at - started_at) "
        "FROM finished_jobs GROUP BY task ORDER BY task"
    )
    found = session.query(
        "SELECT task, ARRAY[wait_p50, wait_p95, run_p50, run_p95] FROM task_status ORDER BY task"
    )
    assert len(found) == 3
    for (task, right), (name, near) in zip(exact, found, strict=True):
        assert task == name
        for one, other in zip(right, near, strict=True):
            assert 1 / ROOT_OF_TWO <= other / one <= ROOT_OF_TWO, (task, right, near)


def test_an_end_that_commits_late_is_counted_once_it_is_there(sessions: Open) -> None:
    session, late = sessions(), sessions()
    jobs = late.start("late", "in a savepoint")
    late.run("BEGIN")
    late.run("SELECT pg_current_xact_id()")
    late.finish(jobs[0])
    late.run("SAVEPOINT inner_one")
    late.finish(jobs[1])
    late.run("RELEASE inner_one")
    session.end("meanwhile")
    for _ in range(3):
        session.count()
    late.run("COMMIT")
    session.later(minutes=30).end("afterwards")
    everything = {task: (1, 0, 0, 0) for task in
                  ("late", "in a savepoint", "meanwhile", "afterwards")}  # fmt: skip
    assert session.count() == everything
    assert session.count() == everything


def test_an_end_that_is_rolled_back_is_not_counted(sessions: Open) -> None:
    session, other = sessions(), sessions()
    [job] = other.start("t")
    other.run("BEGIN")
    other.finish(job)
    session.count()
    other.run("ROLLBACK")
    assert session.count() == {}


def test_an_end_that_commits_after_midnight_is_counted_in_its_day(sessions: Open) -> None:
    session, late = sessions(), sessions()
    midnight = NOON + timedelta(hours=12)
    session.at(midnight - timedelta(minutes=10)).end("early")
    late.at(midnight - timedelta(minutes=1))
    [job] = late.start("late")
    late.run("BEGIN")
    late.finish(job)
    for hours in (0.1, 3, 9):
        session.at(midnight + timedelta(hours=hours)).roll_up()
    late.run("COMMIT")
    while session.later(hours=1).now <= midnight + timedelta(hours=25):
        while session.roll_up():
            pass
    assert session.counted() == {"early": (1, 0, 0, 0), "late": (1, 0, 0, 0)}
    assert session.value("SELECT due_at IS NULL FROM rollup_days WHERE day = '2030-01-01'")


def test_a_day_is_not_closed_before_all_have_ended_who_were_open_a_day_later(
    sessions: Open,
) -> None:
    session, late = sessions(), sessions()
    [job] = late.start("late")
    late.run("BEGIN")
    late.finish(job)
    session.end("meanwhile")
    for days in (0.6, 2, 5):
        session.at(NOON + timedelta(days=days)).count()
    late.run("COMMIT")
    session.count()
    assert session.counted(minutes=60) == {"late": (1, 0, 0, 0), "meanwhile": (1, 0, 0, 0)}
    assert session.value("SELECT due_at IS NULL FROM rollup_days WHERE day = '2030-01-01'")


def test_one_caller_at_a_time_counts_and_the_others_do_not_wait(sessions: Open) -> None:
    one, other = sessions(), sessions()
    one.fill("t", 100)
    one.run("BEGIN")
    assert one.roll_up(1)
    assert not other.roll_up(1000)
    assert other.counted() == {}
    one.run("COMMIT")
    assert other.count() == one.count() == {"t": (100, 0, 0, 0)}


def test_a_step_that_is_rolled_back_has_counted_nothing(session: Session) -> None:
    session.fill("t", 100)
    for _ in range(2):
        session.run("BEGIN")
        assert session.roll_up(1)
        session.run("ROLLBACK")
    assert session.count(1) == {"t": (100, 0, 0, 0)}


def test_callers_in_turn_count_each_end_once_while_jobs_end_and_rows_fill_old_pages(
    sessions: Open,
) -> None:
    """A page that was read gets new rows, since others were deleted from it."""
    one, other = sessions(), sessions()
    gone = one.fill("small", 300) + one.fill("large", 60, 1500)
    session, ended = one, {"small": 300, "large": 60}
    for turn in range(12):
        session.roll_up(1)
        id = gone.pop(turn * 7)
        one.query("SELECT delete_job(%s)", id)
        if turn % 3 == 0:
            one.connection.execute("VACUUM finished_jobs")
        one.fill("small", 3)
        one.fill("large", 1, 700)
        ended["small"] += 3
        ended["large"] += 1
        session = (other if session is one else one).at(one.now + timedelta(minutes=turn))
    expected = {task: (count, 0, 0, 0) for task, count in ended.items()}
    assert one.count(1) == expected
    assert other.count(3) == expected


TAKEN_OUT: dict[str, LiteralString] = {
    "retried": "SELECT retry_job(%s)",
    "retried in another lane": "SELECT retry_job_changed(%s, p_lock => 'other')",
    "deleted": "SELECT delete_job(%s)",
    "deleted with all": "SELECT delete_old_jobs(CASE WHEN set_config('inturn.clock', "
    "(clock() + interval '1 s')::text, true) <> '' THEN interval '0' END, NULL, '{failed}') "
    "WHERE %s > 0",
    "deleted in bulk": "SELECT change_jobs('delete', ARRAY[%s::bigint], "
    "ROW('{failed}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL))",
    "retried in bulk": "SELECT change_jobs('retry', ARRAY[%s::bigint], "
    "ROW('{failed}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL))",
}


@pytest.mark.parametrize("way", TAKEN_OUT)
def test_a_failure_counts_though_its_job_was_at_once(session: Session, way: str) -> None:
    id = session.end("t", "failed")
    session.query(TAKEN_OUT[way], id)
    assert session.query("SELECT id FROM finished_jobs") == []
    assert session.count() == {"t": (0, 1, 0, 0)}
    assert session.count() == {"t": (0, 1, 0, 0)}
    assert session.query("SELECT * FROM uncounted_ends") == []


@pytest.mark.parametrize("way", TAKEN_OUT)
def test_a_failure_that_was_counted_is_not_counted_again_when_its_job_is(
    session: Session, way: str
) -> None:
    id = session.end("t", "failed")
    session.count()
    session.query(TAKEN_OUT[way], id)
    assert session.count() == {"t": (0, 1, 0, 0)}


@pytest.mark.parametrize("way", TAKEN_OUT)
@pytest.mark.parametrize("page", ["read", "not read"])
def test_a_failure_counts_once_if_during_a_pass_its_job_is(
    session: Session, way: str, page: str
) -> None:
    first = session.end("t", "failed")
    session.fill("other", 10, 1500)
    last = session.end("t", "failed")
    places = [
        session.value("SELECT (ctid::text::point)[0] FROM finished_jobs WHERE id = %s", id)
        for id in (first, last)
    ]
    assert places[0] < places[1]
    assert session.roll_up(1)
    session.query(TAKEN_OUT[way], first if page == "read" else last)
    while session.roll_up(1):
        pass
    assert session.counted()["t"] == (0, 2, 0, 0)
    assert session.count()["t"] == (0, 2, 0, 0)
    assert session.query("SELECT * FROM uncounted_ends") == []


def test_a_job_that_is_taken_out_in_a_transaction_that_commits_late_counts_once(
    sessions: Open,
) -> None:
    session, person = sessions(), sessions()
    id = session.end("t", "failed")
    person.run("BEGIN")
    person.query("SELECT retry_job(%s)", id)
    session.count()
    person.run("COMMIT")
    assert session.count() == {"t": (0, 1, 0, 0)}
    assert session.count() == {"t": (0, 1, 0, 0)}


@pytest.mark.parametrize(
    "other", ["SELECT retry_job(%s)", "SELECT retry_job_changed(%s, p_lock => 'b')"]
)
def test_a_failure_counts_once_if_two_people_retry_its_job_at_once(
    sessions: Open, other: LiteralString
) -> None:
    session, first, second = sessions(), sessions(), sessions()
    id = session.end("t", "failed")
    first.run("BEGIN")
    first.query("SELECT retry_job_changed(%s, p_lock => 'a')", id)
    with ThreadPoolExecutor(1) as thread:
        step = thread.submit(second.query, other, id)
        while not session.value(
            "SELECT cardinality(pg_blocking_pids(%s))", second.connection.info.backend_pid
        ):
            assert not step.done()
        first.run("COMMIT")
        assert step.result(20) == [(False,)]
    assert session.count() == {"t": (0, 1, 0, 0)}


@pytest.mark.parametrize("day", ["closed", "unknown"])
def test_a_job_can_be_taken_out_though_the_server_reuses_the_ids_of_its_transaction(
    session: Session, day: str
) -> None:
    """After two thousand million transactions, its transaction seems to lie in the future."""
    session.end("t", "failed")
    session.count()
    if day == "closed":
        session.run("UPDATE rollup_days SET due_at = NULL")
    else:
        session.run("DELETE FROM rollup_days")
    future = "((pg_current_xact_id()::text::bigint + 1000000) & 4294967295)::text::xid"
    assert session.value(
        f"SELECT keep_uncounted(job, job.tableoid, {future}, job.ctid) FROM finished_jobs AS job"
    )
    kept = session.query(
        "SELECT xact < pg_snapshot_xmin(pg_current_snapshot())::text::bigint FROM uncounted_ends"
    )
    assert kept == ([] if day == "closed" else [(True,)])


def test_a_job_that_is_retried_counts_at_each_of_its_ends(session: Session) -> None:
    id = session.end("t", "failed")
    session.query("SELECT retry_job(%s)", id)
    session.count()
    [job] = session.start()
    session.finish(job)
    assert session.count() == {"t": (1, 1, 0, 0)}


def test_a_move_to_another_lane_is_not_the_end_of_a_job(session: Session) -> None:
    id = session.value("SELECT defer('t', lock => 'a', scheduled_at => clock() + '1 hour')")
    session.query("SELECT retry_job_changed(%s, p_lock => 'b')", id)
    assert session.query("SELECT lock FROM jobs") == [("b",)]
    assert session.count() == {}


def test_rows_that_wait_for_their_day_are_counted_when_it_is_prepared(session: Session) -> None:
    session.later(days=3).end("t")
    taken_out = session.end("taken out", "failed")
    assert session.count() == {}
    session.query("SELECT retry_job(%s)", taken_out)
    session.query("SELECT prepare_history(0)")
    assert session.count() == {"t": (1, 0, 0, 0), "taken out": (0, 1, 0, 0)}
    assert session.count() == {"t": (1, 0, 0, 0), "taken out": (0, 1, 0, 0)}


def test_a_day_is_dropped_when_it_was_counted(session: Session) -> None:
    session.end("t")
    prune: LiteralString = "SELECT prune_history('1 hour')"
    session.count()
    session.end("the last one of its day")
    session.later(days=1)
    assert session.value(prune) == 0, "it has not been counted since it is over"
    counted = session.count()
    assert counted == {"t": (1, 0, 0, 0), "the last one of its day": (1, 0, 0, 0)}
    assert session.value(prune) == 1
    assert session.count() == counted
    session.later(days=3).count()
    assert session.query("SELECT FROM rollup_days WHERE day = '2030-01-01'") == []


def test_a_day_that_cannot_be_counted_is_dropped_three_days_later(session: Session) -> None:
    session.end("t")
    prune: LiteralString = "SELECT prune_history('1 hour')"
    assert [session.later(days=1).value(prune) for _ in range(4)] == [0, 0, 0, 1]


def test_a_day_that_is_dropped_during_a_pass_ends_it(session: Session) -> None:
    session.fill("t", 100)
    assert session.roll_up(1)
    session.connection.execute(f"DROP TABLE {TABLE}".encode())
    while session.roll_up(1):
        pass
    session.end("after")
    session.query("SELECT prepare_history(0)")
    assert session.count()["after"] == (1, 0, 0, 0)


@pytest.mark.parametrize(
    "rewrite",
    [f"VACUUM FULL {TABLE}", f"ALTER TABLE {TABLE} ALTER args TYPE jsonb USING args - 'a'"],
)
def test_rows_that_were_rewritten_are_not_counted_again(session: Session, rewrite: str) -> None:
    session.end("t")
    session.count()
    if "ALTER" in rewrite:
        session.connection.execute(f"ALTER TABLE finished_jobs DETACH PARTITION {TABLE}".encode())
    session.connection.execute(rewrite.encode())
    if "ALTER" in rewrite:
        session.connection.execute(
            f"ALTER TABLE finished_jobs ATTACH PARTITION {TABLE} "
            "FOR VALUES FROM ('2030-01-01') TO ('2030-01-02')".encode()
        )
    session.count()
    session.end("t")
    assert session.count() == {"t": (2, 0, 0, 0)}


@pytest.mark.parametrize(
    "ids",
    [
        "counted_below = 1e12",
        "counting_below = 1e12",
        "(counted_below, closing_below) = (9e9, 1e12)",
    ],
)
def test_ids_of_another_server_keep_no_day_from_being_counted_and_closed(
    session: Session, ids: str
) -> None:
    """As after a dump, in a cluster that is younger than the one it came from."""
    session.end("t")
    session.count()
    session.connection.execute(f"UPDATE rollup_days SET {ids}".encode())
    session.count()
    session.end("t")
    assert session.count() == {"t": (2, 0, 0, 0)}
    session.later(days=3).count()
    session.count()
    assert session.value("SELECT due_at FROM rollup_days WHERE day = '2030-01-01'") is None


def test_without_a_history_there_is_nothing_to_count(session: Session) -> None:
    [(worker, id, claim)] = session.start("t")
    session.query(
        "SELECT count(*) FROM finish(%s, NULL, 0, %s, %s, '{succeeded}', '{NULL}', "
        "p_forget => '{succeeded}')",
        worker, [id], [claim],
    )  # fmt: skip
    assert session.query("SELECT id FROM all_jobs") == []
    assert session.count() == {}
    assert session.query("SELECT * FROM task_status") == []


def test_odd_times_stop_nothing(session: Session) -> None:
    session.end("t")
    for created, started in (("-infinity", "-infinity"), ("infinity", "infinity"),
                             ("-infinity", "infinity"), ("2031-01-01", "0001-01-01 BC")):  # fmt: skip
        session.connection.execute(
            "INSERT INTO finished_jobs (id, created_at, started_at, finished_at, status, on_retry,"
            "    on_failure, priority, attempts, queue, task, args, errors) "
            "VALUES (1, %s, %s, clock(), 'failed', 'hold', 'halt', 0, 1, 'q', %s, '{}', '[]')",
            [created, started, "x" * 512],
        )
    assert session.count() == {"t": (1, 0, 0, 0), "x" * 512: (0, 4, 0, 0)}
    assert len(session.query("SELECT * FROM task_status")) == 2


def test_five_minutes_are_kept_for_two_days_and_hours_for_a_year(session: Session) -> None:
    session.end("t")
    session.count()
    left = "SELECT array_agg(minutes ORDER BY minutes) FROM rollups"
    for days, expected in ((1.9, [5, 60]), (2.1, [60]), (365, [60]), (367, None)):
        session.at(NOON + timedelta(days=days)).count()
        assert session.value(left) == expected, days


def test_the_last_hour_of_a_task_and_of_a_queue_can_be_asked_for(session: Session) -> None:
    for minutes, status in (
        (-90, "failed"),
        (-30, "succeeded"),
        (-29, "failed"),
        (-1, "succeeded"),
    ):
        session.at(NOON + timedelta(minutes=minutes)).end("t", status)
    session.at(NOON + timedelta(minutes=2)).count()
    session.at(NOON)
    assert session.query(
        "SELECT task, succeeded, failed, per_minute, failed_share FROM task_status"
    ) == [("t", 2, 1, Decimal("0.05"), Decimal("0.3333"))]
    assert session.query("SELECT at, queue, succeeded, failed FROM queue_history ORDER BY at") == [
        (NOON - timedelta(minutes=90), "default", 0, 1),
        (NOON - timedelta(minutes=30), "default", 1, 1),
        (NOON - timedelta(minutes=5), "default", 1, 0),
    ]
    measure: LiteralString = (
        "SELECT at, name, succeeded, failed FROM measure_history(%s, p_minutes => %s, p_task => %s)"
    )
    assert session.query(measure, NOON - timedelta(days=3), 1440, "t") == [
        (NOON - timedelta(hours=12), None, 2, 2)
    ]
    assert session.query(measure, NOON - timedelta(hours=1), None, "t") == [
        (NOON - timedelta(hours=1), None, 2, 1)
    ]
    assert session.query(measure, NOON - timedelta(hours=1), None, "another") == []


def test_a_lane_tells_how_fast_it_goes(session: Session) -> None:
    for minutes in range(-10, 0):
        session.at(NOON + timedelta(minutes=minutes))
        [job] = session.start("t", lock="a" if minutes % 2 else "b")
        session.later(seconds=30).finish(job, "failed" if minutes == -1 else "succeeded")
    session.at(NOON)
    measure: LiteralString = "SELECT * FROM measure_lane(%s)"
    [(ended, failed, since, rate, wait, _, run, _, more)] = session.query(measure, "a")
    assert (ended, failed, more) == (5, 1, False)
    assert since == NOON - timedelta(minutes=8, seconds=30)
    assert rate == pytest.approx(5 / 8.5)
    assert (wait, run) == (timedelta(0), timedelta(seconds=30))
    session.query("SELECT delete_job(max(id)) FROM finished_jobs WHERE lock = 'a'")
    assert session.query(measure, "a")[0][3] is None, "four are too few for a rate"
    assert session.query(measure, "c")[0][:2] == (0, 0)
    session.at(NOON - timedelta(seconds=2))
    for _ in range(5):
        [job] = session.start("t", lock="d")
        session.finish(job)
    session.at(NOON)
    assert session.query(measure, "d")[0][3] == 5, "and not 150, which they were for a moment"


# ---------------------------------------------------------------- what it costs


def test_a_finish_touches_the_same_pages_without_a_rollup(session: Session) -> None:
    counter = Counter(session.connection)

    def finish() -> tuple[int, int]:
        [job] = session.start("t")
        with counter.count() as work:
            session.finish(job)
        return work.pages, work.rows

    for _ in range(3):
        finish()
    with_rollup = finish()
    session.connection.execute("DROP TABLE uncounted_ends, rollup_days, rollups CASCADE")
    for _ in range(3):
        finish()
    assert finish() == with_rollup


def test_a_step_reads_as_much_however_large_the_day_is(session: Session) -> None:
    counter = Counter(session.connection)
    pages = []
    for size in (300, 3000):
        session.fill("t", size, 1500)
        session.connection.execute("UPDATE rollup_days SET due_at = clock()")
        session.roll_up(10)
        with counter.count() as work:
            assert session.roll_up(10)
        pages.append(work.pages)
        session.count()
    assert pages[1] < 1.3 * pages[0] + 20, pages


READ: dict[str, tuple[str, list[object]]] = {
    "task_status": ("SELECT count(*) FROM task_status", []),
    "measure_lane": ("SELECT more FROM measure_lane('lane 1')", []),
    "measure_paces": ("SELECT count(*) FROM measure_paces(%s)", [["lane 1", "lane 2"]]),
}


def fill_rollups(session: Session, days: int) -> None:
    session.connection.execute(
        "INSERT INTO rollups SELECT 5, clock() - n * interval '5 min', 'q', 't' || task, 1, 0, 0, 0,"
        "    '{0,0,1}', '{0,1}' "
        "FROM generate_series(1, %s) AS n, generate_series(1, 20) AS task ON CONFLICT DO NOTHING",
        [288 * days],
    )
    session.connection.execute("VACUUM ANALYZE rollups, finished_jobs")


def test_what_is_read_does_not_grow_with_the_history(session: Session) -> None:
    counter = Counter(session.connection)

    def read(what: str) -> int:
        statement, parameters = READ[what]
        session.connection.execute(statement.encode(), parameters or None)  # plans it
        with counter.count() as work:
            session.connection.execute(statement.encode(), parameters or None).fetchall()
        return work.pages

    pages = []
    for days, jobs in ((1, 12_000), (8, 60_000)):
        fill_rollups(session, days)
        session.connection.execute(END.encode(), ["t", 1, jobs])
        session.connection.execute("VACUUM ANALYZE finished_jobs")
        pages.append({what: read(what) for what in READ})
    less, more = pages
    assert all(more[what] < 1.25 * less[what] + 20 for what in READ), pages


@pytest.mark.parametrize("view", ["task_status", "task_history", "queue_history"])
def test_no_server_compiles_the_view(session: Session, view: str) -> None:
    """Compiling takes longer than reading."""
    fill_rollups(session, 2)
    [(plan,)] = session.query(f"EXPLAIN (FORMAT json) SELECT * FROM {view}".encode())
    limit = float(session.value("SELECT current_setting('jit_above_cost')"))
    assert plan[0]["Plan"]["Total Cost"] < limit
    configured = session.value(
        "SELECT proconfig FROM pg_proc WHERE proname = 'measure_history'"
        " AND pronamespace = 'inturn'::regnamespace"
    )
    assert "jit=off" in configured
