"""A proxy to a real Redis that can lose a reply to something that the server has done."""

import socket
import tempfile
import threading
from typing import Self

from tests.proxy import Proxy


class Lossy(Proxy):
    def __init__(self, target: str) -> None:
        super().__init__(socket.socket(socket.AF_UNIX))
        self._target = target
        self._folder = tempfile.TemporaryDirectory(prefix="inturn-lossy-")
        self.path = f"{self._folder.name}/redis.sock"
        self._to_lose = 0
        self.lost = threading.Event()

    def lose_next_reply(self) -> None:
        self.lost.clear()
        self._to_lose = 1

    def __enter__(self) -> Self:
        self._listener.bind(self.path)
        self._listener.listen()
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._folder.cleanup()

    def connect(self) -> socket.socket:
        far = socket.socket(socket.AF_UNIX)
        far.connect(self._target)
        return far

    def passes(self, data: bytes, *, is_reply: bool, doomed: threading.Event) -> bool:
        if is_reply and self._to_lose:
            self._to_lose = 0
            self.lost.set()
            return False
        return True
