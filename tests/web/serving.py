"""Serve an ASGI app over HTTP, in a thread of the test's process."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import uvicorn

from tests.waiting import wait_until

LIMIT = 120.0  # seconds; the machine may be busy


@contextmanager
def serve(site: Any, **options: Any) -> Iterator[str]:
    """Yield the address of the app, without a slash at its end."""
    config = uvicorn.Config(
        site,
        port=0,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
        **options,
    )
    server = uvicorn.Server(config)
    listening = socket.create_server(("127.0.0.1", 0))
    thread = Thread(target=server.run, kwargs={"sockets": [listening]}, name="site")
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive(), LIMIT)
        assert server.started, "the site does not start"
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(LIMIT)
        listening.close()
