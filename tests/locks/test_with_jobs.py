"""Jobs that hold locks while they run, on Redis and on files, with real workers (statements J)."""

import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import psycopg
import pytest
import redis
import redis.asyncio

from inturn import App, JobContext, RetryStrategy
from inturn.errors import BadArgument, TaskDefinitionError
from inturn.locks import AsyncSmartLock, KernelFileLock, SmartLock, lock_from_url
from inturn.worker import resources
from tests.conftest import Query
from tests.locks.conftest import Spawn

pytestmark = pytest.mark.anyio
Brief = Callable[..., AsyncSmartLock]
SOON = 0.05  # seconds between two tries of a snoozed job


@pytest.fixture(params=["redis", "file"])
def address(request: pytest.FixtureRequest, socket: str, tmp_path: Path) -> str:
    """Return the address of a lock with the name `it`."""
    return f"unix://{socket}#it" if request.param == "redis" else f"file://{tmp_path}#it"


@asynccontextmanager
async def serving(
    *apps: App, **options: Any
) -> AsyncIterator[Callable[[Callable[[], object]], Awaitable[None]]]:
    """Run workers of these apps. Yield a function that waits for a condition."""

    async def until(condition: Callable[[], object]) -> None:
        while not condition():  # noqa: ASYNC110 (it is in another process, or in the database)
            await anyio.sleep(0.005)

    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            for one in apps:
                group.start_soon(partial(one.run_worker_async, wait=True, **options))
            yield until
            group.cancel_scope.cancel()


def finished(query: Query) -> dict[int, tuple[str, int]]:
    """Return the status and the number of starts of each job that has ended."""
    return {
        id: (status, starts)
        for id, status, starts in query("SELECT id, status::text, attempts FROM finished_jobs")
    }


@pytest.mark.statement("J1")
async def test_locks_are_taken_before_the_task_runs_and_released_after_the_commit(
    app: App, query: Query, dsn: str, address: str
) -> None:
    held: list[bool] = []
    go_on = threading.Event()

    @app.task(resources=[address])
    def work() -> None:
        held.append(lock_from_url(address).locked())
        go_on.wait(30)

    job = work.defer()
    with psycopg.connect(dsn, options="-c search_path=inturn") as other:
        async with serving(app) as until:
            await until(lambda: held)
            other.execute("SELECT FROM jobs WHERE id = %s FOR UPDATE", [job])
            go_on.set()
            await until(lambda: query("SELECT FROM pg_locks WHERE NOT granted"))
            assert lock_from_url(address).locked()  # the code has ended, but its end is not stored
            assert finished(query) == {}
            other.commit()
            await until(lambda: not lock_from_url(address).locked())
            assert finished(query)[job][0] == "succeeded"
    assert held == [True]


@pytest.mark.statement("J1")
async def test_several_locks_are_taken_in_one_order_so_that_jobs_do_not_deadlock(
    app: App, query: Query, socket: str, tmp_path: Path
) -> None:
    one, two = f"unix://{socket}#one", f"file://{tmp_path}#two"
    inside: list[int] = []
    most = 0

    async def work(number: int) -> None:
        nonlocal most
        inside.append(number)
        most = max(most, len(inside))
        await anyio.sleep(0.001)
        inside.remove(number)

    there = app.task(resources=[one, two], on_busy="wait", name="there")(work)
    back = app.task(resources=[two, one], on_busy="wait", name="back")(work)
    for number in range(10):
        there.defer(number)
        back.defer(number)
    async with serving(app, concurrency=4) as until:
        await until(lambda: len(finished(query)) == 20)
    assert most == 1
    assert {status for status, _ in finished(query).values()} == {"succeeded"}


async def _at_once() -> None: ...


async def _slowly(holding: resources.HeldLocks) -> None:
    await anyio.sleep(0.02)
    await _release(holding)


_release = resources.HeldLocks.release


