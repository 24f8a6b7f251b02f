"""Errors: failures of the last hour by task and error, and errors that stop several lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inturn.operations.reading import failures
from inturn.operations.reading.failures import RecentFailures, SharedError
from inturn.web.page import Page, View
from inturn.web.reading import PageReader

LISTED = 100
SORTS = {
    "count": lambda group: -group.failed,
    "last": lambda group: -group.last_at.timestamp(),
    "lanes": lambda group: -group.lanes,
}


def read(view: View) -> dict[str, Any]:
    """Return the groups of errors."""
    seen = view.header.value
    may_read = seen is not None and seen.may_read_errors
    chosen = view.choose("sort", tuple(SORTS))
    groups = view.panel(lambda reader: _read_groups(reader, may_read))
    found = sorted(groups.value or [], key=SORTS[chosen])
    return {
        "groups": groups,
        "shown": found[:LISTED],
        "failed": sum(each.failed for each in found),
        "cut": len(found) > LISTED,
        "bound": failures.BOUND,
        "listed": LISTED,
        "shared": view.panel(lambda reader: _read_shared(reader, may_read)),
        "may_read": may_read,
        "sorts": tuple(SORTS),
        "chosen": chosen,
    }


def _read_groups(reader: PageReader, may_read: bool) -> Sequence[RecentFailures]:
    return reader.run(failures.list_recent_failures(with_errors=may_read))


def _read_shared(reader: PageReader, may_read: bool) -> Sequence[SharedError]:
    return reader.run(failures.list_shared_errors(with_errors=may_read))[:LISTED]


PAGE = Page("/errors", "errors", "errors.html", read, "Errors")
