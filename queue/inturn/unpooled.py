"""A connector without pools: somebody else provides the connection of each call."""

from typing import Any

from inturn.connectors import PsycopgConnector


class UnpooledConnector(PsycopgConnector):
    """Always open. The app may be opened and closed all the same, which does nothing."""

    @property
    def is_open_async(self) -> bool:
        return True

    def open(self, *_: Any, **__: Any) -> None: ...

    def close(self) -> None: ...

    async def open_async(self, *_: Any, **__: Any) -> None: ...

    async def close_async(self) -> None: ...
