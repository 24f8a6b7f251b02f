"""`app.limits`: from the option of a job to what workers start."""

from functools import partial

import anyio
import anyio.lowlevel
import psycopg
import pytest

from inturn import App
from inturn.errors import BadArgument
from inturn.model import Limit
from tests.conftest import Query


def test_two_workers_never_run_more_jobs_of_a_key_than_its_limit_allows(app: App) -> None:
    running, most, done = 0, 0, 0

    @app.task(limit="stripe")
    async def charge() -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        running -= 1
        done += 1

    async def work() -> None:
        async with anyio.create_task_group() as workers:
            for _ in range(2):
                workers.start_soon(partial(app.run_worker_async, concurrency=5))

    app.limits.set("stripe", concurrency=2)
    charge.batch_defer(*[{}] * 60)
    anyio.run(work)
    app.run_worker()  # what the first one left for the slots of the other
    assert (done, most) == (60, 2)
    [limit] = app.limits.list()
    assert (limit.running, limit.limited) == (0, 0)


def test_limits_are_set_listed_and_removed(app: App) -> None:
    app.limits.set("stripe", concurrency=5, rate="100/min", burst=20, by="eve")
    app.limits.set("customer:*", concurrency=1)
    assert app.limits.list() == [
        Limit("customer:*", 1, None, None, 0, 0),
        Limit("stripe", 5, "100/min", 20, 0, 0),
    ]
    assert app.limits.remove("stripe", by="eve")
    assert not app.limits.remove("stripe")
    assert [limit.pattern for limit in app.limits.list()] == ["customer:*"]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("concurrency", {"concurrency": 0}),
        ("concurrency", {"concurrency": True}),
        ("concurrency", {}),
        ("rate", {"rate": "fast"}),
        ("rate", {"rate": "0/min"}),
        ("rate", {"rate": "1/fortnight"}),
        ("burst", {"rate": "1/s", "burst": 0}),
        ("burst", {"concurrency": 1, "burst": 2}),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused_by_name(
    app: App, name: str, options: dict[str, object]
) -> None:
    with pytest.raises(BadArgument, match=name):
        app.limits.set("stripe", **options)  # type: ignore[arg-type]
    assert app.limits.list() == []


@pytest.mark.parametrize("pattern", ["", "a*b", "x" * 2000, 5.0])
def test_a_pattern_that_makes_no_sense_is_refused(app: App, pattern: str) -> None:
    with pytest.raises(BadArgument, match="pattern"):
        app.limits.set(pattern, concurrency=1)


@pytest.mark.parametrize("key", ["", "x" * 2000, "customer:*", 1.5])
def test_a_key_that_makes_no_sense_is_refused(app: App, key: str) -> None:
    @app.task
    def charge() -> None: ...

    with pytest.raises(BadArgument, match="limit"):
        charge.configure(limit=key).defer()


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("limit_key", "SELECT inturn.defer('t', limit_key => repeat('x', 2000))"),
        ("limit_key", "SELECT inturn.defer('t', limit_key => 'a*')"),
        ("concurrency", "SELECT inturn.set_limit('a', 0)"),
        ("concurrency", "SELECT inturn.set_limit('a')"),
        ("pattern", "SELECT inturn.set_limit('a*b', 1)"),
        ("rate", "SELECT inturn.set_limit('a', 1, 0)"),
        ("rate", "SELECT inturn.set_limit('a', 1, 5)"),
        ("burst", "SELECT inturn.set_limit('a', 1, p_burst => 5)"),
    ],
)
def test_sql_refuses_what_makes_no_sense_by_name(query: Query, name: str, call: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"^{name}: "):
        query(call)


def test_a_job_says_that_it_waits_for_its_limit(app: App, query: Query) -> None:
    @app.task(limit="stripe")
    def charge() -> None: ...

    app.limits.set("stripe", rate="1/day")
    first, second = charge.batch_defer({}, {})
    app.run_worker()
    [job] = app.job_manager.list_jobs(status="limited")
    assert (job.id, job.limit) == (int(second), "stripe")
    assert app.job_manager.get_job_status(first) == "succeeded"
    reasons = app.job_manager.explain(second)
    assert reasons[0].reason == "limited"
    assert "1 start in 1 day" in reasons[0].detail
    [[kept]] = query("SELECT limit_key FROM inturn.finished_jobs")
    assert kept == "stripe"
    assert app.job_manager.cancel_job_by_id(second)


def test_replace_does_not_change_the_limit_of_the_waiting_job(app: App) -> None:
    @app.task(queueing_lock="one", on_conflict="replace")
    def charge() -> None: ...

    charge.configure(limit="stripe").defer()
    with pytest.raises(BadArgument, match="limit: job"):
        charge.configure(limit="other").defer()
