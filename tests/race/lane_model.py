"""An explicit-state model of one lane: all interleavings of a few jobs, two workers, a rescuer.

The database is what is committed: the status of each job and the lane's row. A session is a client
in the middle of a transaction. It has written some rows that only it sees, perhaps locks the lane
row, and remembers what earlier statements returned. One step of the model is one statement of
sql/functions, or a commit. Its name says which. A statement is one step because READ COMMITTED
gives it one snapshot, and because rows that it locks are checked again as they are at that moment.
A crash forgets a session with everything that it had not committed.

The search goes breadth first from the empty lane and visits every state once, so the first
violation found is among the shortest. The properties are in `what_a_start_breaks`, `delete_jobs`,
`retry` and `search.stuck`. The last one is about the whole graph: from each state the lane must be able
to drain without a fault and without a new job. A new job would bring a token and hide that one is
missing.

A mutant is the design with one protection taken away. The model says something about the design
only because each mutant is refuted.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from tests.race.search import Step as AnyStep
from tests.race.search import by_text

UNBORN, TODO, BLOCKED, SCHEDULED, ENDED = "unborn", "todo", "blocked", "scheduled", "ended"
WAITING = (TODO, BLOCKED)

# The ways to break the promises.
OVERLAP = "two jobs of the lane are done at once"
OVERTAKEN = "a job started before the end of one that had begun"
DISORDER = "a job started before one that was committed before its INSERT"
WORSE_FIRST = "a job started before a better one that already waited"
STALE_FINISH = "a stale worker's finish was accepted"
STALE_RETRY = "a stale worker's retry was accepted"

NOBODY = -1
LANE = -1  # the key of the lane row among the written rows, beside the jobs' numbers

MUTANTS = {
    "head from the candidate scan": "claim starts the best job it saw before it won the lane",
    "block without the lane lock": "a loser blocks what it saw while the holder is deciding",
    "finish looks before it locks": "finish reads the next job, then waits for the lane row",
    "unfenced finish": "finish deletes by id, whatever the claim",
    "unfenced retry": "retry and rescue take a job back by id, whatever the claim",
    "rescue leaves no token": "a rescued job goes back as blocked",
    "finish in two transactions": "the ended job is deleted and committed before the lane moves on",
    "reservation ignored by claim": "a claim takes over the reserved lane and starts its head",
    "a loser blocks the reserved job": "blocking spares no job",
    "release without making a token": "the lane row goes, the best job stays blocked",
    "retry gives the lane up": "a retry deletes the lane row instead of reserving it",
    "the youngest job is the head": "jobs of one priority are not ordered by id",
    "a lost lane counts as won": "a claim goes on without the lane row",
    "a reservation is won before its job is due": "a claim takes over a lane for a job that it saw before its first attempt",
    "a lane goes without a token": "the lane row goes although its blocked head is locked and cannot be made a token",
    "a delayed lane is never looked at again": "a lane that was kept for its locked head is left to itself",
    "a locked job is overtaken": "a claim starts the best job that nobody has locked",
}


class Reserved(NamedTuple):
    """The lane row in state `retrying`."""

    job: int


class Delayed(NamedTuple):
    """The row of a free lane whose next job a user has locked. Claims look again."""

    look: int = -2  # equal to no reservation


Job = str | int  # a status; while the job is being done, the claim that it is done under
Lane = (
    int | Reserved | Delayed | None
)  # the claim that holds the lane; for whom it is reserved; no row
Write = tuple[int, Job | Lane]


class Session(NamedTuple):
    next: str = "idle"  # the statement that comes next
    job: int = NOBODY  # what a worker does, or a rescuer takes back
    claim: int = 0
    seen: tuple[int, ...] = ()  # the tokens that the claim's scan showed
    retry: int = NOBODY  # for which job the lane was reserved that the claim took over
    head: int = NOBODY  # what the last look at the lane showed
    waited: tuple[
        int, ...
    ] = ()  # who waited already when the lane became ours (observed, not part of the SQL)
    locks_lane: bool = False
    writes: tuple[Write, ...] = ()


class Faults(NamedTuple):
    """How many are still allowed to happen."""

    crashes: int = 0
    expiries: int = 0  # a worker that lives is taken for dead
    failures: int = 0  # a job ends with a retry
    replaces: int = 0  # a user locks a job that waits, and holds on to it


class State(NamedTuple):
    jobs: tuple[Job, ...]
    lane: Lane
    inserted: int  # how many jobs have a number
    producers: tuple[
        tuple[int, ...], ...
    ]  # the jobs of each transaction that has inserted but not committed
    sessions: tuple[Session, ...]
    faults: Faults
    earlier: tuple[
        tuple[int, ...], ...
    ]  # for each job, the live ones of its priority that were committed before its INSERT
    begun: int = NOBODY  # the job that was started and has not ended: it runs or waits for a retry
    locked: int = NOBODY  # the job that a user's open transaction has locked
    broken: str = ""


class Scope(NamedTuple):
    """The jobs to explore, their priorities, the job that worker 1 does not serve, and the mutant."""

    priorities: tuple[int, ...] = (0, 0, 1)
    unserved: int = NOBODY
    faults: Faults = Faults()
    mutant: str = ""

    def breaks(self, mutant: str) -> bool:
        assert mutant in MUTANTS
        return self.mutant == mutant

    def best(self, jobs: Iterable[int]) -> int:
        age = -1 if self.breaks("the youngest job is the head") else 1
        return min(jobs, key=lambda job: (-self.priorities[job], age * job), default=NOBODY)

    def serves(self, who: int, job: int) -> bool:
        return who != 1 or job != self.unserved


Step = AnyStep[State]
RESCUER = 2
T = TypeVar("T")
IDLE = Session()
Statement = Callable[[Scope, State, int], Iterator[Step]]


# ---------------------------------------------------------------- exploring


class OneLane:
    """The model that `search.explore` explores."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def start(self) -> State:
        jobs = len(self._scope.priorities)
        return State(
            jobs=(UNBORN,) * jobs,
            lane=None,
            inserted=0,
            producers=(),
            sessions=(IDLE,) * 3,
            faults=self._scope.faults,
            earlier=((),) * jobs,
        )

    def steps(self, state: State) -> Iterator[Step]:
        return steps(self._scope, state)

    def broken(self, state: State) -> str:
        return state.broken

    def same(self, state: State) -> State:
        """Two workers that serve the same are interchangeable."""
        if self._scope.unserved != NOBODY:
            return state
        *workers, rescuer = state.sessions
        return state._replace(sessions=(*sorted(workers, key=by_text), rescuer))

    def is_drained(self, state: State) -> bool:
        return (
            all(job in (UNBORN, ENDED) for job in state.jobs)
            and state.lane is None
            and not state.producers
            and state.locked == NOBODY
            and all(session == IDLE for session in state.sessions)
        )


