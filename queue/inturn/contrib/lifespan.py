"""Open the app while a web application runs, in FastAPI, Starlette and other ASGI frameworks."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Unpack

import anyio

from inturn.app import App
from inturn.operations.engine.maintenance import check_schema
from inturn.worker.options import WorkerOptions, options
from inturn.worker.probes import serve_probes
from inturn.worker.worker import Worker

GRACE = 10.0  # seconds: a server that does not stop is soon killed


def lifespan(
    app: App, *, worker: bool = False, **given: Unpack[WorkerOptions]
) -> Callable[[Any], AbstractAsyncContextManager[None]]:
    """Return a lifespan that opens the app when the web application starts, and closes it later.

    With `worker=True`, a worker runs in the same process and event loop; the other arguments are
    its options. Ports in the app's `worker_defaults` stay closed. At shutdown, its running jobs
    have ten seconds to finish (`shutdown_graceful_timeout`). Jobs that still run then go back to
    the heads of their lanes.

        web = FastAPI(lifespan=lifespan(app, worker=True, concurrency=4))

    Inside your own lifespan: `async with lifespan(app)(web): …`.
    """

    @asynccontextmanager
    async def run(_: Any = None) -> AsyncIterator[None]:
        async with app.open_async():
            if not worker:
                yield
                return
            app.perform_import_paths()
            # Without this check, a worker that cannot start would go unnoticed.
            await app.connector.run_async(check_schema(app.connector.schema))
            # The web server handles its own signals. It may have several processes, and only one
            # of them could open the ports of the defaults.
            combined = {
                "shutdown_graceful_timeout": GRACE,
                **app.worker_defaults,
                "metrics_port": None,
                "health_port": None,
                **given,
                "install_signal_handlers": False,
            }
            settings = options(combined)
            with serve_probes(app, app.connector, settings) as probes:
                running = Worker(app, app.connector, settings, probes=probes)
                async with anyio.create_task_group() as group:
                    group.start_soon(running.run)
                    try:
                        yield
                    finally:
                        running.stop("the web application ends")

    return run
