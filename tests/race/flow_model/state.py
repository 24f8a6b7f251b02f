"""What is committed, what a session has written, and the mutants of the flow extensions.

Two lanes (a and b) and one key with a limit. The columns are those that the SQL would have: the
status of a job, the row of a lane, the row of the key. `Session` is a client in the middle of a
transaction. The processes of workers are apart: `known` is what they remember, so a job can run
while the same connection does something else, and connections are interchangeable.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.race.search import Step as AnyStep
from tests.race.search import put

# The statuses. A positive number is the claim under which the job is being done.
UNBORN, TODO, BLOCKED, LIMITED, SCHEDULED, ENDED, AGAIN, LATER, KEPT, ASLEEP = (
    0,
    -1,
    -2,
    -3,
    -4,
    -5,
    -6,
    -7,
    -8,
    -9,
)
IN_LINE = (TODO, BLOCKED, LIMITED)  # waits in its lanes, or for its key
TOKENS = (TODO, AGAIN)  # what claims look at
# `todo`, `scheduled`, limited or blocked, and keeps its lanes for its next attempt
KEEPING = (AGAIN, LATER, KEPT, ASLEEP)

NOBODY = -1
BY_A_PERSON, BY_A_FAILURE = 1, 2  # why a lane is stopped; a failure adds the number of the job

# The ways to break the promises.
OVERLAP = "two jobs are done at once that exclude each other in a lane"
OVERTAKEN = "a job started in a lane that another one keeps for its next attempt"
DISORDER = "a job started before one that was committed before its INSERT"
WORSE_FIRST = "a job started before a better one that already waited"
TOO_MANY = "more jobs of the key are done at once than the limit allows"
TOO_OFTEN = "a job of the key started without a token"
PAUSED = "a job started in a lane that a person had paused"
DEADLOCK = "sessions wait for each other in a circle"
SLEEPS = "a job could start, and nobody will look at it before something else ends"

MUTANTS = {
    # several lanes
    "reserve while waiting": "a claim that loses a lane keeps those it has won for the job",
    "unsorted and waiting": "a claim waits for the rows of its lanes, in the order of the job",
    "heads before all lanes are won": "the heads are read when the first lane is won",
    "head of one lane is enough": "a job starts as the head of its first lane",
    "one lane forgotten at finish": "finish frees the first lane of a job only",
    "one lane forgotten at cancel": "cancel reopens the first lane of a job only",
    "retry keeps only one of two lanes": "a retry reserves the first lane and frees the others",
    "a retry takes what it gets": "the next attempt starts with the lanes that it could take over",
    "blocked for a lane that nobody holds": "a claim blocks what it could not start, with no lock",
    "blocked in a locked lane": "a claim blocks the job though it did not get the lane row's lock",
    "release without making a token": "a lane's row goes, its head stays blocked",
    "a start in a paused lane": "a claim does not ask whether a lane is paused",
    "finish does not look at several-lane heads": "a freed lane's token is its best one-lane job",
    "a retry sleeps in a lane that is resumed": "resume_lane leaves a blocked retry as it is",
    "the head that a user locks is forgotten": "a lane goes without a token if its head is locked",
    "finish takes its rows in any order": "finish takes the rows at hand, then waits for the rest",
    "cancel locks its lanes unsorted": "a cancel waits for the rows in the order of the job",
    "brought back into some of its lanes": "a failed job goes first in those that still wait for it",
    # shared and exclusive
    "a reader joins past a waiting writer": "a reader that finds readers does not look who is head",
    "a writer joins readers": "readers do not keep a writer out",
    "the first reader to end frees the lane": "finish deletes the row though readers are left",
    "a reader wakes nobody": "the start of a reader leaves the next reader blocked",
    "a reader is blocked behind readers": "a claim blocks a reader in a lane that it could join",
    "a failed reader gives its share up": "a retry with hold frees the reader's share",
    "a cancelled reader keeps its share": "cancel of a reader between attempts forgets its share",
    "a reader that is brought back wakes nobody": "its lane goes on, other readers stay blocked",
    # limits and rates
    "counter read without the row lock": "a claim reads the counter, and adds one to what it read",
    "token read without the row lock": "a claim reads the tokens, and takes one of those it read",
    "a counter not restored by rescue": "a rescue leaves the counter as it was",
    "a counter not restored by retry": "a retry keeps its slot while it waits",
    "a refused finish frees a slot": "the slot goes back though the job is somebody else's by now",
    "limited without the row lock": "a claim that does not get the key leaves no row for the next",
    "the slot goes to the woken job": "finish keeps the slot for the job that it wakes",
    "a slot that is handed over stays free": "finish starts the next job and frees the slot too",
    "the lane is kept while limited": "a job that lacks a slot keeps its lanes",
    "a wake-up is not passed on": "a woken job that loses its lane is just blocked",
    "a cancelled token passes nothing on": "cancel of a woken job does not wake the next one",
    "one queue is woken": "a free slot wakes the best job of the key, whatever its queue",
    "nobody looks at the key again": "no token of a rate wakes the limited jobs",
    "more slots wake nobody": "a higher limit leaves the limited jobs as they are",
    "no claim looks again": "a job that becomes limited while the limit is raised is forgotten",
    "a freed slot wakes nobody": "finish frees the slot and leaves the limited jobs as they are",
}


class Kind(NamedTuple):
    """A job as it was deferred. `lanes` is in the order that the user wrote."""

    lanes: tuple[int, ...] = ()
    shared: tuple[int, ...] = ()
    priority: int = 0
    limited: bool = False
    queue: int = 0
    hold: bool = True


class Lane(NamedTuple):
    exists: int = 0
    worker: int = 0  # the claim that holds it for itself
    readers: int = 0  # the shares: of those that run, and of those that keep theirs
    reserved: int = NOBODY  # the job that keeps it for its next attempt
    stopped: int = 0  # BY_A_PERSON, or BY_A_FAILURE + the job
    look: int = 0  # nobody's, but its head could not be made a token: claims look again


class Key(NamedTuple):
    used: int = 0  # how many are done
    tokens: int = 0  # of the rate
    due: int = 0  # tokens that time has brought, and nobody has put into the row
    look: int = 0  # a limited job could not be woken: claims look again
    later: int = 0  # a claim has made a job limited: claims look again some seconds later
    kept_for: int = NOBODY  # of a mutant: a slot that is counted, for a job that waits


class Session(NamedTuple):
    does: str  # for the story
    next: str
    job: int = NOBODY  # what is finished, retried, cancelled
    claim: int = 0
    seen: int = NOBODY  # the job that is to start
    queue: int = NOBODY  # the only queue that is served, NOBODY: all
    won: tuple[tuple[int, Lane], ...] = ()  # the lanes that are ours, and their rows before
    lost: int = NOBODY
    head: int = NOBODY  # the job that starts, locked
    early: tuple[int, ...] = ()  # what a mutant has read too early
    waited: tuple[int, ...] = ()  # who waited at the last lane that was won (observed)
    lanes: tuple[int, ...] = ()  # locked
    key: int = 0  # locked
    freed: int = 0  # gave a slot of the key back
    asks: int = 0  # leaves a row, so that the next claim looks at the key
    more: int = 0  # the slots that were added when it took one
    spared: int = NOBODY  # blocked for good reason: not to be woken by ourselves
    jobs: tuple[tuple[int, int], ...] = ()  # written
    rows: tuple[tuple[int, Lane], ...] = ()
    keys: tuple[Key, ...] = ()


class Faults(NamedTuple):
    crashes: int = 0
    expiries: int = 0  # a worker that lives is taken for dead
    failures: int = 0  # a job ends with a retry
    locks: int = 0  # a user locks a job that waits
    pauses: int = 0  # of one lane
    cancels: int = 0
    halts: int = 0  # a job fails for good and stops its lanes
    changes: int = 0  # of the limit


class State(NamedTuple):
    jobs: tuple[int, ...]
    lanes: tuple[Lane, ...]
    key: Key
    inserted: int
    producers: tuple[int, ...]  # inserted, not committed
    sessions: tuple[Session, ...]
    known: tuple[tuple[int, int], ...]  # (job, claim): what living workers do
    faults: Faults
    earlier: tuple[tuple[int, ...], ...]  # who must start before the job
    begun: tuple[int, ...] = ()  # started, and keeps its lanes until it ends
    bucket: int = 0  # the tokens of the rate that there really are
    locked: int = NOBODY  # the job that a user's open transaction has locked
    more: int = 0  # slots of the key that a person has added
    asked: int = 0  # there is a row: the next claim looks at the key
    raced: int = 0  # somebody had the key when slots were added, so a later look may be needed
    broken: str = ""


Step = AnyStep[State]
NO_ROW = Lane()


class Scope(NamedTuple):
    kinds: tuple[Kind, ...]
    faults: Faults = Faults()
    sessions: int = 2
    slots: int = 3
    burst: int = 0  # 0: no rate
    late: tuple[int, ...] = (0,)  # whose commits may come late; the others are seen at once
    paused: int = 1  # the lane that a person pauses
    queues: tuple[int, ...] = (NOBODY,)  # which claims there are: of one queue, or NOBODY: of all
    mutant: str = ""

    def breaks(self, mutant: str) -> bool:
        assert mutant in MUTANTS
        return self.mutant == mutant

    def lanes_of(self, job: int) -> tuple[int, ...]:
        return tuple(sorted(self.kinds[job].lanes))

    def shares(self, job: int, lane: int) -> bool:
        return lane in self.kinds[job].shared

    def meet(self, one: int, other: int) -> bool:
        return any(lane in self.kinds[other].lanes for lane in self.kinds[one].lanes)

    def exclude(self, one: int, other: int) -> bool:
        return any(
            not (self.shares(one, lane) and self.shares(other, lane))
            for lane in self.kinds[one].lanes
            if lane in self.kinds[other].lanes
        )

    def best(self, jobs: Iterable[int]) -> int:
        return min(jobs, key=lambda job: (-self.kinds[job].priority, job), default=NOBODY)


class Turn(NamedTuple):
    """One session's turn: what it sees, and the state after its statement."""

    scope: Scope
    state: State
    session: Session
    others: tuple[Session, ...]

    def jobs(self) -> tuple[int, ...]:
        jobs = self.state.jobs
        for job, status in self.session.jobs:
            jobs = put(jobs, job, status)
        return jobs

    def row(self, lane: int) -> Lane:
        return next((row for at, row in self.session.rows if at == lane), self.state.lanes[lane])

    def key(self) -> Key:
        return self.session.keys[0] if self.session.keys else self.state.key

    def write(self, job: int, status: int) -> "Turn":
        kept = (other for other in self.session.jobs if other[0] != job)
        return self.but(jobs=tuple(sorted((*kept, (job, status)))))

    def write_row(self, lane: int, row: Lane) -> "Turn":
        kept = (other for other in self.session.rows if other[0] != lane)
        return self.but(rows=tuple(sorted((*kept, (lane, row)))), lanes=self.with_lock(lane))

    def write_key(self, key: Key) -> "Turn":
        return self.but(keys=(key,), key=1)

    def with_lock(self, lane: int) -> tuple[int, ...]:
        return tuple(sorted({*self.session.lanes, lane}))

    def but(self, **changes: Any) -> "Turn":
        return self._replace(session=self.session._replace(**changes))

    def step(self, name: str, **changes: Any) -> Step:
        session = self.session._replace(**changes) if changes else self.session
        after = self.state._replace(sessions=tuple(sorted((*self.others, session))))
        return Step(f"{session.does}: {name}", after)

    def close(self, name: str) -> Step:
        """The last statement before the commit. A session that has written nothing is gone."""
        wrote = self.session.jobs or self.session.rows or self.session.keys
        if wrote:
            return self.step(name, next="commit", won=())
        return Step(f"{self.session.does}: {name}", self.over())

    def over(self) -> State:
        return self.state._replace(sessions=self.others)

    def is_touched(self, job: int) -> bool:
        """Another transaction has written or locked the job's row and is not over."""
        return job == self.state.locked or any(
            other.head == job or any(at == job for at, _ in other.jobs) for other in self.others
        )

    def is_locked(self, lane: int) -> bool:
        """Another session has the row lock, or the advisory lock of a new row."""
        return any(lane in other.lanes for other in self.others)

    def key_is_locked(self) -> bool:
        return any(other.key for other in self.others)

    def line(self, lane: int) -> tuple[int, ...]:
        jobs = self.jobs()
        return tuple(
            job
            for job, kind in enumerate(self.scope.kinds)
            if lane in kind.lanes and jobs[job] in IN_LINE
        )

    def head(self, lane: int) -> int:
        return self.scope.best(self.line(lane))

    def serves(self, job: int) -> bool:
        return self.session.queue in (NOBODY, self.scope.kinds[job].queue)


