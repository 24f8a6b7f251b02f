"""A worker whose slots are all taken."""

from functools import partial
from typing import Any

import anyio
import pytest

from inturn import App
from inturn.worker.claiming.claiming import MOST_LANES
from inturn.worker.claiming.wakeups import Wakeups
from tests.conftest import Query, Until

pytestmark = pytest.mark.anyio
LOOKS = 5


@pytest.mark.parametrize("wait", [False, True])
async def test_a_worker_without_a_free_slot_sleeps_until_something_happens(
    app: App, query: Query, until: Until, monkeypatch: pytest.MonkeyPatch, wait: bool
) -> None:
    """It knows that there may be more jobs, and that it cannot take them."""
    turns, may_end = [0], anyio.Event()

    async def count(self: Wakeups, at_most: float | None, *, polls: bool) -> None:
        turns[0] += 1
        await sleep(self, at_most, polls=polls)

    sleep: Any = Wakeups.wait
    monkeypatch.setattr(Wakeups, "wait", count)

    @app.task
    async def work() -> None:
        await may_end.wait()

    work.batch_defer({}, {})
    worker = partial(app.run_worker_async, wait=wait, update_heartbeat_interval=0.05)
    async with anyio.create_task_group() as group:
        group.start_soon(worker)
        await until(lambda: query("SELECT FROM jobs WHERE status = 'doing'"))
        for _ in range(LOOKS):  # time passes: the heartbeat has a thread of its own
            query("UPDATE workers SET heartbeat_at = '2001-01-01' RETURNING 1")
            await until(lambda: query("SELECT FROM workers WHERE heartbeat_at > '2002-01-01'"))
        during = turns[0]
        may_end.set()
        await until(lambda: query("SELECT count(*) FROM finished_jobs") == [(2,)])
        group.cancel_scope.cancel()
    assert during < 20 + 2 * LOOKS


async def test_a_claim_that_took_as_many_lanes_as_it_may_is_followed_by_another(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []  # by the claims after which the worker asked when to look again
    note_not_filled: Any = Wakeups.note_not_filled

    def record(self: Wakeups, jobs: int, due: Any, *, notified: bool) -> None:
        found.append(jobs)
        note_not_filled(self, jobs, due, notified=notified)

    monkeypatch.setattr(Wakeups, "note_not_filled", record)

    @app.task
    async def work() -> None:
        pass

    app.enqueue([work.configure(lock=str(n)).make_new_job() for n in range(MOST_LANES + 500)])
    await app.run_worker_async(concurrency=MOST_LANES + 100, wait=False)
    assert max(found) < MOST_LANES
