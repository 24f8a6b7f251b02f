"""Ports of locks whose store is this machine. They only carry out pauses."""

import asyncio
import time

from inturn.locks.core.protocol import Pause


class PausePort:
    """Sleeps in a thread."""

    server = "local"

    def do(self, request: Pause) -> None:
        time.sleep(request.seconds)

    def rest(self) -> None: ...
    def close(self) -> None: ...


class AsyncPausePort:
    """Sleeps in a task."""

    async def do(self, request: Pause) -> None:
        await asyncio.sleep(request.seconds)

    async def rest(self) -> None: ...
    async def close(self) -> None: ...
