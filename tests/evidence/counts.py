"""Count rare events. A run in which one of them never occurred shows less than it seems to.

Standard library only.
"""

from bisect import bisect_right
from collections import Counter, defaultdict

from tests.evidence.evidence import Evidence, Job
from tests.evidence.rules.batches import callbacks, members, waits
from tests.evidence.rules.jobs import lost_keys, repeats
from tests.evidence.rules.processes import could_not_start
from tests.evidence.rules.waiting import at_work
from tests.evidence.spans import FOR_EVER, SECOND

WORDS = {  # what a worker logs, and what that means
    "database.lost": "an outage was seen by a worker",
    "job.lost": "the end of a stale attempt was refused",
    "worker.lost": "a worker learned that it was taken for dead",
    "job.rescued": "a job of a dead worker was taken over",
}


def count_all(evidence: Evidence) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int, evidence.seen)
    for event in evidence.named("log"):
        if event.facts["what"] in WORDS:
            counts[WORDS[event.facts["what"]]] += 1
    for fault in evidence.faults:
        counts[fault.kind] += 1
    for count in (_answers, _processes, _jobs, _limits_and_parents, _lanes, _batches):
        counts |= count(evidence)
    return dict(counts)


def _answers(evidence: Evidence) -> dict[str, int]:
    ids = Counter(id for id, _ in {(run.id, run.key) for run in evidence.runs if run.id})
    calls = {answer: {job.key[0] for job in evidence.jobs.values() if job.answer == answer}
             for answer in ("unknown", "fail")}  # fmt: skip
    return {
        "a call had no clear answer": len(calls["unknown"]),
        "a call was rolled back": len(calls["fail"]),
        "a commit came late, below the head of its lane": _late_commits(evidence),
        "an id was given again": sum(times > 1 for times in ids.values()),
        "an acknowledged job was lost with its server": len(lost_keys(evidence)),
    }


def _processes(evidence: Evidence) -> dict[str, int]:
    enough = evidence.settings.excuse * SECOND
    silences = [each for own in evidence.silences.values() for each in own]
    return {
        "a process was killed": len(evidence.killed),
        "a worker was killed in the middle of a job": sum(
            run.who in evidence.killed and run.end is None for run in evidence.runs
        ),
        "a process was stopped for longer than its heartbeat": sum(
            silence.how == "stopped" and silence.end - silence.start >= enough
            for silence in silences
        ),
        "runs of an attempt that was taken over": _zombies(evidence),
        "a worker could not start in a fault": sum(
            could_not_start(evidence, who) for who in evidence.exits
        ),
    }


def _jobs(evidence: Evidence) -> dict[str, int]:
    jobs = evidence.jobs
    statuses = [status for key in evidence.finals for status in evidence.statuses(key)]
    return {
        "a job failed": statuses.count("failed"),
        "a job was cancelled": statuses.count("cancelled"),
        "a job was tried again after it raised": sum(
            (run.attempt or 0) > 1 and run.key in jobs and jobs[run.key].fails > 0
            for run in evidence.runs
        ),
        "a job ran again": len({run.key for _, run in repeats(evidence)}),
        "an odd row was ended": sum(
            job.odd and bool(evidence.statuses(job.key)) for job in jobs.values()
        ),
        "a lane was paused": sum(map(len, evidence.pauses.values())),
    }


def _late_commits(evidence: Evidence) -> int:
    """Count jobs inserted first and committed last, after the lane had started a higher id."""
    started: dict[str, tuple[int, int]] = {}  # the highest id started in each lane, and when
    late = 0
    for run in sorted(evidence.runs, key=lambda run: run.begin):
        job = evidence.jobs.get(run.key)
        if job is None or job.lane is None or job.id is None:
            continue
        highest = started.get(job.lane, (0, 0))
        late += job.id < highest[0] and run.attempt == 1
        started[job.lane] = max(highest, (job.id, run.begin))
    return late


def _limits_and_parents(evidence: Evidence) -> dict[str, int]:
    rated = {key for key, limit in evidence.settings.limits.items() if "rate" in limit}
    counts = dict.fromkeys(
        ("a job with a rate started", "a job started after others", "a job expired",
         "a job was cancelled with its parent",
         "a held job went on when its parent was retried"), 0)  # fmt: skip
    for job in evidence.jobs.values():
        started = job.key in evidence.runs_of
        unasked = "cancelled" in evidence.statuses(job.key) and not job.asked
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
    return counts | {
        "a job took the last slot of a limit": sum(
            len(busy) + 1 == slots for _, slots, _, busy in at_work(evidence)
        ),
        "a person looked after a job": len(evidence.retried | evidence.let_go),
    }


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
    """Count runs that went on or began after a later attempt at the same job had begun."""
    return sum(
        run is not own[-1] and (run.end or 0) > own[-1].begin
        for own in evidence.runs_of.values() for run in own
    )  # fmt: skip


def _batches(evidence: Evidence) -> dict[str, int]:
    jobs = members(evidence)
    late = [
        job for batch, own in jobs.items() for job in own
        if job.committed is not None and job.committed > evidence.closed.get(batch, job.committed)
    ]  # fmt: skip
    return {
        "jobs of batches whose callback ran": sum(
            len(jobs[batch]) for batch, _, _ in callbacks(evidence)
        ),
        "a job waited for many of others": sum(
            sum(started.values()) > evidence.settings.turns for _, started in waits(evidence)
        ),
        "a callback ran": len({batch for batch, _, _ in callbacks(evidence)}),
        "a job joined a closed batch": len(late),
        "a batch was given up": len(evidence.given_up),
        "a job of a group passed many of another": _passed(evidence),
    }


def _passed(evidence: Evidence) -> int:
    """Count jobs that started before many of a group that had all been there before them."""
    turns = evidence.settings.turns
    calls: dict[object, list[Job]] = defaultdict(list)
    for job in evidence.jobs.values():
        if job.group is not None and job.key in evidence.runs_of:
            calls[job.key[0]].append(job)
    floods = [
        (jobs[0], sorted(evidence.runs_of[job.key][0].fence for job in jobs))
        for jobs in calls.values() if len(jobs) > turns
    ]  # fmt: skip
    passed = 0
    for run, _ in waits(evidence):
        job = evidence.jobs[run.key]
        passed += any(
            flood.group != job.group and (flood.committed or FOR_EVER) < (job.committed or 0)
            and len(fences) - bisect_right(fences, run.fence) > turns
            for flood, fences in floods
        )  # fmt: skip
    return passed
