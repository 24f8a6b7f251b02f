"""What is promised, checked when a start is committed and whenever nobody is at work."""

from tests.race.flow_model.state import (
    ASLEEP,
    BLOCKED,
    DISORDER,
    ENDED,
    IN_LINE,
    KEEPING,
    KEPT,
    LIMITED,
    NOBODY,
    OVERLAP,
    OVERTAKEN,
    PAUSED,
    SCHEDULED,
    SLEEPS,
    TODO,
    TOKENS,
    TOO_MANY,
    TOO_OFTEN,
    WORSE_FIRST,
    Scope,
    Session,
    State,
    Turn,
)
from tests.race.search import put


def commit(turn: Turn) -> State:
    """Apply what the session has written. Jobs start and end here."""
    before, state = turn.state, apply(turn)
    for job, status in turn.session.jobs:
        if status > 0 and before.jobs[job] != status:
            broken = state.broken or what_a_start_breaks(turn, job)
            known = tuple(sorted((*state.known, (job, status))))
            bucket = state.bucket - (turn.scope.kinds[job].limited and turn.scope.burst > 0)
            begun = tuple(sorted({*state.begun, job}))
            state = forget(state, job)._replace(
                known=known, broken=broken, bucket=bucket, begun=begun
            )
    return state


def apply(turn: Turn) -> State:
    state = turn.over()
    for lane, row in turn.session.rows:
        state = state._replace(lanes=put(state.lanes, lane, row))
    if turn.session.keys:
        state = state._replace(key=turn.session.keys[0])
    if turn.session.asks:
        state = state._replace(asked=1)
    for job, status in turn.session.jobs:
        state = state._replace(jobs=put(state.jobs, job, status))
        if (status in (ENDED, TODO, SCHEDULED) and turn.state.jobs[job] > 0) or status == ENDED:
            begun = tuple(other for other in state.begun if other != job)
            state = forget(state, job)._replace(begun=begun)
    return state


def forget(state: State, job: int) -> State:
    """The job has started or ended: the order that was promised for it is kept."""
    earlier = tuple(tuple(other for other in others if other != job) for others in state.earlier)
    return state._replace(earlier=put(earlier, job, ()))


def what_a_start_breaks(turn: Turn, job: int) -> str:
    return breaks_exclusion(turn, job) or breaks_a_limit(turn, job) or breaks_the_order(turn, job)


def breaks_exclusion(turn: Turn, job: int) -> str:
    scope, state, jobs = turn.scope, turn.state, turn.jobs()
    others = [other for other in range(len(jobs)) if other != job and scope.exclude(job, other)]
    if any(jobs[other] > 0 for other in others):
        return OVERLAP
    if any(state.lanes[lane].stopped for lane in scope.kinds[job].lanes):
        return PAUSED
    if any(other in state.begun and jobs[other] in KEEPING for other in others):
        return OVERTAKEN
    return ""


def breaks_a_limit(turn: Turn, job: int) -> str:
    scope, jobs = turn.scope, turn.jobs()
    if not scope.kinds[job].limited:
        return ""
    doing = sum(jobs[other] > 0 and kind.limited for other, kind in enumerate(scope.kinds))
    if doing > scope.slots + max(turn.state.more, turn.session.more):
        return TOO_MANY
    return TOO_OFTEN if scope.burst and turn.state.bucket < 1 else ""


def breaks_the_order(turn: Turn, job: int) -> str:
    scope, state, jobs = turn.scope, turn.state, turn.jobs()
    if state.jobs[job] in KEEPING:
        return ""  # the next attempt goes before everything
    if state.earlier[job]:
        return DISORDER
    waited = [other for other in turn.session.waited if other != job and jobs[other] in IN_LINE]
    if any(scope.meet(job, other) and scope.best((job, other)) == other for other in waited):
        return WORSE_FIRST
    return ""


def sleeps(scope: Scope, state: State) -> str:
    """A job that nothing keeps from starting must be a token, or have one that stands for it."""
    if state.sessions or state.locked != NOBODY:
        return ""
    for job, status in enumerate(state.jobs):
        if status in (BLOCKED, ASLEEP) and is_ready(scope, state, job):
            return SLEEPS
        asked = state.asked or (state.raced and state.key.later)
        limited = status in (LIMITED, KEPT) and not asked and is_ready(scope, state, job)
        if limited and not has_token(scope, state, scope.kinds[job].queue):
            return SLEEPS
    return ""


def has_token(scope: Scope, state: State, queue: int) -> bool:
    return any(
        state.jobs[job] in TOKENS and kind.limited and kind.queue == queue
        for job, kind in enumerate(scope.kinds)
    )


def is_ready(scope: Scope, state: State, job: int) -> bool:
    kind, key = scope.kinds[job], state.key
    if kind.limited and (
        key.look or key.used >= scope.slots + state.more or (scope.burst and not key.tokens)
    ):
        return False
    return all(is_open(scope, state, job, lane) for lane in kind.lanes)


def is_open(scope: Scope, state: State, job: int, lane: int) -> bool:
    row = state.lanes[lane]
    if row.stopped or row.look:
        return False
    if state.jobs[job] in (KEPT, ASLEEP):
        return True
    turn = Turn(scope, state, Session("", ""), ())
    joins = scope.shares(job, lane) and row.readers > 0
    return turn.head(lane) == job and (not row.exists or joins)
