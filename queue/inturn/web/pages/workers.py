"""Workers: live ones with their jobs, and lost ones."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from inturn.operations.engine import workers
from inturn.operations.engine.workers import JobInHand, WorkerStatus
from inturn.web.page import View
from inturn.web.reading import PageReader

LISTED, LOST_LISTED = 40, 10
NAMED = 5  # jobs of a worker
LOST_AFTER = timedelta(minutes=10)  # a worker that ended cleanly is not listed at all


def read(view: View) -> dict[str, Any]:
    """Return the workers. The header has already read them, but not their jobs."""
    seen = view.header.value
    prefix = view.get("prefix")
    found = [each for each in (seen.workers if seen else []) if each.name.startswith(prefix)]
    lost = [each for each in found if is_lost(each, view.now)]
    present = [each for each in found if not is_lost(each, view.now)]
    shown = [*present[:LISTED], *lost[:LOST_LISTED]]
    return {
        "present": present[:LISTED],
        "lost": lost[:LOST_LISTED],
        "cut": max(len(present) - LISTED, 0),
        "lost_cut": max(len(lost) - LOST_LISTED, 0),
        "jobs": view.panel(lambda reader: _read_jobs(reader, shown)),
        "named": NAMED,
        "prefix": prefix,
    }


def is_lost(worker: WorkerStatus, now: datetime) -> bool:
    """Return True if a worker has been silent too long to come back."""
    return worker.state == "late" and now - worker.heartbeat_at > LOST_AFTER


def _read_jobs(reader: PageReader, shown: Sequence[WorkerStatus]) -> dict[UUID, list[JobInHand]]:
    busy = [each.id for each in shown if each.doing or each.claimed]
    jobs: dict[UUID, list[JobInHand]] = {id: [] for id in busy}
    if busy:
        for job in reader.run(workers.list_jobs_in_hand(busy, NAMED)):
            jobs[job.worker_id].append(job)
    return jobs
