"""The parts of an app, such as `app.lanes`, over cells.

A call that names a lane, a job or a batch goes to its cell. Any other is made in the cell that
`App.cell` has named, or else in all of them, side by side, and the answers are merged.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any

from inturn.cells.asking import ask_all, ask_all_async, merge
from inturn.cells.placing import share_call
from inturn.model import BatchProgress, Group, Lane, Limit, StoredJob
from inturn.operations.changes.pauses import PausedQueue, PausedTask

Calls = dict[int, Mapping[str, Any]]
# The order of each list, as a cell returns it.
ORDERS: dict[type, Callable[[Any], Any]] = {
    BatchProgress: lambda batch: -batch.opened_at.timestamp(),
    Group: attrgetter("name"),
    Lane: lambda lane: (lane.stopped is None, lane.stopped == "paused", lane.since),
    Limit: attrgetter("pattern"),
    PausedQueue: attrgetter("since"),
    PausedTask: attrgetter("since"),
    StoredJob: attrgetter("created_at"),
    dict: itemgetter("name"),
}


class Router:
    """Looks like one of `inturn.control`, and makes one for each cell that is called.

    `home` is the cell that `App.cell` has named, or None.
    """

    def __init__(
        self, cells: Any, control: Callable[..., Any], *more: Any, home: int | None = None
    ) -> None:
        self._cells = cells
        self._control = control
        self._more = more  # what the parts are made with, beside their connectors
        self._home = home
        self._parts: dict[int, Any] = {}

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._control, name, None)
        if not callable(method):
            return getattr(self._part(self._home or 0), name)  # raises what a part would
        route = self._route_async if inspect.iscoroutinefunction(method) else self._route
        return partial(route, name)

    def _part(self, cell: int) -> Any:
        if cell not in self._parts:
            made = self._control(self._cells.homes[cell], *self._more)
            self._parts.setdefault(cell, made)
        return self._parts[cell]

    def _route(self, name: str, /, *args: Any, **given: Any) -> Any:
        calls = self._share(name, args, given)
        if len(calls) == 1:
            [(cell, call)] = calls.items()
            return getattr(self._part(cell), name)(**call)
        found = ask_all(list(calls), lambda cell: getattr(self._part(cell), name)(**calls[cell]))
        return self._merge(name, calls, list(found.values()))

    async def _route_async(self, name: str, /, *args: Any, **given: Any) -> Any:
        calls = self._share(name, args, given)
        if len(calls) == 1:
            [(cell, call)] = calls.items()
            return await getattr(self._part(cell), name)(**call)
        found = await ask_all_async(
            list(calls), lambda cell: getattr(self._part(cell), name)(**calls[cell])
        )
        return self._merge(name, calls, list(found.values()))

    def _share(self, name: str, args: tuple[Any, ...], given: Mapping[str, Any]) -> Calls:
        """Return the arguments of the call in each cell that it is about."""
        bound = inspect.signature(getattr(self._control, name)).bind(None, *args, **given)
        bound.apply_defaults()
        _, *arguments = bound.arguments.items()
        call = dict(arguments)
        call.update(call.pop("which", {}))
        return share_call(call, len(self._cells.homes), self._home)

    def _merge(self, name: str, calls: Calls, answers: list[Any]) -> Any:
        plain_name = name.removesuffix("_async")
        if plain_name == "check_connection":
            return all(answers)
        merged = merge(answers)
        order = ORDERS.get(type(merged[0])) if isinstance(merged, list) and merged else None
        if order is None:
            return merged
        merged.sort(key=order)
        most: Any = next(iter(calls.values())).get("limit")
        return merged[-most:] if plain_name == "list_jobs" else merged[:most]
