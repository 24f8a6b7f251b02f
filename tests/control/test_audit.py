"""`by=` names the person who changes a job or a batch, and nothing is recorded without it."""

import inspect
from typing import Any

import pytest

from inturn import App
from tests.conftest import Query

pytestmark = pytest.mark.anyio

AUDIT = "SELECT who, operation FROM lane_audit"


class Scene:
    """A job that is cancelled, one that waits, and a batch that is open."""

    def __init__(self, app: App) -> None:
        mail = app.configure_task("send", queue="mail")
        self.ended, self.waiting = (int(mail.defer()) for _ in range(2))
        app.job_manager.cancel_job_by_id(self.ended)
        self.batch = app.batches.open("import")


# What is called, with what, and how the audit says it.
CHANGES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "cancel-job": ("job_manager.cancel_job_by_id", "waiting", {}),
    "delete-job": ("job_manager.cancel_job_by_id", "ended", {"delete_job": True}),
    "retry-job": ("job_manager.retry_job_by_id", "ended", {}),
    "cancel-jobs": ("job_manager.cancel_jobs", None, {"queue": "mail"}),
    "retry-jobs": ("job_manager.retry_jobs", None, {"status": "cancelled"}),
    "delete-jobs": ("job_manager.delete_jobs", None, {"everything": True}),
    "move-jobs": ("job_manager.move_jobs", None, {"queue": "mail", "priority": -10}),
    "close-batch": ("batches.close", "batch", {}),
    "cancel-batch": ("batches.cancel", "batch", {}),
}


@pytest.mark.parametrize("end", ["", "_async"])
@pytest.mark.parametrize("operation", CHANGES)
async def test_a_change_is_recorded_if_it_names_a_person(
    app: App, query: Query, operation: str, end: str
) -> None:
    path, subject, given = CHANGES[operation]
    owner, _, name = path.partition(".")
    change = getattr(getattr(app, owner), name + end)
    async with app.open_async():
        for by in ({}, {"by": "ana"}):
            scene = Scene(app)
            done = change(*([getattr(scene, subject)] if subject else []), **given, **by)
            if inspect.isawaitable(done):
                await done
            assert query(AUDIT) == ([("ana", operation)] if by else [])


async def test_a_bulk_of_several_steps_has_a_row_for_each(app: App, query: Query) -> None:
    app.configure_task("send", queue="mail").batch_defer(*({"n": n} for n in range(250)))
    done = app.job_manager.cancel_jobs(queue="mail", by="ana")
    assert done.changed == 250
    assert query("SELECT operation, jobs FROM lane_audit ORDER BY id") == [
        ("cancel-jobs", 100), ("cancel-jobs", 100), ("cancel-jobs", 50),
    ]  # fmt: skip
    [(reason,)] = query("SELECT DISTINCT reason FROM lane_audit")
    assert "queue mail, before 20" in reason
