"""Workers and the schedules of their app, with a clock that the test sets and without polling."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import anyio
import psycopg
import pytest

from inturn import App, Blueprint
from inturn.operations.engine import schedules
from inturn.operations.engine.schedules import KnownSchedule
from tests.conftest import Query, Until
from tests.field.outage import outage

pytestmark = [pytest.mark.anyio, pytest.mark.fresh_database]
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
RunAt = Callable[..., Awaitable[None]]

CLOCK = """
CREATE TABLE its_clock (reading timestamptz, at timestamptz);
INSERT INTO its_clock VALUES (now(), now());
GRANT SELECT ON its_clock TO PUBLIC;
CREATE OR REPLACE FUNCTION clock() RETURNS timestamptz LANGUAGE sql STABLE
AS 'SELECT reading + (statement_timestamp() - at) FROM inturn.its_clock'
"""
SET_CLOCK = "UPDATE its_clock SET reading = %s, at = clock_timestamp() RETURNING 1"
SCHEDULERS = (
    "FROM pg_stat_activity WHERE application_name = 'inturn schedule' "
    "AND datname = current_database()"
)


@pytest.fixture
def set_clock(dsn: str, query: Query) -> Callable[[datetime], object]:
    """Set the server's clock, which goes on from there."""
    with psycopg.connect(dsn, options="-c search_path=inturn") as connection:
        connection.execute(CLOCK)
    return lambda at: query(SET_CLOCK, at)


@pytest.fixture
def seen() -> list[str]:
    return []


def minutely(app: App, seen: list[str], **options: Any) -> None:
    @app.periodic(**{"cron": "* * * * *"} | options)
    @app.task(name="note")
    def note(timestamp: int) -> None:
        seen.append(f"{datetime.fromtimestamp(timestamp, UTC):%H:%M:%S}")


async def run_once(app: App) -> None:
    with anyio.fail_after(120):
        await app.run_worker_async()


@pytest.fixture
def run_at(set_clock: Callable[[datetime], object]) -> RunAt:
    """Run a worker once at each of these moments."""

    async def run(app: App, *moments: datetime) -> None:
        for moment in moments:
            set_clock(moment)
            await run_once(app)

    return run


async def test_two_workers_run_one_job_for_each_instant(
    app: App, seen: list[str], until: Until
) -> None:
    minutely(app, seen, cron="* * * * * *", catch_up="all", lock="note")
    async with anyio.create_task_group() as workers:
        for _ in range(2):
            workers.start_soon(lambda: app.run_worker_async(wait=True, concurrency=2))
        await until(lambda: len(seen) >= 4)
        workers.cancel_scope.cancel()
    instants = [datetime.strptime(text, "%H:%M:%S") for text in seen]
    assert {later - earlier for earlier, later in pairwise(instants)} <= {
        timedelta(seconds=1),
        timedelta(days=-1, seconds=1),
    }


async def test_a_schedule_begins_when_a_worker_first_knows_it(
    app: App, seen: list[str], run_at: RunAt
) -> None:
    minutely(app, seen)
    await run_at(app, NOON)
    assert seen == []


@pytest.mark.parametrize(
    ("options", "caught_up"),
    [
        ({}, ["13:00:00"]),
        ({"catch_up": "all", "max_delay": 200}, ["12:57:00", "12:58:00", "12:59:00", "13:00:00"]),
        ({"cron": "30 12 * * *"}, []),
        ({"cron": "30 12 * * *", "max_delay": {"hours": 1}}, ["12:30:00"]),
        ({"cron": "30 13 * * *", "tz": "Europe/Berlin", "max_delay": 1900}, ["12:30:00"]),
    ],
    ids=["the last", "all within the delay", "too late", "late enough", "in its zone"],
)
async def test_after_a_downtime_it_catches_up_as_it_says(
    app: App,
    seen: list[str],
    run_at: RunAt,
    options: dict[str, Any],
    caught_up: list[str],
) -> None:
    minutely(app, seen, lock="note", **options)
    await run_at(app, NOON + timedelta(seconds=1), NOON + HOUR)
    assert seen == caught_up
    await run_once(app)
    assert seen == caught_up


