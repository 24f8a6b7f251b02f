"""The app inside a web application, in the lifespan of any ASGI framework."""

import subprocess
import sys
from pathlib import Path

import anyio
import psycopg
import pytest
from fastapi import FastAPI

from inturn import App
from inturn.contrib.lifespan import lifespan
from inturn.errors import AppNotOpen, SchemaMismatch
from inturn.model import Status

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.anyio


@pytest.fixture
def app(dsn: str) -> App:
    return App(dsn)


async def test_the_app_is_open_as_long_as_the_web_application(app: App) -> None:
    note = app.task(name="note")(lambda: None)
    web = FastAPI(lifespan=lifespan(app))
    async with web.router.lifespan_context(web):
        await note.defer_async()
    with pytest.raises(AppNotOpen):
        await note.defer_async()


async def test_a_worker_runs_in_the_web_application_and_finishes_its_jobs(app: App) -> None:
    begun, ended = anyio.Event(), anyio.Event()

    @app.task(name="work")
    async def work() -> None:
        begun.set()
        await anyio.sleep(0.05)
        ended.set()

    web = FastAPI(lifespan=lifespan(app, worker=True))
    with anyio.fail_after(120):
        async with web.router.lifespan_context(web):
            await work.defer_async()
            await begun.wait()
            assert not ended.is_set()
    assert ended.is_set()


async def test_a_job_that_does_not_end_in_time_goes_back(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.contrib.lifespan.GRACE", 120.0)
    begun = anyio.Event()

    @app.task(name="stay")
    async def stay() -> None:
        begun.set()
        await anyio.sleep_forever()

    with anyio.fail_after(60):  # less than the default grace
        async with lifespan(app, worker=True, shutdown_graceful_timeout=0.01)(None):
            job_id = await stay.defer_async()
            await begun.wait()
    async with app.open_async():
        assert await app.job_manager.get_job_status_async(job_id) is Status.TODO


async def test_a_web_application_that_ends_at_once_ends(
    app: App, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.contrib.lifespan.GRACE", 120.0)
    note = app.task(name="note")(lambda: None)
    for _ in range(5):
        with anyio.fail_after(60):  # less than the default grace
            async with lifespan(app, worker=True)(None):
                pass
        with pytest.raises(AppNotOpen):
            await note.defer_async()
        with psycopg.connect(dsn) as connection:
            assert connection.execute("SELECT name FROM inturn.workers").fetchall() == []


async def test_the_ports_that_it_is_given_are_served_but_not_those_of_the_defaults(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    app.worker_defaults = {"health_port": 0}
    with caplog.at_level("INFO", "inturn.worker.probes"):
        async with lifespan(app, worker=True, metrics_port=0)(None):
            pass
    served = [each.getMessage() for each in caplog.records if each.name == "inturn.worker.probes"]
    assert [each.split(":")[0] for each in served] == ["endpoint.serving"]
    assert "/metrics" in served[0]
    assert "/-/live" not in served[0]


async def test_a_worker_that_cannot_start_stops_the_start(empty_dsn: str) -> None:
    web = FastAPI(lifespan=lifespan(App(empty_dsn), worker=True))
    with pytest.raises(SchemaMismatch, match="queue migrate"):
        async with web.router.lifespan_context(web):
            pytest.fail("it has started")


@pytest.mark.landing
def test_the_example_runs() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "fastapi_shop.py"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    shipped = [line for line in lines if line.endswith("is on its way")]
    assert sorted(shipped) == [
        "order 1 of ann is on its way",
        "order 2 of bob is on its way",
        "order 3 of ann is on its way",
    ]
    assert shipped.index("order 1 of ann is on its way") < shipped.index(
        "order 3 of ann is on its way"
    )
    assert "eve: sold out" in lines


@pytest.mark.landing
def test_the_queue_imports_no_framework() -> None:
    look = (
        "import sys, inturn, inturn.app, inturn.contrib.lifespan, inturn.contrib.alembic;"
        "import inturn.cli.commands.worker, inturn.testing.harness;"
        "print(sorted({'django', 'fastapi', 'starlette'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
