"""The claim protocol of one lane, as a model that `search.explore` checks exhaustively.

A lane runs one job at a time, and then has a row. Its best waiting job is `todo`, the token that
claims look for, and those behind it are `blocked`. Read in this order:

1. `State`: what is committed. A `Session` is a client in the middle of a transaction.
2. `Client`, from `claim_candidates` on: one function for each statement, named after its file in
   sql/functions. It is one step: READ COMMITTED gives it one snapshot, and rereads what it locks.
   `does(what, then, *writes)` names the next one. Others see the writes after `commit`.
3. `breaks` marks the mutants: each takes one protection away, and must break a promise.
4. The promises: in `show_writes`, for each commit, and `OneLane.is_drained`: each state must lead
   there without a fault and without a new job, whose token would hide that one is missing.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.race.scopes import lane as promises
from tests.race.scopes.lane import NOBODY, Faults, Scope, fault, named
from tests.race.search import Step, by_text

TODO, BLOCKED, SCHEDULED, NO_ROW = "todo", "blocked", "scheduled", "no row"
LANE = -1  # the lane's row among the rows that a session has written; a job's is its number
RESCUER = 2  # the sessions 0 and 1 are workers, those from 3 on producers and users
Steps = Iterator[Step["State"]]


class Lane(NamedTuple):
    """The lane's row. With none of the first three, the lane is as free as without a row."""

    claim: int = 0  # of the worker that holds the lane
    reserved: int = NOBODY  # the job whose next attempt the lane waits for
    delayed: bool = False  # a user has its next job locked
    raised: bool = False  # its version is above that of a new row, whose key does not meet it


FREE = Lane(raised=True)


class Session(NamedTuple):
    at: str = "claim_candidates"  # the statement that comes next
    job: int = NOBODY  # what a worker does, or a rescuer takes back
    claim: int = 0
    seen: tuple[int, ...] = ()  # the tokens that the claim has found
    head: int = NOBODY  # the next job, as far as it knows
    locks_name: bool = False
    saw_no_row: bool = False
    locks_lane: bool = False
    writes: tuple[tuple[int, Any], ...] = ()  # a lock is a write that changes nothing
    waited: tuple[int, ...] = ()  # for the promises: who waited when it locked the lane


IDLE = (Session(), Session(), Session("rescue"))


class State(NamedTuple):
    jobs: tuple[str | int, ...]  # a status, or the claim under which the job is being done
    faults: Faults  # that may still happen
    lane: Lane | None = None
    sessions: tuple[Session, ...] = IDLE
    inserted: int = 0  # how many jobs have a number
    order: frozenset[tuple[int, int]] = frozenset()  # for the promises: who must start before whom
    begun: int = NOBODY  # for the promises: who was started and has not ended, but may wait again
    broken: str = ""


