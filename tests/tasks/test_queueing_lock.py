"""queueing_lock and on_conflict as a caller meets them."""

import json
import pickle
from typing import Any

import psycopg
import pytest

from inturn import App, DeferredJob, RetryStrategy
from inturn.errors import AlreadyEnqueued, BadArgument
from inturn.model import OnConflict
from inturn.tasks.options import CheckedOptions, NewJob
from tests.conftest import Query

pytestmark = pytest.mark.anyio


@pytest.fixture
def report(app: App) -> Any:
    @app.task(name="report", queueing_lock="report")
    async def report(day: int = 0) -> None: ...

    return report


def test_a_second_job_is_refused_and_the_first_is_named(report: Any, query: Query) -> None:
    first = report.defer(day=1)
    with pytest.raises(
        AlreadyEnqueued,
        match=f"Job {first}, which is already waiting, has the queueing_lock 'report'",
    ) as caught:
        report.defer(day=2)
    assert (caught.value.job_id, caught.value.queueing_lock) == (first, "report")
    assert query("SELECT id, args FROM jobs") == [(first, {"day": 1})]


@pytest.mark.fresh_database
def test_the_transaction_of_the_caller_goes_on_after_a_conflict(
    report: Any, dsn: str, query: Query
) -> None:
    report.defer()
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE orders (id int)")
        with pytest.raises(AlreadyEnqueued):
            report.configure(connection=connection).defer()
        connection.execute("INSERT INTO orders VALUES (1)")
    assert query("SELECT id FROM public.orders") == [(1,)]


def test_skip_returns_the_job_that_waits(report: Any, query: Query) -> None:
    first = report.defer(day=1)
    second = report.configure(on_conflict="skip").defer(day=2)
    assert (first.is_new, second.is_new, second) == (True, False, first)
    assert query("SELECT args FROM jobs") == [({"day": 1},)]


async def test_async_callers_have_the_same(app: App, report: Any) -> None:
    async with app.open_async():
        first = await report.defer_async(day=1)
        with pytest.raises(AlreadyEnqueued):
            await report.defer_async(day=2)
        assert await report.configure(on_conflict="skip").batch_defer_async({}, {}) == [
            first,
            first,
        ]


def test_replace_hands_the_new_arguments_to_the_job_that_waits(report: Any, query: Query) -> None:
    first = report.configure(priority=1).defer(day=1)
    second = report.configure(
        on_conflict="replace", priority=9, schedule_in={"hours": 1}, lock="other"
    ).defer(day=2)
    assert (second, second.is_new) == (first, False)
    assert query("SELECT args, priority, status::text, lock FROM jobs") == [
        ({"day": 2}, 1, "todo", None)
    ]


def test_replace_moves_a_scheduled_job_to_its_new_time_with_its_new_options(
    app: App, report: Any, query: Query
) -> None:
    first = report.configure(schedule_in={"hours": 1}).defer(day=1)
    replacing = {"on_conflict": "replace", "priority": 9, "queue": "urgent", "on_retry": "release"}
    again = report.configure(schedule_in={"hours": 2}, **replacing).defer(day=2)
    ((hours, *rest),) = query(
        "SELECT round(extract(epoch FROM scheduled_at - created_at) / 3600)::int, "
        "args, priority, queue, on_retry::text FROM jobs"
    )
    assert (again, hours, rest) == (first, 2, [{"day": 2}, 9, "urgent", "release"])
    report.configure(on_conflict="replace").defer(day=3)
    assert query("SELECT args, status::text, queue FROM jobs") == [({"day": 3}, "todo", "default")]
    app.run_worker()
    assert query("SELECT args, status::text FROM finished_jobs") == [({"day": 3}, "succeeded")]


def test_a_batch_is_all_or_none_and_the_jobs_of_one_call_may_stand_in_each_others_way(
    report: Any, query: Query
) -> None:
    with pytest.raises(AlreadyEnqueued, match="Another job in the same call") as caught:
        report.batch_defer({"day": 1}, {"day": 2})
    assert caught.value.job_id is None
    assert query("SELECT FROM jobs") == []
    skipped = report.configure(on_conflict="skip").batch_defer({"day": 1}, {"day": 2})
    assert [job.is_new for job in skipped] == [True, False]
    assert query("SELECT args FROM jobs") == [({"day": 1},)]
    assert report.configure(on_conflict="replace").batch_defer({"day": 3}, {"day": 4}) == skipped
    assert query("SELECT args FROM jobs") == [({"day": 4},)]


def test_a_batch_with_keys_and_a_lock_runs_in_order(app: App, query: Query) -> None:
    app.task(name="note")(lambda: None)
    keys = ["b", None, "a", "b", None]
    jobs = [
        NewJob(
            "note", "{}", CheckedOptions(lock="l", queueing_lock=key, on_conflict=OnConflict.SKIP)
        )
        for key in keys
    ]
    stand = app.enqueue(jobs)
    assert [job.is_new for job in stand] == [True, True, True, False, True]
    assert stand[3] == stand[0]
    app.run_worker()
    started = query("SELECT id FROM finished_jobs ORDER BY fence")
    assert [id for (id,) in started] == sorted(set(stand))
    with pytest.raises(
        BadArgument,
        match="on_conflict: all jobs of a call with a queueing lock need the same policy",
    ):
        app.enqueue(
            [
                jobs[0],
                jobs[2]._replace(options=jobs[2].options._replace(on_conflict=OnConflict.RAISE)),
            ]
        )
    assert app.enqueue(
        [jobs[1]._replace(options=jobs[1].options._replace(on_conflict=OnConflict.RAISE)), jobs[0]]
    )[0].is_new, "it has no say"


def test_a_running_job_is_no_obstacle_and_nothing_is_lost_when_it_then_fails(
    app: App, query: Query
) -> None:
    runs: list[int] = []

    @app.task(queueing_lock="k", lock="l", retry=RetryStrategy(max_attempts=1))
    def work(n: int) -> None:
        runs.append(n)
        if len(runs) == 1:
            work.defer(
                n=2
            )  # while this one runs, and then fails: its retry finds another under its key
            raise ValueError("no luck")

    first = work.defer(n=1)
    app.run_worker()
    assert runs == [1, 1, 2]
    rows = query("SELECT id, status::text, queueing_lock FROM finished_jobs ORDER BY fence")
    assert rows == [(first, "succeeded", "k"), (first + 1, "succeeded", "k")]


def test_the_options_of_a_task_are_the_defaults_of_its_jobs(app: App, query: Query) -> None:
    @app.task(name="once", queueing_lock="k", on_conflict="skip")
    def once() -> None: ...

    assert once.defer() == once.defer() == app.configure_task("once").defer()
    other = app.configure_task("elsewhere", queueing_lock="k", on_conflict="replace").defer(n=1)
    assert query("SELECT id, task, args FROM jobs") == [(other, "elsewhere", {"n": 1})]


def test_the_return_value_of_defer_is_an_integer_wherever_it_goes(
    app: App, report: Any, query: Query
) -> None:
    job = report.defer()
    assert isinstance(job, DeferredJob)
    assert (str(job), f"{job}", json.dumps({"id": job})) == ("1", "1", '{"id": 1}')
    assert type(pickle.loads(pickle.dumps(job))) is int  # noqa: S301
    assert query("SELECT %s + 1", job) == [(2,)]
    assert {int(job): "found"}[job] == "found"
    report.configure(queueing_lock="another", task_kwargs={"day": job}).defer()
    assert query("SELECT args FROM jobs ORDER BY id DESC LIMIT 1") == [({"day": 1},)]
