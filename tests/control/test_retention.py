"""How long ended jobs are kept."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import psycopg
import pytest

from inturn import App
from inturn.errors import BadArgument, JobNotFound
from inturn.operations.engine.maintenance import prepare_history, prune_history
from inturn.worker.options import DeleteJobsName
from tests.conftest import Query, Until

pytestmark = pytest.mark.anyio
Then = Callable[[float], psycopg.Connection[Any]]
NOW = datetime(2025, 3, 15, 12, tzinfo=UTC)


@pytest.fixture
def past(dsn: str) -> Iterator[Then]:
    """A connection whose clock shows this many days before noon of the 15th."""
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:

        def at(days: float) -> psycopg.Connection[Any]:
            connection.execute(
                "SELECT set_config('inturn.clock', %s, false)", [str(NOW - timedelta(days=days))]
            )
            return connection

        yield at


def end(
    connection: psycopg.Connection[Any],
    *statuses: str,
    queue: str = "default",
    on_failure: str = "continue",
) -> None:
    """Make jobs that end now with this status."""
    for status in statuses:
        connection.execute(
            "SELECT defer_jobs('{t}', '{\"{}\"}', %s, %s, '{0}', NULL, NULL, NULL, %s)",
            [[queue], ["lane"] if on_failure == "halt" else None, [on_failure]],
        )
        ((worker,),) = connection.execute("SELECT register_worker('w', 'h', 1, NULL, 1)").fetchall()
        connection.execute(
            "SELECT finish(%s, NULL, 0, ARRAY[id], ARRAY[claim_id], ARRAY[%s::job_status], '{NULL}') FROM claim(%s, NULL, 1)",
            [worker, status, worker],
        )
        connection.execute("DELETE FROM workers")


DAYS = """
SELECT array_agg(right(inhrelid::regclass::text, 8) ORDER BY 1) FROM pg_inherits
WHERE inhparent = 'finished_jobs'::regclass
"""
LEFT = "SELECT array_agg(queue ORDER BY id) FROM finished_jobs"
OFTEN: dict[str, Any] = {
    "wait": True,
    "update_heartbeat_interval": 0.05,
    "stalled_worker_timeout": 9,
}  # upkeep
COUNT = "SELECT roll_up(1000)"
PREPARE, PRUNE = "SELECT prepare_history(%s)", "SELECT prune_history(%s::interval)"


def value(connection: psycopg.Connection[Any], statement: Any, *parameters: object) -> Any:
    ((result,),) = connection.execute(statement, parameters).fetchall()
    return result


def count_all(connection: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    """Count all days that are there. A day is dropped only when it was counted."""
    while value(connection, COUNT):
        pass
    return connection


def test_whole_days_are_dropped_when_they_are_old_enough(past: Then) -> None:
    connection = past(0)
    for days in (5, 4, 3, 2, 1, 0):
        past(days)
        connection.execute(PREPARE, [0])
        end(connection, "succeeded", queue=f"day-{days}")
    everything = value(count_all(connection), DAYS)
    assert value(connection, PRUNE, None) == 0
    assert value(connection, PRUNE, "30 days") == 0
    assert value(connection, DAYS) == everything
    # It is noon of the 15th: the 12th has ended 2.5 days ago.
    assert value(connection, PRUNE, "2.5 days") == 3
    assert value(connection, LEFT) == ["day-2", "day-1", "day-0"]
    assert value(connection, PRUNE, "2.5 days") == 0
    assert value(count_all(past(-1)), PRUNE, "2.5 days") == 1
    assert value(connection, LEFT) == ["day-1", "day-0"]


def test_the_boundary_of_a_day_is_that_of_utc_whatever_the_session_says(past: Then) -> None:
    connection = past(10)
    connection.execute(PREPARE, [0])
    connection = count_all(past(0))
    connection.execute("SET timezone = 'Pacific/Kiritimati'")  # tomorrow already
    assert value(connection, PRUNE, "9.51 days") == 0
    assert value(connection, PRUNE, "9.5 days") == 1


def test_jobs_in_the_default_partition_are_deleted_when_they_are_old_enough(past: Then) -> None:
    for days in (5, 1):
        end(past(days), "succeeded", queue=f"day-{days}")
    assert value(past(0), PRUNE, "2 days") == 0
    assert value(past(0), LEFT) == ["day-1"]


def test_a_year_of_days_goes_little_by_little(past: Then) -> None:
    past(360).execute(PREPARE, [24])
    assert [value(past(0), PRUNE, "30 days") for _ in range(4)] == [10, 10, 5, 0]


def prepare_days(dsn: str, before: int, count: int) -> None:
    """Prepare so many days of the history, as so many days before now."""
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        connection.execute(
            "SELECT set_config('inturn.clock', (now() - make_interval(days => %s))::text, false)",
            [before],
        )
        connection.execute(PREPARE, [count])
        connection.execute("SET inturn.clock = ''")
        count_all(connection)


@pytest.mark.landing
async def test_the_worker_prepares_and_prunes_by_itself_two_at_once_as_well(
    app: App, dsn: str, query: Query, until: Until
) -> None:
    prepare_days(dsn, before=37, count=31)
    today = datetime.now(UTC)
    kept = {f"{today + timedelta(days=n):%Y%m%d}" for n in (*range(-10, -5), *range(4))}
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(lambda: app.run_worker_async(wait=True, keep_history=timedelta(days=10)))
        group.start_soon(lambda: app.run_worker_async(wait=True, keep_history=10))
        await until(lambda: len(query(DAYS)[0][0]) <= 10)
        group.cancel_scope.cancel()
    assert set(query(DAYS)[0][0]) == {*kept, "_default"}


async def test_by_default_a_worker_keeps_a_week(
    app: App, dsn: str, query: Query, until: Until
) -> None:
    prepare_days(dsn, before=20, count=20)
    today = datetime.now(UTC)
    kept = {f"{today + timedelta(days=n):%Y%m%d}" for n in range(-7, 4)}
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(lambda: app.run_worker_async(**OFTEN))
        await until(lambda: len(query(DAYS)[0][0]) <= len(kept) + 1)
        group.cancel_scope.cancel()
    assert set(query(DAYS)[0][0]) == {*kept, "_default"}


async def test_a_default_drops_nothing_that_a_live_worker_was_told_to_keep(
    app: App, dsn: str, query: Query, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "inturn")
    prepare_days(dsn, before=20, count=20)
    today = datetime.now(UTC)
    kept = {f"{today + timedelta(days=n):%Y%m%d}" for n in range(-12, 4)}
    query("SELECT register_worker('told', 'there', 1, '{mail}', 1, NULL, NULL, '1 h', 12)")
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(lambda: app.run_worker_async(name="bare", **OFTEN))
        await until(lambda: len(query(DAYS)[0][0]) <= len(kept) + 1)
        ((now,),) = query("SELECT clock_timestamp()")
        await until(lambda: query("SELECT FROM workers WHERE heartbeat_at > %s", now))
        await until(lambda: "history.pruned" in caplog.text)
        group.cancel_scope.cancel()
    assert set(query(DAYS)[0][0]) == {*kept, "_default"}
    assert "history.pruned: days dropped: 8; this worker keeps 7d00h by default" in caplog.text


@pytest.mark.parametrize(("told", "is_live", "dropped"), [
    ("12", True, 0), ("Infinity", True, 0), ("8", True, 2), ("12", False, 3), (None, True, 3),
])  # fmt: skip
def test_the_longest_time_that_a_live_worker_was_told_goes_before_a_default(
    past: Then, told: str | None, is_live: bool, dropped: int
) -> None:
    for days in (10, 9, 8):
        value(past(days), PREPARE, 0)
    connection = count_all(past(-0.1))
    for longest in (told, "7.5"):
        register = "SELECT register_worker('w', 'h', 1, NULL, 1, NULL, NULL, '1 min', %s::float8)"
        worker = value(connection, register, longest)
        if not is_live:
            connection.execute(
                "UPDATE workers SET heartbeat_at = heartbeat_at - interval '190 s' WHERE id = %s",
                [worker],
            )
    assert value(connection, "SELECT prune_history('7 days', true)") == dropped


async def test_a_worker_says_how_often_it_beats_and_how_long_it_was_told_to_keep_the_history(
    app: App, query: Query
) -> None:
    said: list[Any] = []

    @app.task
    def look() -> None:
        said.extend(query("SELECT heartbeat_every, keep_history FROM workers"))

    for options in ({}, {"keep_history": timedelta(hours=36)}, {"keep_history": None}):
        look.defer()
        await app.run_worker_async(update_heartbeat_interval=9, **options)
    every = timedelta(seconds=9)
    assert said == [(every, None), (every, 1.5), (every, float("inf"))]


async def test_a_worker_that_is_told_so_keeps_all(
    app: App, dsn: str, query: Query, until: Until
) -> None:
    prepare_days(dsn, before=40, count=0)
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(lambda: app.run_worker_async(keep_history=None, **OFTEN))
        await until(lambda: len(query(DAYS)[0][0]) == 6)
        ((now,),) = query("SELECT clock_timestamp()")
        await until(lambda: query("SELECT FROM workers WHERE heartbeat_at > %s", now))
        group.cancel_scope.cancel()
    assert len(query(DAYS)[0][0]) == 6


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("keep_history", 0),
        ("keep_history", -1),
        ("keep_history", "7"),
        ("keep_history", float("nan")),
        ("keep_history", timedelta(0)),
        ("keep_history", 10**9),
        ("max_lost_attempts", 0),
        ("max_lost_attempts", 10),
        ("max_lost_attempts", True),
        ("max_lost_attempts", "5"),
        ("delete_jobs", "sometimes"),
        ("delete_jobs", True),
    ],
)
async def test_a_bad_option_is_refused(app: App, option: str, wrong: Any) -> None:
    options: dict[str, Any] = {option: wrong}
    with pytest.raises(BadArgument, match=f"^{option}: "):
        await app.run_worker_async(**options)


# ---------------------------------------------------------------- single jobs


@pytest.mark.parametrize(
    ("delete_jobs", "kept"),
    [
        ("never", ["succeeded", "failed", "failed", "aborted"]),
        ("successful", ["failed", "failed", "aborted"]),
        ("always", ["failed"]),
    ],
)
async def test_a_worker_keeps_jobs_as_configured_and_jobs_that_halt_a_lane(
    app: App, query: Query, delete_jobs: DeleteJobsName, kept: list[str]
) -> None:
    from inturn.errors import JobAborted

    @app.task
    async def ends(error: str) -> None:
        if error:
            raise {"fail": ValueError, "abort": JobAborted}[error]("so")

    succeeded, *_ = ends.batch_defer({"error": ""}, {"error": "fail"})
    halting = ends.configure(lock="lane", on_failure="halt").defer("fail")
    ends.defer("abort")
    await app.run_worker_async(delete_jobs=delete_jobs)
    assert [
        status for (status,) in query("SELECT status::text FROM finished_jobs ORDER BY id")
    ] == kept
    assert query("SELECT count(*) FROM jobs") == [(0,)]
    if delete_jobs != "never":
        with pytest.raises(JobNotFound, match="ended without history"):
            app.job_manager.result(succeeded)
    assert app.lanes.retry_head("lane") == halting


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ({"nb_hours": 30}, "old-f old-c old-a other-s other-f new-s new-f"),
        ({"nb_hours": 30, "queue": "old"}, "old-f old-c old-a other-s other-f new-s new-f"),
        ({"nb_hours": 72}, "old-s old-f old-c old-a other-s other-f new-s new-f"),
        (
            {"nb_hours": 30, "queue": "old", "include_failed": True},
            "old-c old-a other-s other-f new-s new-f",
        ),
        ({"nb_hours": 30, "include_cancelled": True}, "old-f old-a other-s other-f new-s new-f"),
        ({"nb_hours": 30, "include_aborted": True}, "old-f old-c other-s other-f new-s new-f"),
        (
            {"nb_hours": 0, "queue": "new", "include_failed": True},
            "old-s old-f old-c old-a other-s other-f",
        ),
    ],
)
async def test_old_jobs_are_deleted_as_asked(
    app: App, query: Query, past: Then, asked: dict[str, Any], left: str
) -> None:
    names = {"succeeded": "s", "failed": "f", "cancelled": "c", "aborted": "a"}
    end(past(2), "succeeded", "failed", "cancelled", "aborted", queue="old")
    end(past(1.2), "succeeded", "failed", queue="other")
    end(past(0), "succeeded", "failed", queue="new")
    query(
        "UPDATE finished_jobs SET finished_at = finished_at + (now() - %s::timestamptz) "
        "RETURNING 1",
        str(NOW),
    )
    async with app.open_async():
        await app.job_manager.delete_old_jobs_async(**asked)
    rows = query("SELECT queue, status::text FROM finished_jobs ORDER BY id")
    assert " ".join(f"{queue}-{names[status]}" for queue, status in rows) == left


async def test_a_failed_job_that_halts_its_lane_is_not_deleted(
    app: App, query: Query, past: Then
) -> None:
    end(past(30), "failed", on_failure="halt")
    async with app.open_async():
        assert await app.job_manager.delete_old_jobs_async(0, include_failed=True) == 0
        await app.lanes.resume_async("lane")
        assert await app.job_manager.delete_old_jobs_async(0, include_failed=True) == 1


@pytest.mark.parametrize("hours", [-1, "3", None, True, float("nan"), 10**9])
def test_hours_that_are_none_are_refused(app: App, hours: Any) -> None:
    with pytest.raises(BadArgument, match=r"^nb_hours: "):
        app.job_manager.delete_old_jobs(hours)


async def test_every_app_has_a_task_that_removes_old_jobs(
    app: App, query: Query, past: Then
) -> None:
    end(past(30), "succeeded", "failed", "cancelled")
    app.configure_task(
        "builtin:inturn.builtin_tasks.remove_old_jobs", queue="builtin", allow_unknown=False
    ).defer(max_hours=1, remove_cancelled=True)
    await app.run_worker_async(keep_history=None)
    assert query("SELECT task, status::text FROM finished_jobs ORDER BY id") == [
        ("t", "failed"),
        ("builtin:inturn.builtin_tasks.remove_old_jobs", "succeeded"),
    ]


@pytest.mark.fresh_database
def test_the_operations_say_how_many_days_were_made_and_dropped(app: App) -> None:
    assert app.connector.run(prepare_history(2)) == 3
    assert app.connector.run(prune_history(timedelta(days=1))) == 0
