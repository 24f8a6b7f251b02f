"""`app.job_manager` lists, counts and changes jobs, sync and async alike."""

import inspect
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import anyio
import psycopg
import pytest

from inturn import App, RetryStrategy, shared
from inturn.control.jobs import Jobs
from inturn.errors import BadArgument
from inturn.operations.changes.jobs import get_job
from tests.conftest import Query

LATER = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture
def jobs(app: App) -> Jobs:
    return app.job_manager


def both(app: App, name: str, *args: Any, **kwargs: Any) -> Any:
    """Return what a method and its async twin return, which must be equal."""

    async def in_loop() -> Any:
        async with app.open_async():
            return await getattr(app.job_manager, f"{name}_async")(*args, **kwargs)

    result = getattr(app.job_manager, name)(*args, **kwargs)
    assert anyio.run(in_loop) == result
    return result


def test_every_method_has_a_twin_for_the_event_loop_that_takes_the_same() -> None:
    methods = {
        name: method
        for name, method in inspect.getmembers(Jobs, inspect.isfunction)
        if name[0] != "_"
    }
    for name, method in methods.items():
        if not name.endswith("_async"):
            twin = methods[f"{name}_async"]
            assert inspect.iscoroutinefunction(twin), name
            assert inspect.signature(twin).parameters == inspect.signature(method).parameters, name


@pytest.fixture
def job_ids(app: App) -> dict[str, int]:
    """Jobs, named for what is special about them."""

    @app.task(name="ok")
    def ok(n: int = 0) -> None: ...

    @app.task(name="bad")
    def bad() -> None:
        raise ValueError

    done = {
        "succeeded": ok.configure(lock="a", queue="x").defer(1),
        "failed": bad.configure(lock="b").defer(),
    }
    app.run_worker()
    later = ok.configure(lock="c", queueing_lock="k", priority=7, schedule_at=LATER).defer()
    return {**done, "later": later, "free": ok.defer(2), "head": ok.configure(lock="a").defer(3)}


LISTED: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["succeeded", "failed", "later", "free", "head"]),
    ({"queue": "x"}, ["succeeded"]),
    ({"task": "bad"}, ["failed"]),
    ({"status": "todo"}, ["free", "head"]),
    ({"status": "failed"}, ["failed"]),
    ({"lock": "a"}, ["succeeded", "head"]),
    ({"lock": "a", "status": "todo"}, ["head"]),
    ({"lock": "z"}, []),
    ({"queueing_lock": "k"}, ["later"]),
    ({"limit": 2}, ["free", "head"]),
    ({"worker_id": UUID(int=1)}, []),
]


@pytest.mark.parametrize(("asked", "expected"), LISTED, ids=[str(asked) for asked, _ in LISTED])
def test_jobs_are_listed_by_what_is_asked(
    app: App, job_ids: dict[str, int], asked: dict[str, Any], expected: list[str]
) -> None:
    assert [job.id for job in both(app, "list_jobs", **asked)] == [
        job_ids[name] for name in expected
    ]


def test_a_job_is_listed_by_its_id_with_all_that_is_known(
    app: App, job_ids: dict[str, int]
) -> None:
    (job,) = both(app, "list_jobs", job_ids["later"])
    assert (job.id, job.status, job.queue, job.priority, job.lock) == (
        job_ids["later"],
        "scheduled",
        "default",
        7,
        "c",
    )
    assert job.queueing_lock == "k"
    assert (job.task_name, job.task_kwargs, job.scheduled_at) == ("ok", {}, LATER)
    assert (job.attempts, job.abort_requested, job.worker_id) == (0, False, None)
    (done,) = app.job_manager.list_jobs(job_ids["succeeded"])
    assert (done.status, done.attempts, done.task_kwargs) == ("succeeded", 1, {"n": 1})
    assert app.job_manager.list_jobs(worker_id=done.worker_id, status="succeeded") == [done]


def test_a_job_is_listed_with_its_times_errors_and_result(
    app: App, job_ids: dict[str, int], query: Query
) -> None:
    (failed,) = app.job_manager.list_jobs(job_ids["failed"])
    assert failed.started_at is not None
    assert failed.finished_at is not None
    assert failed.created_at <= failed.started_at <= failed.finished_at
    assert ["ValueError" in error["error"] for error in failed.errors] == [True]
    query("UPDATE finished_jobs SET result = '[1]', timeout = '90 s' WHERE id = %s RETURNING 1", job_ids["succeeded"])  # fmt: skip
    (done,) = app.job_manager.list_jobs(job_ids["succeeded"])
    assert (done.result, done.timeout, done.errors) == ([1], timedelta(seconds=90), [])
    assert app.connector.run(get_job(done.id)) == done