@pytest.mark.parametrize("left_out", ["A_MOMENT", "settled"])
@pytest.mark.statement("J1")
async def test_the_next_job_of_a_lane_does_not_find_the_lock_of_the_last_one_busy(
    app: App, query: Query, address: str, monkeypatch: pytest.MonkeyPatch, left_out: str
) -> None:
    """Its own worker waits until the lock is released. Other workers wait for a moment."""
    monkeypatch.setattr(resources.HeldLocks, "release", _slowly)
    if left_out == "settled":
        monkeypatch.setattr(resources.ResourceLocks, "wait_for_releases", lambda _: _at_once())
        monkeypatch.setattr(resources, "A_MOMENT", 30.0)  # a busy machine may need longer
    else:
        monkeypatch.setattr(resources, "A_MOMENT", 0.0)

    @app.task(resources=[address], on_busy="fail", lock="lane")
    async def work(number: int) -> None: ...

    work.batch_defer(*({"number": n} for n in range(5)))
    async with serving(app) as until:
        await until(lambda: len(finished(query)) == 5)
    assert {status for status, _ in finished(query).values()} == {"succeeded"}


@pytest.mark.statement("J1")
async def test_two_workers_never_overlap(app: App, query: Query, address: str) -> None:
    inside = most = 0

    @app.task(resources=[address], busy_seconds=SOON / 10)
    async def work(number: int) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await anyio.sleep(0.002)
        inside -= 1

    work.batch_defer(*({"number": n} for n in range(20)))
    async with serving(app, app, concurrency=3) as until:
        await until(lambda: len(finished(query)) == 20)
    assert most == 1
    assert {status for status, _ in finished(query).values()} == {"succeeded"}


@pytest.mark.statement("J1")
async def test_a_job_that_is_put_back_releases_its_locks(
    app: App, query: Query, address: str
) -> None:
    started = anyio.Event()

    @app.task(resources=[address])
    async def work() -> None:
        started.set()
        await anyio.sleep_forever()

    job = work.defer()
    async with serving(app, shutdown_graceful_timeout=0.0):
        await started.wait()
    assert not lock_from_url(address).locked()
    assert query("SELECT status::text FROM jobs WHERE id = %s", job) == [("todo",)]


@pytest.mark.statement("J2")
async def test_snooze_keeps_the_place_in_the_lane(app: App, query: Query, address: str) -> None:
    seen: list[str] = []

    @app.task(resources=[address], busy_seconds=SOON, lock="lane")
    def needy(name: str) -> None:
        seen.append(name)

    @app.task(lock="lane")
    def easy(name: str) -> None:
        seen.append(name)

    def starts() -> int:
        ((fence,),) = query("SELECT fence FROM jobs WHERE id = %s", first)
        return int(fence or 0)

    with lock_from_url(address):
        first = needy.defer("first")
        async with serving(app, concurrency=2) as until:
            await until(lambda: starts() >= 2)
            easy.configure(priority=9).defer("second")
            after = starts() + 2
            await until(lambda: starts() >= after)
    assert seen == []
    async with serving(app) as until:
        await until(lambda: len(finished(query)) == 2)
    assert seen == ["first", "second"]


@pytest.mark.statement("J2")
async def test_snooze_charges_no_attempt(app: App, query: Query, address: str) -> None:
    @app.task(resources=[address], busy_seconds=SOON)
    def work() -> None: ...

    lease = lock_from_url(address).acquire()
    assert lease is not None
    job = work.defer()
    async with serving(app) as until:
        # It was started several times.
        await until(lambda: query("SELECT FROM jobs WHERE fence > 3"))
        lease.release()
        await until(lambda: finished(query))
    assert finished(query) == {job: ("succeeded", 1)}
    assert query("SELECT errors FROM finished_jobs") in ([(None,)], [([],)])


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.statement("J3")
async def test_wait_waits_in_its_slot(app: App, query: Query, address: str, kind: str) -> None:
    ran: list[bool] = []

    async def work_async() -> None:
        ran.append(True)

    app.task(resources=[address], on_busy="wait", name="it")(
        work_async if kind == "async" else lambda: ran.append(True)
    )
    lock = lock_from_url(address)
    lease = lock.acquire()
    assert lease is not None
    job = app.tasks["it"].defer()
    async with serving(app) as until:
        await until(lambda: query("SELECT FROM jobs WHERE status = 'doing'"))
        await anyio.sleep(0.3)  # longer than the others wait
        assert query("SELECT status::text FROM jobs") == [("doing",)]
        assert not ran
        await anyio.to_thread.run_sync(lease.release)
        await until(lambda: finished(query))
    assert finished(query) == {job: ("succeeded", 1)}


