"""A proxy to the real server that can lose a COMMIT or its answer."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.proxy import Faulty, Proxy

COMMIT = b"COMMIT\0"


def reach(target: dict[str, Any]) -> socket.socket:
    """Connect to the server that an address names, over TCP or a Unix socket."""
    host, port = str(target["host"]), int(target.get("port") or 5432)
    if not host.startswith("/"):
        return socket.create_connection((host, port))
    far = socket.socket(socket.AF_UNIX)
    far.connect(f"{host}/.s.PGSQL.{port}")
    return far


@contextmanager
def faulty(dsn: str) -> Iterator[tuple[Faulty, str]]:
    """A proxy in front of the server, and the address that leads through it."""
    with Faulty(partial(reach, conninfo_to_dict(dsn))) as proxy:
        yield proxy, make_conninfo(dsn, host="127.0.0.1", port=proxy.port, sslmode="disable")


class Lossy(Proxy):
    """Lose the "request" or the "reply" of the next COMMIT, and end the connection."""

    def __init__(self, dsn: str) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        super().__init__(listener)
        self._target = conninfo_to_dict(dsn)
        self.dsn = make_conninfo(
            dsn, host="127.0.0.1", port=listener.getsockname()[1], sslmode="disable"
        )
        self.lose: str | None = None

    def connect(self) -> socket.socket:
        return reach(self._target)

    def passes(self, data: bytes, *, is_reply: bool, doomed: threading.Event) -> bool:
        if is_reply:
            return not doomed.is_set()  # the server has answered, so it has committed
        if self.lose and COMMIT in data:
            lost, self.lose = self.lose, None
            if lost == "request":
                return False
            doomed.set()
        return True