def steps(scope: Scope, state: State) -> Iterator[Step]:
    yield from defer_jobs(scope, state)
    yield from end_defer(scope, state)
    yield from replace_waiting(state)
    for who, session in enumerate(state.sessions):
        actor = "rescuer" if who == RESCUER else f"worker {who}"
        statement = (
            rescue if who == RESCUER and session.next == "idle" else STATEMENTS[session.next]
        )
        for step in statement(scope, state, who):
            yield step._replace(name=f"{actor}: {step.name}")
        if session != IDLE and state.faults.crashes:
            faults = state.faults._replace(crashes=state.faults.crashes - 1)
            yield Step(
                f"{actor}: CRASH", now(state, who, IDLE)._replace(faults=faults), helps=False
            )


# ---------------------------------------------------------------- producers


def defer_jobs(scope: Scope, state: State) -> Iterator[Step]:
    """The INSERT of one job, or of two in one call. It is invisible before the commit."""
    for batch in ((state.inserted,), (state.inserted, state.inserted + 1)):
        if batch[-1] >= len(state.jobs):
            continue
        earlier = state.earlier
        for job in batch:
            alive = (
                other
                for other in range(job)
                if other in batch or state.jobs[other] not in (UNBORN, ENDED)
            )
            equals = tuple(
                other for other in alive if scope.priorities[other] == scope.priorities[job]
            )
            earlier = put(earlier, job, equals)
        producers = tuple(sorted((*state.producers, batch)))
        inserted = state._replace(inserted=batch[-1] + 1, producers=producers, earlier=earlier)
        yield Step(f"producer: defer_jobs.sql INSERT {named(batch)}", inserted, helps=False)


