"""What holds for a job: it is not lost and not made up, it runs once, and ends as it ran."""

import itertools
from collections.abc import Iterator
from typing import Any

from tests.evidence.evidence import Evidence, Job, Key, Run
from tests.evidence.finding import Finding, at_event, at_job, between
from tests.evidence.spans import SECOND


def lost(evidence: Evidence) -> Iterator[Finding]:
    """A job that was acknowledged has left a trace in the end."""
    for key in lost_keys(evidence):
        committed = evidence.jobs[key].committed or 0
        if not any(span.start <= committed < span.end for span in evidence.forgotten):
            yield at_job(evidence, key, "was acknowledged, and there is no trace of it in the end")


def lost_keys(evidence: Evidence) -> set[Key]:
    """Return what was lost, also if a server that took over may have missed it."""
    return {
        job.key
        for job in evidence.jobs.values()
        if job.answer == "ok" and job.key not in evidence.finals and job.key not in evidence.left
    }


def made_up(evidence: Evidence) -> Iterator[Finding]:
    """A job that was rolled back or never deferred does not run or end."""
    for key in sorted({*evidence.runs_of, *evidence.finals, *evidence.left}, key=str):
        job = evidence.jobs.get(key)
        if job is None or job.answer == "fail":
            how = "never deferred" if job is None else "rolled back"
            yield at_job(evidence, key, f"was {how}, and yet it is there")


def half_a_call(evidence: Evidence) -> Iterator[Finding]:
    """A call is all or nothing, also if its answer is unknown."""
    whole = {key[0] for key in evidence.jobs if evidence.is_there(key)}
    for job in evidence.jobs.values():
        if job.answer == "unknown" and job.key[0] in whole and not evidence.is_there(job.key):
            yield at_job(evidence, job.key, "is missing, and other jobs of its call are there")


def shared_id(evidence: Evidence) -> Iterator[Finding]:
    """No two jobs have one id, unless a server that took over has forgotten the first."""
    runs = sorted((run for run in evidence.runs if run.id is not None), key=lambda run: run.begin)
    for id, own in itertools.groupby(sorted(runs, key=lambda run: run.id or 0), lambda run: run.id):
        for before, run in itertools.pairwise(own):
            if before.key != run.key and not evidence.forgot(before, run):
                yield between(f"{before} and {run} have the id {id}", before, run)


# ---------------------------------------------------------------- once


def repeated(evidence: Evidence) -> Iterator[Finding]:
    """A job starts again only if it raised, or if its process died or was silenced."""
    for before, run in repeats(evidence):
        if not _is_explained(evidence, before, run):
            text = f"{run} started, and nothing had happened to {before}"
            yield between(text, before, run)


def repeats(evidence: Evidence) -> Iterator[tuple[Run, Run]]:
    for runs in evidence.runs_of.values():
        yield from itertools.pairwise(runs)


def _is_explained(evidence: Evidence, before: Run, run: Run) -> bool:
    if before.how in ("raised", "put back", "rescued"):
        return True
    reporting = int(evidence.settings.reporting * SECOND)
    died = evidence.died(before.who)
    # It may have died between the end of the task and the report.
    unreported = before.end is None or (died is not None and died < before.end + reporting)
    if died is not None and died < run.begin and unreported:
        return True
    return evidence.silenced(before, run.begin) or evidence.forgot(before, run)


def attempts(evidence: Evidence) -> Iterator[Finding]:
    """The attempts of a job rise, and count from 1 without gaps if each start is known."""
    for runs in evidence.runs_of.values():
        known = [(run.attempt, run) for run in runs if run.attempt is not None]
        for (earlier, before), (attempt, run) in itertools.pairwise(known):
            if attempt <= earlier and not evidence.forgot(before, run):
                yield between(f"{run} comes after {before}", before, run)
        for wanted, (attempt, run) in enumerate(known, 1):
            if evidence.settings.every_start and attempt > wanted:
                yield between(f"{run} is attempt {wanted}", run, run)


def ended_once(evidence: Evidence) -> Iterator[Finding]:
    """A job ends once, and each of its attempts too."""
    for key, ends in evidence.finals.items():
        if len(ends) > 1:
            yield at_job(evidence, key, f"ended {len(ends)} times: {evidence.statuses(key)}")
    for event in evidence.strays:
        yield at_event(event, f"an attempt ended that did not run: {event.facts}")


# ---------------------------------------------------------------- its end


