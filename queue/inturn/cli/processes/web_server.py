"""Serve the dashboard, alone or beside another command."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from threading import Thread
from typing import TYPE_CHECKING

from inturn.errors import ConfigurationError, MissingExtra

if TYPE_CHECKING:
    import uvicorn

    from inturn.app import App
    from inturn.database.connector import Connector
    from inturn.web.gate import Gate

LOOPBACK = "127.0.0.1"
PORT = 8780


def check_packages() -> None:
    """Raise MissingExtra if the dashboard's packages are missing."""
    import_module("inturn.web")
    try:
        import_module("uvicorn")
    except ImportError:
        raise MissingExtra("The dashboard", "web") from None


def serve(site: Gate, listener: socket.socket) -> None:
    """Serve the pages until Ctrl-C or SIGTERM."""
    with suppress(KeyboardInterrupt):  # the usual way to end it
        _make_server(site).run([listener])


@contextmanager
def serve_beside(
    dsn: str, port: int | None = None, *, near: int | None = None, key: str | None = None
) -> Iterator[str]:
    """Serve the pages from a thread until the end of the block, and yield the link.

    Without a port, it is `near`, else PORT, or a free one. Without a key, the link has a new one.

    Raise MissingExtra if the dashboard's packages are missing.
    """
    from inturn.database.connectors import PsycopgConnector
    from inturn.web import SecretLink, create_app

    link = SecretLink(key)
    server = _make_server(create_app(make_app(PsycopgConnector(dsn)), authorize=link))
    with listen(LOOPBACK, port) if port else listen_nearly(LOOPBACK, near or PORT) as listener:
        # A daemon thread, so that a second Ctrl-C need not wait for browsers.
        thread = Thread(target=server.run, args=([listener],), name="inturn dashboard", daemon=True)
        thread.start()
        try:
            yield describe_address(LOOPBACK, listener) + link.query
        finally:
            server.should_exit = True
            thread.join()


def make_app(connector: Connector) -> App:
    """Return an app that only knows the database, traced if OpenTelemetry is installed."""
    from inturn.app import App

    tracing = import_module("inturn.tracing").Tracing() if find_spec("opentelemetry") else None
    return App(connector=connector, tracing=tracing)


def listen(bind: str, port: int) -> socket.socket:
    """Return a socket that listens, so that the port is known before the first page."""
    try:
        return socket.create_server(
            (bind, port), family=socket.AF_INET6 if ":" in bind else socket.AF_INET
        )
    except OSError as error:
        raise ConfigurationError(
            f"The port {port} of {bind} cannot be used: {error}. Choose another port, "
            "or find the process that has it"
        ) from error


def listen_nearly(bind: str, port: int) -> socket.socket:
    """Return a socket that listens on this port, or on another if it is taken.

    Browsers then usually find the page again after a restart.
    """
    try:
        return listen(bind, port)
    except ConfigurationError:
        return listen(bind, 0)


def describe_address(bind: str, listener: socket.socket) -> str:
    """Return the address to open in a browser."""
    shown = f"[{bind}]" if ":" in bind else bind
    return f"http://{shown}:{listener.getsockname()[1]}/"


def _make_server(site: Gate) -> uvicorn.Server:
    check_packages()
    import uvicorn

    # A client must not forge its address with a header: --proxy names the trusted sender.
    config = uvicorn.Config(
        site,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=32 * 1024,
    )
    return uvicorn.Server(config)