async def test_a_worker_that_ends_when_idle_waits_for_what_is_due(
    app: App,
    dsn: str,
    seen: list[str],
    set_clock: Callable[[datetime], object],
    run_at: RunAt,
    until: Until,
    query: Query,
) -> None:
    minutely(app, seen)
    await run_at(app, NOON + timedelta(seconds=1))
    set_clock(NOON + HOUR)
    with psycopg.connect(dsn) as holder:
        holder.execute("SELECT FROM inturn.schedules FOR UPDATE")
        async with anyio.create_task_group() as workers:
            workers.start_soon(run_once, app)
            await until(lambda: query(f"SELECT 1 {SCHEDULERS} AND wait_event_type = 'Lock'"))
            await until(lambda: query("SELECT 1 FROM workers") or seen)
            holder.rollback()
    assert seen == ["13:00:00"]


async def test_hundreds_of_missed_instants_are_all_caught_up(
    app: App, seen: list[str], run_at: RunAt
) -> None:
    minutely(app, seen, catch_up="all", max_delay={"hours": 12}, lock="note")
    await run_at(app, NOON - 4 * HOUR, NOON)
    assert (len(seen), seen[0], seen[-1]) == (240, "08:01:00", "12:00:00")


async def test_missed_instants_are_reported_once(
    app: App,
    seen: list[str],
    set_clock: Callable[[datetime], object],
    run_at: RunAt,
    until: Until,
    caplog: pytest.LogCaptureFixture,
) -> None:
    minutely(app, seen, cron="30 12 * * *")
    app.periodic(cron="* * * * * *", periodic_id="often")(app.tasks["note"])
    await run_at(app, NOON)
    set_clock(NOON + HOUR)
    with caplog.at_level(logging.WARNING, "inturn.worker.scheduler"):
        async with anyio.create_task_group() as workers:
            workers.start_soon(lambda: app.run_worker_async(wait=True))
            await until(lambda: len(seen) >= 3)
            workers.cancel_scope.cancel()
    (message,) = [
        record.getMessage() for record in caplog.records if record.name == "inturn.worker.scheduler"
    ]
    assert message.startswith("schedule.missed: note was due at 2026-01-31T12:30:00+00:00")


async def test_a_clock_that_is_set_back_repeats_nothing(
    app: App, seen: list[str], run_at: RunAt
) -> None:
    minutely(app, seen, lock="note")
    await run_at(
        app, NOON, NOON + 5 * MINUTE, NOON - 2 * HOUR, NOON + 3 * MINUTE, NOON + 6 * MINUTE
    )
    assert seen == ["12:05:00", "12:06:00"]


@pytest.mark.parametrize("known_before", [True, False])
async def test_a_clock_that_was_years_ahead_silences_nothing(
    app: App, seen: list[str], run_at: RunAt, known_before: bool
) -> None:
    minutely(app, seen)
    ahead = NOON + timedelta(days=1000)
    await run_at(
        app,
        *([NOON] if known_before else []),
        ahead,
        ahead + MINUTE,
        NOON + 5 * MINUTE,
        NOON + 6 * MINUTE,
    )
    assert seen[-1] == "12:06:00"


async def test_the_schedule_of_a_worker_with_another_expression_is_not_ours(
    app: App, dsn: str, seen: list[str], set_clock: Callable[[datetime], object], run_at: RunAt
) -> None:
    minutely(app, seen)
    await run_at(app, NOON, NOON + 5 * MINUTE)
    set_clock(NOON + 6 * MINUTE)
    app.connector.run(schedules.register_schedules([KnownSchedule("note", "", "@daily", "UTC")]))
    ((_, ours),) = app.connector.run(
        schedules.get_progress([KnownSchedule("note", "", "* * * * *", "UTC")])
    )
    ((now, theirs),) = app.connector.run(
        schedules.get_progress([KnownSchedule("note", "", "@daily", "UTC")])
    )
    assert ours == NOON + 5 * MINUTE
    assert theirs is not None
    assert timedelta(0) <= now - theirs < MINUTE
    assert theirs > ours


