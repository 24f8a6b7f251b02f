"""A small HTTP server for metrics and health checks, in its own threads.

It therefore responds even while the event loop is blocked or the database is away.
"""

import logging
import socket
import socketserver
from collections.abc import Callable, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple, Self

from inturn.errors import ConfigurationError

logger = logging.getLogger(__name__)
CLIENT_SECONDS = 10.0  # how long a client may take to send its request
STOP_SECONDS = 0.1  # between checks whether the server should stop


class Answer(NamedTuple):
    status: int
    content_type: str
    body: bytes


Route = Callable[[str], Answer]  # it gets the Accept header


class Endpoint:
    """Serves routes while it is entered. Port 0 means any free one: see `port`."""

    def __init__(self, host: str, port: int, routes: Mapping[str, Route]) -> None:
        self._host = host
        try:
            self._server = _Server(host, port, routes)
        except (OSError, OverflowError) as error:
            raise ConfigurationError(
                f"Port {port} on {host} cannot be used: {error}. Choose another port, or find out "
                "what uses it"
            ) from error
        serve = partial(self._server.serve_forever, STOP_SECONDS)
        self._thread = Thread(target=serve, name="inturn endpoint", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def address(self) -> str:
        """Return the base of its URLs."""
        return f"http://{f'[{self._host}]' if ':' in self._host else self._host}:{self.port}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, host: str, port: int, routes: Mapping[str, Route]) -> None:
        self.routes = routes
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        # Skips the lookup of our host name, which may take seconds.
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("endpoint.client_lost: %s", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = CLIENT_SECONDS

    def do_GET(self) -> None:
        answer = self._answer(self.path.partition("?")[0])
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_HEAD = do_GET

    def _answer(self, path: str) -> Answer:
        route = self.server.routes.get(path)
        if route is None:
            known = "".join(f"{path}\n" for path in self.server.routes)
            return Answer(404, "text/plain", f"Not found. Available:\n{known}".encode())
        try:
            return route(self.headers.get("Accept", ""))
        except Exception:
            logger.exception("endpoint.failed: %s", path)
            return Answer(500, "text/plain", b"Internal error; see the log.\n")

    def version_string(self) -> str:
        return "inturn"

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: a probe asks every few seconds."""
