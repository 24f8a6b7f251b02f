"""Arguments that @app.periodic accepts and refuses, and instants that are due."""

import warnings
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from inturn import App, Blueprint
from inturn.errors import BadArgument, TaskDefinitionError
from inturn.schedules.misfires import CatchUp, MisfirePolicy
from inturn.tasks.task import AT_ONCE, Schedule

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture
def app() -> App:
    return App("postgresql://")


def declare(collection: Blueprint, **options: Any) -> Schedule:
    @collection.periodic(**{"cron": "*/5 * * * *"} | options)
    @collection.task(name="report", queue="reports")
    def report(timestamp: int, colour: str = "red") -> None: ...

    (schedule,) = collection.schedules()
    return schedule


def test_its_job_gets_the_instant_as_seconds_and_the_options_of_the_schedule(app: App) -> None:
    job = declare(app, lock="one", priority=7, task_kwargs={"colour": "blue"}).job(NOON)
    options = job.options
    assert (job.task_name, options.queue) == ("report", "reports")
    assert (options.lock, options.priority) == ("one", 7)
    assert job.args == '{"colour":"blue","timestamp":1769860800}'


def test_the_decorated_function_is_the_task(app: App) -> None:
    @app.periodic(cron="@daily")
    @app.task
    def report(timestamp: int) -> int:
        return timestamp

    assert report(3) == 3
    assert report in app.tasks.values()


def test_a_task_may_have_several_schedules_in_zones_of_their_own(app: App) -> None:
    @app.periodic(cron="0 9 * * *", periodic_id="berlin", tz="Europe/Berlin")
    @app.periodic(cron="0 9 * * *", periodic_id="tokyo", tz=ZoneInfo("Asia/Tokyo"))
    @app.task(aliases=["old name"])
    def report(timestamp: int) -> None: ...

    assert [
        (schedule.periodic_id, f"{schedule.cron.next(NOON):%d %H:%M}")
        for schedule in app.schedules()
    ] == [
        ("tokyo", "01 00:00"),
        ("berlin", "01 08:00"),
    ]


def test_a_blueprint_declares_schedules_too() -> None:
    assert str(declare(Blueprint(), periodic_id="x")) == "report 'x'"


def test_two_schedules_of_one_name_are_refused(app: App) -> None:
    task = declare(app).task
    with pytest.raises(
        TaskDefinitionError, match=r"report has two schedules with the periodic_id ''. Give one"
    ):
        app.periodic(cron="@daily")(task)


def test_a_task_that_takes_no_timestamp_is_refused(app: App) -> None:
    @app.task(name="report")
    def report() -> None: ...

    with pytest.raises(
        TaskDefinitionError,
        match=r"report is periodic but does not accept the instant.*`timestamp: int`",
    ):
        app.periodic(cron="@daily")(report)


def test_a_task_that_takes_anything_takes_a_timestamp(app: App) -> None:
    @app.periodic(cron="@daily")
    @app.task
    def report(**anything: object) -> None: ...

    assert [schedule.job(NOON).args for schedule in app.schedules()] == ['{"timestamp":1769860800}']


def test_a_function_that_is_no_task_yet_is_refused(app: App) -> None:
    def report(timestamp: int) -> None: ...

    with pytest.raises(
        TaskDefinitionError,
        match=r"report' is not a task yet. Write @app.periodic.* above @app.task",
    ):
        app.periodic(cron="@daily")(report)  # type: ignore[type-var]


