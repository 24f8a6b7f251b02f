"""A worker goes on beside a user's open transaction, and does the rest when that ends."""

import anyio
import psycopg
import pytest

from inturn import App, JobContext
from tests.conftest import Query, Until

pytestmark = pytest.mark.anyio
TRIES = """
SELECT query_start FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
STATUSES = "SELECT task, status::text FROM all_jobs ORDER BY id"


async def test_a_worker_goes_on_beside_a_pause_that_is_not_committed(
    app: App, dsn: str, query: Query, until: Until
) -> None:
    may_end = anyio.Event()

    @app.task(name="held", lock="lane")
    async def held() -> None:
        await may_end.wait()

    @app.task(name="free")
    async def free() -> None: ...

    held.defer()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(app.run_worker_async)
        await until(lambda: query(STATUSES) == [("held", "doing")])
        with psycopg.connect(dsn) as person:
            person.execute("SELECT inturn.pause_lane('lane')")
            may_end.set()
            free.defer()
            await until(lambda: query(STATUSES) == [("held", "doing"), ("free", "succeeded")])
            free.defer()
            await until(lambda: query(STATUSES)[2:] == [("free", "succeeded")])
            assert query(STATUSES)[0] == ("held", "doing")  # its end is still to be reported
        await until(lambda: query(STATUSES)[0] == ("held", "succeeded"))
    assert query("SELECT lock, state::text FROM lanes") == [("lane", "paused")]


async def test_a_task_that_ends_its_job_itself_waits_for_a_pause_that_is_not_committed(
    app: App, dsn: str, query: Query, until: Until
) -> None:
    may_end = anyio.Event()
    tries: set[object] = set()

    @app.task(name="held", lock="lane", pass_context=True)
    async def held(context: JobContext) -> None:
        async with context.transaction():
            await may_end.wait()

    def has_tried_twice_or_ended() -> bool:
        tries.update(query(TRIES))
        return len(tries) > 1 or query(STATUSES) != [("held", "doing")]

    held.defer()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(app.run_worker_async)
        await until(lambda: query(STATUSES) == [("held", "doing")])
        with psycopg.connect(dsn) as person:
            person.execute("SELECT inturn.pause_lane('lane')")
            may_end.set()
            await until(has_tried_twice_or_ended)
            meanwhile = query(STATUSES)
    assert meanwhile == [("held", "doing")]
    assert query("SELECT status::text, attempts, errors FROM finished_jobs") == [
        ("succeeded", 1, [])
    ]
    assert query("SELECT lock, state::text FROM lanes") == [("lane", "paused")]


async def test_a_worker_goes_on_beside_a_replace_that_is_not_committed(
    app: App, dsn: str, query: Query, until: Until
) -> None:
    seen: list[int] = []

    @app.task(name="count", lock="lane")
    async def count(n: int) -> None:
        seen.append(n)

    job = count.configure(queueing_lock="key", on_conflict="replace")
    job.defer(n=1)
    with psycopg.connect(dsn) as person:
        count.configure(queueing_lock="key", on_conflict="replace", connection=person).defer(n=2)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(app.run_worker_async)
            for n in (3, 4):
                count.configure(lock=f"lane {n}").defer(n=n)
                await until(lambda n=n: n in seen)  # type: ignore[misc]
            person.commit()
            await until(lambda: 2 in seen)
    assert seen == [3, 4, 2]