@pytest.mark.statement("J3")
async def test_wait_fails_at_its_end(app: App, query: Query, address: str) -> None:
    @app.task(resources=[address], on_busy="wait", busy_seconds=0.2)
    def work() -> None: ...

    with lock_from_url(address):
        job = work.defer()
        async with serving(app) as until:
            await until(lambda: finished(query))
    assert finished(query) == {job: ("failed", 1)}
    ((errors,),) = query("SELECT errors::text FROM finished_jobs")
    assert "another holder has it" in errors


@pytest.mark.statement("J3")
async def test_fail_leaves_it_to_the_retry_strategy(app: App, query: Query, address: str) -> None:
    @app.task(resources=[address], on_busy="fail", retry=RetryStrategy(max_attempts=2))
    def work() -> None: ...

    with lock_from_url(address):
        job = work.defer()
        async with serving(app) as until:
            await until(lambda: finished(query))
    assert finished(query) == {job: ("failed", 3)}


@pytest.mark.statement("J3")
async def test_skip_ends_the_job_as_cancelled(app: App, query: Query, address: str) -> None:
    ran: list[bool] = []

    @app.task(
        resources=[address],
        on_busy="skip",
        retry=RetryStrategy(max_attempts=2),
        on_failure="halt",
        lock="lane",
    )
    def work() -> None:
        ran.append(True)

    with lock_from_url(address):
        first, second = work.defer(), work.defer()
        async with serving(app) as until:
            await until(lambda: len(finished(query)) == 2)  # the lane was not halted
    assert finished(query) == {first: ("cancelled", 1), second: ("cancelled", 1)}
    assert not ran


@pytest.mark.statement("J3")
async def test_proceed_runs_without_the_lock_and_releases_nothing(
    app: App, query: Query, address: str
) -> None:
    seen: list[tuple[Any, ...]] = []

    @app.task(resources=[address], on_busy="proceed", pass_context=True)
    def work(context: JobContext) -> None:
        seen.append(context.leases)

    with lock_from_url(address):
        work.defer()
        async with serving(app) as until:
            await until(lambda: finished(query))
        assert lock_from_url(address).locked()
    assert seen == [()]


@pytest.mark.parametrize("on_busy", ["wait", "skip", "fail", "proceed"])
@pytest.mark.statement("J3")
async def test_a_store_that_is_away_is_a_failure(
    app: App, query: Query, tmp_path: Path, on_busy: Any
) -> None:
    @app.task(resources=[f"unix://{tmp_path}/nothing#it"], on_busy=on_busy)
    def work() -> None: ...

    job = work.defer()
    async with serving(app) as until:
        await until(lambda: finished(query))
    assert finished(query) == {job: ("failed", 1)}


@pytest.mark.statement("J3")
async def test_a_snoozing_job_waits_for_a_store_that_is_away(
    app: App, query: Query, socket: str, tmp_path: Path
) -> None:
    @app.task(resources=[f"unix://{tmp_path}/nothing#it"])
    def work() -> None: ...

    job = work.defer()
    async with serving(app) as until:
        await until(lambda: finished(query) or query("SELECT FROM jobs WHERE status = 'scheduled'"))
    assert query("SELECT id, status::text, attempts FROM jobs") == [(job, "scheduled", 0)]
    (tmp_path / "nothing").symlink_to(socket)  # the store is back
    app.job_manager.retry_job_by_id(job)
    async with serving(app) as until:
        await until(lambda: finished(query))
    assert finished(query) == {job: ("succeeded", 1)}


