"""A worker ends after some number of jobs, or above some memory, and is replaced."""

import subprocess
import sys
import time
from typing import Any

import anyio
import pytest

from inturn import App
from inturn.errors import BadArgument
from inturn.worker import Options
from inturn.worker.retirement import MEGABYTE, megabytes_used, spread
from tests.conftest import Query

pytestmark = pytest.mark.anyio
COUNT = "SELECT status::text, count(*) FROM all_jobs GROUP BY status"


async def run_worker(app: App, **limits: Any) -> str | None:
    with anyio.fail_after(120):
        return await app.run_worker_async(install_signal_handlers=False, **limits)


async def test_a_worker_ends_after_about_so_many_jobs(app: App, query: Query) -> None:
    @app.task
    def nap() -> None:
        time.sleep(0.02)

    nap.batch_defer(*[{}] * 200)
    assert await run_worker(app, max_jobs=20) is None
    left: dict[str, int] = dict(query(COUNT))
    assert left.keys() == {"succeeded", "todo"}
    assert 20 <= left["succeeded"] < 100
    assert query("SELECT FROM workers") == []


async def test_a_worker_ends_above_some_memory_but_runs_a_job_before(
    app: App, query: Query
) -> None:
    @app.task
    def grow() -> None:
        kept.append(b"x" * 2**26)

    kept: list[bytes] = []
    limit = megabytes_used() + 200
    grow.batch_defer(*[{}] * 100)
    await run_worker(app, max_memory=limit)
    assert limit <= megabytes_used()
    assert 3 <= len(kept) < 100
    kept.clear()
    grow.defer()  # now each worker is above the limit from its start
    await run_worker(app, max_memory=limit)
    assert len(kept) >= 1


def test_what_the_process_that_started_the_worker_has_used_does_not_count() -> None:
    code = "from inturn.worker import retirement; print(retirement.megabytes_used())"
    ballast = b"x" * (megabytes_used() + 200) * MEGABYTE
    used = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout
    assert int(used) < len(ballast) // MEGABYTE


@pytest.mark.parametrize("limit", ["max_jobs", "max_memory"])
def test_a_limit_of_nothing_is_refused(limit: str) -> None:
    with pytest.raises(BadArgument, match="give at least 1, or None"):
        Options(**{limit: 0})  # type: ignore[arg-type]


def test_workers_that_started_together_do_not_end_together() -> None:
    limits = {spread(1000) for _ in range(100)}
    assert len(limits) > 90
    assert 1000 <= min(limits) <= max(limits) <= 1100
    assert spread(None) == float("inf")
