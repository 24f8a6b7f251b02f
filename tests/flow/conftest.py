from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio
import psycopg
import pytest

from inturn import App

Query = Callable[..., list[tuple[Any, ...]]]
NO_POLL = 600.0  # seconds: whatever happens in a test was not found by polling


@pytest.fixture
def app(app_dsn: str) -> Iterator[App]:
    """An open app. Its workers stop when idle, never poll, and leave signals alone."""
    defaults = {
        "wait": False,
        "fetch_job_polling_interval": NO_POLL,
        "install_signal_handlers": False,
    }
    app = App(app_dsn, worker_defaults=defaults)
    with app.open():
        yield app


@pytest.fixture
def query(dsn: str) -> Iterator[Query]:
    """Run SQL in the schema and commit each statement."""
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        yield lambda statement, *parameters: connection.execute(
            statement, parameters or None
        ).fetchall()


@pytest.fixture
def until() -> Callable[[Callable[[], object]], Awaitable[None]]:
    """Wait for a condition. The limit only keeps a failing test from hanging."""

    async def wait(condition: Callable[[], object]) -> None:
        with anyio.fail_after(30):
            while not condition():  # noqa: ASYNC110 (it stands in another process, or in the database)
                await anyio.sleep(0.005)

    return wait
