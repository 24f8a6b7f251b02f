"""A job kills each worker that runs it. Its limit, its lane and its group go on without it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from inturn import App
from tests.conftest import Query

LIMIT = 120  # seconds; only keeps a failing test from hanging


def start_worker(dsn: str, log: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.stress.poison_app"],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"INTURN_DSN": dsn, "POISON_LOG": str(log)},
    )


@pytest.mark.proof
def test_a_job_that_kills_its_workers_fails_and_all_that_shares_with_it_runs(
    app: App, app_dsn: str, query: Query, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.touch()
    app.limits.set("api", concurrency=1)
    poison = app.configure_task("poison", lock="lane", limit="api", group="a").defer()
    for name, options in {
        "lane": {"lock": "lane"},
        "limit": {"limit": "api"},
        "own group": {"group": "a"},
        "other group": {"group": "b"},
    }.items():
        app.configure_task("tell", **options).batch_defer(*[{"name": name}] * 5)  # type: ignore[arg-type]
    deaths, worker, deadline = 0, start_worker(app_dsn, log), time.monotonic() + LIMIT
    try:
        while query("SELECT 1 FROM jobs LIMIT 1"):
            assert time.monotonic() < deadline, query("SELECT task, status::text FROM live_jobs")
            if worker.poll() is None:
                time.sleep(0.05)
                continue
            assert worker.returncode == -signal.SIGKILL
            deaths, worker = deaths + 1, start_worker(app_dsn, log)
    finally:
        worker.kill()
        worker.wait()
    assert deaths == 3  # it may be lost twice
    assert query("SELECT status::text FROM finished_jobs WHERE id = %s", poison) == [("failed",)]
    assert sorted(log.read_text().splitlines()) == sorted(
        ["lane", "limit", "own group", "other group"] * 5
    )
    [limit] = app.limits.list()
    assert (limit.running, limit.limited) == (0, 0)
    assert query("SELECT * FROM lanes") == []
