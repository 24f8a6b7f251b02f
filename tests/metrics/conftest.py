"""A worker that serves its metrics while a test looks at them."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import pytest

from inturn import App
from tests.conftest import Until
from tests.metrics.scrape import Samples, free_ports, get, scrape
from tests.waiting import pauses

Serve = Callable[..., AbstractAsyncContextManager["Scraper"]]


class Scraper:
    """Scrapes one worker."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def look(self) -> Samples:
        return await anyio.to_thread.run_sync(scrape, self.port)

    async def until(self, condition: Callable[[Samples], object]) -> Samples:
        """Return the first samples for which the condition is true."""
        further = pauses()
        with anyio.fail_after(120):
            while not condition(samples := await self.look()):  # noqa: ASYNC110 (it is over HTTP)
                await anyio.sleep(next(further))
        return samples


def _is_attached(port: int) -> bool:
    """Return True if there is a worker whose state is shown."""
    return "inturn_worker_slots" in get(port, "/metrics").text


@pytest.fixture
def serve(until: Until) -> Serve:
    """Run a worker with metrics while the block runs."""

    @asynccontextmanager
    async def serve(app: App, **options: Any) -> AsyncIterator[Scraper]:
        port = free_ports()

        async def work() -> None:
            await app.run_worker_async(wait=True, metrics_port=port, **options)

        async with anyio.create_task_group() as group:
            group.start_soon(work)
            further = pauses()
            with anyio.fail_after(120):
                while not await anyio.to_thread.run_sync(_is_attached, port):  # noqa: ASYNC110
                    await anyio.sleep(next(further))
            try:
                yield Scraper(port)
            finally:
                group.cancel_scope.cancel()

    return serve
