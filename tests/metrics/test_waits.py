"""How long jobs wait until they start, and for what."""

import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from inturn import App
from inturn.metrics.process import ProcessMetrics
from inturn.model import Job
from inturn.worker.connection import WorkerConnection
from inturn.worker.middleware_chain import MiddlewareChain
from inturn.worker.options import options
from inturn.worker.running_jobs import RunningJobs
from inturn.worker.unreported import ProgressReports
from tests.conftest import Query
from tests.metrics.conftest import Serve
from tests.metrics.scrape import Samples

pytestmark = pytest.mark.anyio
LATENESS, WAIT = "inturn_job_lateness_seconds", "inturn_job_wait_seconds"
HOUR = 3600


def have_told(starts: int) -> Callable[[Samples], bool]:
    """Both metrics: a scrape may come between them."""
    return lambda samples: (
        samples.of(f"{LATENESS}_count") == samples.of(f"{WAIT}_count", cause="slot") == starts
    )


async def test_a_job_that_its_lane_hands_over_has_waited_for_the_lane(
    app: App, serve: Serve
) -> None:
    @app.task(name="work")
    async def work() -> None: ...

    work.configure(lock="a").batch_defer({}, {}, {})
    work.defer()
    async with serve(app, concurrency=1) as worker:
        found = await worker.until(have_told(4))
    assert found.by(f"{WAIT}_count", "cause") == {"lane": 2, "claim": 2, "slot": 4}
    parts = found.by(f"{WAIT}_sum", "cause")
    assert sum(parts.values()) == pytest.approx(found.of(f"{LATENESS}_sum"))
    assert found.by(f"{WAIT}_count", "queue", cause="claim") == {"default": 2}


async def test_a_wait_begins_when_the_job_is_due_and_is_told_by_the_server(
    app: App, serve: Serve, query: Query
) -> None:
    for queue in ("plain", "scheduled", "retried"):

        @app.task(name=queue, queue=queue, retry=1)
        async def work() -> None: ...

        work.defer()
    query("UPDATE jobs SET created_at = now() - interval '5 h' RETURNING id")
    query("""UPDATE jobs SET scheduled_at = now() - interval '1 h', status = 'scheduled'
             WHERE queue = 'scheduled' RETURNING id""")
    query("""UPDATE jobs SET scheduled_at = now() - interval '2 h', was_attempted = true
             WHERE queue = 'retried' RETURNING id""")
    async with serve(app) as worker:
        found = await worker.until(have_told(3))
    waited = found.by(f"{LATENESS}_sum", "queue")
    hours = {queue: int(seconds / HOUR) for queue, seconds in waited.items()}
    assert hours == {"plain": 5, "scheduled": 1, "retried": 2}


async def test_the_time_until_other_jobs_have_ended_is_not_waited(
    app: App, serve: Serve, query: Query
) -> None:
    @app.task(name="parent")
    async def parent() -> None: ...

    @app.task(name="child", queue="child")
    async def child() -> None: ...

    @app.task(name="report", queue="report")
    async def report() -> None: ...

    child.configure(after=parent.defer()).defer()
    with app.batch("import", callback=report) as batch:
        parent.configure(batch=batch).defer()
    query("""UPDATE jobs SET created_at = now() - interval '2 h',
                 scheduled_at = scheduled_at - interval '2 h'
             WHERE task <> 'parent' RETURNING id""")
    async with serve(app) as worker:
        found = await worker.until(lambda samples: samples.of(f"{LATENESS}_count") == 4)
    waited = found.by(f"{LATENESS}_sum", "queue")
    assert {queue for queue, seconds in waited.items() if seconds >= HOUR} == set()


async def test_a_job_that_is_claimed_ahead_waits_for_a_slot_from_then_on() -> None:
    nobody: Any = None
    app = App("postgresql://nowhere.invalid/")
    go = anyio.Event()

    @app.task(name="hold")
    async def hold() -> None:
        await go.wait()

    metrics = ProcessMetrics(app.tasks, app.connector, lambda: 0.0)
    running = RunningJobs(
        app,
        app.connector,
        options({"concurrency": 1}),
        lambda: None,
        MiddlewareChain(nobody, None, None),
        ProgressReports(WorkerConnection(app.connector), lambda: None),
        metrics,
    )

    def look() -> Samples:
        return Samples(metrics.routes()["/metrics"]("").body.decode())

    async def work() -> None:
        began = time.monotonic()
        running.start_all(
            [Job(id=id, task_name="hold", waited=1000.0 * id, queue=f"q{id}") for id in (1, 2)]
        )
        await anyio.wait_all_tasks_blocked()
        since = time.monotonic()
        await anyio.sleep(0.2)
        go.set()
        most = since - began
        least = time.monotonic() - since
        await running.wait_until_empty()
        found = look()
        assert found.of(f"{WAIT}_sum", cause="slot", queue="q1") <= most
        slot = found.of(f"{WAIT}_sum", cause="slot", queue="q2")
        assert slot >= least
        assert found.of(f"{WAIT}_sum", cause="claim", queue="q2") == 2000
        assert found.of(f"{LATENESS}_sum", queue="q2") == 2000 + slot

    with anyio.fail_after(120):
        await running.serve(work)


def test_a_server_whose_clock_was_set_back_makes_no_wait_negative() -> None:
    app = App("postgresql://nowhere.invalid/")
    metrics = ProcessMetrics(app.tasks, app.connector, lambda: 0.0)
    metrics.note_start(Job(task_name="t", waited=-5.0), 0.5)
    found = Samples(metrics.routes()["/metrics"]("").body.decode())
    assert found.of(f"{WAIT}_sum", cause="claim") == 0
    assert found.of(f"{LATENESS}_sum") == 0.5
