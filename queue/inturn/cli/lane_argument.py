"""The lane that a command is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from inturn.cli.database import Database
from inturn.cli.exit_status import NotFound
from inturn.cli.formatting import argument, visible

if TYPE_CHECKING:
    from inturn.operations.lanes import LaneReport

F = TypeVar("F", bound=Callable[..., Any])


def lock_argument(command: F) -> F:
    return click.argument("lock", callback=_checked)(command)


def _checked(_context: click.Context, _parameter: click.Parameter, lock: str) -> str | None:
    from inturn.arguments import check_lock

    return check_lock(lock)


def known(database: Database, lock: str) -> LaneReport:
    """How the lane stands; NotFound if there is nothing to say about it."""
    from inturn.operations import lanes

    report = database.run(lanes.report_lane(lock))
    if not report.is_known:
        raise nothing(lock)
    return report


def nothing(lock: str) -> NotFound:
    return NotFound(
        f"No job waits or runs under the lock {visible(lock)}, and nobody stopped it (jobs that are not due yet do not "
        f"count). Its jobs: queue jobs list --lock {argument(lock).removeprefix('-- ')}"
    )
