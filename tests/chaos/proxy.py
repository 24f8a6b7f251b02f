"""A network that knows PostgreSQL's messages.

It can lose a certain message, delay, freeze, forget, refuse and split.
It is one thread with its own event loop.
Each client process has its own route, which is a port, so a fault can affect one of them or all.
Standard library only.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from tests.chaos.frames import Conversation, Cutter, Frame, asks_for_encryption

T = TypeVar("T")
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close by a reset
LOCALHOST = "127.0.0.1"


@dataclass
class Trap:
    """Lose the next request or reply with this purpose.

    Then reset the connection, or leave it silent if `mute`.
    """

    purpose: str
    lost: str  # request or reply
    mute: bool = False


@dataclass
class Weather:
    """What a route does to its connections now."""

    delay: float = 0.0
    trickles: bool = False
    refuses: bool = False
    swallows_notifications: bool = False
    cuts_a_frame: bool = False
    traps: list[Trap] = field(default_factory=list)


@dataclass(eq=False)
class Link:
    """One connection of a client, and our connection to the server for it."""

    near: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    far: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    talk: Conversation = field(default_factory=Conversation)
    is_deaf: bool = False  # nothing passes any more, and neither end notices
    has_swallowed: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def reset(self) -> None:
        for _, writer in (self.near, self.far):
            abort(writer)
        self.ended.set()


def abort(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


class Route:
    """The route of one client. `note` is called with what was lost."""

    def __init__(self, target: Callable[[], int], note: Callable[[str], object]) -> None:
        self.weather = Weather()
        self.port = 0
        self._target = target
        self._note = note
        self._links: set[Link] = set()
        self._thaw = asyncio.Event()
        self._thaw.set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, LOCALHOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.reset()

    # -- the faults that are not weather

    def freeze(self) -> None:
        self._thaw.clear()

    def forget(self) -> None:
        """Make existing connections half-open: data is swallowed, and a close is not passed on."""
        for link in self._links:
            link.is_deaf = True

    def reset(self) -> None:
        for link in list(self._links):
            link.reset()

    def heal(self) -> None:
        """Let everything pass again. Reset what was half-open."""
        self.weather = Weather()
        self._thaw.set()
        for link in [link for link in self._links if link.is_deaf]:
            link.reset()

    # -- connections

    async def _accept(self, *near: Any) -> None:
        far = None
        if not self.weather.refuses:
            with contextlib.suppress(OSError):
                far = await asyncio.open_connection(LOCALHOST, self._target())
        if far is None:
            abort(near[1])
            return
        link = Link((near[0], near[1]), far)
        self._links.add(link)
        cutters = Cutter(is_client=True), Cutter(is_client=False)
        pumps = [asyncio.create_task(self._pump(link, cutters, up)) for up in (True, False)]
        await asyncio.wait(
            [*pumps, asyncio.create_task(link.ended.wait())], return_when=asyncio.FIRST_COMPLETED
        )
        if link.is_deaf:
            await link.ended.wait()
        link.reset()
        self._links.discard(link)
        await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, link: Link, cutters: tuple[Cutter, Cutter], up: bool) -> None:
        source, sink = (link.near[0], link.far[1]) if up else (link.far[0], link.near[1])
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if self.weather.delay:
                    await asyncio.sleep(self.weather.delay)
                await self._thaw.wait()
                out = [
                    self._up(link, cutters, f) if up else self._down(link, f)
                    for f in cutters[not up].feed(data)
                ]
                if link.is_deaf:
                    self._note_swallowed(link)
                elif any(out):
                    await self._send(sink, b"".join(out))
                if link.ended.is_set():
                    return

    def _note_swallowed(self, link: Link) -> None:
        if not link.has_swallowed:
            link.has_swallowed = True
            self._note("a half-open connection swallowed messages")

    async def _send(self, sink: asyncio.StreamWriter, data: bytes) -> None:
        if not self.weather.trickles:
            sink.write(data)
            await sink.drain()
            return
        for place in range(len(data)):
            sink.write(data[place : place + 1])
            await sink.drain()
            await asyncio.sleep(0)

    def _up(self, link: Link, cutters: tuple[Cutter, Cutter], frame: Frame) -> bytes:
        if asks_for_encryption(frame):
            cutters[1].expect_single()
        purpose = link.talk.asks(frame)
        if purpose is not None and self._sprung(purpose, "request") is not None:
            self._note(f"the request of a {purpose} was lost")
            link.reset()
        return b"" if link.ended.is_set() else frame.raw

    def _down(self, link: Link, frame: Frame) -> bytes:
        if frame.kind == b"A" and self.weather.swallows_notifications:
            self._note("a notification was lost")
            return b""
        if frame.kind in b"DT" and frame.kind and self.weather.cuts_a_frame:
            return self._cut(link, frame)
        purpose = link.talk.answered
        link.talk.replies(frame)
        if purpose is None or not any(
            trap.purpose == purpose and trap.lost == "reply" for trap in self.weather.traps
        ):
            return b"" if link.ended.is_set() else frame.raw
        if frame.kind == b"Z":  # only now it has surely committed
            trap = self._sprung(purpose, "reply")
            self._note(f"the reply to a {purpose} was lost")
            if trap is not None and trap.mute:
                link.is_deaf = True
            else:
                link.reset()
        return b""

    def _cut(self, link: Link, frame: Frame) -> bytes:
        self.weather.cuts_a_frame = False
        self._note("a connection was reset in the middle of a message")
        link.near[1].write(frame.raw[: len(frame.raw) // 2])
        asyncio.get_running_loop().call_later(
            0.05, link.reset
        )  # the bytes written before are on their way by now
        link.is_deaf = link.has_swallowed = True  # which is not a half-open connection
        return b""

    def _sprung(self, purpose: str, lost: str) -> Trap | None:
        for trap in self.weather.traps:
            if (trap.purpose, trap.lost) == (purpose, lost):
                self.weather.traps.remove(trap)
                return trap
        return None


class Network:
    """All routes. You can call its methods from any thread."""

    def __init__(self, target: Callable[[], int], note: Callable[[str], object]) -> None:
        self.routes: dict[str, Route] = {}
        self._target = target
        self._note = note
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def open(self, name: str, target: Callable[[], int] | None = None) -> int:
        """Open a new route, and return its port."""
        route = self.routes[name] = Route(target or self._target, self._note)
        self._do(route.open())
        return route.port

    def each(self, change: Callable[[Route], object], *names: str) -> None:
        """Change some routes, or all, inside the loop."""

        async def apply() -> None:
            for name in names or self.routes:
                change(self.routes[name])

        self._do(apply())

    async def _close(self) -> None:
        for route in self.routes.values():
            await route.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        await asyncio.wait(tasks, timeout=2) if tasks else None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)
