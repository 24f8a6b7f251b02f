"""A way to the real server on which a COMMIT can get lost: on its way there, or its answer on the way back."""

import contextlib
import socket
import threading
from typing import Any, Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

COMMIT = b"COMMIT\0"


class Lossy:
    """`lose`: "request" or "reply" of the next COMMIT; the connection ends with it."""

    def __init__(self, dsn: str) -> None:
        self._target = conninfo_to_dict(dsn)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.dsn = make_conninfo(dsn, host="127.0.0.1", port=self._listener.getsockname()[1], sslmode="disable")
        self.lose: str | None = None
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for end in (self._listener, *self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in (self._listener, *self._ends):
            end.close()

    def _start(self, function: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = self._connect()
            self._ends += [near, far]
            doomed = threading.Event()
            self._start(self._requests, near, far, doomed)
            self._start(self._replies, far, near, doomed)

    def _connect(self) -> socket.socket:
        host, port = str(self._target["host"]), int(self._target.get("port") or 5432)
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        far = socket.socket(socket.AF_UNIX)
        far.connect(f"{host}/.s.PGSQL.{port}")
        return far

    def _requests(self, near: socket.socket, far: socket.socket, doomed: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := near.recv(65536):
                if self.lose and COMMIT in data:
                    lost, self.lose = self.lose, None
                    if lost == "request":
                        break
                    doomed.set()
                far.sendall(data)
        _end(near, far)

    def _replies(self, far: socket.socket, near: socket.socket, doomed: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := far.recv(65536):
                if doomed.is_set():  # the server has answered, so it has committed
                    break
                near.sendall(data)
        _end(near, far)


def _end(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
