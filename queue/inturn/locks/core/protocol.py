"""One core, two colours: what a lock does is a generator that yields requests and is sent the answers.

A port carries the requests out, on a Redis client, a PostgreSQL connection or nothing but the clock. `run` and
`run_async` are the only places where the two colours differ. Errors and cancellations are thrown into the generator,
so that it can take back what it began; it may yield once more to do so.
"""

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Steps = Generator[Any, Any, T]


@dataclass(frozen=True, slots=True)
class Listen:
    """From now on, a message on this channel ends a pause early."""

    channel: bytes


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


class Port(Protocol):
    @property
    def lane(self) -> object:
        """Renewals through ports of one lane may hold each other up: they share a server."""

    def do(self, request: Any) -> Any: ...
    def rest(self) -> None:
        """The waiting is over: stop listening."""

    def close(self) -> None: ...


class AsyncPort(Protocol):
    async def do(self, request: Any) -> Any: ...
    async def rest(self) -> None: ...
    async def close(self) -> None: ...


def run(steps: Steps[T], port: Port) -> T:
    try:
        request = next(steps)
        while True:
            try:
                answer = port.do(request)
            except BaseException as error:
                request = steps.throw(error)
            else:
                request = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def run_async(steps: Steps[T], port: AsyncPort) -> T:
    task = asyncio.current_task()
    assert task is not None
    cancelled = task.cancelling()
    try:
        request = next(steps)
        while True:
            try:
                answer = await port.do(request)
                if task.cancelling() > cancelled:
                    # A client that ran into a time limit of its own at that moment has taken the cancellation for it.
                    raise asyncio.CancelledError
            except BaseException as error:
                cancelled = task.cancelling()
                request = steps.throw(error)
            else:
                request = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
