"""A way to a real server on which what is said can get lost."""

import contextlib
import socket
import threading
from abc import ABC, abstractmethod
from typing import Any, Self


class Proxy(ABC):
    """Passes on what `passes` lets through; a connection ends with the first thing that it does not."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    @abstractmethod
    def connect(self) -> socket.socket:
        """To the server."""

    @abstractmethod
    def passes(self, data: bytes, *, is_reply: bool, doomed: threading.Event) -> bool:
        """`doomed` is one a connection, to be set by what is said on it."""

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
            far, doomed = self.connect(), threading.Event()
            self._ends += [near, far]
            self._start(self._pump, near, far, False, doomed)
            self._start(self._pump, far, near, True, doomed)

    def _pump(self, source: socket.socket, sink: socket.socket, is_reply: bool, doomed: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not self.passes(data, is_reply=is_reply, doomed=doomed):
                    break
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
