"""The protocol between a lock and its store: generators that yield requests and receive answers.

A lock's behaviour is written once, as a generator. A port carries out its requests on a Redis
client, on a PostgreSQL connection, or with only a clock. `run` and `run_async` are the only places
where sync and async differ.

Errors and cancellations are thrown into the generator, so that it can undo what it began, for which
it may yield again.
"""

import asyncio
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
Steps = Generator[Any, Any, T]


@dataclass(frozen=True, slots=True)
class Listen:
    """From now on, a message on this channel ends a pause early."""

    channel: bytes


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for this many seconds."""

    seconds: float


class Port:
    """Carries out the requests of a sync lock. This one only sleeps: the store is this machine."""

    server: object = "local"
    """What this port talks to. Renewals on one server can delay each other."""

    def do(self, request: Any) -> Any:
        time.sleep(request.seconds)

    def rest(self) -> None:
        """Stop listening, because the wait is over."""

    def close(self) -> None:
        self.rest()


class AsyncPort:
    """Carries out the requests of an async lock."""

    async def do(self, request: Any) -> Any:
        await asyncio.sleep(request.seconds)

    async def rest(self) -> None:
        """Stop listening, because the wait is over."""

    async def close(self) -> None:
        await self.rest()


def run(steps: Steps[T], port: Port) -> T:
    """Run the generator on a sync port and return its result."""
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
        value: T = end.value
        return value


async def run_async(steps: Steps[T], port: AsyncPort) -> T:
    """Run the generator on an async port and return its result."""
    task = asyncio.current_task()
    assert task is not None
    cancelled = task.cancelling()
    try:
        request = next(steps)
        while True:
            try:
                answer = await port.do(request)
                if task.cancelling() > cancelled:
                    # The client hit its own timeout at the same moment, and mistook our
                    # cancellation for it.
                    raise asyncio.CancelledError
            except BaseException as error:
                cancelled = task.cancelling()
                request = steps.throw(error)
            else:
                request = steps.send(answer)
    except StopIteration as end:
        value: T = end.value
        return value
