"""A job ends in its task's own transaction, so effects in the same database happen exactly once."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.pool import StaticPool

from inturn import App, JobContext, PsycopgConnector, RetryStrategy
from inturn.errors import ConfigurationError, DatabaseUnavailable, JobLost
from inturn.model import Job
from inturn.operations.engine import claim, finish, workers
from inturn.worker.attempt import Attempt
from inturn.worker.options import DeleteJobsName
from tests.conftest import FAST_TAKEOVER, NO_POLL, Query, Until
from tests.lossy import Lossy

pytestmark = [pytest.mark.anyio, pytest.mark.fresh_database]
WRITE = "INSERT INTO effects VALUES (%s)"


@pytest.fixture(autouse=True)
def effects(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE effects (job_id bigint); GRANT ALL ON effects TO PUBLIC")


@pytest.fixture
def written(query: Query) -> Callable[[], list[int]]:
    return lambda: [id for (id,) in query("SELECT job_id FROM public.effects ORDER BY 1")]


Written = Callable[[], list[int]]
StartTimer = Callable[[JobContext], None]


@pytest.fixture
def start_timer(monkeypatch: pytest.MonkeyPatch) -> StartTimer:
    """Begin the time of a run: it must not be over before the task has done its part."""
    timers: dict[int, Callable[[], None]] = {}
    start = Attempt._start_timer

    def wait_for_task(self: Attempt, seconds: float) -> None:
        timers[self.job.id] = partial(start, self, seconds)

    monkeypatch.setattr(Attempt, "_start_timer", wait_for_task)
    return lambda context: timers[context.job.id]()


ENDED = "SELECT id, status::text, attempts FROM finished_jobs ORDER BY id"


async def test_a_task_s_writes_and_the_end_of_its_job_commit_together(
    app: App, query: Query, written: Written
) -> None:
    inside: list[object] = []

    @app.task(pass_context=True, lock="lane")
    async def write(context: JobContext) -> None:
        async with context.transaction() as connection:
            await connection.execute(WRITE, [context.job.id])
            inside.append((written(), query(ENDED)))
        inside.append((written(), query(ENDED)))

    @app.task(pass_context=True, lock="lane")
    def write_sync(context: JobContext) -> None:
        with context.transaction() as connection:
            connection.execute(WRITE, [context.job.id])
            inside.append((written(), query(ENDED)))
        inside.append((written(), query(ENDED)))

    first, second = write.defer(), write_sync.defer()
    await app.run_worker_async()
    one, two = (first, "succeeded", 1), (second, "succeeded", 1)
    assert inside == [([], []), ([first], [one]), ([first], [one]), ([first, second], [one, two])]
    assert query("SELECT * FROM jobs") == query("SELECT * FROM lanes") == []


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_if_the_block_raises_nothing_is_written_and_the_attempt_has_failed(
    app: App, query: Query, written: Written, kind: str
) -> None:
    @app.task(name="async", pass_context=True, retry=RetryStrategy(max_attempts=1))
    async def write(context: JobContext) -> None:
        async with context.transaction() as connection:
            await connection.execute(WRITE, [context.job.id])
            if context.job.attempts == 0:
                raise ValueError("in the block")

    @app.task(name="sync", pass_context=True, retry=RetryStrategy(max_attempts=1))
    def write_sync(context: JobContext) -> None:
        with context.transaction() as connection:
            connection.execute(WRITE, [context.job.id])
            if context.job.attempts == 0:
                raise ValueError("in the block")

    id = app.configure_task(kind).defer()
    await app.run_worker_async()
    assert written() == [id]
    assert query(ENDED) == [(id, "succeeded", 2)]


async def test_a_block_that_failed_may_be_tried_again_and_one_that_committed_may_not(
    app: App, query: Query, written: Written
) -> None:
    refusals: list[str] = []

    @app.task(pass_context=True)
    async def write(context: JobContext) -> None:
        for is_good in (False, True, True):
            try:
                async with context.transaction() as connection:
                    await connection.execute(WRITE, [context.job.id])
                    if not is_good:
                        raise ValueError("not yet")
            except ValueError:
                pass
            except JobLost as error:
                refusals.append(str(error))

    id = write.defer()
    await app.run_worker_async()
    assert written() == [id]
    assert query(ENDED) == [(id, "succeeded", 1)]
    assert refusals == [
        f"Job {id} was already finished by an earlier transaction of this run; do all writes in that one"
    ]


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_worker_declared_dead_meanwhile_commits_nothing(
    app: App, query: Query, written: Written, until: Until, kind: str
) -> None:
    """The worker is only slow: another attempt begins before its block ends."""
    fences: list[int] = []
    refusals: list[str] = []
    declare_slow_tasks(app, fences, refusals)
    id = app.configure_task(kind).defer()
    quick: dict[str, Any] = {"wait": True, "concurrency": 2, **FAST_TAKEOVER}
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(lambda: app.run_worker_async(**quick))
        await until(lambda: fences)
        query("DELETE FROM workers RETURNING 1")
        await until(lambda: refusals and query(ENDED))
        group.cancel_scope.cancel()
    assert written() == fences[1:]
    assert query("SELECT id, fence FROM finished_jobs") == [(id, fences[1])]
    assert len(refusals) == 1
    assert (
        f"Job {id} was taken over while its code ran here, so its writes are rolled back"
        in refusals[0]
    )


def declare_slow_tasks(app: App, fences: list[int], refusals: list[str]) -> None:
    @app.task(name="async", pass_context=True)
    async def write(context: JobContext) -> None:
        fences.append(context.fence)
        try:
            with anyio.CancelScope(shield=True):  # a worker that notices would cancel it
                async with context.transaction() as connection:
                    await connection.execute(WRITE, [context.fence])
                    while len(fences) < 2:  # noqa: ASYNC110 (until the worker runs it again)
                        await anyio.sleep(0.005)
        except JobLost as error:
            refusals.append(str(error))
            raise

    @app.task(name="sync", pass_context=True)
    def write_sync(context: JobContext) -> None:
        fences.append(context.fence)
        try:
            with context.transaction() as connection:
                connection.execute(WRITE, [context.fence])
                while len(fences) < 2:
                    threading.Event().wait(0.005)
        except JobLost as error:
            refusals.append(str(error))
            raise


async def test_after_the_commit_nothing_can_change_what_became_of_the_job(
    app: App,
    query: Query,
    written: Written,
    start_timer: StartTimer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    @app.task(pass_context=True, retry=True, timeout=0.1)
    async def write(context: JobContext, then: str) -> object:
        async with context.transaction() as connection:
            await connection.execute(WRITE, [context.job.id])
        if then == "raise":
            raise ValueError("afterwards")
        if then == "time out":
            start_timer(context)
            await anyio.sleep_forever()
        return "not stored"

    @app.task(pass_context=True, retry=True)
    def write_sync(context: JobContext) -> None:
        with context.transaction() as connection:
            connection.execute(WRITE, [context.job.id])
        raise ValueError("afterwards in a thread")

    ids = [
        *write.batch_defer({"then": "raise"}, {"then": "time out"}, {"then": "return"}),
        write_sync.defer(),
    ]
    await app.run_worker_async()
    assert written() == ids
    assert query(ENDED) == [(id, "succeeded", 1) for id in ids]
    assert query(
        "SELECT count(*) FROM finished_jobs WHERE errors <> '[]' OR result IS NOT NULL"
    ) == [(0,)]
    messages = [
        record.message for record in caplog.records if "job.error_after_commit" in record.message
    ]
    assert len(messages) == 2
    assert "ValueError: afterwards" in messages[0]


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_result_is_stored_with_the_commit(
    app: App, query: Query, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    @app.task(name="async", pass_context=True)
    async def write(context: JobContext, returns: int | None) -> int | None:
        async with (transaction := context.transaction()) as connection:
            await connection.execute(WRITE, [context.job.id])
            transaction.result = 7
        return returns

    @app.task(name="sync", pass_context=True)
    def write_sync(context: JobContext, returns: int | None) -> int | None:
        with (transaction := context.transaction()) as connection:
            connection.execute(WRITE, [context.job.id])
            transaction.result = 7
        return returns

    task = app.configure_task(kind)
    _, other, _ = [task.defer(returns=value) for value in (7, 8, None)]
    await app.run_worker_async()
    assert query("SELECT result FROM finished_jobs") == [(7,)] * 3
    warned = [text for text in caplog.messages if "job.result_not_stored" in text]
    assert [text.split()[1] for text in warned] == [str(other)]


async def test_after_the_commit_the_lane_goes_on_although_the_code_still_runs(
    app: App, query: Query
) -> None:
    second_began = anyio.Event()

    @app.task(pass_context=True, lock="lane")
    async def first(context: JobContext) -> None:
        async with context.transaction():
            pass
        await second_began.wait()

    @app.task(lock="lane")
    async def second() -> None:
        second_began.set()

    first.defer()
    second.defer()
    with anyio.fail_after(120):
        await app.run_worker_async(concurrency=2)
    assert [status for _, status, _ in query(ENDED)] == ["succeeded"] * 2


async def test_a_worker_with_one_slot_takes_the_lane_on_when_the_code_has_ended(
    app: App, query: Query
) -> None:
    @app.task(pass_context=True, lock="lane")
    async def write(context: JobContext) -> None:
        async with context.transaction():
            pass

    for _ in range(5):
        write.defer()
    with anyio.fail_after(120):
        await app.run_worker_async(listen_notify=False)
    assert [status for _, status, _ in query(ENDED)] == ["succeeded"] * 5


async def test_a_commit_of_ones_own_in_the_block_is_refused(
    app: App, query: Query, written: Written
) -> None:
    @app.task(pass_context=True)
    async def write(context: JobContext) -> None:
        async with context.transaction() as connection:
            await connection.execute(WRITE, [context.job.id])
            await connection.commit()

    write.defer()
    await app.run_worker_async()
    assert written() == []
    assert (
        "Explicit commit() forbidden"
        in query("SELECT errors -> -1 ->> 'error' FROM finished_jobs")[0][0]
    )


async def test_a_block_that_is_cancelled_is_rolled_back_and_its_connection_used_again(
    app_dsn: str, query: Query, written: Written, start_timer: StartTimer
) -> None:
    app = App(connector=PsycopgConnector(app_dsn, max_size=1), worker_defaults={"wait": False})
    servers: list[int] = []

    @app.task(pass_context=True, timeout=0.2, retry=RetryStrategy(max_attempts=1))
    async def write(context: JobContext) -> None:
        async with context.transaction() as connection:
            servers.append(connection.info.backend_pid)
            await connection.execute(WRITE, [context.job.id])
            if context.job.attempts == 0:
                start_timer(context)
                await anyio.sleep_forever()

    with app.open():
        id = write.defer()
        await app.run_worker_async()
    assert written() == [id]
    assert query(ENDED) == [(id, "succeeded", 2)]
    assert len(servers) == 2
    assert len(set(servers)) == 1


def test_outside_of_a_worker_there_is_no_transaction(app: App) -> None:
    job = Job(1, "claim", 1, "task", "default", None, 0, 0, None, {})
    now: Any = None
    task: Any = None
    with pytest.raises(ConfigurationError, match="No worker runs this job"):
        JobContext(app, task, job, "w", None, now).transaction()


# ---------------------------------------------------------------- when the COMMIT gets lost


@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize("lost", ["request", "reply"])
@pytest.mark.parametrize("delete_jobs", ["never", "always"])
async def test_a_commit_that_gets_lost_on_the_way_is_not_done_twice(
    dsn: str, query: Query, written: Written, kind: str, lost: str, delete_jobs: DeleteJobsName
) -> None:
    with Lossy(dsn) as way:
        app = App(way.dsn)
        ended: list[int] = []

        @app.task(name="async", pass_context=True, retry=RetryStrategy(max_attempts=1), lock="lane")
        async def write(context: JobContext) -> None:
            async with context.transaction() as connection:
                await connection.execute(WRITE, [context.job.id])
                way.lose = lost if context.job.attempts == 0 else None
            ended.append(context.job.attempts)

        @app.task(name="sync", pass_context=True, retry=RetryStrategy(max_attempts=1), lock="lane")
        def write_sync(context: JobContext) -> None:
            with context.transaction() as connection:
                connection.execute(WRITE, [context.job.id])
                way.lose = lost if context.job.attempts == 0 else None
            ended.append(context.job.attempts)

        with app.open():
            id = app.configure_task(kind).defer()
        with anyio.fail_after(120):
            await app.run_worker_async(
                wait=False,
                fetch_job_polling_interval=NO_POLL,
                install_signal_handlers=False,
                delete_jobs=delete_jobs,
            )
    assert written() == [id]
    assert ended == ([0] if lost == "reply" else [1])
    assert query("SELECT * FROM jobs") == query("SELECT * FROM lanes") == []
    assert query(ENDED) == ([(id, "succeeded", 1 + ended[0])] if delete_jobs == "never" else [])


def test_the_question_whether_a_commit_took_effect_waits_for_no_user_for_ever(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with App(dsn).open() as app, psycopg.connect(dsn) as user, ThreadPoolExecutor(1) as thread:
        app.configure_task("t").defer()
        worker = app.connector.run(workers.register_worker("w", "here", 1, None, 1, []))
        [job] = app.connector.run(claim.claim(worker, None, 1, False, 1))
        user.execute("SELECT FROM inturn.jobs FOR UPDATE")
        with monkeypatch.context() as brief:
            brief.setattr(finish, "UNCLEAR_SECONDS", 0.2)
            with pytest.raises(DatabaseUnavailable, match="unclear") as raised:
                app.connector.run(finish.has_ended(job))
        assert raised.value.outcome_unknown
        monkeypatch.setattr(finish, "UNCLEAR_SECONDS", 60.0)
        asking = thread.submit(app.connector.run, finish.has_ended(job))
        assert not wait(
            [asking], timeout=0.2
        ).done  # longer than a call takes that waits for a moment
        user.rollback()
        assert asking.result(60) is False


@pytest.fixture
def worker_process(app_dsn: str) -> Iterator[Callable[[], "subprocess.Popen[bytes]"]]:
    processes: list[subprocess.Popen[bytes]] = []

    def start() -> "subprocess.Popen[bytes]":
        root = Path(__file__).parents[2]
        command = [sys.executable, "-m", "tests.worker.commit_app"]
        processes.append(
            subprocess.Popen(command, cwd=root, env=os.environ | {"INTURN_DSN": app_dsn})
        )
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.landing
@pytest.mark.parametrize("task", ["write", "write_sync"])
async def test_killed_anywhere_a_task_has_its_effect_exactly_once(
    app: App,
    query: Query,
    written: Written,
    until: Until,
    worker_process: Callable[[], "subprocess.Popen[bytes]"],
    task: str,
) -> None:
    points = ["before the write", "after the write", "after the commit", "never"]
    ids = [app.configure_task(task, lock="lane").defer(point=point) for point in points]
    for _ in range(3):
        assert await anyio.to_thread.run_sync(worker_process().wait, 60) == -signal.SIGKILL
    worker_process()
    await until(lambda: len(query(ENDED)) == len(ids))
    assert written() == ids
    attempts = {
        point: attempts for point, (_, _, attempts) in zip(points, query(ENDED), strict=True)
    }
    assert attempts == {
        "before the write": 2,
        "after the write": 2,
        "after the commit": 1,
        "never": 1,
    }


# ---------------------------------------------------------------- SQLAlchemy (docs/exactly-once.md)


def documented(name: str) -> Any:
    """Return the object that a code block of the page defines under a name."""
    page = Path(__file__).parents[2] / "docs" / "exactly-once.md"
    (block,) = [
        part for part in page.read_text("utf-8").split("```python\n") if f"def {name}" in part
    ]
    scope: dict[str, Any] = {}
    exec(block.partition("```")[0], scope)  # noqa: S102 (our own documentation)
    return scope[name]


@pytest.mark.parametrize("ending", ["commit", "nothing", "raise"])
async def test_a_session_of_sqlalchemy_can_write_in_the_transaction(
    app: App, query: Query, written: Written, ending: str
) -> None:
    session_on = documented("session_on")

    @app.task(pass_context=True)
    def write(context: JobContext) -> None:
        with context.transaction() as connection, session_on(connection) as session:
            session.execute(text("INSERT INTO effects VALUES (:id)"), {"id": context.job.id})
            if ending == "commit":
                session.commit()
                session.execute(text("INSERT INTO effects VALUES (:id)"), {"id": context.job.id})
            if ending == "raise":
                raise ValueError("in the block")

    id = write.defer()
    await app.run_worker_async()
    assert written() == {"commit": [id, id], "nothing": [id], "raise": []}[ending]
    assert query(ENDED) == [(id, "failed" if ending == "raise" else "succeeded", 1)]


async def test_an_async_session_of_sqlalchemy_can_as_well(
    app: App, query: Query, written: Written
) -> None:
    @app.task(pass_context=True)
    async def write(context: JobContext) -> None:
        async with context.transaction() as connection:

            async def lend() -> Any:
                return connection

            engine = create_async_engine(
                "postgresql+psycopg://",
                async_creator=lend,
                poolclass=StaticPool,
                pool_reset_on_return=None,
            )
            dialect: Any = engine.dialect
            dialect.do_commit = dialect.do_rollback = lambda connection: None
            async with AsyncSession(engine) as session:
                await session.execute(
                    text("INSERT INTO effects VALUES (:id)"), {"id": context.job.id}
                )
                await session.commit()
            assert written() == []

    id = write.defer()
    await app.run_worker_async()
    assert written() == [id]
    assert query(ENDED) == [(id, "succeeded", 1)]
