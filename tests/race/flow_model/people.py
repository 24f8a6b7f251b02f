"""Producers, people and time: what happens beside the workers, and the faults."""

from collections.abc import Iterator

from tests.race.flow_model.claim import (
    Waits,
    fold,
    free,
    leave_look,
    open_gates,
    room,
    wake_asleep,
    wake_readers,
)
from tests.race.flow_model.finish import leave
from tests.race.flow_model.promises import apply
from tests.race.flow_model.state import (
    AGAIN,
    BY_A_FAILURE,
    BY_A_PERSON,
    ENDED,
    IN_LINE,
    KEEPING,
    KEPT,
    LATER,
    LIMITED,
    NOBODY,
    SCHEDULED,
    TODO,
    Lane,
    Scope,
    Session,
    State,
    Step,
    Turn,
    job_name,
    lane_name,
)
from tests.race.search import put


def outside(scope: Scope, state: State) -> Iterator[Step]:
    yield from produce(scope, state)
    yield from promote(scope, state)
    yield from look_again(scope, state)
    yield from pass_time(scope, state)
    yield from lock_a_job(state)
    yield from stop(scope, state)
    yield from bring_back(scope, state)
    yield from change_limit(scope, state)
    yield from crash(state)


# ---------------------------------------------------------------- producers


def produce(scope: Scope, state: State) -> Iterator[Step]:
    """The INSERT gives the id, the COMMIT shows the job: as its own token, always."""
    job = state.inserted
    if job < len(scope.kinds):
        alive = tuple(
            other
            for other in range(job)
            if state.jobs[other] in IN_LINE
            and other not in state.begun
            and scope.kinds[other].priority == scope.kinds[job].priority
            and scope.meet(other, job)
        )
        inserted = state._replace(
            inserted=job + 1,
            producers=(*state.producers, job),
            earlier=put(state.earlier, job, alive),
        )
        if job in scope.late:
            yield Step(f"producer: INSERT {job_name(job)}", inserted, helps=False)
        else:
            shown = inserted._replace(producers=state.producers, jobs=put(state.jobs, job, TODO))
            yield Step(f"producer: INSERT and COMMIT {job_name(job)}", shown, helps=False)
    for job in state.producers:
        rest = tuple(other for other in state.producers if other != job)
        after = state._replace(producers=rest, jobs=put(state.jobs, job, TODO))
        yield Step(f"producer: COMMIT {job_name(job)}", after)


# ---------------------------------------------------------------- what claims do first


def promote(scope: Scope, state: State) -> Iterator[Step]:
    """promote.sql: a job that waits for its time is due."""
    for job, status in enumerate(state.jobs):
        turn = Turn(scope, state, Session("a claim", ""), state.sessions)
        if status in (SCHEDULED, LATER) and not turn.is_touched(job):
            due = put(state.jobs, job, TODO if status == SCHEDULED else AGAIN)
            yield Step(f"a claim: promote.sql {job_name(job)}", state._replace(jobs=due))


def look_again(scope: Scope, state: State) -> Iterator[Step]:
    """resume_lanes.sql, for lanes whose head was locked, and check_gates.sql."""
    turn = Turn(scope, state, Session("a claim", ""), state.sessions)
    for lane, row in enumerate(state.lanes):
        if row.look and not turn.is_locked(lane) and not turn.is_touched(turn.head(lane)):
            after = reopen(turn.write_row(lane, row._replace(look=0)), lane)
            yield Step(f"a claim: resume_lanes.sql {lane_name(lane)}", apply(after))
    key = fold(scope, state.key)
    waits = any(status in (LIMITED, KEPT) for status in state.jobs) and room(turn, key)
    due = (state.key.look or state.key.due) and not scope.breaks("nobody looks at the key again")
    if turn.key_is_locked():
        return
    if due and waits:
        yield Step("a claim: check_gates.sql of the key", apply(open_gates(turn)))
    if state.asked:
        looked = apply(open_gates(turn))._replace(asked=0)
        yield Step("a claim: check_gates.sql, after a look", looked)
    if state.key.later:
        woken = open_gates(turn)
        looked = apply(woken.write_key(woken.key()._replace(later=0)))
        yield Step("a claim: check_gates.sql, later", looked._replace(raced=0))


