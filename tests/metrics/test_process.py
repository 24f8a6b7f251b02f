"""What a worker counts, on a real server, as Prometheus would read it."""

import os
import subprocess
import sys
import threading
import time
from datetime import timedelta

import anyio
import pytest
from prometheus_client import REGISTRY, Counter

from inturn import App, JobContext
from inturn.errors import JobAborted
from inturn.metrics.catalogue import MOST_QUEUES
from inturn.metrics.process import ProcessMetrics
from inturn.metrics.producer import QueueLabels, count_deferred_jobs
from inturn.model import Job
from tests.conftest import Query
from tests.metrics.conftest import Serve
from tests.metrics.scrape import Samples

pytestmark = pytest.mark.anyio
FINISHED, STARTED = "inturn_jobs_finished_total", "inturn_jobs_started_total"
REJECTIONS = "inturn_fencing_rejections_total"
RUNS, LAG = "inturn_job_run_seconds_count", "inturn_event_loop_lag_seconds"


async def test_attempts_are_counted_by_how_they_ended(app: App, serve: Serve) -> None:
    @app.task(name="work", pass_context=True, retry=1)
    async def work(context: JobContext, how: str) -> None:
        if how == "fails" or (how == "fails once" and context.job.attempts == 0):
            raise ValueError(how)
        if how == "snoozes" and context.job.scheduled_at is None:
            context.snooze(timedelta(milliseconds=1))
        if how == "aborts":
            raise JobAborted

    for how in ("succeeds", "succeeds", "fails once", "fails", "snoozes", "aborts"):
        work.defer(how)
    expected = {"succeeded": 4, "failed": 1, "retried": 2, "snoozed": 1, "aborted": 1}
    async with serve(app, fetch_job_polling_interval=0.05) as worker:  # so that one finds nothing
        found = await worker.until(
            lambda samples: (
                samples.by(FINISHED, "outcome") == expected
                and samples.of(RUNS) == 9  # a scrape may come between the two
                and samples.by("inturn_fetch_seconds_count", "outcome").keys() >= {"jobs", "empty"}
            )
        )
    assert found.of(FINISHED, queue="default", task="work") == 9
    assert found.of(STARTED, queue="default", task="work") == 9
    assert found.of(RUNS, queue="default", task="work") == 9
    assert found.of("inturn_job_lateness_seconds_count", queue="default") >= 1


async def test_a_run_lasts_from_its_start_to_its_end(app: App, serve: Serve) -> None:
    began, go = threading.Event(), threading.Event()

    @app.task(name="wait")
    def wait() -> None:
        began.set()
        go.wait(30)

    wait.defer()
    async with serve(app, concurrency=3) as worker:
        busy = await worker.until(lambda samples: samples["inturn_worker_slots_busy"] == 1)
        assert busy["inturn_worker_slots"] == 3
        since = time.monotonic()
        await anyio.sleep(0.2)
        least = time.monotonic() - since
        go.set()
        ended = await worker.until(lambda samples: samples.of(FINISHED) and samples.of(RUNS))
    assert ended["inturn_worker_slots_busy"] == 0
    assert ended.of("inturn_job_run_seconds_sum", task="wait") >= least


async def test_an_end_that_is_refused_is_lost_and_not_counted_as_an_end_too(
    app: App, serve: Serve, query: Query
) -> None:
    began, go = threading.Event(), threading.Event()

    @app.task(name="overtaken")
    def overtaken() -> None:
        began.set()
        go.wait(30)

    overtaken.defer()
    async with serve(app, concurrency=2, update_heartbeat_interval=600.0,
                     stalled_worker_timeout=3600.0) as worker:  # fmt: skip
        await anyio.to_thread.run_sync(began.wait, 30)
        # Somebody else takes the worker for dead and its job over.
        query("SELECT declare_dead(array_agg(id), array_agg(heartbeat_at)) FROM workers")
        query("SELECT rescue(NULL)")
        go.set()
        lost = await worker.until(
            lambda samples: samples[REJECTIONS] and samples.of(FINISHED, outcome="lost")
        )
    assert lost.by(FINISHED, "outcome")["lost"] == 1
    assert lost[REJECTIONS] == 1


async def test_names_that_the_app_does_not_know_make_no_series(app: App, serve: Serve) -> None:
    for number in range(3):
        app.configure_task(f"unknown{number}").defer()
    async with serve(app) as worker:
        found = await worker.until(lambda samples: samples.of(FINISHED) == 3)
    assert found.by(FINISHED, "task") == {"_other": 3}


