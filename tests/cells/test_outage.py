"""A cell is down: its lanes wait, and the others run."""

import asyncio
import time

import pytest

from inturn import App
from inturn.database.connectors import PsycopgConnector
from inturn.errors import DatabaseUnavailable
from tests.cells.conftest import WORKER
from tests.cells.test_app import LOCKS
from tests.conftest import Until
from tests.lossy import faulty

pytestmark = [pytest.mark.anyio, pytest.mark.landing]
STEADY = {**WORKER, "wait": True, "stalled_worker_timeout": 30.0}


async def test_the_lanes_of_a_cell_that_is_away_wait_and_the_others_run(
    homes: list[PsycopgConnector], until: Until
) -> None:
    seen: list[tuple[str, int]] = []
    with faulty(homes[6].dsn) as (proxy, address):
        through = PsycopgConnector(address, schema="inturn_06", timeout=2)
        app = App(cells=[*homes[:6], through, homes[7]], worker_defaults=STEADY)

        @app.task(name="note", pass_context=False)
        async def note(lock: str, n: int) -> None:
            seen.append((lock, n))

        async def defer(through: App, cell: int, count: int) -> None:
            for n in range(count):
                task = through.configure_task("note", lock=LOCKS[cell])
                await task.defer_async(lock=LOCKS[cell], n=n)

        def seen_in(cell: int) -> list[int]:
            return [n for lock, n in seen if lock == LOCKS[cell]]

        async def time_jobs(cell: int, count: int) -> float:
            began, before = time.monotonic(), len(seen_in(cell))
            await defer(app, cell, count)
            await until(lambda: seen_in(cell)[before:] == [*range(count)])
            return time.monotonic() - began

        workers = [asyncio.create_task(app.cell(cell).run_worker_async()) for cell in (0, 6)]
        async with app.open_async(), App(cells=homes).open_async() as direct:
            await defer(app, 6, 1)
            await until(lambda: seen_in(6) == [0])
            usual = await time_jobs(0, 20)
            proxy.refuse()
            proxy.reset()
            await defer(direct, 6, 5)  # by a producer that still reaches it
            # No call waits for the other cell, up to 2 s. The machine may stall.
            assert min([await time_jobs(0, 20) for _ in range(3)]) < usual + 2
            with pytest.raises(DatabaseUnavailable):
                await defer(app, 6, 1)
            assert seen_in(6) == [0]
            proxy.heal()
            await until(lambda: seen_in(6) == [0, *range(5)])
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