def ends(evidence: Evidence) -> Iterator[Finding]:
    """A job ends as its last attempt did, and fails only on request or with its processes."""
    for key, job, end in _ends(evidence):
        for problem in _wrong(evidence, job, evidence.runs_of.get(key, []), **end):
            yield at_job(evidence, key, problem)


def _ends(evidence: Evidence) -> Iterator[tuple[Key, Job | None, dict[str, Any]]]:
    for key, found in evidence.finals.items():
        for end in found:
            yield key, evidence.jobs.get(key), end


def _wrong(
    evidence: Evidence, job: Job | None, runs: list[Run], status: str, fence: int | None, **_: Any
) -> Iterator[str]:
    if status in ("cancelled", "aborted"):
        return
    if job is not None and job.odd:
        if status != "failed":
            yield f"is {status}, though its arguments cannot be read"
    elif not runs:
        yield f"is {status}, and never ran"
    elif status == "succeeded":
        if runs[-1].fence == fence and runs[-1].how != "ok":
            yield f"succeeded by an attempt that {runs[-1].how or 'did not end'}"
    elif job is not None and not _may_fail(evidence, job, runs, fence):
        yield f"is {status}, though no attempt of it had to fail"


def _may_fail(evidence: Evidence, job: Job, runs: list[Run], fence: int | None) -> bool:
    lost = sum(bool(evidence.died(run.who)) or run.who in evidence.silences for run in runs)
    if lost >= evidence.settings.max_lost:
        return True
    return job.fails > 0 and not (runs[-1].fence == fence and runs[-1].end is None)


def stale_end(evidence: Evidence) -> Iterator[Finding]:
    """The end of a job is that of its last attempt."""
    for key, _, end in _ends(evidence):
        runs, fence = evidence.runs_of.get(key, []), end["fence"]
        if not runs or end["status"] in ("cancelled", "aborted"):
            continue
        # A later attempt may have failed with its process, before it began.
        if runs[-1].fence > fence or (end["status"] == "succeeded" and runs[-1].fence != fence):
            text = f"{end['status']} by fence {fence}, and its last attempt was {runs[-1]}"
            yield at_job(evidence, key, text)


def cancelled_unasked(evidence: Evidence) -> Iterator[Finding]:
    """A job is cancelled on request, or as its parents, its batch or its expiry demand."""
    for key, job, end in _ends(evidence):
        if job is None or job.asked or end["status"] not in ("cancelled", "aborted"):
            continue
        if end["status"] == "aborted" or not _may_be_cancelled(evidence, job):
            yield at_job(evidence, key, f"is {end['status']}, and nobody asked for that")


def _may_be_cancelled(evidence: Evidence, job: Job) -> bool:
    if evidence.given_up & {job.batch, job.callback_of}:
        return True
    if job.key in evidence.runs_of:
        return False  # only what never ran can expire, or wait for its parents
    parent_failed = any(
        parent in evidence.retried or set(evidence.statuses(parent)) - {"succeeded"}
        for parent in job.after
    )
    return job.expires is not None or (job.on_parent == "cancel" and parent_failed)


def cancelled_then_started(evidence: Evidence) -> Iterator[Finding]:
    """A job does not start after it was cancelled."""
    for run in evidence.runs:
        job = evidence.jobs.get(run.key)
        span = None if job is None else job.cancelled
        if span is not None and span.covers(run.begin) and not evidence.silenced(run, span.start):
            yield between(f"{run} started after it was cancelled", run, run)


# ---------------------------------------------------------------- its effects


def effects_in_order(evidence: Evidence) -> Iterator[Finding]:
    """The fences that a fenced store accepted rise."""
    latest: dict[str, int] = {}
    accepted = [event for event in evidence.named("effect") if event.facts["accepted"]]
    for event in sorted(accepted, key=lambda event: event.facts["place"]):
        lane, fence = event.facts["lane"], event.facts["fence"]
        if fence < latest.get(lane, 0):
            yield at_event(event, f"lane {lane}: fence {fence} was accepted after {latest[lane]}")
        latest[lane] = fence


def effects_happen(evidence: Evidence) -> Iterator[Finding]:
    """A job that succeeded has had its effect."""
    accepted = [event for event in evidence.named("effect") if event.facts["accepted"]]
    fences = {event.facts["fence"] for event in accepted}
    lanes = {event.facts["lane"] for event in evidence.named("effect")}
    for key, job, end in _ends(evidence):
        is_due = job is not None and job.lane in lanes and end["status"] == "succeeded"
        if is_due and end["fence"] not in fences:
            yield at_job(evidence, key, f"succeeded by {end['fence']}, which was refused")
