"""Errors: failures of the last hour by task and error, and errors that stop several lanes."""

from typing import Any

from inturn.operations.reading import failures
from inturn.web.page import View

LISTED = 100
SORTS = {
    "count": lambda group: -group.failed,
    "last": lambda group: -group.last_at.timestamp(),
    "lanes": lambda group: -group.lanes,
}


def read(view: View) -> dict[str, Any]:
    seen = view.header.value
    may_read = seen is not None and seen.may_read_errors
    chosen = view.choose("sort", tuple(SORTS))
    groups = view.read(failures.list_recent_failures(with_errors=may_read))
    shared = view.panel(
        lambda reader: reader.run(failures.list_shared_errors(with_errors=may_read))[:LISTED]
    )
    found = sorted(groups.value or [], key=SORTS[chosen])
    return {
        "groups": groups,
        "shown": found[:LISTED],
        "failed": sum(each.failed for each in found),
        "cut": len(found) > LISTED,
        "bound": failures.BOUND,
        "listed": LISTED,
        "shared": shared,
        "may_read": may_read,
        "sorts": tuple(SORTS),
        "chosen": chosen,
    }
