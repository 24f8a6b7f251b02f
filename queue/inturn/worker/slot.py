"""Where one attempt runs, and how it is told from what surrounds it."""

import asyncio
import math
from typing import Any, NamedTuple

import anyio


class Slot(NamedTuple):
    """Where attempts run: the scope that cancels one, the scope inside it that shields its code,
    and their asyncio task. After a cancellation, no other attempt runs here.
    """

    scope: anyio.CancelScope
    shield: anyio.CancelScope
    task: asyncio.Task[Any]

    def close_scopes(self) -> bool:
        """Close the scopes that a job has left open. Return True if there were any.

        They could cancel the next job, and the slot could not end.
        """
        return _close_scopes(self.shield, self.task)


def _close_scopes(scope: anyio.CancelScope, task: asyncio.Task[Any]) -> bool:
    # anyio has no public way to ask for them. A test fails if it names them differently one day.
    # Scopes of other tasks are those of a task group's children, which end with the group.
    left_open = [
        child
        for child in scope._child_scopes  # type: ignore[attr-defined]
        if child._host_task is task
    ]
    for child in left_open:
        child.cancel()  # nobody waits for the tasks of a task group any more
        _close_scopes(child, task)
        child.__exit__(None, None, None)
    return bool(left_open)


def is_cancelled() -> bool:
    """Return True if the worker cancels the code around this call.

    Otherwise a cancellation comes from somewhere else.
    """
    return anyio.current_effective_deadline() == -math.inf
