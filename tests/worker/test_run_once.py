"""Each service of a worker has one round, `run_once`, that needs no thread and no loop."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from uuid import UUID

import anyio
import psycopg
import pytest

from inturn import App
from inturn.worker.heartbeat import Heartbeat, Reactions
from inturn.worker.listener import ABORT, Listener
from inturn.worker.loop_watch import LoopWatch
from inturn.worker.maintenance import Maintenance
from inturn.worker.options import options
from inturn.worker.scheduler import LONGEST_SLEEP, SHORTEST_SLEEP, Scheduler
from tests.conftest import FAST_TAKEOVER, Query
from tests.worker.parts import Parts

pytestmark = pytest.mark.anyio


@pytest.fixture
def connection(app: App) -> Iterator[psycopg.Connection]:
    with app.connector.connect("test") as connection:
        yield connection


async def test_the_loop_claims_then_reports_and_takes_over_the_next_of_the_lane(
    app: App, query: Query
) -> None:
    seen: list[int] = []
    parts = Parts(app)

    @app.task(lock="lane")
    async def step(number: int) -> None:
        seen.append(number)

    step.batch_defer({"number": 1}, {"number": 2})
    ended = "SELECT count(*) FROM finished_jobs"

    async def work() -> None:
        await parts.registration.register()
        await parts.loop.run_once()
        await parts.running.wait_until_empty()
        assert (seen, query(ended)) == ([1], [(0,)])
        while query(ended) == [(0,)]:  # it also looks how the claim has ended
            await parts.loop.run_once()
        await parts.running.wait_until_empty()
        assert (seen, query(ended)) == ([1, 2], [(1,)])
        while query(ended) == [(1,)]:
            await parts.loop.run_once()
        assert query(ended) == [(2,)]

    with anyio.fail_after(120):
        await parts.running.serve(work)
        await parts.close()


async def test_the_loop_registers_again_before_anything_else_when_it_was_taken_for_dead(
    app: App, query: Query
) -> None:
    parts = Parts(app)
    await parts.registration.register()
    dead = parts.registration.worker_id
    query("DELETE FROM workers RETURNING 1")
    parts.recovery.note_lost(dead)
    await parts.loop.run_once()
    await parts.close()
    assert query("SELECT id FROM workers") == [(parts.registration.worker_id,)]
    assert parts.registration.worker_id != dead


async def test_the_heartbeat_says_that_the_worker_lives_and_hears_that_it_is_taken_for_dead(
    app: App, query: Query, connection: psycopg.Connection
) -> None:
    parts = Parts(app)
    lost: list[UUID] = []
    await parts.registration.register()
    await parts.close()
    reactions = Reactions(
        lost=lost.append, unheard=lambda: None, ticked=lambda _: None, dead=lambda: None
    )
    heartbeat = Heartbeat(
        app.connector, 10.0, parts.registration, LoopWatch(may_pause=False), reactions
    )
    [(before,)] = query("SELECT heartbeat_at FROM workers")
    heartbeat.run_once(connection)
    [(after,)] = query("SELECT heartbeat_at FROM workers")
    assert after > before
    assert not lost
    query("DELETE FROM workers RETURNING 1")
    heartbeat.run_once(connection)
    assert lost == [parts.registration.worker_id]


@pytest.mark.parametrize("is_away", [False, True])
async def test_the_heartbeat_notes_a_blocked_loop_between_its_rounds_and_in_an_outage(
    is_away: bool, app: App, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = Parts(app)
    await parts.registration.register()
    await parts.close()
    if is_away:
        monkeypatch.setattr(app.connector, "connect", lambda _: 1 / 0)
    noted: list[float] = []
    reactions = Reactions(
        lost=lambda _: None, unheard=lambda: None, ticked=noted.append, dead=lambda: None
    )
    watch = LoopWatch(may_pause=False)
    heartbeat = Heartbeat(app.connector, 0.05, parts.registration, watch, reactions)
    heartbeat.start()
    blocked = "SELECT FROM workers WHERE heartbeat_at - loop_turned_at > interval '0.1 s'"
    deadline = time.monotonic() + 60
    while max(noted, default=0) < 0.1 or not (is_away or query(blocked)):
        time.sleep(0.01)  # noqa: ASYNC251 - it must block the loop
        assert time.monotonic() < deadline, noted
    heartbeat.stop()


async def test_a_worker_that_registers_again_is_as_old_as_before(
    app: App, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = Parts(app)
    began = time.monotonic()
    await parts.registration.register()
    monkeypatch.setattr("inturn.worker.registration.time.monotonic", lambda: began + 3600)
    query("DELETE FROM workers RETURNING 1")  # others took it for dead
    await parts.registration.register()
    await parts.close()
    assert query("SELECT clock() - started_at > interval '59 minutes' FROM workers") == [(True,)]


async def test_maintenance_takes_a_silent_workers_job_over_after_some_rounds(
    app: App, query: Query, connection: psycopg.Connection
) -> None:
    @app.task
    async def work() -> None: ...

    work.defer()
    query("SELECT id FROM claim(register_worker('dead', 'there', 1, NULL, 1), NULL, 1)")
    query("UPDATE workers SET heartbeat_at = heartbeat_at - interval '1 hour' RETURNING 1")
    [(mine,)] = query("SELECT register_worker('me', 'here', 1, NULL, 1)")
    settled: list[None] = []
    maintenance = Maintenance(
        app.connector, options(FAST_TAKEOVER), lambda: mine, lambda: settled.append(None)
    )
    maintenance.run_once(connection)
    assert maintenance.suspects  # it has not seen for itself how long the worker has been silent
    assert not settled
    assert query("SELECT status::text FROM jobs") == [("doing",)]
    with anyio.fail_after(120):
        while not settled:  # no worker is suspected any more
            query("SELECT heartbeat(%s)", mine)
            await anyio.sleep(maintenance.run_once(connection))
    assert query("SELECT name FROM workers") == [("me",)]
    assert query("SELECT status::text FROM jobs") == [("todo",)]


async def test_the_scheduler_defers_what_is_due_and_says_how_long_to_sleep(
    app: App, query: Query, connection: psycopg.Connection
) -> None:
    @app.periodic(cron="* * * * *")
    @app.task
    async def note(timestamp: int) -> None: ...

    scheduler = Scheduler(app.connector, app)
    assert scheduler.run_once(connection) == SHORTEST_SLEEP  # it has registered the schedule
    query("UPDATE schedules SET since = since - interval '1 hour' RETURNING 1")
    scheduler.run_once(connection)
    assert query("SELECT task FROM jobs") == [(note.name,)]  # the newest instant only
    assert SHORTEST_SLEEP <= scheduler.run_once(connection) <= LONGEST_SLEEP


async def test_the_listener_passes_on_what_concerns_its_queues(app: App) -> None:
    heard: list[str] = []
    listener = Listener(
        app.connector,
        ["mine"],
        wake=lambda: heard.append("wake"),
        abort=lambda: heard.append("abort"),
    )
    async with await app.connector.connect_async("listener", to_listen=True) as connection:
        await connection.execute("LISTEN inturn")
        for payload in ("other", "mine", ABORT, "other,mine", ""):
            await connection.execute("SELECT pg_notify('inturn', %s)", [payload])
        await listener.run_once(connection, seconds=0.2)
    assert heard == ["wake", "abort", "wake", "wake"]


async def test_a_report_that_is_cancelled_loses_no_end(app: App, query: Query) -> None:
    @app.task
    async def step() -> None: ...

    parts = Parts(app, concurrency=1)

    async def work() -> None:
        await parts.registration.register()
        while not parts.running.unreported:
            await parts.loop.run_once()
        report = asyncio.ensure_future(parts.loop.run_once())
        await asyncio.sleep(0)
        while parts.running.unreported:  # the loop does something else first
            await report
            report = asyncio.ensure_future(parts.loop.run_once())
            await asyncio.sleep(0)
        report.cancel()
        with suppress(asyncio.CancelledError):
            await report
        assert len(parts.running.unreported) == 1
        while parts.running.unreported:
            await parts.loop.run_once()

    step.defer()
    with anyio.fail_after(120):
        await parts.running.serve(work)
        await parts.close()
    assert query("SELECT status::text FROM finished_jobs") == [("succeeded",)]