def pass_time(scope: Scope, state: State) -> Iterator[Step]:
    """A token of the rate comes. It is in nobody's row before somebody looks."""
    if state.bucket < scope.burst and not any(session.keys for session in state.sessions):
        key = state.key._replace(due=state.key.due + 1)
        yield Step("time: a token", state._replace(key=key, bucket=state.bucket + 1))


# ---------------------------------------------------------------- people


def lock_a_job(state: State) -> Iterator[Step]:
    """A user's transaction that locks a job that waits."""
    if state.locked != NOBODY:
        name = f"user: COMMIT {job_name(state.locked)}"
        yield Step(name, state._replace(locked=NOBODY))
    elif state.faults.locks:
        faults = state.faults._replace(locks=state.faults.locks - 1)
        held = {job for session in state.sessions for job, _ in session.jobs}
        held |= {session.head for session in state.sessions}
        for job, status in enumerate(state.jobs):
            if status in (*IN_LINE, SCHEDULED, *KEEPING) and job not in held:
                after = state._replace(locked=job, faults=faults)
                yield Step(f"user: replace_waiting.sql {job_name(job)}", after, helps=False)


def stop(scope: Scope, state: State) -> Iterator[Step]:
    """pause_lane.sql and resume_lane.sql: of one row, so of one step."""
    turn = Turn(scope, state, Session("person", ""), state.sessions)
    for lane, row in enumerate(state.lanes):
        name = lane_name(lane)
        if turn.is_locked(lane):
            continue
        if row.stopped:
            after = reopen(turn.write_row(lane, row._replace(stopped=0)), lane)
            yield Step(f"person: resume_lane.sql {name}", apply(after))
        elif state.faults.pauses and lane == scope.paused:
            faults = state.faults._replace(pauses=state.faults.pauses - 1)
            after = turn.write_row(lane, row._replace(exists=1, stopped=BY_A_PERSON, look=0))
            paused = apply(after)._replace(faults=faults)
            yield Step(f"person: pause_lane.sql {name}", paused, helps=False)


def bring_back(scope: Scope, state: State) -> Iterator[Step]:
    """retry_head.sql: the failed job goes first again, if all of its lanes still wait for it."""
    turn = Turn(scope, state, Session("person", ""), state.sessions)
    for job in {row.stopped - BY_A_FAILURE for row in state.lanes if row.stopped > BY_A_PERSON}:
        lanes = scope.lanes_of(job)
        halted = [at for at in lanes if state.lanes[at].stopped == BY_A_FAILURE + job]
        some = scope.breaks("brought back into some of its lanes") and halted
        if any(turn.is_locked(lane) for lane in lanes) or not (some or len(halted) == len(lanes)):
            continue
        after = turn.write(job, AGAIN)
        for lane in halted:
            row = state.lanes[lane]._replace(stopped=0)
            shared = scope.shares(job, lane)
            row = row._replace(readers=row.readers + 1) if shared else row._replace(reserved=job)
            after = after.write_row(lane, row)
            if shared and not scope.breaks("a reader that is brought back wakes nobody"):
                after = reopen(after, lane)
        back = apply(after)
        begun = tuple(sorted({*state.begun, job}))
        name = f"person: retry_head.sql {job_name(job)}"
        yield Step(name, back._replace(begun=begun), helps=False)


def change_limit(scope: Scope, state: State) -> Iterator[Step]:
    """One slot more, or that one less. Nobody waits for the key, which claims may have locked."""
    if not state.faults.changes:
        return
    faults = state.faults._replace(changes=state.faults.changes - 1)
    changed = state._replace(
        faults=faults, more=1 - state.more, raced=int(any(one.key for one in state.sessions))
    )
    turn = Turn(scope, changed, Session("person", ""), state.sessions)
    if not scope.breaks("more slots wake nobody"):
        turn = leave_look(turn)
    name = f"person: {scope.slots + changed.more} slots"
    yield Step(name, apply(turn), helps=False)


