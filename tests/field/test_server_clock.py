"""The server's own clock jumps, and goes too fast or too slowly, while jobs run."""

import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, LiteralString

import anyio
import psycopg
import pytest

from inturn import App, JobContext, RetryStrategy
from inturn.embedded import Server
from inturn.schema.migrate import migrate, prepare_history
from tests.chaos.clock import LIBRARY, MISSING, Clock
from tests.conftest import Until

pytestmark = [pytest.mark.anyio, pytest.mark.proof]
HOUR = 3600
WAIT = 3  # seconds that a delay, a retry and a snooze take: longer than it takes to set the clock
NEAR = 20  # seconds: less than any step
OPTIONS: dict[str, Any] = {
    "wait": True,
    "install_signal_handlers": False,
    "concurrency": 5,
    "update_heartbeat_interval": 0.2,
    "stalled_worker_timeout": 5.0,
    "fetch_job_polling_interval": 0.5,
}
LOCK_NEXT = """
SELECT FROM jobs WHERE lock = 'locked' AND status <> 'doing' ORDER BY id LIMIT 1 FOR UPDATE
"""
HAS_BEGUN = "SELECT FROM finished_jobs WHERE lock = 'one'"
IS_LEFT = "SELECT FROM jobs LIMIT 1"
IS_DELAYED = "SELECT FROM jobs WHERE status = 'scheduled' AND delayed_at IS NOT NULL"
AHEAD = "SELECT extract(epoch FROM clock_timestamp())::float8"


@pytest.fixture
def clock() -> Iterator[Clock]:
    """A clock for the next server that is started."""
    if LIBRARY is None:
        pytest.fail(MISSING)
    with closing(Clock()) as clock, pytest.MonkeyPatch.context() as patch:
        for name, value in clock.environment().items():
            patch.setenv(name, value)
        patch.setenv("FAKETIME_NO_CACHE", "1")  # it jumps at once, between a claim and the next
        yield clock


@pytest.fixture
def address(clock: Clock, bin_dir: Path | None) -> Iterator[str]:
    with Server(bin_dir=bin_dir) as server:
        migrate(server.dsn())
        prepare_history(server.dsn())
        yield server.dsn()


class Load:
    """Jobs of many kinds, and which of them have run."""

    def __init__(self, app: App) -> None:
        self.runs: dict[str, list[int]] = {}
        self.deferred: dict[str, list[int]] = {}
        self._count = 0
        app.limits.set("rated", rate="50/s", burst=5)
        self._again: set[int] = set()  # jobs at their second attempt
        self._task = app.task(name="step")(self._run)
        self._fails = app.task(name="fails", retry=RetryStrategy(max_attempts=1, wait=WAIT))(
            self._fail_once
        )
        self._snoozes = app.task(name="snoozes", pass_context=True)(self._snooze_once)

    async def _run(self, kind: str, number: int) -> None:
        self.runs.setdefault(kind, []).append(number)

    async def _fail_once(self, kind: str, number: int) -> None:
        if number in self._again:
            return await self._run(kind, number)
        self._again.add(number)
        raise RuntimeError("the first attempt")

    async def _snooze_once(self, context: JobContext, kind: str, number: int) -> None:
        if number in self._again:
            return await self._run(kind, number)
        self._again.add(number)
        context.snooze({"seconds": WAIT})

    def _defer(self, kind: str, task: Any = None, **options: Any) -> int:
        self._count += 1
        self.deferred.setdefault(kind, []).append(self._count)
        return (task or self._task).configure(**options).defer(kind=kind, number=self._count)

    def add(self) -> None:
        for lane in ("locked", "one", "locked", "one"):
            self._defer(lane, lock=lane)
        self._defer("both", lock=["locked", "one"])
        self._defer("child", after=self._defer("parent"))
        for _ in range(7):
            self._defer("rated", limit="rated")
        self._defer("tenant", group="tenant")
        self._defer("delayed", schedule_in={"seconds": WAIT})
        for kind, task in (("failed", self._fails), ("snoozed", self._snoozes)):
            self._defer(kind, task, lock=kind)
            self._defer(kind, lock=kind)


async def test_no_jump_of_the_server_s_clock_holds_up_jobs(
    address: str, clock: Clock, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(address)
    with (
        app.open(),
        psycopg.connect(address, autocommit=True, options="-c search_path=inturn") as session,
        psycopg.connect(address, options="-c search_path=inturn") as person,
    ):
        load = Load(app)

        def finds(statement: LiteralString) -> bool:
            return bool(session.execute(statement).fetchall())

        def get_ahead() -> float:
            [(now,)] = session.execute(AHEAD).fetchall()
            return float(now) - time.time()

        async def jump(ahead: int, speed: float = 1.0) -> None:
            """Set the clock while an open transaction has the next job of a lane."""
            load.add()
            person.execute(LOCK_NEXT)
            await until(lambda: finds(HAS_BEGUN))
            assert finds(IS_DELAYED)
            clock.set(f"{ahead:+d} x{speed}")
            assert speed != 1.0 or abs(get_ahead() - ahead) < NEAR  # else it has drifted away
            load.add()
            await until(lambda: finds(HAS_BEGUN))
            person.rollback()
            await until(lambda: not finds(IS_LEFT))
            session.execute("SELECT delete_old_jobs('0 s', NULL, '{succeeded}')")

        async with anyio.create_task_group() as group:
            group.start_soon(partial(app.run_worker_async, **OPTIONS))
            for ahead in (HOUR, 0, -HOUR, 0, 30, 0):
                await jump(ahead)
            for speed in (1.5, 0.5, 1.0):
                await jump(0, speed)
            group.cancel_scope.cancel()
    for lane in ("locked", "one", "both", "failed", "snoozed"):
        assert load.runs[lane] == load.deferred[lane]
    assert {kind: sorted(ran) for kind, ran in load.runs.items()} == load.deferred
    assert "worker.lost" not in caplog.text
