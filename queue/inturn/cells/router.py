"""The parts of an app, such as `app.lanes`, over all cells.

A call that names a lock, a job or a batch goes to its cell. Any other is made in all cells, side by
side, and the answers are merged.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from inturn.cells.asking import ask_all, ask_all_async, merge
from inturn.cells.placing import place_call
from inturn.errors import BadArgument

# It would hold in each cell, and not for all of them together.
PER_CELL = ("Limits.set", "Limits.set_async")


class Router:
    """Looks like one of `inturn.control`, and has one for each cell."""

    def __init__(self, cells: Any, parts: Sequence[Any]) -> None:
        self._cells = cells
        self._parts = parts

    def __getattr__(self, name: str) -> Any:
        method = getattr(type(self._parts[0]), name, None)
        if not callable(method):
            return getattr(self._parts[0], name)  # raises what a part would
        route = self._route_async if inspect.iscoroutinefunction(method) else self._route
        return partial(route, name)

    def _route(self, name: str, /, *args: Any, **given: Any) -> Any:
        place = self._place(name, args, given)
        if place is not None:
            return getattr(self._parts[place], name)(*args, **given)
        found = ask_all(
            range(len(self._parts)), lambda cell: getattr(self._parts[cell], name)(*args, **given)
        )
        return self._merge(name, args, given, list(found.values()))

    async def _route_async(self, name: str, /, *args: Any, **given: Any) -> Any:
        place = self._place(name, args, given)
        if place is not None:
            return await getattr(self._parts[place], name)(*args, **given)
        found = await ask_all_async(
            range(len(self._parts)), lambda cell: getattr(self._parts[cell], name)(*args, **given)
        )
        return self._merge(name, args, given, list(found.values()))

    def _place(self, name: str, args: Sequence[Any], given: Mapping[str, Any]) -> int | None:
        """Return the cell that the call is about, or None for all."""
        part = self._parts[0]
        if f"{type(part).__name__}.{name}" in PER_CELL:
            raise BadArgument(
                "limit",
                f"would hold in each of the {len(self._parts)} cells alone, so they allow "
                f"{len(self._parts)} times as much together. Set it in a cell, and give its jobs "
                "that cell key: app.cell('tenant:7').limits.set(…). Or set it in each: "
                "for n in range(len(app.connector.homes)): app.cell(n).limits.set(…)",
            )
        call = inspect.signature(getattr(part, name)).bind(*args, **given).arguments
        place = place_call({**call, **call.get("which", {})}, len(self._parts))
        if place is None and call.get("before_id") is not None:
            raise BadArgument("before_id", "names a page of one cell. Use app.cell(3)")
        return place

    def _merge(
        self, name: str, args: Sequence[Any], given: Mapping[str, Any], answers: list[Any]
    ) -> Any:
        plain_name = name.removesuffix("_async")
        if plain_name == "check_connection":
            return all(answers)
        merged = merge(answers)
        if plain_name != "list_jobs":
            return merged
        call = inspect.signature(getattr(self._parts[0], name)).bind(*args, **given)
        call.apply_defaults()
        merged.sort(key=lambda job: job.created_at)
        return merged[-call.arguments["limit"] :]
