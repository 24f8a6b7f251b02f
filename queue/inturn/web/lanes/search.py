"""Find the lanes that match a filter: among those in trouble or in use, or by their locks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from inturn.doctor.troubled_lane import get_head
from inturn.doctor.work import is_unserved
from inturn.model import Lane
from inturn.operations.reading import dashboard
from inturn.operations.reading.dashboard import FoundLane, LaneJob
from inturn.operations.reading.overview import TroubledLane, get_lanes, list_troubled_lanes
from inturn.operations.reading.situation import Situation
from inturn.web.lanes.filter import LaneSearch
from inturn.web.reading import PageReader


@dataclass(frozen=True, slots=True)
class Candidates:
    """Lanes that may match, the rows of those in use or stopped, and the jobs by lane."""

    lanes: list[TroubledLane]
    rows: Mapping[str, Lane]
    jobs: Mapping[str, LaneJob] = field(default_factory=dict)


def find_candidates(
    reader: PageReader, seen: Situation, asked: LaneSearch, limit: int
) -> Candidates:
    """Return lanes that may match the filter, up to a maximum."""
    if asked.prefix:
        return _find_by_lock(reader, seen, asked.prefix, limit)
    lanes = reader.run(list_troubled_lanes(limit, asked.state or None))
    rows = reader.run(get_lanes([each.lock for each in lanes]))
    heads = {each.lock: get_head(each, rows.get(each.lock)) for each in lanes}
    return Candidates(lanes, rows, _read_jobs(reader, heads, rows) if asked.names_jobs else {})


def _find_by_lock(reader: PageReader, seen: Situation, prefix: str, limit: int) -> Candidates:
    found = reader.run(dashboard.find_lanes(prefix, limit))
    rows = reader.run(get_lanes([each.lock for each in found]))
    heads = {
        each.lock: row.job_id if (row := rows.get(each.lock)) else each.job_id for each in found
    }
    jobs = _read_jobs(reader, heads, rows)
    lanes = [_describe(each, rows.get(each.lock), jobs.get(each.lock), seen) for each in found]
    return Candidates(lanes, rows, jobs)


def _read_jobs(
    reader: PageReader, heads: Mapping[str, int | None], rows: Mapping[str, Lane]
) -> dict[str, LaneJob]:
    """Return the job that each lane waits for or that holds it."""
    failed = {
        lock: (row.failed_job_id, row.stopped_at)
        for lock, row in rows.items()
        if row.state == "halted" and row.failed_job_id is not None and row.stopped_at is not None
    }
    live = {lock: head for lock, head in heads.items() if head is not None and lock not in failed}
    found = reader.run(dashboard.get_lane_jobs(list(live.values()), list(failed.values())))
    ids = live | {lock: job_id for lock, (job_id, _) in failed.items()}
    return {lock: found[job_id] for lock, job_id in ids.items() if job_id in found}


def _describe(
    found: FoundLane, row: Lane | None, job: LaneJob | None, seen: Situation
) -> TroubledLane:
    """Return a lane with its state named as in the list of all lanes."""
    if row is None:
        since = found.since or seen.now
        return TroubledLane(found.lock, _judge(job, seen), since, found.job_id, found.waiting)
    state = row.state
    silent = [worker.id for worker in seen.workers if worker.state in ("late", "blocked")]
    if state == "held" and job and job.worker_id in silent:
        state = "stalled"
    elif state == "retrying" and job and (job.queue, job.task) in seen.unknown_tasks:
        state = "unknown"
    return TroubledLane(found.lock, state, row.stopped_at or row.since, None, found.waiting)


def _judge(job: LaneJob | None, seen: Situation) -> str:
    """Return what stops a lane that is not held and does not wait for another lane."""
    if job is None:
        return "free"
    if job.status == "limited":
        return "limited"
    if job.queue in [each.queue for each in seen.queues if is_unserved(each)]:
        return "unserved"
    return "unknown" if (job.queue, job.task) in seen.unknown_tasks else "free"
