"""What must hold in a run, one function for each promise.

Standard library only. This knows nothing of the queue's tables.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from tests.chaos.evidence import SECOND, Evidence, Job, Key, Run
from tests.chaos.gaps import longest

FOR_EVER = 2**63
REPORTING = (
    15 * SECOND
)  # generous: how long the end of a task may wait to be reported, through an outage


class Violation(NamedTuple):
    rule: str
    text: str
    start: int  # of the smallest window that shows it
    end: int
    lane: str | None = None
    keys: tuple[Key, ...] = ()


def at_job(evidence: Evidence, rule: str, key: Key, text: str) -> Violation:
    times = [
        event.at
        for event in evidence.events
        if (event.facts.get("op"), event.facts.get("index", key[1])) == key
    ]
    job = evidence.jobs.get(key)
    start, end = min(times, default=0), max(times, default=0)
    lane = job.lane if job else None
    return Violation(rule, f"job {_name(job, key)} {text}", start, end, lane, (key,))


def between(rule: str, text: str, first: Run, second: Run) -> Violation:
    start, end = sorted((first.begin, second.begin))
    return Violation(rule, text, start, end, first.lane, (first.key, second.key))


def _name(job: Job | None, key: Key) -> str:
    return f"{key[0]}#{key[1]}" + (f" (id {job.id}, lane {job.lane})" if job else "")


def runs_of_jobs(evidence: Evidence) -> dict[Key, list[Run]]:
    runs: dict[Key, list[Run]] = defaultdict(list)
    for run in evidence.runs:
        runs[run.key].append(run)
    return runs


def _lanes(evidence: Evidence) -> dict[str, list[Run]]:
    lanes: dict[str, list[Run]] = defaultdict(list)
    for run in evidence.runs:
        job = evidence.jobs.get(run.key)
        own = (run.lane,) if job is None or run.lane != job.lane else job.lanes
        for lane in own:
            if lane is not None:
                lanes[lane].append(run)
    return lanes


def share(evidence: Evidence, lane: str, one: Run, other: Run) -> bool:
    """Return True if these two may run in the lane at once."""
    jobs = [evidence.jobs.get(run.key) for run in (one, other)]
    return all(job is not None and lane in job.shared for job in jobs)


# ---------------------------------------------------------------- nothing is lost or invented


def lost(evidence: Evidence) -> Iterator[Violation]:
    left = {(row["op"], row["index"]) for row in evidence.left}
    for job in evidence.jobs.values():
        if job.answer == "ok" and job.key not in evidence.finals and job.key not in left:
            yield at_job(
                evidence,
                "lost",
                job.key,
                "was acknowledged, and there is no trace of it in the end",
            )


def ghosts(evidence: Evidence) -> Iterator[Violation]:
    """A job rolled back or never deferred does not run or end. A call is all or nothing."""
    there = {run.key for run in evidence.runs} | evidence.finals.keys()
    there |= {(row["op"], row["index"]) for row in evidence.left}
    for key in sorted(there):
        job = evidence.jobs.get(key)
        if job is None:
            yield at_job(evidence, "ghost", key, "was never deferred, and yet it is there")
        elif job.answer == "fail":
            yield at_job(evidence, "ghost", key, "was rolled back, and yet it is there")
    whole = {key[0] for key in there}
    for job in evidence.jobs.values():
        if job.answer == "unknown" and job.key[0] in whole and job.key not in there:
            yield at_job(
                evidence, "half a call", job.key, "is missing, and other jobs of its call are there"
            )


# ---------------------------------------------------------------- one at a time, and in order


def overlaps(evidence: Evidence) -> Iterator[Violation]:
    """A run that was claimed later begins after the end of all earlier runs of its lane.

    The exceptions are jobs that share the lane, and an earlier run whose process was silenced.
    """
    for lane, runs in _lanes(evidence).items():
        under_way: list[tuple[Run, int]] = []
        for run in runs:
            for before, end in under_way:
                if (
                    end > run.begin
                    and not share(evidence, lane, before, run)
                    and not evidence.silenced(before, run.begin)
                ):
                    yield between(
                        "overlap",
                        f"lane {lane}: {describe_run(run)} began while {describe_run(before)} ran",
                        before,
                        run,
                    )
            ends = [(before, end) for before, end in under_way if end > run.begin]
            under_way = [*ends, (run, over(evidence, run))]


def over(evidence: Evidence, run: Run) -> int:
    if run.end is not None:
        return run.end
    died = evidence.died(run.who)
    return run.begin if died is None else died


def describe_run(run: Run) -> str:
    return f"{run.key[0]}#{run.key[1]} (attempt {run.attempt}, fence {run.fence}, {run.who})"


def disorder(evidence: Evidence) -> Iterator[Violation]:
    """A job starts before any whose insert began after its commit. Siblings start in call order."""
    unheard = _unheard(evidence)
    for lane, runs in _lanes(evidence).items():
        firsts: dict[Key, Run] = {}
        for run in runs:
            firsts.setdefault(run.key, run)
        ordered = [(evidence.jobs[key], run) for key, run in firsts.items() if key in evidence.jobs]
        # If a process died with an attempt before it began, or never heard of it, others shared the
        # lane meanwhile.
        placed = [
            (job, run)
            for job, run in ordered
            if job.has_place and not (lane in job.shared and (run.attempt > 1 or job.id in unheard))
        ]
        yield from _disorder(lane, placed)


def _unheard(evidence: Evidence) -> set[int]:
    """Return the jobs whose worker did not get the reply to its claim, and has put them back."""
    return {
        int(event.facts["text"].split()[1])
        for event in evidence.logged
        if event.facts["what"] == "job.found"
    }


def _disorder(lane: str, ordered: list[tuple[Job, Run]]) -> Iterator[Violation]:
    earliest: tuple[int, Job, Run] | None = (
        None  # among those that started later: the one that was committed first
    )
    siblings: dict[str, int] = {}  # among those that started later: the first index in each call
    for job, run in reversed(ordered):
        if earliest is not None and earliest[0] < job.called:
            text = f"lane {lane}: {describe_run(run)} started before {describe_run(earliest[2])}, which had been committed before its insert"
            yield between("order", text, run, earliest[2])
        op, place = job.key
        if siblings.get(op, place) < place:
            yield between(
                "order",
                f"lane {lane}: {describe_run(run)} started before an earlier job of the same call",
                run,
                run,
            )
        siblings[op] = min(siblings.get(op, place), place)
        committed = job.committed if job.committed is not None else FOR_EVER
        if earliest is None or committed < earliest[0]:
            earliest = committed, job, run


def overtaken(evidence: Evidence) -> Iterator[Violation]:
    """Between the attempts of a job, nothing else of its lanes starts but what shares them too."""
    for lane, runs in _lanes(evidence).items():
        begun: dict[Key, int] = {}
        for place, run in enumerate(runs):
            for other in runs[begun.get(run.key, place) + 1 : place]:
                if other.key != run.key and not share(evidence, lane, other, run):
                    text = f"{describe_run(other)} started between attempts of {describe_run(run)}"
                    yield between("overtaken", f"lane {lane}: {text}", other, run)
                    break
            begun[run.key] = place


def fences(evidence: Evidence) -> Iterator[Violation]:
    """Fences rise with each start in a lane, and attempts in a job. No fence is given twice."""
    for before, run in itertools.pairwise(evidence.runs):
        if before.fence == run.fence:
            yield between(
                "fence",
                f"{describe_run(before)} and {describe_run(run)} have one fence",
                before,
                run,
            )
    for lane, runs in _lanes(evidence).items():
        latest: Run | None = None
        for run in sorted(runs, key=lambda run: run.begin):
            if latest is None or run.fence > latest.fence:
                latest = run
            elif not share(evidence, lane, run, latest) and not evidence.silenced(
                run, latest.begin
            ):
                yield between(
                    "fence",
                    f"lane {lane}: {describe_run(run)} began after {describe_run(latest)}",
                    latest,
                    run,
                )
    for runs in runs_of_jobs(evidence).values():
        for before, run in itertools.pairwise(runs):
            if before.attempt >= run.attempt:
                yield between(
                    "attempts",
                    f"{describe_run(run)} comes after {describe_run(before)}",
                    before,
                    run,
                )


# ------------------------------------------------------- once, unless something explains more


def repeated(evidence: Evidence) -> Iterator[Violation]:
    for runs in runs_of_jobs(evidence).values():
        for before, run in itertools.pairwise(runs):
            if not _excused(evidence, before, run):
                text = f"{describe_run(run)} started, and nothing had happened to {describe_run(before)}"
                yield between("repeated", text, before, run)


def _excused(evidence: Evidence, before: Run, run: Run) -> bool:
    if before.how == "raised":
        return True
    died = evidence.died(before.who)
    if (
        died is not None
        and died < run.begin
        and (before.end is None or died < before.end + REPORTING)
    ):
        return True  # it may have been killed between the end of the task and the report
    return evidence.silenced(before, run.begin)


def ended_wrongly(evidence: Evidence) -> Iterator[Violation]:
    runs = runs_of_jobs(evidence)
    for key, ends in evidence.finals.items():
        if len(ends) > 1:
            yield at_job(
                evidence,
                "ended twice",
                key,
                f"ended {len(ends)} times: {[end['status'] for end in ends]}",
            )
        for problem in _wrong_ends(evidence, key, ends, runs.get(key, [])):
            yield at_job(evidence, "wrong end", key, problem)


def _wrong_ends(
    evidence: Evidence, key: Key, ends: list[dict[str, object]], runs: list[Run]
) -> Iterator[str]:
    job = evidence.jobs.get(key)
    for end in ends:
        status, fence = end["status"], end["fence"]
        if status in ("cancelled", "aborted"):
            if (
                job is not None
                and not job.cancel_asked
                and (runs or status == "aborted" or not may_be_cancelled(evidence, job))
            ):
                yield f"is {status}, and nobody asked for that"
        elif job is not None and job.odd:
            if status != "failed":
                yield f"is {status}, though its arguments cannot be read"
        elif not runs:
            yield f"is {status}, and never ran"
        elif runs[-1].fence > int(str(fence)):
            yield f"is {status} by fence {fence}, and a later attempt had fence {runs[-1].fence}"
        elif status == "succeeded":
            yield from _not_succeeded(runs, fence)
        elif job is not None and not _may_fail(evidence, job, runs):
            yield f"is {status}, though no attempt of it had to fail"


def may_be_cancelled(evidence: Evidence, job: Job) -> bool:
    """Return True if it could expire, its batch was given up, or a parent may have failed."""
    if job.expires is not None or evidence.given_up & {job.batch, job.callback_of}:
        return True
    return job.on_parent == "cancel" and any(
        parent in evidence.retried
        or any(end["status"] != "succeeded" for end in evidence.finals.get(parent, []))
        for parent in job.after
    )


def _not_succeeded(runs: list[Run], fence: object) -> Iterator[str]:
    if runs[-1].fence != fence:
        yield f"succeeded by fence {fence}, which never ran"
    elif runs[-1].how != "ok":
        yield f"succeeded by an attempt that {runs[-1].how or 'did not end'}"


def _may_fail(evidence: Evidence, job: Job, runs: list[Run]) -> bool:
    """A job fails only on request, or after that many of its processes were lost."""
    bad = [
        run
        for run in runs
        if run.how == "raised" or evidence.died(run.who) or evidence.silences[run.who]
    ]
    return job.fails > 0 or len(bad) >= evidence.settings["max_lost"]


def effects(evidence: Evidence) -> Iterator[Violation]:
    """Fences that a fenced store accepted rise, and a job that succeeded has had its effect."""
    accepted: set[int] = set()
    latest: dict[str, int] = {}
    for event in sorted(
        evidence.effects, key=lambda event: (str(event.facts["lane"]), event.facts["place"])
    ):
        lane, fence = event.facts["lane"], event.facts["fence"]
        if not event.facts["accepted"]:
            continue
        if fence < latest.get(lane, 0):
            yield Violation(
                "effect",
                f"lane {lane}: fence {fence} was accepted after {latest[lane]}",
                event.at,
                event.at,
                lane,
            )
        latest[lane] = fence
        accepted.add(fence)
    lanes_with_effects = latest.keys()
    for key, ends in evidence.finals.items():
        job = evidence.jobs.get(key)
        for end in ends:
            if (
                job
                and job.lane in lanes_with_effects
                and end["status"] == "succeeded"
                and end["fence"] not in accepted
            ):
                yield at_job(
                    evidence,
                    "effect",
                    key,
                    f"succeeded by fence {end['fence']}, whose effect was refused",
                )


# -------------------------------------------------------- nothing ends unasked or stands still


def processes(evidence: Evidence) -> Iterator[Violation]:
    """No process ends unasked.

    The exception is one that could not even start during a fault, which its parent sees.
    """
    for who, event in evidence.exits.items():
        if (
            event.facts["status"] != 0 or not event.facts["asked"]
        ) and not evidence.could_not_start(who):
            text = f"{who} ended with status {event.facts['status']}: {event.facts.get('last', '')}"
            yield Violation("a process ended", text, event.at, event.at)
    for run in evidence.runs:
        if run.end is None and evidence.died(run.who) is None:
            yield between(
                "never ended", f"{describe_run(run)} neither ended nor did its process", run, run
            )


def liveness(evidence: Evidence) -> Iterator[Violation]:
    for event in evidence.problems:
        yield Violation(event.facts["rule"], event.facts["text"], event.at, event.at)
    for row in evidence.left:
        yield at_job(
            evidence, "stuck", (row["op"], row["index"]), f"is left in the end: {row['state']}"
        )


def standstill(evidence: Evidence) -> Iterator[Violation]:
    for fault, start, end in longest(evidence):
        if end - start > fault.bound * SECOND:
            text = f"nothing ended for {(end - start) / SECOND:.1f} s, and jobs were ready: {fault.kind}"
            yield Violation("standstill", text, start, end)


RULES = (
    lost,
    ghosts,
    overlaps,
    disorder,
    overtaken,
    fences,
    repeated,
    ended_wrongly,
    effects,
    processes,
    liveness,
    standstill,
)
