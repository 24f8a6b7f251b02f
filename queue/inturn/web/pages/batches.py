"""Batches: progress and callback of each."""

from typing import Any

from inturn.operations.engine import batches
from inturn.web.page import NotThere, View


def read(view: View) -> dict[str, Any]:
    return view.read_newest("batches", lambda before, limit: batches.list_batches(limit, before))


def read_one(view: View) -> dict[str, Any]:
    id = view.get_id("id")
    found = view.read(batches.show_batch(id))
    if found.value is None and found.problem is None:
        raise NotThere("No such batch. Batches are deleted some time after they end.")
    return {"found": found, "batch": found.value, "id": id}