def end_defer(scope: Scope, state: State) -> Iterator[Step]:
    for batch in state.producers:
        rest = state._replace(producers=tuple(other for other in state.producers if other != batch))
        jobs = state.jobs
        for job in batch:
            jobs = put(jobs, job, TODO if job == scope.best(batch) else BLOCKED)
        yield Step(f"producer: COMMIT {named(batch)}", rest._replace(jobs=jobs))
        if state.faults.crashes:
            faults = state.faults._replace(crashes=state.faults.crashes - 1)
            gone = rest
            for job in batch:
                gone = end_job(gone, job)
            yield Step(
                f"producer: ROLLBACK {named(batch)}", gone._replace(faults=faults), helps=False
            )


def replace_waiting(state: State) -> Iterator[Step]:
    """A user's transaction that locks a job. The lane does not depend on how it ends."""
    if state.locked != NOBODY:
        yield Step(f"user: COMMIT {named((state.locked,))}", state._replace(locked=NOBODY))
    elif state.faults.replaces:
        faults = state.faults._replace(replaces=state.faults.replaces - 1)
        for job, status in enumerate(state.jobs):
            if status in (*WAITING, SCHEDULED) and not touched(state, NOBODY, job):
                yield Step(
                    f"user: replace_waiting.sql {named((job,))}",
                    state._replace(locked=job, faults=faults),
                    helps=False,
                )


# ---------------------------------------------------------------- claim


def promote_and_candidates(scope: Scope, state: State, who: int) -> Iterator[Step]:
    """The first statements of a claim. A scheduled job is tried as due and as not due."""
    if (
        isinstance(state.lane, Delayed)
        and not lane_is_locked(state, who)
        and not scope.breaks("a delayed lane is never looked at again")
    ):
        yield Step(
            "resume_lanes.sql", now(state, who, Session(next="release_lanes", locks_lane=True))
        )
    sleeping = [
        job
        for job, status in enumerate(state.jobs)
        if status == SCHEDULED and not touched(state, who, job)
    ]
    for due in ((), *((job,) for job in sleeping)):
        session = Session(writes=tuple((job, TODO) for job in due))
        jobs, lane = view(state, session)
        tokens = tuple(
            job for job, status in enumerate(jobs) if status == TODO and scope.serves(who, job)
        )
        if not tokens:
            continue
        is_open = lane is None or (isinstance(lane, Reserved) and lane.job in tokens)
        session = session._replace(next="acquire_lanes" if is_open else "block_seen", seen=tokens)
        name = f"promote.sql {named(due)}, claim_candidates.sql" if due else "claim_candidates.sql"
        yield Step(f"{name} sees {named(tokens)}", now(state, who, session))


def acquire_lanes(scope: Scope, state: State, who: int) -> Iterator[Step]:
    session = state.sessions[who]
    claim = fresh_claim(state)
    jobs, lane = view(state, session)
    retry = next_attempt(scope, session, jobs, lane, state.locked)
    won = session._replace(
        next="lane_heads", claim=claim, locks_lane=True, waited=waiting(state.jobs)
    )
    if lane is None and not lane_is_locked(state, who):
        yield Step("acquire_lanes.sql INSERT", now(state, who, write(won, LANE, claim)))
    elif retry != NOBODY and not lane_is_locked(state, who):
        yield Step(
            "acquire_lanes.sql takes over",
            now(state, who, write(won, LANE, claim)._replace(retry=retry)),
        )
    elif scope.breaks("a lost lane counts as won"):
        yield Step("acquire_lanes.sql loses", now(state, who, won._replace(locks_lane=False)))
    else:
        yield Step("acquire_lanes.sql loses", now(state, who, session._replace(next="block_seen")))


def next_attempt(
    scope: Scope, session: Session, jobs: tuple[Job, ...], lane: Lane, locked: int
) -> int:
    """The job that the lane is reserved for, if it is due, was seen, and no user has it locked."""
    if not isinstance(lane, Reserved) or lane.job not in session.seen or lane.job == locked:
        return NOBODY
    due = jobs[lane.job] == TODO or scope.breaks("a reservation is won before its job is due")
    return lane.job if due else NOBODY


