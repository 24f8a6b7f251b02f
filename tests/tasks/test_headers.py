"""Headers travel with a job beside its arguments. Its code sees them, and every attempt keeps them."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import anyio
import psycopg
import pytest
from psycopg.types.json import Jsonb

from inturn import App, JobContext, RetryStrategy
from inturn.errors import BadArgument
from inturn.tasks.middleware import RunningWorker
from tests.conftest import Query, Until

pytestmark = pytest.mark.anyio
HEADERS = {"tenant": "acme", "flags": [1, {"deep": None}], "größe": 2.5}


def watch(app: App, name: str = "watched") -> list[tuple[int, Mapping[str, Any]]]:
    """Declare a task that fails once. Return the list of the attempts and the headers they saw."""
    seen: list[tuple[int, Mapping[str, Any]]] = []

    @app.task(name=name, pass_context=True, retry=RetryStrategy(max_attempts=1))
    async def watched(context: JobContext) -> None:
        seen.append((context.job.attempts, context.headers))
        if not context.job.attempts:
            raise ValueError("once")

    return seen


WAYS: dict[str, dict[str, Any]] = {
    "alone": {},
    "in a lane": {"lock": "a"},
    "in two lanes": {"lock": ["a", "b"]},
    "in a group": {"group": "g"},
    "under a queueing lock": {"queueing_lock": "q"},
    "after another job": {"after": True},
    "in a batch": {"batch": True},
}


@pytest.mark.parametrize("way", WAYS)
async def test_headers_reach_each_attempt_and_the_history_whatever_way_the_job_takes(
    app: App, query: Query, way: str
) -> None:
    seen = watch(app)

    @app.task(name="other")
    async def other() -> None: ...

    options = dict(WAYS[way])
    if "after" in options:
        options["after"] = other.defer()
    if "batch" in options:
        options["batch"] = app.batches.open("import")
    app.configure_task("watched", headers=HEADERS, **options).defer()
    assert query("SELECT headers FROM live_jobs WHERE task = 'watched'") == [(HEADERS,)]
    await app.run_worker_async()
    assert seen == [(0, HEADERS), (1, HEADERS)]
    assert query("SELECT headers FROM all_jobs WHERE task = 'watched'") == [(HEADERS,)]
    [job] = app.job_manager.list_jobs(task="watched")
    assert job.headers == HEADERS


async def test_each_job_of_a_call_has_its_own_headers_or_none(app: App, query: Query) -> None:
    watch(app)
    jobs = [
        app.configure_task("watched", headers=headers).make_new_job()
        for headers in ({"n": 1}, {}, None, {"n": 2})
    ]
    app.job_manager.batch_defer_jobs(jobs)
    stored = query("SELECT headers FROM jobs ORDER BY id")
    assert stored == [({"n": 1},), (None,), (None,), ({"n": 2},)]


async def test_a_finished_job_that_runs_again_keeps_its_headers(app: App, query: Query) -> None:
    seen: list[dict[str, Any]] = []

    @app.task(name="again", pass_context=True)
    async def again(context: JobContext) -> None:
        seen.append(context.headers)

    job = again.configure(headers=HEADERS).defer()
    await app.run_worker_async()
    app.job_manager.retry_job_by_id(job)
    await app.run_worker_async()
    assert seen == [HEADERS, HEADERS]


async def test_a_job_that_replaces_a_waiting_one_brings_its_headers(app: App, query: Query) -> None:
    watch(app)
    waiting = app.configure_task(
        "watched", queueing_lock="q", on_conflict="replace", headers={"from": "old"}
    )
    waiting.defer()
    app.configure_task(
        "watched", queueing_lock="q", on_conflict="replace", headers={"from": "new"}
    ).defer()
    assert query("SELECT headers FROM jobs") == [({"from": "new"},)]


async def test_a_schedule_gives_its_jobs_headers(app: App, query: Query, until: Until) -> None:
    @app.periodic(cron="* * * * * *", headers={"by": "clock"})
    @app.task(name="tick")
    async def tick(timestamp: int) -> None: ...

    async with anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, wait=True))
        await until(lambda: query("SELECT FROM all_jobs WHERE task = 'tick'"))
        group.cancel_scope.cancel()
    assert query("SELECT DISTINCT headers FROM all_jobs WHERE task = 'tick'") == [
        ({"by": "clock"},)
    ]


async def test_middleware_sees_them_although_the_task_takes_no_context(app: App) -> None:
    tenants: list[str] = []

    async def note(call_next: Callable[[], Any], context: JobContext, worker: RunningWorker) -> Any:
        tenants.append(context.headers.get("tenant", "nobody"))
        return await call_next()

    @app.task
    def plain() -> None: ...

    plain.configure(headers=HEADERS).defer()
    plain.defer()
    await app.run_worker_async(worker_middleware=[note])
    assert tenants == ["acme", "nobody"]


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ("tenant=acme", "is a str"),
        ([("tenant", "acme")], "is a list"),
        ({1: "one"}, "Use text as keys"),
        ({"x": object()}, "JSON cannot represent"),
        ({"x": float("nan")}, "JSON has no nan"),
        ({"x": "\0"}, "NUL"),
        ({"x": "y" * 5000}, r"headers has 5,\d+ bytes of JSON; the limit is 4,096"),
        ({"otel": {}}, "is reserved"),
    ],
)
def test_headers_that_cannot_be_stored_are_refused_where_they_are_given(
    app: App, headers: Any, problem: str
) -> None:
    with pytest.raises(BadArgument, match=problem):
        app.configure_task("t", headers=headers)


async def test_sql_gives_headers_too_and_checks_them(app: App, query: Query) -> None:
    seen = watch(app)
    query("SELECT defer('watched', headers => %s)", Jsonb(HEADERS))
    await app.run_worker_async()
    assert seen[0] == (0, HEADERS)
    for headers, problem in (
        ("[1]", "headers: give a JSON object"),
        ('"text"', "headers: give a JSON object"),
        ('{"x": "%s"}' % ("y" * 9000), "headers: give at most 8,192 bytes of JSON"),
    ):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=problem):
            query("SELECT defer('watched', headers => %s::jsonb)", headers)


async def test_headers_that_python_cannot_read_do_not_keep_the_job_from_running(
    app: App, query: Query
) -> None:
    seen = watch(app)
    query("SELECT defer('watched', headers => %s::jsonb)", '{"x": %s}' % ("9" * 5000))
    await app.run_worker_async()
    assert seen == [(0, {}), (1, {})]
    [job] = app.job_manager.list_jobs(task="watched")
    assert job.status == "succeeded"
