"""The app's life as a web application's: for `lifespan=` of FastAPI, Starlette and other ASGI frameworks."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio

from inturn.app import App
from inturn.operations.maintenance import check_schema
from inturn.worker.options import options
from inturn.worker.worker import Worker

GRACE = 10.0  # seconds: a server that is told to end is killed soon


def lifespan(
    app: App, *, worker: bool = False, **given: Any
) -> Callable[[Any], AbstractAsyncContextManager[None]]:
    """Opens the app when the web application starts, and closes it at its end.

    With `worker=True` a worker runs in the same process, and the same event loop; the rest are its options. At the end its running
    jobs have ten seconds (`shutdown_graceful_timeout`); what then still runs goes back to the head of its lane.

        web = FastAPI(lifespan=lifespan(app, worker=True, concurrency=4))

    In a lifespan of your own: `async with lifespan(app)(web): …`.
    """

    @asynccontextmanager
    async def run(_: Any = None) -> AsyncIterator[None]:
        async with app.open_async():
            if not worker:
                yield
                return
            app.perform_import_paths()
            # Or a worker that cannot start would go unnoticed.
            await app.connector.run_async(check_schema(app.connector.schema))
            # The web server's signals are its own.
            said = {
                "shutdown_graceful_timeout": GRACE,
                **app.worker_defaults,
                **given,
                "install_signal_handlers": False,
            }
            hand = Worker(app, app.connector, options(said))
            async with anyio.create_task_group() as group:
                group.start_soon(hand.run)
                try:
                    yield
                finally:
                    hand.stop("the web application ends")

    return run