def test_a_result_that_python_cannot_read_does_not_spoil_a_list(
    app: App, job_ids: dict[str, int], query: Query
) -> None:
    digits = "7" * 5000
    query("UPDATE finished_jobs SET result = %s::text::jsonb WHERE id = %s RETURNING 1", digits, job_ids["succeeded"])  # fmt: skip
    results = {job.id: job.result for job in app.job_manager.list_jobs()}
    assert len(results) == 5
    assert (results[job_ids["succeeded"]], results[job_ids["failed"]]) == (digits, None)


def test_a_job_that_is_both_live_and_history_is_the_live_one(app: App, query: Query) -> None:
    """As after a restored backup."""
    job_id = app.configure_task("ok", schedule_at=LATER).defer()
    query("INSERT INTO finished_jobs SELECT id, fence, worker_id, scheduled_at, created_at, started_at, now(), "
          "'failed', on_retry, on_failure, priority, attempts, queue, task, lock, queueing_lock, args, errors, NULL, "
          "timeout FROM jobs RETURNING 1")  # fmt: skip
    job = app.connector.run(get_job(job_id))
    assert job is not None
    assert job.status == "scheduled"


def test_jobs_are_counted_by_queue_task_and_lock(app: App, job_ids: dict[str, int]) -> None:
    def counts(name: str, **asked: Any) -> dict[str, dict[str, int]]:
        rows = both(app, name, **asked)
        return {each.pop("name"): {status: n for status, n in each.items() if n} for each in rows}

    assert counts("list_queues") == {
        "default": {"jobs_count": 4, "todo": 2, "scheduled": 1, "failed": 1},
        "x": {"jobs_count": 1, "succeeded": 1},
    }
    assert counts("list_tasks") == {
        "bad": {"jobs_count": 1, "failed": 1},
        "ok": {"jobs_count": 4, "todo": 2, "scheduled": 1, "succeeded": 1},
    }
    assert counts("list_locks") == {
        "a": {"jobs_count": 2, "todo": 1, "succeeded": 1},
        "b": {"jobs_count": 1, "failed": 1},
        "c": {"jobs_count": 1, "scheduled": 1},
    }
    assert counts("list_locks", lock="a", status="todo") == {"a": {"jobs_count": 1, "todo": 1}}
    assert counts("list_queues", queue="x", task="ok", lock="a") == {
        "x": {"jobs_count": 1, "succeeded": 1}
    }


def test_a_job_with_several_locks_is_found_and_counted_in_each_of_its_lanes(app: App) -> None:
    job = app.configure_task("ok", lock=["a", shared("b")], group="tenant:7").defer()
    app.configure_task("ok", lock="b", group="tenant:8").defer()
    for lock in ("a", "b"):
        assert job in {found.id for found in app.job_manager.list_jobs(lock=lock)}
    assert [found.id for found in both(app, "list_jobs", group="tenant:7")] == [job]
    assert {each["name"]: each["jobs_count"] for each in app.job_manager.list_locks()} == {
        "a": 1,
        "b": 2,
    }
    [counts] = app.job_manager.list_locks(lock="b")
    assert (counts["name"], counts["todo"], counts["blocked"]) == ("b", 1, 1)
    app.job_manager.cancel_job_by_id(job)
    [counts] = app.job_manager.list_locks(lock="a")
    assert (counts["name"], counts["cancelled"]) == ("a", 1)
    assert [found.id for found in both(app, "list_jobs", group="tenant:7")] == [job]


def test_only_the_newest_jobs_are_counted(app: App, query: Query) -> None:
    def defer(count: int, lock: str) -> None:
        app.configure_task("t", lock=lock).batch_defer(*({} for _ in range(count)))

    defer(20, "old")
    defer(10_000, "new")
    app.configure_task("t").batch_defer(
        *({} for _ in range(100))
    )  # no lock: takes no place from those with one
    assert [(each["name"], each["jobs_count"]) for each in app.job_manager.list_locks()] == [
        ("new", 10_000)
    ]
    assert app.job_manager.list_locks(lock="old")[0]["jobs_count"] == 20
    assert app.job_manager.list_tasks()[0]["jobs_count"] == 10_000


def test_a_wrong_status_is_refused(jobs: Jobs) -> None:
    with pytest.raises(BadArgument, match="status: 'done' is not one of 'todo'"):
        jobs.list_jobs(status="done")
    with pytest.raises(BadArgument, match="status: 'done'"):
        jobs.list_queues(status="done")