def fresh_claim(state: State) -> int:
    """Return a number that nobody remembers. It stands for a random id."""
    used = {*state.jobs, *(session.claim for session in state.sessions)}
    used |= {claim for _, claim in state.known} | {row.worker for row in state.lanes}
    return next(claim for claim in range(1, 20) if claim not in used)


def number_claims(state: State) -> State:
    """Number the claims in the order in which the state names them. Nobody orders by them."""
    found = [job for job in state.jobs if job > 0]
    found += [row.worker for row in state.lanes if row.worker]
    found += [claim for _, claim in state.known]
    for session in state.sessions:
        if session.claim:
            found.append(session.claim)
        found += [row.worker for _, row in (*session.rows, *session.won) if row.worker]
    names: dict[int, int] = {}
    for claim in found:
        names.setdefault(claim, len(names) + 1)
    if all(claim == name for claim, name in names.items()):
        return state
    return state._replace(
        jobs=tuple(names[job] if job > 0 else job for job in state.jobs),
        lanes=tuple(rename(row, names) for row in state.lanes),
        known=tuple(sorted((job, names[claim]) for job, claim in state.known)),
        sessions=tuple(sorted(rename_session(session, names) for session in state.sessions)),
    )


def rename_session(session: Session, names: dict[int, int]) -> Session:
    return session._replace(
        claim=names.get(session.claim, 0),
        jobs=tuple((job, names[to] if to > 0 else to) for job, to in session.jobs),
        rows=tuple((lane, rename(row, names)) for lane, row in session.rows),
        won=tuple((lane, rename(row, names)) for lane, row in session.won),
    )


def rename(row: Lane, names: dict[int, int]) -> Lane:
    return row._replace(worker=names[row.worker]) if row.worker else row


def lane_name(lane: int) -> str:
    return "ab"[lane] if lane != NOBODY else "none"


def job_name(job: int) -> str:
    return "ABCDEF"[job] if job != NOBODY else "nobody"