@pytest.fixture
async def brief(socket: str, renewed_soon: None) -> AsyncIterator[Callable[..., AsyncSmartLock]]:
    """Return a function that makes locks whose loss is noticed soon."""
    async with redis.asyncio.Redis(unix_socket_path=socket) as client:
        yield lambda **_: AsyncSmartLock(client, "it")


@pytest.mark.statement("J4")
async def test_losing_one_ends_an_async_run_and_the_job_goes_again(
    app: App, query: Query, brief: Brief, conn: "redis.Redis"
) -> None:
    fences: list[int | None] = []

    @app.task(resources=[brief], pass_context=True)
    async def work(context: JobContext) -> None:
        (lease,) = context.leases
        fences.append(lease.fence)
        if len(fences) == 1:
            await anyio.to_thread.run_sync(SmartLock(conn, "it").break_)
            await anyio.sleep_forever()

    job = work.defer()
    async with serving(app) as until:
        await until(lambda: finished(query))
    assert finished(query) == {job: ("succeeded", 2)}
    assert fences == [1, 3]  # breaking the lock raised it too
    ((errors,),) = query("SELECT errors::text FROM finished_jobs")
    assert "lost, because it was taken over or broken" in errors


@pytest.mark.parametrize("ending", ["success", "failure"])
@pytest.mark.statement("J4")
async def test_the_report_of_a_sync_run_after_a_loss_is_refused(
    app: App, query: Query, brief: Brief, conn: "redis.Redis", ending: str
) -> None:
    runs: list[str | None] = []

    @app.task(resources=[brief], pass_context=True)
    def work(context: JobContext) -> None:
        runs.append(None)
        if len(runs) == 1:
            SmartLock(conn, "it").break_()
            assert context.leases[0].lost.wait(10)
            for _ in range(2000):
                if context.should_abort():
                    break
                threading.Event().wait(0.005)
            runs[0] = context.abort_reason
            if ending == "failure":
                raise ValueError("because it was lost")

    job = work.defer()
    async with serving(app) as until:
        await until(lambda: finished(query))
    assert finished(query) == {job: ("succeeded", 2)}
    assert "lost" in str(runs[0])


@pytest.mark.usefixtures("renewed_soon")
@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.statement("J4")
async def test_a_loss_is_stored_whatever_the_lock_and_its_owner_are_called(
    app: App, query: Query, socket: str, conn: "redis.Redis", kind: str
) -> None:
    def lose(context: JobContext) -> bool:
        is_first = context.leases[0].fence == 1
        if is_first:
            SmartLock(conn, "it\0").break_()
        return is_first

    async def work_async(context: JobContext) -> None:
        if lose(context):
            await anyio.sleep_forever()

    def work(context: JobContext) -> None:
        if lose(context):
            assert context.leases[0].lost.wait(10)

    async with redis.asyncio.Redis(unix_socket_path=socket) as client:
        odd = partial(AsyncSmartLock, client, "it\0", host="web\0")
        task = app.task(resources=[odd], pass_context=True)(work_async if kind == "async" else work)
        job = task.defer()
        async with serving(app) as until:
            await until(lambda: finished(query))
    assert finished(query) == {job: ("succeeded", 2)}
    (([error],),) = query("SELECT errors FROM finished_jobs")
    assert rf"owner web\0 for job {job} of " in error["error"]


@pytest.mark.statement("J4")
async def test_losing_one_after_somebody_aborted_the_job_leaves_it_aborted(
    app: App, query: Query, brief: Brief, conn: "redis.Redis"
) -> None:
    started = anyio.Event()

    @app.task(resources=[brief])
    async def work() -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            SmartLock(conn, "it").break_()

    job = work.defer()
    async with serving(app) as until:
        await started.wait()
        await anyio.to_thread.run_sync(partial(app.job_manager.cancel_job_by_id, job, abort=True))
        await until(lambda: finished(query))
    assert finished(query) == {job: ("aborted", 1)}