async def test_the_label_task_can_be_switched_off(app: App, serve: Serve) -> None:
    for name in ("one", "two"):

        @app.task(name=name)
        async def nothing() -> None: ...

        nothing.defer()
    async with serve(app, metrics_tasks=False) as worker:
        found = await worker.until(lambda samples: samples.of(FINISHED) == 2)
    assert found.by(STARTED, "task") == {"_all": 2}


def test_queues_beyond_a_number_share_a_series(app: App) -> None:
    metrics = ProcessMetrics({"t": None}, app.connector, lambda: 0.0)
    for number in range(MOST_QUEUES + 50):
        metrics.note_start(Job(task_name="t", queue=f"queue{number}"), 0.0)
    answer = metrics.routes()["/metrics"]("")
    found = Samples(answer.body.decode()).by(STARTED, "queue")
    assert len(found) == MOST_QUEUES + 1
    assert found["_other"] == 50


async def test_deferred_jobs_are_counted_apart_from_jobs_that_were_waiting_already(
    app: App, serve: Serve
) -> None:
    @app.task(name="deferred")
    async def deferred() -> None: ...

    count_deferred_jobs()
    count_deferred_jobs()  # counts nothing twice
    once = deferred.configure(queueing_lock="once", on_conflict="skip", schedule_in={"hours": 1})
    once.defer()
    once.defer()
    deferred.configure(schedule_in={"hours": 1}).batch_defer({}, {})
    async with serve(app) as worker:
        found = await worker.look()
    counted = found.by("inturn_jobs_enqueued_total", "result", task="deferred", queue="default")
    assert counted == {"new": 3, "waiting": 1}


async def test_metrics_of_your_own_are_served_beside_ours(app: App, serve: Serve) -> None:
    mine = Counter("shop_orders_total", "Orders.")
    try:
        mine.inc(3)
        async with serve(app) as worker:
            found = await worker.look()
    finally:
        REGISTRY.unregister(mine)
    assert found["shop_orders_total"] == 3
    assert found["process_resident_memory_bytes"] > 0


async def test_a_task_that_blocks_the_event_loop_shows_as_lag(app: App, serve: Serve) -> None:
    @app.task(name="block")
    async def block(seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 (that is the point)

    async with serve(app) as worker:
        before = (await worker.look())[LAG]
        block.defer(seconds=before + 2)
        await worker.until(lambda samples: samples[LAG] >= before + 1)


async def test_notifications_and_polls_are_counted_apart(app: App, serve: Serve) -> None:
    @app.task(name="nothing")
    async def nothing() -> None: ...

    name = "inturn_wakeups_total"
    async with serve(app) as worker:
        first = await worker.until(lambda samples: samples["inturn_listen_connected"] == 1)
        nothing.defer()
        await worker.until(
            lambda now: now.of(name, source="notify") > first.of(name, source="notify")
        )
    async with serve(app, listen_notify=False, fetch_job_polling_interval=0.05) as worker:
        found = await worker.until(lambda samples: samples.of(name, source="poll") > 3)
        assert "inturn_listen_connected" not in found.text
        assert found["inturn_last_fetch_timestamp_seconds"] == pytest.approx(time.time(), abs=30)


async def test_heartbeats_that_cannot_be_stored_are_counted(
    app: App, serve: Serve, query: Query
) -> None:
    async with serve(app, update_heartbeat_interval=0.1) as worker:
        assert (await worker.look())["inturn_heartbeat_failures_total"] == 0

        def cut_and_look(samples: Samples) -> bool:  # again, if it was just being connected
            query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name LIKE '%%heartbeat%%'"
            )
            return samples["inturn_heartbeat_failures_total"] > 0

        await worker.until(cut_and_look)


@pytest.mark.landing
def test_a_worker_that_serves_nothing_imports_nothing_for_it(app_dsn: str) -> None:
    code = f"""
import sys
from inturn import App
app = App({app_dsn!r})
@app.task
async def nothing(): ...
with app.open():
    nothing.defer()
    app.run_worker(wait=False)
print(sorted(name for name in sys.modules if name.startswith(
    ("prometheus", "http.server", "inturn.metrics", "inturn.health", "inturn.endpoint",
     "inturn.worker.pulse"))))
"""
    environment = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout == "[]\n"


def test_jobs_of_many_queues_that_a_process_defers_share_a_series(app: App) -> None:
    labels = QueueLabels()
    for number in range(MOST_QUEUES):
        labels.label(f"queue{number}")
    assert labels.label("queue1") == "queue1"
    assert labels.label("another") == "_other"
