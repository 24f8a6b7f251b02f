"""A forked process leaves its parent's connections alone."""

import asyncio
from itertools import product

from psycopg_pool import ConnectionPool

from inturn import App
from tests.conftest import Query
from tests.forking import forked

JOBS = 50
DEFERRED = (
    "SELECT (args ->> 'by')::int, (args ->> 'n')::int FROM jobs WHERE args ? 'n' ORDER BY 1, 2"
)


def test_forked_processes_defer_beside_their_parent(app: App, query: Query) -> None:
    task = app.configure_task("unknown")
    task.defer()  # so that the pool has a connection

    def defer(by: int) -> None:
        for n in range(JOBS):
            task.defer(by=by, n=n)

    with forked(defer):
        defer(0)
    assert query(DEFERRED) == [*product(range(3), range(JOBS))]


def test_event_loops_of_forked_processes_defer_beside_that_of_their_parent(
    app: App, query: Query
) -> None:
    task = app.configure_task("unknown")

    async def defer(by: int) -> None:
        for n in range(JOBS):
            await task.defer_async(by=by, n=n)

    async def defer_and_close(by: int) -> None:
        await defer(by)
        await app.close_async()

    async def fork() -> None:
        async with app.open_async():
            await task.defer_async()
            with forked(lambda by: asyncio.run(defer_and_close(by))):
                await defer(0)

    asyncio.run(fork())
    assert query(DEFERRED) == [*product(range(3), range(JOBS))]


def test_a_forked_process_opens_its_app_with_a_pool_of_its_own(app_dsn: str, query: Query) -> None:
    app = App(app_dsn)
    task = app.configure_task("unknown")

    def defer(by: int) -> None:
        for n in range(JOBS):
            task.defer(by=by, n=n)

    def open_and_defer(by: int) -> None:
        with ConnectionPool(app_dsn) as own, app.open(own):
            defer(by)

    with ConnectionPool(app_dsn) as pool, app.open(pool):
        task.defer()
        with forked(open_and_defer):
            defer(0)
    assert query(DEFERRED) == [*product(range(3), range(JOBS))]