@pytest.mark.statement("J5")
async def test_a_job_holds_its_locks_on_behalf_of_its_attempt(
    app: App, query: Query, address: str
) -> None:
    holders: list[Any] = []

    @app.task(resources=[address], pass_context=True)
    def work(context: JobContext) -> None:
        holders.append((lock_from_url(address).holder(), context.job.fence))

    job = work.defer()
    async with serving(app) as until:
        await until(lambda: finished(query))
    ((holder, fence),) = holders
    if address.startswith("unix:"):
        assert holder.owner.endswith(f", attempt {fence}")
        assert f"for job {job} of " in holder.owner


@pytest.mark.parametrize("printer", ["one", "a/b", "../up", "#{}%", "100%41", "été"])
@pytest.mark.statement("J6")
async def test_names_are_made_of_arguments(
    app: App, query: Query, socket: str, tmp_path: Path, conn: "redis.Redis", printer: str
) -> None:
    held: list[bool] = []

    @app.task(
        resources=[
            f"unix://{socket}#printer:{{printer}}:{{tray}}",
            f"file://{tmp_path}#{{printer}}",
        ]
    )
    def work(printer: str, tray: int = 3) -> None:
        held.append(conn.exists(f"inturn:{{printer:{printer}:3}}") == 1)
        held.append(KernelFileLock(tmp_path / printer.replace("/", "_")).locked())

    work.defer(printer)
    async with serving(app) as until:
        await until(lambda: finished(query))
    assert held == [True, True]
    assert lock_from_url(f"unix://{socket}#printer:{quote(printer)}:3").locked() is False


@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        ({"resources": "redis://h/0#n"}, BadArgument, "Pass a list"),
        ({"resources": [3]}, BadArgument, "3 is not a resource. Pass an address"),
        ({"resources": ["redis://h/0"]}, BadArgument, r"address: redis://host/0#printer-{id}, "),
        ({"resources": ["redis://{printer}/0#n"]}, BadArgument, "after the address"),
        ({"resources": ["redis://h/0#{"]}, BadArgument, "resources: "),
        ({"resources": ["redis://h/0#{}"]}, TaskDefinitionError, "no argument ''"),
        ({"resources": ["redis://h/0#{printr}"]}, TaskDefinitionError, "no argument 'printr'"),
        ({"resources": ["file:///x"], "on_busy": "later"}, BadArgument, "on_busy"),
        ({"resources": ["file:///x"], "busy_seconds": 0}, BadArgument, "more than 0"),
        (
            {"resources": ["file:///x"], "on_busy": "skip", "busy_seconds": 1},
            BadArgument,
            "'snooze' or 'wait'",
        ),
    ],
)
@pytest.mark.statement("J6")
def test_resources_that_cannot_work_are_refused_when_they_are_declared(
    app: App, wrong: Any, error: Any, match: str
) -> None:
    with pytest.raises(error, match=match):

        @app.task(**wrong)
        def work(printer: str) -> None: ...


@pytest.mark.statement("J6")
async def test_a_factory_of_something_else_fails_the_job_with_a_reason(
    app: App, query: Query, tmp_path: Path
) -> None:
    app.task(resources=[lambda: KernelFileLock(tmp_path / "it")], name="it")(lambda: None)
    app.tasks["it"].defer()
    async with serving(app) as until:
        await until(lambda: finished(query))
    ((errors,),) = query("SELECT errors::text FROM finished_jobs")
    assert "use an async lock, like AsyncSmartLock" in errors


@pytest.mark.landing
@pytest.mark.statement("J7")
def test_tasks_without_resources_load_no_locks(app: App, dsn: str, spawn: Spawn) -> None:
    code = """
import sys
from inturn import App
app = App(sys.argv[1])
@app.task(name="it")
def it() -> None:
    ours = sorted(name for name in sys.modules if name.startswith("inturn."))
    print("ran", *(name for name in ours if "locks" in name or "worker.resources" in name))
with app.open():
    it.defer()
app.run_worker(wait=False)
"""
    assert (
        spawn(code, dsn, command=[sys.executable, "-c", code], env=dict(os.environ)).line() == "ran"
    )