def lane_heads(scope: Scope, state: State, who: int) -> Iterator[Step]:
    session = state.sessions[who]
    jobs, _ = view(state, session)
    head = scope.best(waiting(jobs))
    if scope.breaks("head from the candidate scan"):
        head = scope.best(job for job in waiting(jobs) if job in session.seen)
    if (
        session.retry != NOBODY
        and jobs[session.retry] == TODO
        and not scope.breaks("reservation ignored by claim")
    ):
        head = session.retry
    if scope.breaks("a locked job is overtaken") and head == state.locked:
        head = scope.best(job for job in waiting(jobs) if job != state.locked)
    starts = head not in (NOBODY, state.locked) and scope.serves(who, head)
    after = (
        session._replace(next="start_jobs", head=head)
        if starts
        else session._replace(next="block_seen")
    )
    yield Step(f"claim.sql lane_heads is {named((head,))}", now(state, who, after))


def start_jobs(scope: Scope, state: State, who: int) -> Iterator[Step]:
    session = state.sessions[who]
    jobs, _ = view(state, session)
    if touched(state, who, session.head):
        return  # waits for the row
    after = session._replace(next="block_seen" if session.seen else "commit", head=NOBODY)
    if jobs[session.head] in WAITING:
        after = write(after, session.head, session.claim)._replace(job=session.head)
    yield Step(f"start_jobs.sql {named((session.head,))}", now(state, who, after))


def block_seen(scope: Scope, state: State, who: int) -> Iterator[Step]:
    """Takes the lane row's lock. If the row is locked or missing, it changes nothing."""
    session = state.sessions[who]
    jobs, lane = view(state, session)
    must_give_back = session.claim and session.job == NOBODY
    after = session._replace(next="release_lanes" if must_give_back else "commit", seen=())
    may = lane is not None and (session.locks_lane or not lane_is_locked(state, who))
    if scope.breaks("block without the lane lock"):
        may = lane is not None
    elif may:
        after = after._replace(locks_lane=True)
    losers = tuple(job for job in session.seen if jobs[job] == TODO) if may else ()
    if isinstance(lane, Reserved) and not scope.breaks("a loser blocks the reserved job"):
        losers = tuple(job for job in losers if job != lane.job)
    losers = tuple(job for job in losers if job != state.locked)
    if any(touched(state, who, job) for job in losers):
        return  # waits for the row
    for job in losers:
        after = write(after, job, BLOCKED)
    yield Step(f"block_behind.sql {named(losers)}", now(state, who, after))


def release_lanes(scope: Scope, state: State, who: int) -> Iterator[Step]:
    session = state.sessions[who]
    jobs, _ = view(state, session)
    head = (
        session.head if scope.breaks("finish looks before it locks") else scope.best(waiting(jobs))
    )
    after = write(session, LANE, None)._replace(next="commit", head=NOBODY)
    if (
        head != NOBODY
        and jobs[head] == BLOCKED
        and not scope.breaks("release without making a token")
    ):
        if head != state.locked:
            after = write(after, head, TODO)
        elif not scope.breaks("a lane goes without a token"):
            after = write(after, LANE, Delayed())
    yield Step(f"release_lanes.sql token {named((head,))}", now(state, who, after))


# ---------------------------------------------------------------- finish


def finish_or_retry(scope: Scope, state: State, who: int) -> Iterator[Step]:
    """The handler is over: with success, or, if a failure is left to try, with an error."""
    session = state.sessions[who]
    if scope.breaks("finish looks before it locks") and session.next == "ended":
        jobs, _ = view(state, session)
        head = scope.best(waiting(jobs))
        looked = session._replace(next="lock_lanes", head=head)
        yield Step(f"finish.sql looks too early, at {named((head,))}", now(state, who, looked))
    else:
        yield from lock_lanes(state, who, "finish.sql", "delete_jobs")
    if state.faults.failures and session.next == "ended":
        for step in lock_lanes(state, who, "retry.sql", "retry"):
            faults = state.faults._replace(failures=state.faults.failures - 1)
            yield step._replace(state=step.state._replace(faults=faults), helps=False)