def reopen(turn: Turn, lane: int) -> Turn:
    """reopen_lane.sql: leaves the lane in order after a change from outside."""
    row = turn.row(lane)
    if not row.stopped:
        turn = wake_asleep(turn, lane)
    if row.stopped or row.worker or row.reserved != NOBODY:
        return turn
    return wake_readers(turn.but(won=())) if row.readers else free(turn, lane)


def begin_cancels(scope: Scope, state: State) -> Iterator[Step]:
    if not state.faults.cancels:
        return
    faults = state.faults._replace(cancels=state.faults.cancels - 1)
    for job, status in enumerate(state.jobs):
        if status in (*IN_LINE, SCHEDULED, *KEEPING):
            session = Session(f"cancel of {job_name(job)}", "cancel", job)
            turn = Turn(scope, state._replace(faults=faults), session, state.sessions)
            yield turn.step("begins")._replace(helps=False)


def cancel(turn: Turn) -> Iterator[Step]:
    """cancel_job.sql: the lanes of the job in order, and the job. A person may wait.

    It never has the key: a person's transaction may stay open.
    """
    job, scope = turn.session.job, turn.scope
    order = scope.lanes_of(job)
    if scope.breaks("cancel locks its lanes unsorted"):
        order = scope.kinds[job].lanes
    lane = next((lane for lane in order if lane not in turn.session.lanes), NOBODY)
    if lane != NOBODY:
        if turn.is_locked(lane):
            raise Waits(next(other for other in turn.others if lane in other.lanes))
        yield turn.step(f"lock_lane.sql {lane_name(lane)}", lanes=turn.with_lock(lane))
    elif turn.state.jobs[job] > 0 or turn.state.jobs[job] == ENDED:
        yield Step(f"{turn.session.does}: it does not wait any more", turn.over())
    elif turn.is_touched(job):
        return  # waits for the row
    else:
        yield archive(turn)


def archive(turn: Turn) -> Step:
    job, scope = turn.session.job, turn.scope
    status = turn.state.jobs[job]
    after = turn.write(job, ENDED)
    for lane in scope.lanes_of(job):
        if status in KEEPING:
            forgets = scope.breaks("a cancelled reader keeps its share")
            if not (forgets and scope.shares(job, lane)):
                after = leave(after, job, lane).but(won=())
        if after.row(lane) != Lane() or after.line(lane):
            after = reopen(after, lane)
        if scope.breaks("one lane forgotten at cancel"):
            break
    mute = scope.breaks("a cancelled token passes nothing on")
    if scope.kinds[job].limited and status in (TODO, AGAIN) and not mute:
        after = leave_look(after)
    return after.step("DELETE", next="commit")


# ---------------------------------------------------------------- crashes


def crash(state: State) -> Iterator[Step]:
    """A worker dies, at work or in the middle of a transaction. So may a person's session."""
    if not state.faults.crashes:
        return
    state = state._replace(faults=state.faults._replace(crashes=state.faults.crashes - 1))
    for place, session in enumerate(state.sessions):
        others = (*state.sessions[:place], *state.sessions[place + 1 :])
        yield Step(f"{session.does}: CRASH", state._replace(sessions=others), helps=False)
    for entry in state.known:
        known = tuple(other for other in state.known if other != entry)
        name = f"the worker of {job_name(entry[0])}: CRASH"
        yield Step(name, state._replace(known=known), helps=False)
    for job in state.producers:
        rest = tuple(other for other in state.producers if other != job)
        gone = state._replace(producers=rest, jobs=put(state.jobs, job, ENDED))
        earlier = tuple(tuple(o for o in others if o != job) for others in gone.earlier)
        name = f"producer: ROLLBACK {job_name(job)}"
        yield Step(name, gone._replace(earlier=put(earlier, job, ())), helps=False)
