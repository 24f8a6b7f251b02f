"""Batches: progress and callback of each."""

from __future__ import annotations

from typing import Any

from inturn.operations.engine import batches
from inturn.web.page import HIGHEST_ID, NotThere, Page, View

LISTED = 50


def read(view: View) -> dict[str, Any]:
    """Return batches, newest first."""
    before = read_id(view, "before")
    found = view.panel(lambda reader: reader.run(batches.list_batches(LISTED + 1, before)))
    shown = (found.value or [])[:LISTED]
    return {
        "found": found,
        "batches": shown,
        "older": shown[-1].id if len(found.value or []) > LISTED else None,
        "is_first": before == HIGHEST_ID,
    }


def read_one(view: View) -> dict[str, Any]:
    """Return a batch."""
    id = read_id(view, "id")
    found = view.panel(lambda reader: reader.run(batches.show_batch(id)))
    if found.value is None and found.problem is None:
        raise NotThere("No such batch. Batches are deleted some time after they end.")
    return {"found": found, "batch": found.value, "id": id}


def read_id(view: View, name: str) -> int:
    """Return a number from the address, or the highest possible one."""
    text = view.get(name)
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(HIGHEST_ID))):
        return HIGHEST_ID
    return min(max(int(text), 1), HIGHEST_ID)


PAGE = Page("/batches", "batches", "batches.html", read, "Batches")
ONE = Page("/batch", "batches", "batch.html", read_one, "Batch")