async def test_a_changed_expression_repeats_nothing_and_catches_nothing_up(
    app: App, dsn: str, seen: list[str], run_at: RunAt
) -> None:
    minutely(app, seen)
    await run_at(app, NOON, NOON + 5 * MINUTE)
    changed = App(app.connector.dsn, worker_defaults=app.worker_defaults)
    minutely(changed, seen, cron="*/7 * * * *")
    await run_at(changed, NOON + 8 * MINUTE, NOON + 15 * MINUTE)
    assert seen == ["12:05:00", "12:14:00"]


async def test_a_schedule_that_was_removed_fires_no_more(
    app: App, dsn: str, seen: list[str], run_at: RunAt, query: Query
) -> None:
    minutely(app, seen)
    await run_at(app, NOON)
    without = App(app.connector.dsn, worker_defaults=app.worker_defaults)
    await run_at(without, NOON + 5 * MINUTE)
    assert query("SELECT count(*) FROM jobs") == [(0,)]


async def test_nothing_is_started_for_an_app_without_schedules(
    app: App, query: Query, until: Until
) -> None:
    @app.task
    async def look() -> None:
        found.append(query(f"SELECT count(*) {SCHEDULERS}"))
        found.append(
            [thread.name for thread in threading.enumerate() if thread.name == "inturn schedule"]
        )

    found: list[Any] = []
    look.defer()
    await run_once(app)
    assert found == [[(0,)], []]


LOSSES = {
    "its connection": f"SELECT pg_terminate_backend(pid) {SCHEDULERS}",
    "its row": "DELETE FROM schedules RETURNING true",
}


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
async def test_it_goes_on_after_the_loss_of(
    app: App, seen: list[str], query: Query, until: Until, lose: str
) -> None:
    minutely(app, seen, cron="* * * * * *")
    async with anyio.create_task_group() as workers:
        workers.start_soon(lambda: app.run_worker_async(wait=True))
        await until(lambda: seen)
        assert query(lose) == [(True,)]
        before = len(seen)
        await until(lambda: len(seen) >= before + 2)
        workers.cancel_scope.cancel()
    assert len(seen) == len(set(seen))


async def test_one_that_the_database_refuses_does_not_keep_the_others(
    app: App, dsn: str, seen: list[str], until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    @app.periodic(cron="* * * * * *")
    @app.task(name="refused", queue="refused")
    def refused(timestamp: int) -> None: ...

    minutely(app, seen, cron="* * * * * *")
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "ALTER TABLE inturn.jobs ADD CONSTRAINT no_such CHECK (task <> 'refused')"
        )
    async with anyio.create_task_group() as workers:
        workers.start_soon(lambda: app.run_worker_async(wait=True))
        await until(lambda: len(seen) >= 2)
        workers.cancel_scope.cancel()
    assert "schedule.failed: refused at" in caplog.text


