"""A way to a real Redis on which a reply can be lost: the server has done it, the client never hears."""

import contextlib
import socket
import tempfile
import threading
from typing import Any, Self


class Lossy:
    def __init__(self, target: str) -> None:
        self._target = target
        self._folder = tempfile.TemporaryDirectory(prefix="inturn-lossy-")
        self.path = f"{self._folder.name}/redis.sock"
        self._to_lose = 0
        self.lost = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def lose_next_reply(self) -> None:
        self.lost.clear()
        self._to_lose = 1

    def __enter__(self) -> Self:
        self._listener.bind(self.path)
        self._listener.listen()
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()
        self._folder.cleanup()

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
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._target)
            self._ends += [near, far]
            self._start(self._pump, near, far, False)
            self._start(self._pump, far, near, True)

    def _pump(self, source: socket.socket, sink: socket.socket, replies: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if replies and self._to_lose:
                    self._to_lose = 0
                    self.lost.set()
                    break
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
