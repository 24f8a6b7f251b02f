"""Proxies in front of a real server that can lose messages."""

import contextlib
import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self


class Proxy(ABC):
    """Pass data on as long as `passes` lets it through. Then end the connection."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    @abstractmethod
    def connect(self) -> socket.socket:
        """To the server."""

    @abstractmethod
    def passes(self, data: bytes, *, is_reply: bool, doomed: threading.Event) -> bool:
        """Return whether the data passes. Each connection has its own `doomed`."""

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

    def _pump(
        self, source: socket.socket, sink: socket.socket, is_reply: bool, doomed: threading.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not self.passes(data, is_reply=is_reply, doomed=doomed):
                    break
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@dataclass
class Flow:
    """One connection through the proxy."""

    near: socket.socket
    far: socket.socket | None  # None: no answer ever comes
    is_lost: bool = False  # swallows both ways, and never says that it is over
    is_reset: bool = False

    @property
    def ends(self) -> list[socket.socket]:
        return [self.near] if self.far is None else [self.near, self.far]


class Faulty:
    """A proxy over TCP to a real server, with the faults of networks and poolers."""

    def __init__(self, reach: Callable[[], socket.socket]) -> None:
        self._reach = reach
        self._listener: socket.socket | None = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._flows: list[Flow] = []
        self._threads: list[threading.Thread] = []
        self._moves = threading.Event()
        self._moves.set()
        self._delay = 0.0
        self._answers = True
        self.accepted = 0

    def __enter__(self) -> Self:
        self._listen()
        return self

    def __exit__(self, *_: object) -> None:
        self.refuse()
        self._moves.set()
        for flow in self._flows:
            self._end(flow)
        for thread in self._threads:
            thread.join()
        for flow in self._flows:
            for end in flow.ends:
                end.close()

    # ------------------------------------------------------------------ the faults

    def vanish(self) -> None:
        """Let existing connections lead nowhere, without an error. New ones work as before."""
        for flow in self._flows:
            flow.is_lost = True

    def fall_silent(self) -> None:
        """As `vanish`, and new connections are accepted and never answered: a pooler that hangs."""
        self._answers = False
        self.vanish()

    def freeze(self) -> None:
        """Nothing moves until `thaw`."""
        self._moves.clear()

    def thaw(self) -> None:
        self._moves.set()

    def delay(self, seconds: float) -> None:
        """Each packet takes longer from now on."""
        self._delay = seconds

    def half_close(self) -> None:
        """Close the connections towards the clients only. The server does not notice."""
        for flow in self._flows:
            with contextlib.suppress(OSError):
                flow.near.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """End each connection with a reset on both sides. Nothing passes any more."""
        for flow in self._flows:
            flow.is_reset = True
            for end in flow.ends:
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    end.shutdown(socket.SHUT_RD)  # wakes the threads that read, which then close it

    def refuse(self) -> None:
        """Refuse new connections. Existing ones go on."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def heal(self) -> None:
        """New connections are made, and answered."""
        self._answers = True
        self._delay = 0.0
        self.thaw()
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            self._listen()

    # ------------------------------------------------------------------ the ways

    def _listen(self) -> None:
        self._start(self._accept, self._listener)

    def _start(self, function: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            self.accepted += 1
            flow = Flow(near, self._reach() if self._answers else None)
            self._flows.append(flow)
            if self._listener is not listener:  # refused since: `reset` may have missed it
                self._end(flow)
            if flow.far is None:
                self._start(self._swallow, flow)
            else:
                self._start(self._pump, flow, near, flow.far)
                self._start(self._pump, flow, flow.far, near)

    def _swallow(self, flow: Flow) -> None:
        with contextlib.suppress(OSError):
            while flow.near.recv(65536):
                pass

    def _pump(self, flow: Flow, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._moves.wait()
                if self._delay:
                    time.sleep(self._delay)
                if not (flow.is_lost or flow.is_reset):
                    sink.sendall(data)
        if flow.is_reset:
            source.close()
        elif not flow.is_lost:
            self._end(flow)

    def _end(self, flow: Flow) -> None:
        for end in flow.ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