def lock_lanes(state: State, who: int, caller: str, then: str) -> Iterator[Step]:
    """Waits for the lane row, if the job is still done under our claim."""
    session = state.sessions[who]
    after = session._replace(next=then)
    if state.jobs[session.job] == session.claim == state.lane:
        if lane_is_locked(state, who):
            return
        after = after._replace(locks_lane=True, waited=waiting(state.jobs))
    yield Step(f"{caller} lock_lanes.sql", now(state, who, after))


def delete_jobs(scope: Scope, state: State, who: int) -> Iterator[Step]:
    session = state.sessions[who]
    status = state.jobs[session.job]
    ours = status == session.claim
    if touched(state, who, session.job):
        return  # waits for the row
    if not ours and not (scope.breaks("unfenced finish") and status not in (UNBORN, ENDED)):
        yield Step(f"finish.sql DELETE {named((session.job,))} is refused", now(state, who, IDLE))
        return
    after = write(session, session.job, ENDED)._replace(next="handover_candidates", job=NOBODY)
    if scope.breaks("finish in two transactions"):
        state, after = (
            commit_writes(scope, state, after),
            after._replace(writes=(), locks_lane=False),
        )
    deleted = now(state, who, after)
    yield Step(
        f"finish.sql DELETE {named((session.job,))}",
        deleted if ours else deleted._replace(broken=STALE_FINISH),
    )


def handover_candidates(scope: Scope, state: State, who: int) -> Iterator[Step]:
    """Hands the next job over, unless the worker stops, another job is better, or it is locked."""
    session = state.sessions[who]
    jobs, _ = view(state, session)
    head = (
        session.head if scope.breaks("finish looks before it locks") else scope.best(waiting(jobs))
    )
    if head not in (NOBODY, state.locked) and scope.serves(who, head):
        handed = session._replace(next="start_jobs", head=head)
        yield Step(f"handover_candidates.sql hands over {named((head,))}", now(state, who, handed))
    yield Step(
        "handover_candidates.sql hands nothing over",
        now(state, who, session._replace(next="release_lanes")),
    )


# ---------------------------------------------------------------- retry and rescue


def rescue(scope: Scope, state: State, who: int) -> Iterator[Step]:
    """A rescue of a worker that is gone, or of a live one if an expiry is left to try."""
    for job, claim in enumerate(state.jobs):
        if not isinstance(claim, int):
            continue
        alive = any(session.claim == claim for session in state.sessions[:RESCUER])
        if alive and not state.faults.expiries:
            continue
        faults = state.faults._replace(expiries=state.faults.expiries - alive)
        after = now(state, who, Session(next="rescue", job=job, claim=claim))._replace(
            faults=faults
        )
        yield Step(f"rescue.sql finds {named((job,))}", after, helps=not alive)


def hold_for_rescue(scope: Scope, state: State, who: int) -> Iterator[Step]:
    yield from lock_lanes(state, who, "rescue.sql retry.sql", "retry")


def retry(scope: Scope, state: State, who: int) -> Iterator[Step]:
    """The UPDATE of the job and the lane row. A worker may ask for a delay, a rescuer does not."""
    session = state.sessions[who]
    ours = state.jobs[session.job] == session.claim
    if touched(state, who, session.job):
        return  # waits for the row
    if not ours and not (
        scope.breaks("unfenced retry") and state.jobs[session.job] not in (UNBORN, ENDED)
    ):
        yield Step(f"retry.sql UPDATE {named((session.job,))} is refused", now(state, who, IDLE))
        return
    lane = None if scope.breaks("retry gives the lane up") else Reserved(session.job)
    statuses = (TODO,) if who == RESCUER else (TODO, SCHEDULED)
    if who == RESCUER and scope.breaks("rescue leaves no token"):
        statuses = (BLOCKED,)
    for status in statuses:
        after = write(write(session, session.job, status), LANE, lane)._replace(
            next="commit", job=NOBODY
        )
        again = now(state, who, after)
        yield Step(
            f"retry.sql UPDATE {named((session.job,))} to {status}",
            again if ours else again._replace(broken=STALE_RETRY),
        )


# ---------------------------------------------------------------- transactions