def test_stalled_jobs_are_those_of_silent_workers_or_those_that_take_long(
    app: App, query: Query
) -> None:
    ids = [app.configure_task("t", queue=queue).defer() for queue in ("silent", "gone", "live")]
    for queue in ("silent", "gone", "live"):
        query(
            "SELECT claim(register_worker(%s, 'h', 1, ARRAY[%s], 1), ARRAY[%s], 1)",
            queue,
            queue,
            queue,
        )
    query(
        "UPDATE workers SET heartbeat_at = clock() - interval '1 minute' WHERE name = 'silent' "
        "RETURNING 1"
    )
    query("DELETE FROM workers WHERE name = 'gone' RETURNING 1")

    def stalled(**asked: Any) -> list[int]:
        return [job.id for job in both(app, "get_stalled_jobs", **asked)]

    assert stalled() == ids[:2]
    assert stalled(seconds_since_heartbeat=120) == ids[1:2]
    assert stalled(queue="silent", task_name="t") == ids[:1]
    assert stalled(task_name="other") == []
    assert stalled(nb_seconds=0) == ids
    assert stalled(nb_seconds=3600) == []
    query("UPDATE jobs SET abort = true WHERE id = %s RETURNING 1", ids[0])
    (job,) = app.job_manager.list_jobs(ids[0])
    assert (job.status, job.attempts, job.abort_requested) == ("doing", 0, True)
    assert job == app.job_manager.get_stalled_jobs()[0]


def test_jobs_of_several_tasks_and_locks_are_deferred_in_one_statement(
    app: App, query: Query
) -> None:
    @app.task(name="a", lock="l")
    def a(n: int) -> None: ...

    @app.task(name="b", queue="q")
    def b() -> None: ...

    made = [
        a.make_new_job(1),
        b.configure(lock="m", priority=3).make_new_job(),
        a.make_new_job(n=2),
    ]
    ids = app.job_manager.batch_defer_jobs(made)
    assert query("SELECT id, task, lock, queue, priority, args FROM jobs ORDER BY id") == [
        (ids[0], "a", "l", "default", 0, {"n": 1}),
        (ids[1], "b", "m", "q", 3, {}),
        (ids[2], "a", "l", "default", 0, {"n": 2}),
    ]
    assert query("SELECT count(DISTINCT xmin::text) FROM jobs") == [(1,)]
    assert app.job_manager.defer_job(a.make_new_job(3)) > ids[2]


def test_jobs_that_are_made_take_no_connection_of_their_own(app: App, dsn: str) -> None:
    """It would be lost on the way, and the job would exist even if its transaction rolls back."""
    task = app.configure_task("t")
    with psycopg.connect(dsn) as connection:
        bound = app.configure_task("t", connection=connection)
        with pytest.raises(BadArgument, match=r"connection is not part of a job.*app.enqueue"):
            bound.make_new_job()
        with pytest.raises(BadArgument, match="connection is not part of a job"):
            app.batches.open("import", callback=bound)
        [job] = app.enqueue([task.make_new_job()], connection=connection)
        connection.rollback()
    assert app.job_manager.get_job_status(job) is None
    wrong: list[Any] = [task.make_new_job(), [task]]
    for jobs, kind in zip(wrong, ("str", "Deferrer"), strict=True):
        with pytest.raises(BadArgument, match=f"jobs has a {kind}. Give a list"):
            app.enqueue(jobs)


