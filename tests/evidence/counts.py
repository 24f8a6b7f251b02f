"""Count rare events. A run in which one of them never occurred shows less than it seems to.

Standard library only.
"""

from collections import defaultdict

from tests.chaos.batch_rules import seen
from tests.chaos.evidence import SECOND, Evidence, Run
from tests.chaos.flow_rules import full

WORDS = {  # what a worker logs, and what that means
    "database.lost": "an outage was seen by a worker",
    "job.lost": "the end of a stale attempt was refused",
    "worker.lost": "a worker learned that it was taken for dead",
    "job.rescued": "a job of a dead worker was taken over",
}


def counted(evidence: Evidence) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int, evidence.seen)
    for event in evidence.logged:
        name = WORDS.get(event.facts["what"])
        if name:
            counts[name] += 1
    for run in evidence.runs:
        died = evidence.killed.get(run.who)
        counts["a worker was killed in the middle of a job"] += died is not None and run.end is None
        job = evidence.jobs.get(run.key)
        counts["a job was tried again after it raised"] += (
            run.attempt > 1 and job is not None and job.fails > 0
        )
    enough = evidence.settings["excuse"] * SECOND
    for silences in evidence.silences.values():
        for silence in silences:
            counts["a process was stopped for longer than its heartbeat"] += (
                silence.how == "stopped" and silence.end - silence.start >= enough
            )
    counts["a commit came late, below the head of its lane"] = _late_commits(evidence)
    counts["a call had no clear answer"] = len(
        {job.key[0] for job in evidence.jobs.values() if job.answer == "unknown"}
    )
    counts["a call was rolled back"] = len(
        {job.key[0] for job in evidence.jobs.values() if job.answer == "fail"}
    )
    counts["an odd row was ended"] = sum(
        job.odd and bool(evidence.finals[job.key]) for job in evidence.jobs.values()
    )
    counts |= _flow(evidence) | seen(evidence) | _lanes(evidence)
    counts["runs of an attempt that was taken over"] = _zombies(evidence)
    counts["a worker could not start in a fault"] = sum(
        map(evidence.could_not_start, evidence.exits)
    )
    for fault in evidence.faults:
        counts[fault.kind] += 1
    return dict(counts)


def _late_commits(evidence: Evidence) -> int:
    """Count jobs inserted first and committed last, after the lane had started a higher id."""
    started: dict[str, tuple[int, int]] = {}  # the highest id started in each lane, and when
    late = 0
    runs = sorted(evidence.runs, key=lambda run: run.begin)
    for run in runs:
        job = evidence.jobs.get(run.key)
        if job is None or job.lane is None or job.id is None:
            continue
        highest = started.get(job.lane, (0, 0))
        late += job.id < highest[0] and run.attempt == 1
        started[job.lane] = max(highest, (job.id, run.begin))
    return late


def _flow(evidence: Evidence) -> dict[str, int]:
    """Count what became of jobs with limits, of jobs after others, and of jobs that expire."""
    ran = {run.key for run in evidence.runs}
    counts = dict.fromkeys(
        ("a job with a rate started", "a job started after others", "a job expired",
         "a job was cancelled with its parent",
         "a held job went on when its parent was retried"), 0)  # fmt: skip
    rated = {key for key, limit in evidence.settings.get("limits", {}).items() if "rate" in limit}
    for job in evidence.jobs.values():
        started = job.key in ran
        ended = {end["status"] for end in evidence.finals.get(job.key, [])}
        unasked = "cancelled" in ended and not job.cancel_asked
        counts["a job with a rate started"] += started and job.limit in rated
        counts["a job started after others"] += started and bool(job.after)
        counts["a job expired"] += unasked and job.expires is not None and not job.after
        counts["a job was cancelled with its parent"] += (
            unasked and job.expires is None and bool(job.after)
        )
        counts["a held job went on when its parent was retried"] += (
            started and job.on_parent == "hold" and job.key not in evidence.let_go
            and not evidence.retried.isdisjoint(job.after)
        )  # fmt: skip
    return counts | {"a job took the last slot of a limit": full(evidence)}


def _lanes(evidence: Evidence) -> dict[str, int]:
    """Count runs with several lanes, and those that began beside another in a shared lane."""
    several, beside = 0, 0
    ends: dict[str, int] = defaultdict(int)  # when all that share the lane and began have ended
    for run in sorted(evidence.runs, key=lambda run: run.begin):
        job = evidence.jobs.get(run.key)
        if job is None:
            continue
        several += len(job.lanes) > 1
        beside += any(ends[lane] > run.begin for lane in job.shared)
        for lane in job.shared:
            ends[lane] = max(ends[lane], run.end or run.begin)
    return {
        "a job with several lanes ran": several,
        "a job ran beside another in a shared lane": beside,
    }


def _zombies(evidence: Evidence) -> int:
    last: dict[tuple[str, int], Run] = {run.key: run for run in evidence.runs}
    return sum(
        run is not last[run.key] and (run.end or 0) > last[run.key].begin for run in evidence.runs
    )