class Client:
    """A session and its next statement: what it sees, and what others have locked."""

    def __init__(self, scope: Scope, state: State, who: int) -> None:
        self.scope, self.breaks, self.best = scope, scope.breaks, scope.best
        self.state, self.who, self.me = state, who, state.sessions[who]
        others = (*state.sessions[:who], *state.sessions[who + 1 :])
        self.name_is_locked = any(other.locks_name for other in others)
        self.lane_is_locked = any(other.locks_lane for other in others)
        self.locked = {key for other in others for key, _ in other.writes} - {LANE}
        rows = {LANE: state.lane, **dict(enumerate(state.jobs)), **dict(self.me.writes)}
        self.lane: Lane | None = rows.pop(LANE)
        self.lane_is_free = self.lane in (None, FREE)
        self.jobs = tuple(rows.values())
        self.waiting = tuple(job for job, row in enumerate(self.jobs) if row in (TODO, BLOCKED))
        self.startable = {job for job in self.waiting if scope.serves(who, job)} - self.locked

    def does(self, what: str, then: str, *writes: tuple[int, Any], **notes: Any) -> Steps:
        """One step, or none while it waits for a row that another transaction has locked."""
        if self.locked.isdisjoint(key for key, _ in writes):
            rows = {**dict(self.me.writes), **dict(writes)}
            notes = {"at": then, "writes": tuple(sorted(rows.items())), **notes}
            yield Step(what, self.becomes(self.me._replace(**notes)))

    def does_if_ours(self, mutant: str, *step: Any) -> Steps:
        """A stale worker is refused: its job is not done under its claim any more."""
        row = self.jobs[self.me.job]
        if row == self.me.claim or (self.breaks(mutant) and row != NO_ROW):
            yield from self.does(named(self.me.job), *step, job=NOBODY)
        else:
            yield Step(f"{named(self.me.job)} is refused", self.becomes(None))

    def becomes(self, session: Session | None) -> State:
        now = [session] if session else IDLE[self.who : self.who + 1]
        sessions = (*self.state.sessions[: self.who], *now, *self.state.sessions[self.who + 1 :])
        return self.state._replace(sessions=sessions)

    def claim_candidates(self) -> Steps:
        """See the tokens. promote makes a scheduled job one first, if it is due: we try both."""
        yield from self.resume_lanes()
        early = self.breaks("the row is looked for before its name is locked")
        for due in (NOBODY, *(job for job, row in enumerate(self.jobs) if row == SCHEDULED)):
            promoted = [(due, TODO)] if due != NOBODY else []
            tokens = [job for job, row in enumerate(self.jobs) if row == TODO or job == due]
            seen = tuple(job for job in tokens if self.scope.serves(self.who, job))
            is_open = self.lane_is_free or (self.lane and self.lane.reserved in seen)
            then = "acquire_lanes" if is_open else "block_behind"
            what = f"promotes {named(due)}, sees {named(*seen)}"
            notes = {"seen": seen, "saw_no_row": early and self.lane is None}
            yield from self.does(what, then, *promoted, **notes) if seen else ()

    def resume_lanes(self) -> Steps:
        """Look again at a lane whose next job was locked."""
        forgets = self.breaks("a delayed lane is never looked at again")
        if self.lane and self.lane.delayed and not self.lane_is_locked and not forgets:
            yield from self.does("resume_lanes", "release_lanes", locks_lane=True)

    def acquire_lanes(self) -> Steps:
        """Lock the lane's name. Then insert its row, or take over a free or a reserved one."""
        if not self.me.locks_name and self.name_is_locked:
            yield from self.does("does not get the name", "block_behind")
            return
        if not self.me.locks_name:
            yield from self.does("locks the name", "acquire_lanes", locks_name=True)
            return
        again = self.lane.reserved if self.lane else NOBODY
        may = self.jobs[again] == TODO or self.breaks("a reservation is won before its job is due")
        takes = may and again in self.me.seen and again not in self.locked
        inserts = self.lane is None
        if self.breaks("the row is looked for before its name is locked"):
            inserts = self.me.saw_no_row and (self.lane is None or self.lane.raised)
        wins = (inserts or self.lane == FREE or takes) and not self.lane_is_locked
        used = {self.lane and self.lane.claim, *(each.claim for each in self.state.sessions)}
        claim = min({1, 2, 3, 4, 5} - used - set(self.state.jobs))  # stands for a random id
        notes = {"claim": claim, "locks_lane": wins, "waited": self.waiting}
        if wins:
            lock = [(again, self.jobs[again])] if takes else []
            raised = self.lane is not None and self.lane.raised
            what = "inserts" if inserts else "takes over" if takes else "takes a free row"
            row = LANE, Lane(claim, raised=raised)
            yield from self.does(what, "lane_heads", row, *lock, head=again, **notes)
        elif self.breaks("a lost lane counts as won"):
            yield from self.does("loses", "lane_heads", **notes)
        else:
            yield from self.does("loses", "block_behind")

    def lane_heads(self) -> Steps:
        """Look who is next, in a new snapshot: what was seen before may be out of date."""
        again, head = self.me.head, self.best(self.waiting)
        if self.breaks("head from the candidate scan"):
            head = self.best(job for job in self.waiting if job in self.me.seen)
        if self.breaks("a locked job is overtaken"):
            head = self.best(job for job in self.waiting if job not in self.locked)
        if again in self.waiting and not self.breaks("reservation ignored by claim"):
            head = again
        then = "start_jobs" if head in self.startable else "block_behind"
        yield from self.does(f"is {named(head)}", then, head=head)

    def start_jobs(self) -> Steps:
        """Start the head, if it still waits."""
        head, then = self.me.head, "block_behind" if self.me.seen else "commit"
        row = [(head, self.me.claim)] if head in self.waiting else []
        yield from self.does(named(head), then, *row, job=head if row else NOBODY, head=NOBODY)

    def block_behind(self) -> Steps:
        """Block the tokens that lost. The lane's holder takes the same lock before it looks."""
        unlocked = self.breaks("block without the lane lock")
        behind_free = self.breaks("a job sleeps behind a free row")
        is_held = self.lane is not None and (self.lane != FREE or behind_free)
        may = is_held and (unlocked or not self.lane_is_locked)
        losers = [job for job in self.me.seen if may and self.jobs[job] == TODO]
        if self.lane and not self.breaks("a loser blocks the reserved job"):
            losers = [job for job in losers if job != self.lane.reserved]
        rows = [(job, BLOCKED) for job in losers if job not in self.locked]
        then = "release_lanes" if self.me.claim and self.me.job == NOBODY else "commit"
        what, locks = named(*dict(rows)), self.me.locks_lane or (may and not unlocked)
        yield from self.does(what, then, *rows, seen=(), head=NOBODY, locks_lane=locks)

    def release_lanes(self) -> Steps:
        """Delete the lane's row or keep it, and make the next job a token. If locked, look later."""
        head, lanes, token = self.next_job(), [None, FREE], []
        is_asleep = head != NOBODY and self.jobs[head] == BLOCKED
        if is_asleep and not self.breaks("release without making a token"):
            token = [(head, TODO)] if head not in self.locked else []
            if not token and not self.breaks("a lane goes without a token"):
                lanes = [Lane(delayed=True)]
        for lane in lanes:
            what = f"{'keeps the row, ' if lane == FREE else ''}token {named(head)}"
            yield from self.does(what, "commit", (LANE, lane), *token, head=NOBODY)

    def next_job(self) -> int:
        early = self.breaks("finish looks before it locks")
        return self.me.head if early else self.best(self.waiting)

    def look_early(self) -> Steps:  # only a mutant does
        yield from self.does("at the line", "lock_lanes", head=self.best(self.waiting))

    def lock_lanes(self) -> Steps:
        """Begin a finish or a retry: wait for the lane's row, if the job is still ours."""
        is_ours = self.jobs[self.me.job] == self.me.claim
        holds = is_ours and self.lane is not None and self.lane.claim == self.me.claim
        notes = {"locks_lane": holds, "waited": self.waiting if holds else ()}
        finishes = self.does("of finish", "archive_jobs", **notes)
        retries = self.does("of retry", "retry", **notes)
        if not (holds and self.lane_is_locked):  # else it waits
            yield from retries if self.who == RESCUER else (*finishes, *fault("failures", retries))

    def archive_jobs(self) -> Steps:
        half = self.breaks("finish in two transactions")
        then = "commit_half" if half else "handover_candidates"
        yield from self.does_if_ours("unfenced finish", then, (self.me.job, NO_ROW))

    def handover_candidates(self) -> Steps:
        """Hand the next job over, unless the worker stops, or another lane's job is better."""
        head = self.next_job()
        yield from self.does(named(head), "start_jobs", head=head) if head in self.startable else ()
        yield from self.does("nobody", "release_lanes")

    def retry(self) -> Steps:
        """Send the job back. The lane waits for it. A worker may want a delay."""
        job, rows = self.me.job, [TODO, SCHEDULED]
        gives_up = self.breaks("retry gives the lane up")
        lane = None if gives_up else Lane(reserved=job, raised=True)
        if self.who == RESCUER:
            rows = [BLOCKED if self.breaks("rescue leaves no token") else TODO]
        for row in rows:
            yield from self.does_if_ours("unfenced retry", "commit", (job, row), (LANE, lane))

    def rescue(self) -> Steps:
        """Find a job whose worker is gone, or, as a fault, one that lives."""
        alive = {session.claim for session in self.state.sessions[:RESCUER]}
        for job, claim in enumerate(self.jobs):
            if isinstance(claim, int):
                steps = self.does(named(job), "lock_lanes", job=job, claim=claim)
                yield from fault("expiries", steps) if claim in alive else steps

    def commit(self) -> Steps:
        """Show the writes to all. A worker then does its job, and ends it whenever it likes."""
        early = self.breaks("finish looks before it locks")
        works = Session("look_early" if early else "lock_lanes", self.me.job, self.me.claim)
        yield self.show_writes(works if self.me.job != NOBODY else None)

    def commit_half(self) -> Steps:  # only a mutant does
        rest = self.me._replace(at="handover_candidates", writes=(), locks_lane=False)
        yield self.show_writes(rest)

    def show_writes(self, then: Session | None) -> Step[State]:
        """Jobs start and end now, so now the promises are judged."""
        before, me, rank = self.state, self.me, self.scope.rank
        started = [key for key, row in me.writes if isinstance(row, int)]
        ended = [key for key, row in me.writes if row == NO_ROW]
        begun = NOBODY if before.begun in ended else before.begun
        firsts = [job for job in started if job != begun]
        stale = [job for job, row in enumerate(before.jobs) if row != me.claim]
        broken = {
            promises.STALE_FINISH: any(job in stale for job in ended),
            promises.STALE_RETRY: self.lane != before.lane
            and self.lane is not None
            and self.lane.reserved in stale,
            promises.OVERLAP: sum(isinstance(row, int) for row in self.jobs) > 1,
            promises.OVERTAKEN: begun != NOBODY and firsts != [],
            promises.DISORDER: any(a not in ended and b in firsts for a, b in before.order),
            promises.WORSE_FIRST: any(rank(a) < rank(b) for a in me.waited for b in firsts),
        }
        order = frozenset(pair for pair in before.order if not set(pair) & {*started, *ended})
        state = self.becomes(then)._replace(jobs=self.jobs, lane=self.lane, order=order)
        promise = next((promise for promise, is_broken in broken.items() if is_broken), "")
        state = state._replace(begun=started[0] if started else begun, broken=promise)
        return Step(named(*dict(me.writes)), state)