BAD: dict[str, dict[str, Any]] = {
    "cron: '61 \\* \\* \\* \\*': field 1, the minute": {"cron": "61 * * * *"},
    "tz: 'Mars/Olympus' is not a known time zone": {"tz": "Mars/Olympus"},
    "periodic_id: 7: use text": {"periodic_id": 7},
    "periodic_id: 'xxx.*at most 512 bytes": {"periodic_id": "x" * 513},
    "periodic_id: contains the character NUL": {"periodic_id": "a\0b"},
    "periodic_id.*contains half of a surrogate pair": {"periodic_id": "\ud800"},
    "max_delay: 0 is not between a second and a year": {"max_delay": 0},
    "max_delay: -5": {"max_delay": -5},
    "max_delay: inf": {"max_delay": float("inf")},
    "max_delay: nan": {"max_delay": float("nan")},
    "max_delay: {'hours': nan}": {"max_delay": {"hours": float("nan")}},
    "max_delay: True": {"max_delay": True},
    "max_delay: '10m': .*Pass seconds, a timedelta": {"max_delay": "10m"},
    "max_delay: .*'hour'": {"max_delay": {"hour": 1}},
    "max_delay: datetime.timedelta.days=400": {"max_delay": timedelta(days=400)},
    "catch_up: 'some' is not one of 'last', 'all'": {"catch_up": "some"},
    "queue: 'a,b' is not a valid queue name": {"queue": "a,b"},
    "lock is empty": {"lock": ""},
    "task report: .*unexpected keyword argument 'size'": {"task_kwargs": {"size": 1}},
    "colour: JSON cannot represent a set": {"task_kwargs": {"colour": {1}}},
}


@pytest.mark.parametrize(("message", "options"), BAD.items(), ids=list(BAD))
def test_a_wrong_schedule_is_refused_where_it_is_declared(
    app: App, message: str, options: dict[str, Any]
) -> None:
    with pytest.raises(BadArgument, match=message):
        declare(app, **options)
    assert list(app.schedules()) == []


@pytest.mark.parametrize("given", [{"max_delay": 0}, {"catch_up": "none"}, {"delay": 5}])
def test_bad_defaults_of_an_app_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(BadArgument, match=next(iter(given))):
        App("postgresql://", periodic_defaults=given)


def test_a_schedule_that_never_fires_is_warned_of(app: App) -> None:
    with pytest.warns(
        UserWarning, match="'0 0 30 2 \\*' never fires, because that date does not exist"
    ) as caught:
        declare(app, cron="0 0 30 2 *")
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        declare(App("postgresql://"), cron="0 0 29 2 *")


# ---------------------------------------------------------------- which instants are due


def test_a_schedule_says_what_becomes_of_missed_instants_or_its_app_does(app: App) -> None:
    assert app.policy(declare(app)) == MisfirePolicy(timedelta(minutes=10), CatchUp.LAST)
    other = App("postgresql://", periodic_defaults={"max_delay": 60, "catch_up": "all"})
    assert other.policy(declare(other, max_delay={"hours": 1})) == MisfirePolicy(HOUR, CatchUp.ALL)


def due(policy: MisfirePolicy, after: datetime, now: datetime) -> list[str]:
    return [f"{at:%H:%M}" for at in declare(App("postgresql://")).due(after, now, policy)]


@pytest.fixture
def last() -> MisfirePolicy:
    return MisfirePolicy()


def test_of_the_missed_only_the_newest_is_due(last: MisfirePolicy) -> None:
    assert due(last, NOON - HOUR, NOON + 2 * MINUTE) == ["12:00"]


def test_or_all_of_them_the_oldest_first(last: MisfirePolicy) -> None:
    policy = last.change(catch_up="all", max_delay=1000)
    assert due(policy, NOON - HOUR, NOON + 2 * MINUTE) == ["11:50", "11:55", "12:00"]


def test_a_deferred_instant_is_not_due_again(last: MisfirePolicy) -> None:
    assert due(last, NOON, NOON + 2 * MINUTE) == []
    assert due(last, NOON + 2 * HOUR, NOON) == []  # the clock was set back


@pytest.mark.parametrize(("delay", "instants"), [(120, ["12:00"]), (119, [])])
def test_an_instant_later_than_the_delay_is_not_due(
    last: MisfirePolicy, delay: int, instants: list[str]
) -> None:
    assert due(last.change(max_delay=delay), NOON - HOUR, NOON + 2 * MINUTE) == instants
    assert (
        due(last.change(max_delay=delay, catch_up="all"), NOON - HOUR, NOON + 2 * MINUTE)
        == instants
    )


def test_a_long_time_is_caught_up_little_by_little(last: MisfirePolicy) -> None:
    instants = due(last.change(catch_up="all", max_delay={"days": 30}), NOON - 48 * HOUR, NOON)
    assert (len(instants), instants[0]) == (AT_ONCE, "12:05")