def commit(scope: Scope, state: State, who: int) -> Iterator[Step]:
    session = state.sessions[who]
    after = (
        Session(next="ended", job=session.job, claim=session.claim)
        if session.job != NOBODY
        else IDLE
    )
    yield Step("COMMIT", now(commit_writes(scope, state, session), who, after))


def commit_writes(scope: Scope, state: State, session: Session) -> State:
    """A commit. Jobs start and end here, so the promises of the lane are checked here."""
    jobs, lane = view(state, session)
    state = state._replace(jobs=jobs, lane=lane)
    for job, value in session.writes:
        if job != LANE and value == ENDED:
            state = end_job(state, job)
    for job, value in session.writes:
        if job != LANE and isinstance(value, int):
            broken = state.broken or what_a_start_breaks(scope, state, session, job)
            state = state._replace(begun=job, earlier=put(state.earlier, job, ()), broken=broken)
    return state


def what_a_start_breaks(scope: Scope, state: State, session: Session, job: int) -> str:
    if sum(isinstance(status, int) for status in state.jobs) > 1:
        return OVERLAP
    if state.begun == job:
        return ""  # the next attempt goes before everything
    if state.begun != NOBODY:
        return OVERTAKEN
    if state.earlier[job]:
        return DISORDER
    if any(scope.best((job, other)) == other for other in session.waited if other != job):
        return WORSE_FIRST
    return ""


def end_job(state: State, job: int) -> State:
    """End a job. Nothing about it needs to be remembered."""
    earlier = tuple(tuple(other for other in others if other != job) for others in state.earlier)
    begun = NOBODY if state.begun == job else state.begun
    return state._replace(
        jobs=put(state.jobs, job, ENDED), earlier=put(earlier, job, ()), begun=begun
    )


def view(state: State, session: Session) -> tuple[tuple[Job, ...], Lane]:
    """Return what a session sees: the committed rows, and its own writes over them."""
    jobs, lane = state.jobs, state.lane
    for key, value in session.writes:
        if key == LANE:
            lane = value if not isinstance(value, str) else lane
        elif isinstance(value, str | int):
            jobs = put(jobs, key, value)
    return jobs, lane


def write(session: Session, key: int, value: Job | Lane) -> Session:
    kept = (other for other in session.writes if other[0] != key)
    return session._replace(writes=(*kept, (key, value)))


def touched(state: State, who: int, job: int) -> bool:
    """Another transaction has written or locked this row and is not over."""
    others = [session for other, session in enumerate(state.sessions) if other != who]
    # acquire_lanes.sql locks the job, too, for which it takes a lane over.
    return job == state.locked or any(
        session.retry == job or any(key == job for key, _ in session.writes) for session in others
    )


def lane_is_locked(state: State, who: int) -> bool:
    """Return True if another session has the row lock, or the advisory lock of a new row."""
    return any(session.locks_lane for other, session in enumerate(state.sessions) if other != who)


def fresh_claim(state: State) -> int:
    """Return a number that no session remembers. It stands for a random id."""
    used = {state.lane, *state.jobs, *(session.claim for session in state.sessions)}
    return next(claim for claim in range(1, 10) if claim not in used)


def waiting(jobs: tuple[Job, ...]) -> tuple[int, ...]:
    return tuple(job for job, status in enumerate(jobs) if status in WAITING)


def now(state: State, who: int, session: Session) -> State:
    return state._replace(sessions=put(state.sessions, who, session))


def put(values: tuple[T, ...], place: int, value: T) -> tuple[T, ...]:
    return (*values[:place], value, *values[place + 1 :])


def named(jobs: Iterable[int]) -> str:
    return "+".join("ABCDEF"[job] for job in jobs if job != NOBODY) or "nobody"


STATEMENTS: dict[str, Statement] = {
    "idle": promote_and_candidates,
    "acquire_lanes": acquire_lanes,
    "lane_heads": lane_heads,
    "start_jobs": start_jobs,
    "block_seen": block_seen,
    "release_lanes": release_lanes,
    "ended": finish_or_retry,
    "lock_lanes": finish_or_retry,
    "delete_jobs": delete_jobs,
    "handover_candidates": handover_candidates,
    "rescue": hold_for_rescue,
    "retry": retry,
    "commit": commit,
}
