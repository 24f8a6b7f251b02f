"""The end of an attempt: finish.sql, retry.sql, and rescue.sql for a worker that is gone."""

from collections.abc import Iterator

from tests.race.flow_model.claim import Waits, fold, release, room, waiting
from tests.race.flow_model.state import (
    AGAIN,
    BY_A_FAILURE,
    ENDED,
    KEPT,
    LATER,
    LIMITED,
    NO_ROW,
    NOBODY,
    SCHEDULED,
    TODO,
    Lane,
    Scope,
    Session,
    State,
    Step,
    Turn,
    fresh_claim,
    job_name,
    lane_name,
)


def end_attempts(scope: Scope, state: State) -> Iterator[Step]:
    """A worker reports one of its jobs, or a rescuer finds one whose worker is gone."""
    for job, claim in state.known:
        known = tuple(entry for entry in state.known if entry != (job, claim))
        reported = state._replace(known=known)
        yield from begin(scope, reported, "finish", job, claim)
        if state.faults.failures:
            faults = state.faults._replace(failures=state.faults.failures - 1)
            for step in begin(scope, reported._replace(faults=faults), "retry", job, claim):
                yield step._replace(helps=False)
    alive = {*state.known, *((session.job, session.claim) for session in state.sessions)}
    for job, claim in enumerate(state.jobs):
        if claim <= 0:
            continue
        if (job, claim) not in alive:
            yield from begin(scope, state, "rescue", job, claim)
        elif state.faults.expiries:
            faults = state.faults._replace(expiries=state.faults.expiries - 1)
            for step in begin(scope, state._replace(faults=faults), "rescue", job, claim):
                yield step._replace(helps=False)


def begin(scope: Scope, state: State, does: str, job: int, claim: int) -> Iterator[Step]:
    lanes = scope.kinds[job].lanes
    session = Session(f"{does} of {job_name(job)}", "lock" if lanes else "lock key", job, claim)
    turn = Turn(scope, state, session, state.sessions)
    try:
        yield from lock_lanes(turn) if lanes else lock_key(turn)
    except Waits:
        yield turn.step("begins to wait")


# ---------------------------------------------------------------- locks


def lock_lanes(turn: Turn) -> Iterator[Step]:
    """lock_lanes.sql, one row. It waits for those that have the row: they commit soon."""
    session, job = turn.session, turn.session.job
    if turn.state.jobs[job] != session.claim:
        yield Step(f"{session.does}: is refused", turn.over())
        return
    limited = turn.scope.kinds[job].limited
    left = [lane for lane in turn.scope.lanes_of(job) if lane not in session.lanes]
    at_hand = left[:1]
    if turn.scope.breaks("finish takes its rows in any order"):
        at_hand = [lane for lane in left if not turn.is_locked(lane)] or left[:1]
    for lane in at_hand:
        if turn.is_locked(lane):
            raise Waits(next(other for other in turn.others if lane in other.lanes))
        then = "lock" if len(left) > 1 else "lock key" if limited else session.does.split()[0]
        yield turn.step(
            f"lock_lanes.sql {lane_name(lane)}",
            lanes=turn.with_lock(lane),
            waited=waiting(turn),
            next=then,
        )


def lock_key(turn: Turn) -> Iterator[Step]:
    """The row of the key, after the lanes. Jobs without a limit do not come here."""
    then = turn.session.does.split()[0]
    if turn.key_is_locked():
        raise Waits(next(other for other in turn.others if other.key))
    yield turn.write_key(fold(turn.scope, turn.key())).step("locks the key", next=then)


# ---------------------------------------------------------------- ends


def delete(turn: Turn) -> Iterator[Step]:
    """archive_jobs.sql. The claim is the fence."""
    job, name = turn.session.job, job_name(turn.session.job)
    if turn.state.jobs[job] != turn.session.claim:
        if turn.scope.breaks("a refused finish frees a slot") and turn.session.key:
            turn = free_slot(turn)
        yield turn.close(f"DELETE {name} is refused")
        return
    after = free_slot(turn.write(job, ENDED))
    for lane in turn.scope.lanes_of(job):
        after = leave(after, job, lane)
        if turn.scope.breaks("one lane forgotten at finish"):
            break
    takes_over = after.session.won or after.session.freed
    yield after.step(f"DELETE {name}", next="hand over" if takes_over else "release")
    if turn.state.faults.halts and turn.scope.kinds[job].lanes:
        yield halt(turn)


