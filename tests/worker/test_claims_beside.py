"""A claim runs beside the loop, over a connection of its own."""

import time
from typing import Any

import anyio
import pytest

from inturn import App
from inturn.worker.connection import WorkerConnection
from tests.conftest import Query, Until
from tests.worker.parts import Parts

pytestmark = pytest.mark.anyio
LIMIT = 60.0  # seconds; only keeps a failing test from hanging
DOING = "SELECT count(*) FROM jobs WHERE status = 'doing'"
HISTORY = "SELECT count(*) FROM finished_jobs"


class LateReplies(WorkerConnection):
    """The server's replies arrive only after `arrive` was set."""

    def __init__(self, app: App) -> None:
        super().__init__(app.connector)
        self.arrive = anyio.Event()
        self.replies = 0

    async def run(self, operation: Any) -> Any:
        result = await super().run(operation)
        self.replies += 1
        await self.arrive.wait()
        return result


async def test_ends_are_reported_while_a_claim_is_under_way(
    app: App, query: Query, until: Until
) -> None:
    claims = LateReplies(app)
    parts = Parts(app, claims, concurrency=3)
    release = anyio.Event()

    @app.task
    async def work() -> None:
        await release.wait()

    async def first_claim_then_report() -> None:
        await parts.registration.register()
        claims.arrive.set()
        await parts.run_once()
        await parts.run_once()
        claims.arrive = anyio.Event()
        work.defer()
        parts.state.wakeups.expect_jobs()
        async with anyio.create_task_group() as group:
            group.start_soon(parts.run_once)
            await until(lambda: query(DOING) == [(2,)])
            release.set()
        await parts.run_once()
        assert query(HISTORY) == [(1,)]
        assert parts.claiming.is_under_way
        claims.arrive.set()
        await parts.run_once()
        await parts.run_once()
        await parts.running.wait_until_empty()
        await parts.run_once()
        assert query(HISTORY) == [(2,)]

    work.defer()
    with anyio.fail_after(LIMIT):
        await parts.running.serve(first_claim_then_report)
        await parts.close()


async def test_what_the_server_calls_ours_is_not_looked_at_before_the_claim_has_ended(
    app: App, query: Query, until: Until
) -> None:
    """The job would go back to the queue, and run all the same when the reply arrives."""
    claims = LateReplies(app)
    parts = Parts(app, claims)
    ran: list[int] = []

    @app.task
    async def work() -> None:
        ran.append(1)

    async def look_during_the_claim() -> None:
        await parts.registration.register()
        async with anyio.create_task_group() as group:
            group.start_soon(parts.run_once)
            await until(lambda: query(DOING) == [(1,)])
            parts.recovery.note_look()
        with anyio.move_on_after(0.5):
            await parts.run_once()
        assert query(DOING) == [(1,)]
        claims.arrive.set()
        while query(HISTORY) != [(1,)]:
            await parts.run_once()
        assert ran == [1]

    work.defer()
    with anyio.fail_after(LIMIT):
        await parts.running.serve(look_during_the_claim)
        await parts.close()


async def test_an_aborted_worker_does_not_wait_for_its_claim_and_gives_the_jobs_back(
    app: App, query: Query, until: Until
) -> None:
    parts = Parts(app, LateReplies(app))

    @app.task
    async def work() -> None:
        raise AssertionError("it must not run")

    async def abort_during_the_claim() -> None:
        await parts.registration.register()
        async with anyio.create_task_group() as group:
            group.start_soon(parts.loop.work)
            await until(lambda: query(DOING) == [(1,)])
            parts.recovery.note_look()
            await anyio.wait_all_tasks_blocked()
            parts.state.abort("test", time.monotonic(), may_abandon=True)
        assert parts.claiming.first_end.is_set()  # it must not outlive the worker
        assert await parts.state.connection.run(parts.registration.unregister(None)) == 1

    job_id = work.defer()
    with anyio.fail_after(LIMIT):
        await parts.running.serve(abort_during_the_claim)
        await parts.close()
    assert query("SELECT id, status::text FROM jobs") == [(job_id, "todo")]


async def test_a_job_that_is_given_up_during_a_look_is_not_put_back_as_if_it_had_not_begun(
    app: App, query: Query, until: Until
) -> None:
    """The attempt would not count, and a newer job with a higher priority would overtake it."""
    link = LateReplies(app)
    link.arrive.set()
    parts = Parts(app, link=link)

    @app.task(lock="lane")
    async def stay() -> None:
        await anyio.sleep_forever()

    async def abort_between_the_replies() -> None:
        await parts.registration.register()
        async with anyio.create_task_group() as group:
            group.start_soon(parts.loop.work)
            await until(lambda: parts.running.attempts)
            link.arrive, link.replies = anyio.Event(), 0
            parts.recovery.note_look()
            await until(lambda: link.replies == 1)  # what somebody wants to be aborted
            requests, link.arrive = link.arrive, anyio.Event()
            requests.set()
            await until(lambda: link.replies == 2)  # which jobs are ours
            parts.state.abort("test", time.monotonic(), may_abandon=True)
            await parts.running.wait_until_empty()
            link.arrive.set()
        assert await parts.state.connection.run(parts.registration.unregister(None)) == 1

    stay.defer()
    with anyio.fail_after(LIMIT):
        await parts.running.serve(abort_between_the_replies)
        await parts.close()
    assert query("SELECT attempts, was_attempted FROM jobs") == [(1, True)]
    assert query("SELECT job_id IS NOT NULL FROM lanes") == [(True,)]