class OneLane:
    """The model that `search.explore` explores: the clients, and jobs and users that come."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def start(self) -> State:
        return State((NO_ROW,) * len(self.scope.priorities), self.scope.faults)

    def steps(self, state: State) -> Steps:
        yield from self.defer_jobs(state)
        yield from self.replace_waiting(state)
        yield from self.reconcile(state)
        for who, session in enumerate(state.sessions):
            client = Client(self.scope, state, who)
            name = ("worker 0", "worker 1", "rescuer", "client")[min(who, 3)]
            for what, after, helps in getattr(client, session.at)():
                yield Step(f"{name}: {session.at} {what}", after, helps)
            if session not in IDLE:
                crash = Step(f"{name}: CRASH {named(*dict(session.writes))}", client.becomes(None))
                yield from fault("crashes", [crash])

    def defer_jobs(self, state: State) -> Steps:
        """Insert one job, or two in one call, of which the better one is a token."""
        first, priority = state.inserted, self.scope.priorities
        for batch in ((first,), (first, first + 1))[: len(priority) - first]:
            token = min(batch, key=self.scope.rank)
            rows = tuple((job, TODO if job == token else BLOCKED) for job in batch)
            others = [job for job, row in enumerate(state.jobs) if row != NO_ROW or job in batch]
            pairs = {(a, b) for a in others for b in batch if a < b and priority[a] == priority[b]}
            now = (*state.sessions, Session("commit", writes=rows))
            after = state._replace(inserted=batch[-1] + 1, order=state.order | pairs, sessions=now)
            yield Step(f"defer_jobs {named(*batch)}", after, helps=False)

    def replace_waiting(self, state: State) -> Steps:
        """A user's transaction locks a job that waits. The lane does not depend on how it ends."""
        locked = {key for session in state.sessions for key, _ in session.writes}
        for job, row in enumerate(state.jobs):
            if row in (TODO, BLOCKED, SCHEDULED) and job not in locked:
                sessions = (*state.sessions, Session("commit", writes=((job, row),)))
                step = Step(f"replace_waiting {named(job)}", state._replace(sessions=sessions))
                yield from fault("replaces", [step])

    def reconcile(self, state: State) -> Steps:
        """Delete a free row. It skips one that is locked."""
        if state.lane == FREE and not any(each.locks_lane for each in state.sessions):
            session = Session("commit", locks_lane=True, writes=((LANE, None),))
            after = state._replace(sessions=(*state.sessions, session))
            yield Step("reconcile", after, helps=False)

    def broken(self, state: State) -> str:
        return state.broken

    def same(self, state: State) -> State:
        """Two workers that serve the same are interchangeable."""
        if self.scope.unserved != NOBODY:
            return state
        workers = sorted(state.sessions[:RESCUER], key=by_text)
        return state._replace(sessions=(*workers, *state.sessions[RESCUER:]))

    def is_drained(self, state: State) -> bool:
        is_free = state.lane in (None, FREE)
        return state.jobs == self.start().jobs and is_free and state.sessions == IDLE
