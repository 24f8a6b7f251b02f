"""The races of schedules as stories on real sessions: each instant has one job.

It does not matter which worker asks, or how often.
"""

from datetime import UTC, datetime, timedelta

import pytest

from tests.race.harness import Mutation, Session, Stage, promise, story

pytestmark = pytest.mark.fresh_database

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)

NO_LOCK = Mutation(
    "two schedulers read the row before either writes it",
    "defer_periodic.sql",
    "    FOR NO KEY UPDATE;",
    "    ;",
)
NO_MEMORY = Mutation(
    "the last deferred instant is not read",
    "defer_periodic.sql",
    "(last_instant IS NULL OR last_instant < p_instant OR",
    "(true OR",
)
# Schedules that have not changed are looked for twice, without a lock and with it.
ANEW = """WHERE NOT EXISTS (
        SELECT FROM schedules AS known
        WHERE (known.task, known.periodic_id, known.cron, known.tz) = (given.task, given.periodic_id, given.cron, given.tz)
          AND known.since <= clock() + interval '1 day'
    )
    ORDER BY given.task, given.periodic_id   -- one order for all callers prevents deadlocks
    ON CONFLICT (task, periodic_id) DO UPDATE SET cron = excluded.cron, tz = excluded.tz, since = excluded.since
    WHERE (schedules.cron, schedules.tz) <> (excluded.cron, excluded.tz)"""


def scheduler(stage: Stage, now: datetime = NOON, cron: str = "*/5 * * * *") -> Session:
    """A session that knows the schedule, and for which it is then."""
    session = stage.session()
    # These stories do not test how long one scheduler waits for another: the machine may be slow.
    stage.control.execute("ALTER FUNCTION defer_periodic SET lock_timeout = 0")
    at(session, now)
    session.run("SELECT register_schedules('{task}', '{\"\"}', ARRAY[%s], '{UTC}')", cron)
    return session


def at(session: Session, now: datetime) -> None:
    session.run("SELECT set_config('inturn.clock', %s, false)", now.isoformat())


def defer(session: Session, instant: datetime = NOON) -> int | None:
    [(id,)] = session.run(
        "SELECT defer_periodic('', %s, '{task}', ARRAY['{}'::jsonb], '{default}', '{null}', '{0}', '{null}', '{null}')",
        instant,
    )
    return None if id is None else int(id)


def count(stage: Stage) -> int:
    return len(stage.statuses())


@story(NO_LOCK, NO_MEMORY)
def test_two_schedulers_at_one_instant_defer_one_job(stage: Stage) -> None:
    first, second = scheduler(stage), scheduler(stage)
    first.start_until("defer_jobs", defer, first)
    second.start(defer, second)
    won = first.resume()
    lost = second.result()
    promise((won is None) != (lost is None), f"one of them has the instant, not {won} and {lost}")
    promise(count(stage) == 1, "one job")


@story(NO_MEMORY)
def test_a_later_scheduler_with_the_same_instant_gets_nothing(stage: Stage) -> None:
    first, second = scheduler(stage), scheduler(stage, NOON + MINUTE)
    promise(defer(first) is not None, "the first gets it")
    promise(defer(second) is None, "the second does not")
    promise(defer(first) is None, "nor does the first again")
    promise(count(stage) == 1, "one job")


@story(
    Mutation(
        "the second scheduler does not wait",
        "defer_periodic.sql",
        "FOR NO KEY UPDATE;",
        "FOR NO KEY UPDATE SKIP LOCKED;",
    )
)
def test_when_the_first_is_rolled_back_the_second_defers_it(stage: Stage) -> None:
    first, second = scheduler(stage), scheduler(stage)
    first.begin()
    defer(first)
    second.start(defer, second)
    first.rollback()
    promise(second.result() is not None, "the instant is free again")
    promise(count(stage) == 1, "one job")


@story(NO_MEMORY)
def test_a_clock_that_is_set_back_two_hours_fires_nothing_twice(stage: Stage) -> None:
    session = scheduler(stage)
    defer(session)
    at(session, NOON - 2 * HOUR)
    promise(defer(session, NOON - 2 * HOUR) is None, "an instant before the last is done with")
    at(session, NOON + 5 * MINUTE)
    promise(defer(session, NOON) is None, "the instant does not come again")
    promise(defer(session, NOON + 5 * MINUTE) is not None, "the next one does")