def halt(turn: Turn) -> Step:
    """The job failed for good, and its policy is to halt: all of its lanes stop."""
    job, faults = turn.session.job, turn.state.faults
    after = free_slot(turn.write(job, ENDED))
    for lane in turn.scope.lanes_of(job):
        after = leave(after, job, lane)
        row = after.row(lane)._replace(exists=1, stopped=BY_A_FAILURE + job, look=0)
        after = after.write_row(lane, row)
    step = after.step(f"DELETE {job_name(job)}, keep_stopped.sql", next="release", won=())
    rest = step.state._replace(faults=faults._replace(halts=faults.halts - 1))
    return step._replace(state=rest, helps=False)


def leave(turn: Turn, job: int, lane: int) -> Turn:
    """The job gives the lane up. If nobody else has a share, the lane is ours to give back."""
    row, scope = turn.row(lane), turn.scope
    if scope.shares(job, lane):
        left = row.readers - 1
        if scope.breaks("the first reader to end frees the lane"):
            left = 0
        row = row._replace(readers=left)
    else:
        row = row._replace(worker=0, reserved=NOBODY)
    turn = turn.write_row(lane, row)
    if row.readers or row.stopped:
        return turn
    return turn.but(won=tuple(sorted((*turn.session.won, (lane, NO_ROW)))))


def free_slot(turn: Turn) -> Turn:
    scope, does = turn.scope, turn.session.does.split()[0]
    if not scope.kinds[turn.session.job].limited:
        return turn
    lost = scope.breaks("a counter not restored by rescue") and does == "rescue"
    lost = lost or (scope.breaks("a counter not restored by retry") and does == "retry")
    key = turn.key()
    return turn.write_key(key._replace(used=key.used - (not lost))).but(freed=1)


def hand_over(turn: Turn) -> Iterator[Step]:
    """handover_candidates.sql: the next job of a freed lane goes the way of a claim, or none."""
    yield from release(turn)
    yield from hand_slot_over(turn)
    heads = {turn.head(lane) for lane, _ in turn.session.won} - {NOBODY}
    for head in sorted(heads):
        if turn.is_touched(head):
            continue
        missing = set(turn.scope.lanes_of(head)) - set(dict(turn.session.won))
        yield turn.step(
            f"hands {job_name(head)} over",
            seen=head,
            claim=fresh_claim(turn.state),
            next="acquire" if missing else "heads",
        )


def hand_slot_over(turn: Turn) -> Iterator[Step]:
    """slot_heads.sql: the best job that waits for the slot starts with it, if it has no lane."""
    scope, key, best = turn.scope, turn.key(), best_at_gate(turn)
    if not turn.session.freed or scope.burst or best == NOBODY or scope.kinds[best].lanes:
        return
    if room(turn, key):
        used = key.used + (not scope.breaks("a slot that is handed over stays free"))
        claim = fresh_claim(turn.state)
        after = turn.write(best, claim).write_key(key._replace(used=used))
        after = after.but(claim=claim, freed=0, more=turn.state.more)
        yield after.step(f"hands its slot to {job_name(best)}", next="release")


def best_at_gate(turn: Turn) -> int:
    """The first job at the gate that no other transaction has locked."""
    jobs = turn.jobs()
    waiting = [job for job, status in enumerate(jobs) if status in (LIMITED, KEPT)]
    waiting = [job for job in waiting if not turn.is_touched(job)]
    kept = [job for job in waiting if jobs[job] == KEPT]
    return turn.scope.best(kept or waiting)


def retry(turn: Turn) -> Iterator[Step]:
    """With hold, the job keeps all of its lanes. Otherwise it leaves them, and joins again."""
    job, scope = turn.session.job, turn.scope
    if turn.state.jobs[job] != turn.session.claim:
        yield Step(f"{turn.session.does}: UPDATE is refused", turn.over())
        return
    holds = scope.kinds[job].hold and bool(scope.kinds[job].lanes)
    soon, late = (AGAIN, LATER) if holds else (TODO, SCHEDULED)
    for status in (soon, late) if turn.session.does.startswith("retry") else (soon,):
        after = free_slot(turn.write(job, status))
        for place, lane in enumerate(scope.lanes_of(job)):
            forgets = scope.breaks("retry keeps only one of two lanes") and place
            gives_up = scope.breaks("a failed reader gives its share up")
            if not holds or forgets or (gives_up and scope.shares(job, lane)):
                after = leave(after, job, lane)
            elif not scope.shares(job, lane):
                row = Lane(1, reserved=job, stopped=after.row(lane).stopped)
                after = after.write_row(lane, row)
        when = "now" if status == soon else "later"
        name = f"UPDATE to try {when}"
        idle = holds and not (after.session.won or after.session.freed)
        yield after.close(name) if idle else after.step(name, next="release")
