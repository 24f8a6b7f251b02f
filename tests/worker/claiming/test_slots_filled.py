"""Jobs with a limit start only when a slot is free: a claim may leave some, and none starves."""

from functools import partial
from typing import Any

import anyio
import pytest

from inturn import App
from inturn.worker.claiming import claiming, wakeups
from tests.conftest import Query, Until
from tests.worker.parts import Parts

pytestmark = [pytest.mark.anyio, pytest.mark.landing]
JOBS, SLOTS = 600, 5
FULL = 4_000  # jobs that fill a queue


async def keep_set(_: wakeups.AwakeFlag) -> bool:
    """Jobs have been coming for some time."""
    return True


keep_looking = wakeups.Wakeups.keep_looking


def rest_for_long(own: wakeups.Wakeups, _: float) -> None:
    keep_looking(own, 600.0)


async def test_it_is_followed_by_the_next_one_as_soon_as_its_jobs_have_ended(
    app: App, query: Query, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups, "KEEP_LOOKING", 600.0)
    monkeypatch.setattr(wakeups.Wakeups, "keep_looking", rest_for_long)
    monkeypatch.setattr(wakeups.AwakeFlag, "keep_set", keep_set)

    @app.task
    async def work() -> None:
        pass

    app.limits.set("key:*", concurrency=1)
    for number in range(JOBS):
        work.configure(limit=f"key:{number}").defer()
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, concurrency=SLOTS, wait=True))
        await until(lambda: query("SELECT FROM jobs") == [])
        group.cancel_scope.cancel()


@pytest.mark.parametrize("lock", [None, "a", ["a", "b"]])
@pytest.mark.parametrize("limit", [{"concurrency": 1}, {"rate": "1000/s"}])
async def test_jobs_that_are_claimed_ahead_do_not_keep_it_from_starting(
    app: App,
    query: Query,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
    limit: dict[str, Any],
    lock: Any,
) -> None:
    monkeypatch.setattr(claiming, "COST_SHARE", 0)  # a full claim that stalls puts off the next one

    @app.task
    async def work() -> None:
        await anyio.sleep(0.002)

    app.limits.set("stripe", **limit)
    work.batch_defer(*[{}] * FULL)
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, concurrency=SLOTS, wait=True))
        await until(lambda: query("SELECT count(*) > 500 FROM finished_jobs") == [(True,)])
        work.configure(lock=lock, limit="stripe", priority=1).batch_defer(*[{}] * 5)
        await until(lambda: query("SELECT FROM jobs WHERE limit_key IS NOT NULL") == [])
        [[left]] = query("SELECT count(*) FROM jobs")
        group.cancel_scope.cancel()
    assert left > FULL / 2


async def test_a_worker_claims_nothing_ahead_while_a_job_lacks_a_slot(
    app: App, query: Query, until: Until
) -> None:
    """Else jobs that were claimed ahead would get the next slot, too."""
    may_end = anyio.Event()

    @app.task
    async def work() -> None:
        await may_end.wait()

    app.limits.set("stripe", rate="1000/s")
    parts = Parts(app, concurrency=1)

    async def serve() -> None:
        await parts.registration.register()
        work.defer()
        await parts.run_once()
        assert query("SELECT status FROM jobs") == [("doing",)]
        parts.prefetch.note_ended(1_000)  # they were short
        assert parts.prefetch.capacity > 1
        work.configure(limit="stripe").defer()
        work.batch_defer(*[{}] * 5)
        while parts.prefetch.capacity > 1:  # the next look from the front sees it
            parts.state.wakeups.wake()
            await parts.run_once()
        assert query("SELECT count(*) FROM jobs WHERE status = 'todo'") == [(6,)]
        may_end.set()
        await until(lambda: not parts.running.in_hand)

    with anyio.fail_after(20):
        await parts.running.serve(serve)
        await parts.close()