@story(
    Mutation(
        "an instant written by a wrong clock stays for ever",
        "defer_periodic.sql",
        " OR last_instant > clock() + interval '1 day')",
        ")",
    )
)
def test_a_clock_that_was_years_ahead_does_not_silence_a_schedule_for_years(stage: Stage) -> None:
    session = scheduler(stage)
    at(session, NOON + 1000 * DAY)
    defer(session, NOON + 1000 * DAY)
    at(session, NOON)
    promise(defer(session) is not None, "it goes on")
    promise(defer(session) is None, "once for each instant")


@story(
    Mutation("the worker's clock is believed", "defer_periodic.sql", "AND p_instant <= clock()", "")
)
def test_a_worker_whose_clock_is_ahead_defers_nothing_early(stage: Stage) -> None:
    session = scheduler(stage)
    promise(defer(session, NOON + MINUTE) is None, "it has not come by the server's clock")
    promise(count(stage) == 0, "no job")


@story(
    Mutation(
        "every worker that starts sets the schedule back",
        "register_schedules.sql",
        ANEW,
        "ON CONFLICT (task, periodic_id) DO UPDATE SET since = excluded.since WHERE true",
    )
)
def test_a_schedule_begins_when_it_is_first_registered(stage: Stage) -> None:
    scheduler(stage)
    scheduler(stage, NOON + HOUR)
    promise(since(stage) == NOON, "another worker that tells the same changes nothing")


@story(
    Mutation(
        "a new expression goes unnoticed",
        "register_schedules.sql",
        "SET cron = excluded.cron, ",
        "SET ",
    ),
    Mutation(
        "instants that the old schedule missed count",
        "register_schedules.sql",
        ", since = excluded.since",
        "",
    ),
)
def test_a_changed_schedule_begins_again_but_repeats_nothing(stage: Stage) -> None:
    defer(scheduler(stage))
    changed = scheduler(stage, NOON + HOUR, "* * * * *")
    [row] = stage.control.execute("SELECT cron FROM schedules").fetchall()
    promise(row == ("* * * * *",), "the last registration counts")
    promise(since(stage) == NOON + HOUR, "nothing is caught up from before")
    promise(
        defer(changed, NOON) is None,
        "an instant that the old schedule deferred is not deferred again",
    )


@story(NO_LOCK)
def test_many_instants_by_two_schedulers_are_each_deferred_once_and_in_order(stage: Stage) -> None:
    instants = [NOON + n * MINUTE for n in range(4)]
    first, second = scheduler(stage, instants[-1]), scheduler(stage, instants[-1])
    for instant in instants:
        first.start_until("defer_jobs", defer, first, instant)
        second.start(defer, second, instant)
        first.resume()
        second.result()
    promise(count(stage) == len(instants), "one job for each")


def since(stage: Stage) -> datetime:
    [(moment,)] = stage.control.execute("SELECT since FROM schedules").fetchall()
    assert isinstance(moment, datetime)
    return moment


@story(
    Mutation(
        "each worker that starts writes all rows",
        "register_schedules.sql",
        "WHERE NOT EXISTS (",
        "WHERE true OR NOT EXISTS (",
    )
)
def test_a_worker_that_starts_passes_over_the_row_of_a_schedule_that_somebody_has_locked(
    stage: Stage,
) -> None:
    scheduler(stage)
    user = stage.session()
    user.begin()
    user.run("SELECT FROM schedules FOR UPDATE")
    promise(defer_other(scheduler(stage)) is not None, "its other schedules fire")


def defer_other(session: Session) -> int | None:
    session.run("SELECT register_schedules('{other}', '{\"\"}', '{*/5 * * * *}', '{UTC}')")
    [(id,)] = session.run(
        "SELECT defer_periodic('', %s, '{other}', ARRAY['{}'::jsonb], '{default}', '{null}', '{0}', '{null}', '{null}')",
        NOON,
    )
    return None if id is None else int(id)