async def test_one_that_cannot_replace_the_waiting_job_does_not_keep_the_others(
    app: App, seen: list[str], until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    @app.periodic(cron="* * * * * *", queueing_lock="k", on_conflict="replace")
    @app.task(name="unlike", queue="elsewhere")
    def unlike(timestamp: int) -> None: ...

    minutely(app, seen, cron="* * * * * *")
    unlike.configure(queueing_lock="k", limit="other").defer(timestamp=0)
    async with anyio.create_task_group() as workers:
        workers.start_soon(lambda: app.run_worker_async(wait=True, queues=["default"]))
        await until(lambda: seen or "schedule.lost" in caplog.text)
        workers.cancel_scope.cancel()
    assert seen
    assert "schedule.failed: unlike at" in caplog.text


async def test_one_whose_queueing_lock_a_user_holds_does_not_keep_the_others(
    app: App, dsn: str, seen: list[str], until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    @app.periodic(cron="* * * * * *")
    @app.task(name="held", queueing_lock="k")
    def held(timestamp: int) -> None:
        seen.append("held")

    minutely(app, seen, cron="* * * * * *")
    with psycopg.connect(dsn) as user:
        user.execute("ALTER FUNCTION inturn.defer_periodic SET lock_timeout = '50ms'")
        user.commit()
        user.execute("SELECT inturn.defer('other', queueing_lock => 'k')")
        async with anyio.create_task_group() as workers:
            workers.start_soon(lambda: app.run_worker_async(wait=True))
            await until(lambda: len(seen) >= 2)
            assert "held" not in seen
            user.rollback()
            await until(lambda: "held" in seen)
            workers.cancel_scope.cancel()
    assert "schedule.busy: held at" in caplog.text
    assert "schedule.lost" not in caplog.text


@pytest.mark.landing
async def test_every_outage_is_reported_once_for_each_reason(
    app: App, dsn: str, seen: list[str], until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "inturn.worker")
    minutely(app, seen, cron="* * * * * *", queue="elsewhere")

    def lines(event: str, level: int = logging.DEBUG) -> Counter[str]:
        records = [each for each in caplog.records if each.levelno >= level]
        texts = [each.getMessage().partition("; next try")[0] for each in records]
        return Counter(text for text in texts if text.startswith(f"{event}: "))

    async with anyio.create_task_group() as workers:
        workers.start_soon(lambda: app.run_worker_async(wait=True))
        for number in (1, 2):
            deferred = lines("schedule.deferred").total()
            await until(lambda: lines("schedule.deferred").total() >= deferred + 2)  # noqa: B023
            tries = lines("schedule.lost").total()
            with outage(dsn):
                await until(lambda: lines("schedule.lost").total() >= tries + 4)  # noqa: B023
            assert max(lines("schedule.lost", logging.WARNING).values()) == number
        workers.cancel_scope.cancel()


async def test_a_task_that_blocks_the_event_loop_delays_no_instant(
    app: App, seen: list[str], query: Query
) -> None:
    minutely(app, seen, cron="* * * * * *", queue="elsewhere")

    @app.task
    async def block() -> None:
        deadline = time.monotonic() + 30
        while (
            query("SELECT count(*) FROM jobs WHERE task = 'note'")[0][0] < 2
            and time.monotonic() < deadline
        ):
            pass  # nothing else runs in this loop meanwhile

    block.defer()
    with anyio.fail_after(120):
        await app.run_worker_async(queues=["default"])
    assert query("SELECT count(*) >= 2 FROM jobs WHERE task = 'note'") == [(True,)]


async def test_schedules_of_a_blueprint_fire_under_the_names_that_its_tasks_have_in_the_app(
    app: App, query: Query, run_at: RunAt
) -> None:
    seen: list[str] = []
    inner, outer = Blueprint(), Blueprint()

    @inner.periodic(cron="* * * * *")
    @inner.task(name="before")
    def before(timestamp: int) -> None:
        seen.append("before")

    outer.add_tasks_from(inner, namespace="inner")
    app.add_tasks_from(outer, namespace="outer")

    @inner.periodic(cron="* * * * *")
    @inner.task(name="after")
    def after(timestamp: int) -> None:
        seen.append("after")

    await run_at(app, NOON, NOON + MINUTE)
    assert sorted(seen) == ["after", "before"]
    names = [("outer:inner:after",), ("outer:inner:before",)]
    assert query("SELECT task FROM finished_jobs ORDER BY task") == names
    assert query("SELECT task FROM schedules ORDER BY task") == names
