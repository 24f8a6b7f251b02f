"""Limits: usage and keys of each, and how to change it."""

from typing import Any

from inturn.operations.changes import limits
from inturn.web.page import View

LISTED = 50
KEYS = 50


def read(view: View) -> dict[str, Any]:
    after = view.get("after")
    found = view.read(limits.list_limits(LISTED + 1))
    keys = view.read(limits.list_limit_keys(after, KEYS + 1))
    pattern = view.get("pattern")
    shown = (keys.value or [])[:KEYS]
    return {
        "found": found,
        "limits": (found.value or [])[:LISTED],
        "pattern": pattern,
        "chosen": next((each for each in found.value or [] if each.pattern == pattern), None),
        "cut": len(found.value or []) > LISTED,
        "listed": LISTED,
        "keys": keys,
        "shown_keys": shown,
        "after": after,
        "next": shown[-1].key if len(keys.value or []) > KEYS else None,
    }
