"""Ports of locks whose store is this machine. They only carry out pauses."""

import asyncio
import time
from typing import Any

from inturn.locks.core.protocol import Pause


class PausePort:
    """Sleeps in a thread."""

    server = "local"

    def do(self, request: Any) -> None:
        if isinstance(request, Pause):
            time.sleep(request.seconds)

    def rest(self) -> None: ...
    def close(self) -> None: ...


class AsyncPausePort:
    """Sleeps in a task."""

    async def do(self, request: Any) -> None:
        if isinstance(request, Pause):
            await asyncio.sleep(request.seconds)

    async def rest(self) -> None: ...
    async def close(self) -> None: ...
