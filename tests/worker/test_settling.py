"""A worker settles beside its claims what falls due in large numbers."""

import logging
import time
from functools import partial

import anyio
import pytest

from inturn import App
from inturn.worker.maintenance import LONGEST_PAUSE, Maintenance
from inturn.worker.options import options
from tests.conftest import Query, Until

pytestmark = [pytest.mark.anyio, pytest.mark.landing]
DUE = "SELECT count(*) FROM jobs WHERE queue = 'theirs' AND status = 'scheduled'"
WAITING = "SELECT count(*) FROM jobs WHERE queue = 'ours' AND status = 'todo'"
FILL = (
    "INSERT INTO jobs (task, queue, created_at, status, scheduled_at) "
    "SELECT 't', 'theirs', now(), 'scheduled', now() FROM generate_series(1, 2000) RETURNING id"
)


async def test_a_busy_worker_does_not_wait_with_it_until_it_has_nothing_else_to_do(
    app: App, until: Until, query: Query
) -> None:
    @app.task(queue="ours")
    async def nap() -> None:
        await anyio.sleep(0.02)

    async with app.open_async(), anyio.create_task_group() as group:
        await nap.batch_defer_async(*[{}] * 500)
        group.start_soon(
            partial(
                app.run_worker_async,
                queues=["ours"],
                update_heartbeat_interval=3600,
                stalled_worker_timeout=4 * 3600,
            )
        )
        await until(lambda: query(WAITING) < [(450,)])  # its first round is over
        query(FILL)
        await until(lambda: query(DUE) == [(0,)])
        assert query(WAITING) > [(0,)]
        group.cancel_scope.cancel()


def test_a_thread_that_cannot_connect_is_not_hurried(caplog: pytest.LogCaptureFixture) -> None:
    app = App("host=127.0.0.1 port=1")
    thread = Maintenance(app.connector, options({}), lambda: None, lambda: None)  # type: ignore[arg-type,return-value]
    with caplog.at_level(logging.DEBUG):
        thread.start()
        until = time.monotonic() + LONGEST_PAUSE
        while time.monotonic() < until:
            thread.settle_soon()
            time.sleep(0.01)
        thread.stop()
    tries = [record for record in caplog.records if "maintenance.failed" in record.getMessage()]
    assert 1 <= len(tries) <= 2


def test_a_call_while_it_stops_is_no_reason_to_go_on(app: App) -> None:
    thread = Maintenance(app.connector, options({}), lambda: None, lambda: None)  # type: ignore[arg-type,return-value]
    thread._end.set()
    thread._is_called.clear()
    began = time.monotonic()
    thread._rest(60)
    assert time.monotonic() - began < 60
