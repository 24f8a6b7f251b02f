"""A worker that continues with free jobs makes full claims in between, so no job waits long."""

import time

import anyio
import pytest

from inturn import App
from inturn.model import Job
from inturn.worker.claiming import claiming
from inturn.worker.claiming.claiming import FRESH_SECONDS, ClaimCursor

pytestmark = pytest.mark.landing


def job(id: int, priority: int = 0, lock: str | None = None) -> Job:
    return Job(id, "", 0, "", "q", lock, priority, 0, None, {})


def test_a_cursor_begins_with_a_batch_of_free_jobs_and_goes_on_while_batches_are_full() -> None:
    cursor = ClaimCursor()
    assert cursor.marks() is None
    cursor.begin([job(7, 1), job(3), job(4)], 3, seconds=1000)
    assert cursor.marks() == {("q", 1): 7, ("q", 0): 4}
    cursor.advance([job(9), job(10), job(12)], 3)
    assert cursor.marks() == {("q", 1): 7, ("q", 0): 12}
    cursor.advance([job(13)], 3)
    assert cursor.marks() is None


@pytest.mark.parametrize(
    "jobs", [[job(1)], [job(1), job(2, lock="a")]], ids=["not full", "with a lane"]
)
def test_a_batch_that_is_not_full_or_not_free_begins_no_cursor(jobs: list[Job]) -> None:
    cursor = ClaimCursor()
    cursor.begin(jobs, 2, seconds=1000)
    assert cursor.marks() is None


def test_a_cursor_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    cursor = ClaimCursor()
    cursor.begin([job(1)], 1, seconds=0)
    assert cursor.marks()
    now += FRESH_SECONDS
    assert cursor.marks() is None


@pytest.mark.anyio
async def test_a_worker_that_goes_on_with_free_jobs_soon_sees_what_matters_more(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "COST_SHARE", 0)  # a full claim that stalls puts off the next one
    seen: list[str] = []

    @app.task
    async def free() -> None:
        if len(seen) == 100:
            await urgent.configure(priority=1).defer_async()
            await of_a_lane.configure(lock="a", priority=1).defer_async()
        seen.append("free")
        await anyio.sleep(0.001)

    @app.task
    async def urgent() -> None:
        seen.append("urgent")

    @app.task
    async def of_a_lane() -> None:
        seen.append("of a lane")

    async with app.open_async():
        free.batch_defer(*({} for _ in range(3000)))
        await app.run_worker_async(concurrency=2, wait=False)
    assert max(seen.index("urgent"), seen.index("of a lane")) < 1500