CHANGES: list[Callable[[Jobs, int, object], object]] = [
    lambda jobs, id, connection: jobs.cancel_job_by_id(id, connection=connection),
    lambda jobs, id, connection: jobs.cancel_job_by_id(id, delete_job=True, connection=connection),
    lambda jobs, id, connection: jobs.retry_job_by_id(id, lock="new", connection=connection),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_part_of_the_callers_transaction(
    app: App, jobs: Jobs, dsn: str, change: Callable[[Jobs, int, object], object]
) -> None:
    job_id = app.configure_task("t", lock="l", schedule_at=LATER).defer()
    before = jobs.list_jobs(job_id)
    with psycopg.connect(dsn) as connection:
        assert change(jobs, job_id, connection)
        connection.rollback()
    assert jobs.list_jobs(job_id) == before
    with psycopg.connect(dsn) as connection:
        change(jobs, job_id, connection)
    assert jobs.list_jobs(job_id) != before


def test_a_finished_job_can_be_run_again_in_another_place(
    app: App, jobs: Jobs, job_ids: dict[str, int]
) -> None:
    job_id = job_ids["failed"]
    assert jobs.retry_job_by_id(job_id, priority=9, queue="y", lock="a")
    (job,) = jobs.list_jobs(job_id)
    assert (job.status, job.priority, job.queue, job.lock, job.attempts) == ("todo", 9, "y", "a", 1)
    assert not jobs.retry_job_by_id(job_id, lock="b"), "it waits"
    assert jobs.list_jobs(job_id) == [job]
    assert not jobs.retry_job_by_id(10**6, priority=1), "there is none"


def test_a_job_is_not_run_again_before_the_time_that_is_asked(
    app: App, jobs: Jobs, job_ids: dict[str, int]
) -> None:
    assert jobs.retry_job_by_id(job_ids["succeeded"], LATER)
    (job,) = jobs.list_jobs(job_ids["succeeded"])
    assert (job.status, job.scheduled_at) == ("scheduled", LATER)
    assert jobs.retry_job_by_id(job_ids["succeeded"], LATER + timedelta(days=1))
    assert jobs.list_jobs(job_ids["succeeded"])[0].scheduled_at == LATER + timedelta(days=1)
    assert jobs.retry_job_by_id(job_ids["succeeded"], datetime(2020, 1, 1, tzinfo=UTC))
    assert jobs.list_jobs(job_ids["succeeded"])[0].status == "todo"
    with pytest.raises(BadArgument, match=r"retry_at: .*no zone"):
        jobs.retry_job_by_id(job_ids["failed"], datetime(2020, 1, 1))
    for wrong in ({"priority": 2**31}, {"queue": "a,b"}, {"lock": ""}):
        with pytest.raises(BadArgument, match=next(iter(wrong))):
            jobs.retry_job_by_id(job_ids["failed"], **wrong)


def fail(app: App, **options: Any) -> int:
    @app.task(name="failing", lock="old", **options)
    def failing() -> None:
        raise ValueError

    job_id: int = failing.defer()
    app.run_worker()
    return job_id


def test_a_job_that_halted_its_lane_leaves_it_for_another_and_the_lane_goes_on(
    app: App, jobs: Jobs, query: Query
) -> None:
    job_id = fail(app, on_failure="halt")
    assert query("SELECT state::text FROM lanes") == [("halted",)]
    behind = app.configure_task("ok", lock="old").defer()
    assert jobs.retry_job_by_id(job_id, lock="new")
    assert query("SELECT lock FROM lanes") == []
    assert query("SELECT id, lock, status::text FROM jobs ORDER BY id") == [
        (job_id, "new", "todo"),
        (behind, "old", "todo"),
    ]
    assert query("SELECT operation, lock FROM lane_audit") == [("retry-head", "old")]


def test_a_halted_lane_waits_for_the_time_at_which_its_job_is_tried_again(
    app: App, jobs: Jobs, query: Query
) -> None:
    job_id = fail(app, on_failure="halt")
    app.configure_task("ok", lock="old", priority=5).defer()
    assert jobs.retry_job_by_id(job_id, LATER, lock="old")
    assert query("SELECT lock, state::text, job_id FROM lanes") == [("old", "retrying", job_id)]
    assert jobs.get_job_status(job_id) == "scheduled"


def test_a_job_that_its_lane_waits_for_leaves_it_for_another(
    app: App, jobs: Jobs, query: Query
) -> None:
    job_id = fail(app, retry=RetryStrategy(wait=3600))
    assert query("SELECT state::text FROM lanes") == [("retrying",)]
    assert jobs.retry_job_by_id(job_id, lock="new", retry_at=LATER)
    assert query("SELECT lock FROM lanes") == []
    (job,) = jobs.list_jobs(job_id)
    assert (job.status, job.lock, job.attempts, job.scheduled_at) == ("scheduled", "new", 1, LATER)


@pytest.mark.parametrize("which", [{}, {"queue": "default"}, {"status": "succeeded"}])
def test_pages_of_a_list_follow_each_other_without_a_gap(app: App, which: dict[str, str]) -> None:
    @app.task
    def work() -> None: ...

    ended = [work.defer() for _ in range(5)]
    app.run_worker()
    live = [] if "status" in which else [work.defer() for _ in range(4)]
    seen: list[int] = []
    before: int | None = None
    while page := app.job_manager.list_jobs(**which, limit=2, before_id=before):  # type: ignore[arg-type]
        assert len(page) <= 2
        assert before is None or page[-1].id < before
        seen = [job.id for job in page] + seen
        before = page[0].id
    assert seen == ended + live
