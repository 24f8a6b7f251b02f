"""Ports of locks whose store is this machine: they only wait."""

import asyncio
import time
from typing import Any

from inturn.locks.core.protocol import Pause


class ClockPort:
    lane = "local"

    def do(self, request: Any) -> None:
        if isinstance(request, Pause):
            time.sleep(request.seconds)

    def rest(self) -> None: ...
    def close(self) -> None: ...


class AsyncClockPort:
    async def do(self, request: Any) -> None:
        if isinstance(request, Pause):
            await asyncio.sleep(request.seconds)

    async def rest(self) -> None: ...
    async def close(self) -> None: ...
