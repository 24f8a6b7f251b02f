"""The counts in docs/cells-costs.md."""

import asyncio
from collections import Counter
from collections.abc import Callable

import psycopg
import pytest

from inturn import App
from inturn.database import drive
from inturn.sql import fill_schema
from inturn.web.cells import read_rows
from inturn.web.reading import Reading
from tests.cells.conftest import COUNT
from tests.cells.load import query
from tests.cells.test_app import LOCKS

CONNECTIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name IN ('inturn worker', 'inturn listener')
"""


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], list[int]]:
    """Count the statements of a call: of each cell that it asks."""
    sent: Counter[str] = Counter()

    def note(text: str, schema: str) -> bytes:
        sent[schema] += 1
        return fill_schema(text, schema)

    monkeypatch.setattr(drive, "fill_schema", note)

    def count(call: Callable[[], object]) -> list[int]:
        sent.clear()
        call()
        return sorted(sent.values())

    return count


def test_a_job_costs_one_statement_and_a_bulk_one_for_each_cell(
    app: App, dsns: list[str], count: Callable[[Callable[[], object]], list[int]]
) -> None:
    task = app.configure_task("t", lock=LOCKS[3])
    assert count(task.defer) == [3], "the first: with the check which cell it is"
    assert count(task.defer) == [1]
    job = task.defer()
    app.job_manager.list_jobs()
    assert count(lambda: app.job_manager.get_job_status(job)) == [1]
    assert count(lambda: app.lanes.show(LOCKS[5])) == [1]
    assert count(app.job_manager.list_jobs) == [1] * COUNT
    assert count(lambda: app.queues.pause("mail")) == [1] * COUNT
    new = [app.configure_task("t", lock=LOCKS[n % COUNT]).make_new_job() for n in range(100)]
    assert count(lambda: app.job_manager.batch_defer_jobs(new)) == [1] * COUNT
    keyed = [app.configure_task("t", lock=str(n), cell="a").make_new_job() for n in range(100)]
    assert count(lambda: app.job_manager.batch_defer_jobs(keyed)) == [1]
    with psycopg.connect(dsns[1]) as mine:
        join = app.configure_task("t", lock=LOCKS[6], connection=mine)
        assert sum(count(join.defer)) == 5, "a look at the database with three cells, and the job"
        assert count(join.defer) == [1]
    cells = [Reading(home) for home in app.connector.homes]
    assert count(lambda: read_rows(cells)) == [4] * COUNT, "two for the check"


def test_a_worker_process_keeps_three_connections(app: App, dsns: list[str]) -> None:
    async def work() -> int:
        running = asyncio.create_task(
            app.cell(5).run_worker_async(wait=True, install_signal_handlers=False)
        )
        found = 0
        for _ in range(1200):
            await asyncio.sleep(0.05)
            [(found,)] = await asyncio.to_thread(query, dsns[1], CONNECTIONS)
            if found >= 3:
                break
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return found

    assert asyncio.run(work()) == 3
