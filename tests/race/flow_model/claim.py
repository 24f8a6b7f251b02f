"""A claim, from the token that it looks at to the start of a job, and what it gives back.

finish.sql goes the same way with the lanes that it frees, from `acquire` on.
"""

from collections.abc import Iterator

from tests.race.flow_model.promises import commit
from tests.race.flow_model.state import (
    AGAIN,
    ASLEEP,
    BLOCKED,
    IN_LINE,
    KEEPING,
    KEPT,
    LIMITED,
    NO_ROW,
    NOBODY,
    TODO,
    TOKENS,
    Key,
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


class Waits(Exception):
    """The statement waits for another session."""

    def __init__(self, on: Session) -> None:
        self.on = on


def look_at_tokens(scope: Scope, state: State) -> Iterator[Step]:
    """claim_candidates.sql: tokens in lanes are seen without a lock, free jobs are locked."""
    for queue in scope.queues:
        for job, status in enumerate(state.jobs):
            if status not in TOKENS or queue not in (NOBODY, scope.kinds[job].queue):
                continue
            session = Session(
                f"claim of {job_name(job)}",
                "acquire",
                seen=job,
                claim=fresh_claim(state),
                queue=queue,
            )
            turn = Turn(scope, state, session, state.sessions)
            if scope.kinds[job].lanes:
                yield turn.step("claim_candidates.sql")
            elif not turn.is_touched(job):
                yield turn.step("claim_candidates.sql locks it", next="slots", head=job)


# ---------------------------------------------------------------- lanes


def acquire(turn: Turn) -> Iterator[Step]:
    """acquire_lanes.sql, one row. It never waits."""
    job = turn.session.seen
    won = tuple(lane for lane, _ in turn.session.won)
    order = turn.scope.lanes_of(job)
    if turn.scope.breaks("unsorted and waiting"):
        order = turn.scope.kinds[job].lanes
    lane = next(lane for lane in order if lane not in won)
    row = win(turn, job, lane)
    if row is None:
        if turn.scope.breaks("unsorted and waiting") and turn.is_locked(lane):
            raise Waits(next(other for other in turn.others if lane in other.lanes))
        yield lose(turn, lane)
        return
    after = turn.write_row(lane, row).but(
        won=tuple(sorted((*turn.session.won, (lane, turn.row(lane))))),
        waited=waiting(turn),
        next="heads" if len(won) + 1 == len(order) else "acquire",
    )
    if turn.scope.breaks("heads before all lanes are won") and not turn.session.early:
        after = after.but(early=tuple(turn.head(lane) for lane in (0, 1)))
    yield after.step(f"acquire_lanes.sql wins {lane_name(lane)}")


def win(turn: Turn, job: int, lane: int) -> Lane | None:
    """Return the row as it would be if the lane were won for the job now."""
    row, again = turn.row(lane), turn.jobs()[job] in KEEPING
    shared = turn.scope.shares(job, lane)
    if turn.is_locked(lane):
        return None
    if not row.exists:
        return Lane(1, readers=1) if shared else Lane(1, worker=turn.session.claim)
    if row.stopped and not turn.scope.breaks("a start in a paused lane"):
        return None
    if row.stopped and not row.worker:
        return row._replace(worker=turn.session.claim, reserved=NOBODY)
    if row.reserved == job:
        return row._replace(reserved=NOBODY, worker=turn.session.claim)
    if shared and row.readers:
        return row if again else row._replace(readers=row.readers + 1)
    if row.readers and turn.scope.breaks("a writer joins readers"):
        return row._replace(worker=turn.session.claim)
    return None


def lose(turn: Turn, lane: int) -> Step:
    job, name = turn.session.seen, f"acquire_lanes.sql loses {lane_name(lane)}"
    if turn.scope.breaks("reserve while waiting") and turn.session.won:
        for won, _ in turn.session.won:
            turn = turn.write_row(won, Lane(1, reserved=job))
        return turn.step(name, next="commit", won=(), lost=lane)
    takes = turn.scope.breaks("a retry takes what it gets") and turn.jobs()[job] == AGAIN
    if takes and turn.session.won:
        return turn.step(name, next="heads", lost=lane)
    return turn.step(name, next="block", lost=lane)


def waiting(turn: Turn) -> tuple[int, ...]:
    return tuple(job for job, status in enumerate(turn.state.jobs) if status in IN_LINE)


def read_heads(turn: Turn) -> Iterator[Step]:
    """lane_heads in claim.sql: a new statement, after all lanes were won."""
    head = startable(turn)
    if head == NOBODY or turn.is_touched(head) or not turn.serves(head):
        yield turn.step("lane_heads has nobody for us", next="block")
        return
    slots = turn.scope.kinds[head].limited
    yield turn.step(
        f"lane_heads has {job_name(head)}", next="slots" if slots else "start", head=head
    )


def startable(turn: Turn) -> int:
    """The job that is the head of all of its lanes, which are all ours: the one seen, or a better."""
    seen, jobs, scope = turn.session.seen, turn.jobs(), turn.scope
    if jobs[seen] == AGAIN:
        return seen  # it keeps its lanes, and is in no line
    heads = {lane: turn.head(lane) for lane, _ in turn.session.won}
    if turn.session.early:
        heads = {lane: turn.session.early[lane] for lane in heads}
    if scope.breaks("head of one lane is enough"):
        heads = {lane: heads[min(heads)] for lane in heads}
    if scope.breaks("a reader joins past a waiting writer"):
        heads |= {lane: seen for lane, row in turn.session.won if row.readers}
    able = [
        head
        for head in set(heads.values())
        if head != NOBODY
        and jobs[head] in IN_LINE
        and all(heads.get(lane) == head for lane in scope.lanes_of(head))
        and (head == seen or all(may_use(turn, head, lane) for lane in scope.lanes_of(head)))
    ]
    return seen if seen in able else scope.best(able)


def may_use(turn: Turn, job: int, lane: int) -> bool:
    """Whether a lane that was won for another job can be used for this one."""
    before = dict(turn.session.won)[lane]
    return not before.exists or bool(before.readers and turn.scope.shares(job, lane))


# ---------------------------------------------------------------- the key


def take_slot(turn: Turn) -> Iterator[Step]:
    """Locks the key's row without waiting, then takes a slot and a token, or marks the job."""
    head, scope = turn.session.head, turn.scope
    turn = turn.but(more=turn.state.more)
    unlocked = scope.breaks("counter read without the row lock")
    unlocked |= scope.breaks("token read without the row lock")
    if turn.key_is_locked() and not turn.session.key and not unlocked:
        asks = not scope.breaks("limited without the row lock")
        yield turn.step("does not get the key", next="block", head=NOBODY)
        yield limit(turn).step("knows that it stays locked", next="block", head=NOBODY, asks=asks)
        return
    key = fold(scope, turn.key())
    if room(turn, key) or key.kept_for == head:
        used = key.used + (key.kept_for != head)
        kept_for = NOBODY if key.kept_for == head else key.kept_for
        taken = key._replace(used=used, tokens=key.tokens - (scope.burst > 0), kept_for=kept_for)
        yield turn.write_key(taken).but(key=not unlocked).step("takes a slot", next="start")
        return
    after = limit(turn.write_key(plan_later(turn, key)))
    if scope.breaks("the lane is kept while limited"):
        for lane, _ in turn.session.won:
            after = after.write_row(lane, Lane(1, reserved=head))
        after = after.but(won=())
    yield after.step(f"no slot for {job_name(head)}", next="block", head=NOBODY)


def limit(turn: Turn) -> Turn:
    head = turn.session.head
    return turn.write(head, KEPT if turn.jobs()[head] in KEEPING else LIMITED)


def fold(scope: Scope, key: Key) -> Key:
    return key._replace(tokens=min(scope.burst, key.tokens + key.due), due=0)


def room(turn: Turn, key: Key) -> bool:
    slots, burst = turn.scope.slots + turn.state.more, turn.scope.burst
    return key.used < slots and (not burst or key.tokens > 0)


def plan_later(turn: Turn, key: Key) -> Key:
    """A claim that raises no limit itself may not see one that is being raised."""
    scope = turn.scope
    looks = scope.faults.changes and not scope.breaks("no claim looks again")
    return key._replace(later=1) if looks else key


def leave_look(turn: Turn) -> Turn:
    """leave_looks.sql: a row for the next claim, if jobs wait. Nobody waits for the key."""
    waits = any(status in (LIMITED, KEPT) for status in turn.jobs())
    return turn.but(asks=1) if waits else turn


def open_gates(turn: Turn) -> Turn:
    """Make tokens of the best limited jobs of each queue, as many as there are slots."""
    scope, key, jobs = turn.scope, fold(turn.scope, turn.key()), turn.jobs()
    turn = turn.write_key(key._replace(look=0))
    if not room(turn, key):
        return turn
    free = scope.slots + turn.state.more - key.used
    free = min(free, key.tokens) if scope.burst else free
    queues = sorted({kind.queue for kind in scope.kinds})
    limited = [job for job, status in enumerate(jobs) if status in (LIMITED, KEPT)]
    limited.sort(key=lambda job: (jobs[job] != KEPT, -scope.kinds[job].priority, job))
    if scope.breaks("one queue is woken"):
        queues = [scope.kinds[job].queue for job in limited[:1]]
    for queue in queues:
        able = [job for job in limited if scope.kinds[job].queue == queue]
        reach = [job for job in able if not turn.is_touched(job)]
        if len(reach) < len(able):
            turn = turn.write_key(turn.key()._replace(look=1))
        for job in reach[:free]:
            turn = turn.write(job, AGAIN if jobs[job] == KEPT else TODO)
    return turn


# ---------------------------------------------------------------- start


def start(turn: Turn) -> Iterator[Step]:
    """start_jobs.sql, and the rows of the lanes that it uses. The next reader becomes a token."""
    head, scope, jobs = turn.session.head, turn.scope, turn.jobs()
    again, before = jobs[head] in KEEPING, dict(turn.session.won)
    after = turn.write(head, turn.session.claim)
    for lane in scope.lanes_of(head):
        if lane not in before:
            continue  # a mutant
        if not scope.shares(head, lane):
            row = turn.row(lane)._replace(worker=turn.session.claim, reserved=NOBODY)
            after = after.write_row(
                lane,
                row if row.readers and before[lane].exists else Lane(1, worker=turn.session.claim),
            )
        elif not again:
            row = before[lane]._replace(exists=1, readers=before[lane].readers + 1)
            after = after.write_row(lane, row)
    used = scope.lanes_of(head)
    after = after.but(
        head=NOBODY, won=tuple(won for won in after.session.won if won[0] not in used)
    )
    if not scope.breaks("a reader wakes nobody"):
        after = wake_readers(after)
    seen = turn.session.seen
    name = f"start_jobs.sql {job_name(head)}"
    if seen != head:
        yield after.step(name, next="block")
    elif after.session.won or after.session.freed:
        yield after.step(name, next="release")
    else:
        yield after.close(name)


def wake_readers(turn: Turn) -> Turn:
    """In each lane of ours that readers share, the next reader becomes a token."""
    won = dict(turn.session.won)
    for lane in turn.session.lanes:
        row, head = turn.row(lane), turn.head(lane)
        if lane in won or not row.readers or row.stopped or head == NOBODY:
            continue
        if not turn.scope.shares(head, lane) or turn.jobs()[head] != BLOCKED:
            continue
        if head == turn.session.spared:
            continue
        if turn.is_touched(head):
            turn = turn.write_row(lane, row._replace(look=1))
        else:
            turn = turn.write(head, TODO)
    return turn


# ---------------------------------------------------------------- block and give back


def block(turn: Turn) -> Iterator[Step]:
    """block_behind.sql: the job that was seen sleeps, if another one is sure to wake it."""
    job, scope = turn.session.seen, turn.scope
    after = turn
    status = turn.jobs()[job]
    if status == AGAIN and not turn.is_touched(job) and may_sleep(turn, job):
        yield then(sleep(turn, job), "block_in_lanes.sql: a lane is stopped")
        return
    if status not in (TODO, BLOCKED) or turn.is_touched(job):
        yield then(after, "block_behind.sql leaves it")
        return
    lane = behind(turn, job)
    if lane == NOBODY:
        yield then(after, "block_behind.sql has no reason")
        return
    passes_on = not scope.breaks("a wake-up is not passed on")
    if scope.kinds[job].limited and status == TODO and passes_on:
        after = leave_look(after)
    after = after.write(job, BLOCKED).but(spared=job)
    if turn.session.lost != NOBODY and not scope.breaks("blocked in a locked lane"):
        after = after.but(lanes=after.with_lock(lane))
    yield then(after, f"block_behind.sql {job_name(job)} in {lane_name(lane)}")


def may_sleep(turn: Turn, job: int) -> bool:
    """Whether a lane that the job keeps is stopped: resume_lane will wake it."""
    lost, limited = turn.session.lost, turn.scope.kinds[job].limited
    if lost == NOBODY or turn.is_locked(lost) or (limited and turn.key_is_locked()):
        return False
    return bool(turn.row(lost).stopped)


def sleep(turn: Turn, job: int) -> Turn:
    after = turn.write(job, ASLEEP).but(lanes=turn.with_lock(turn.session.lost))
    return open_gates(after) if turn.scope.kinds[job].limited else after


def wake_asleep(turn: Turn, lane: int) -> Turn:
    """Jobs that keep this lane, and sleep because it was stopped, become tokens."""
    if turn.scope.breaks("a retry sleeps in a lane that is resumed"):
        return turn
    for job, status in enumerate(turn.jobs()):
        if status != ASLEEP or lane not in turn.scope.kinds[job].lanes:
            continue
        if turn.is_touched(job):
            turn = turn.write_row(lane, turn.row(lane)._replace(look=1))
        else:
            turn = turn.write(job, AGAIN)
    return turn


def behind(turn: Turn, job: int) -> int:
    """The lane whose holder, or whose next job, will wake the job."""
    lost, scope = turn.session.lost, turn.scope
    if lost != NOBODY:
        if scope.breaks("blocked for a lane that nobody holds"):
            return lost
        row = turn.row(lost)
        if turn.is_locked(lost) and not scope.breaks("blocked in a locked lane"):
            return NOBODY
        joins = scope.shares(job, lost) and row.readers and not row.stopped
        if joins and not scope.breaks("a reader is blocked behind readers"):
            return NOBODY
        return lost if row.exists and row.reserved != job else NOBODY
    won = dict(turn.session.won)
    for lane in turn.session.lanes:
        if lane not in scope.kinds[job].lanes:
            continue
        row = turn.row(lane)
        if lane in won:
            if turn.head(lane) != job:
                return lane
        elif row.exists and not (scope.shares(job, lane) and row.readers):
            return lane
    return NOBODY


def then(turn: Turn, name: str) -> Step:
    give_back = turn.session.won or turn.session.freed
    return turn.step(name, next="release") if give_back else turn.close(name)


def release(turn: Turn) -> Iterator[Step]:
    """release_lanes.sql: lanes that were won and not used go back, each with a token."""
    after = turn
    for lane, before in turn.session.won:
        after = after.write_row(lane, before) if before.exists else free(after, lane)
    after = wake_readers(after)
    if turn.session.freed and not turn.scope.breaks("a freed slot wakes nobody"):
        after = open_gates(after)
        if turn.scope.breaks("the slot goes to the woken job"):
            after = keep_slot(turn, after)
    yield after.close("release_lanes.sql")


def keep_slot(before: Turn, after: Turn) -> Turn:
    key, jobs = after.key(), after.jobs()
    woken = [job for job, status in enumerate(before.jobs()) if status == LIMITED != jobs[job]]
    if not woken or key.kept_for != NOBODY:
        return after
    return after.write_key(key._replace(used=key.used + 1, kept_for=woken[0]))


def free(turn: Turn, lane: int) -> Turn:
    """The lane's row goes, and its head becomes a token. A limited head is the key's to wake."""
    line = turn.line(lane)
    if turn.scope.breaks("finish does not look at several-lane heads"):
        line = tuple(job for job in line if len(turn.scope.kinds[job].lanes) == 1)
    head = turn.scope.best(line)
    row = NO_ROW
    mute = turn.scope.breaks("release without making a token")
    if head not in (NOBODY, turn.session.spared) and turn.jobs()[head] == BLOCKED and not mute:
        if not turn.is_touched(head):
            turn = turn.write(head, TODO)
        elif not turn.scope.breaks("the head that a user locks is forgotten"):
            row = Lane(1, look=1)
    return turn.write_row(lane, row)


def end(turn: Turn) -> Iterator[Step]:
    yield Step(f"{turn.session.does}: COMMIT", commit(turn))
