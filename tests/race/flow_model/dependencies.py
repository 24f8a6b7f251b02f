"""Jobs after other jobs: marks, edges, and the rows that the ends of parents leave.

A child is born due, with an edge from each parent, and locks nothing. A claim's `promote` marks
the parents that live, and counts them in a new statement. The end of a marked parent inserts one
row and touches no child. A claim's `fold` takes such a row and looks after the children. Nothing
here waits for a user's transaction: rows of jobs are tried, and what is locked stays for the next
claim. A claim that ends jobs itself looks after their children at once.

Lanes and limits come after: a child that is `todo` is a job like any other.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.race.flow_model.state import NOBODY, job_name
from tests.race.search import Step as AnyStep
from tests.race.search import by_text, put

UNBORN, DUE, PENDING, HELD, TODO, DOING = "unborn", "due", "pending", "held", "todo", "doing"
GOOD, BAD = "succeeded", "failed"
ENDED = (GOOD, BAD)
OUTSIDE = (DUE, PENDING, HELD, TODO)  # a person may cancel it, and it may expire
CLAIMS = ("promote", "fold", "expire")

EARLY = "a job started before the end of a job that it comes after"
AGAINST = "a job started although a job that it comes after failed"
HELD_UP = "a worker waits for a user's transaction"

MUTANTS = {
    "count before mark": "promote counts the parents that live, then marks them",
    "a locked parent needs no mark": "promote goes on though a parent could not be marked",
    "count without the child's lock": "fold counts the edges that are left, then locks the child",
    "finish frees the children": "the end of a parent looks at its edges and frees the last child",
    "finish waits for the children": "the end of a parent updates the rows of its children",
    "a locked child is forgotten": "fold deletes the row of the end though a child was locked",
    "a cancelled child tells nobody": "fold cancels a child and leaves no row for its own children",
    "a cancelled job tells nobody": "a person cancels a parent, which leaves no row",
    "the outcome is not kept": "fold deletes the edge of a failed parent, and keeps nothing of it",
    "a claim forgets an end of its own": "fold deletes the row of an end that is not committed yet",
    "a retry ends the parent": "the retry of a marked parent leaves a row, like its end",
    "marked as it was seen": "the end of a parent goes by the mark that it read at the start",
}


class Child(NamedTuple):
    after: tuple[int, ...] = ()
    on_parent: str = "cancel"


class Faults(NamedTuple):
    failures: int = 0
    retries: int = 0
    crashes: int = 0
    locks: int = 0
    cancels: int = 0
    expiries: int = 0


class Scope(NamedTuple):
    kinds: tuple[Child, ...]
    faults: Faults = Faults()
    sessions: int = 2
    mutant: str = ""

    def breaks(self, mutant: str) -> bool:
        assert mutant in MUTANTS
        return self.mutant == mutant


Edge = tuple[int, int]
Write = tuple[str, int, str | int]  # what is written, of which job, and how


class Rows(NamedTuple):
    """What is committed, or what a session sees: its own writes over it."""

    jobs: tuple[str, ...]
    marked: tuple[int, ...]  # has children: its end must be told
    failed: tuple[int, ...]  # a parent of it has failed
    edges: tuple[Edge, ...] = ()  # parent, child
    ends: tuple[int, ...] = ()  # marked jobs that have ended, until a claim has folded them


class Session(NamedTuple):
    does: str
    next: str
    job: int  # what ends, what is promoted, whose end is folded
    locked: tuple[int, ...] = ()  # rows of jobs
    alive: tuple[int, ...] = ()  # parents that lived when they were counted
    looked: tuple[int, ...] = ()  # jobs whose rows of ends it has taken
    marked: int = 0  # of a mutant: read too early
    counted: tuple[Edge, ...] | None = None  # of a mutant: read too early
    writes: tuple[Write, ...] = ()


class State(NamedTuple):
    rows: Rows
    sessions: tuple[Session, ...]
    faults: Faults
    locked: int = NOBODY  # the job that a user's open transaction has locked
    broken: str = ""


Step = AnyStep[State]


class Turn(NamedTuple):
    scope: Scope
    state: State
    session: Session
    others: tuple[Session, ...]

    def sees(self) -> Rows:
        """READ COMMITTED: what others have committed by now, and our own writes."""
        return merge(self.state.rows, self.session.writes)

    def is_touched(self, job: int) -> bool:
        return job == self.state.locked or any(job in other.locked for other in self.others)

    def lock(self, *jobs: int) -> "Turn":
        locked = tuple(sorted({*self.session.locked, *jobs}))
        return self._replace(session=self.session._replace(locked=locked))

    def write(self, what: str, job: int, how: str | int = 0) -> "Turn":
        writes = (*self.session.writes, (what, job, how))
        return self._replace(session=self.session._replace(writes=writes))

    def step(self, name: str, **changes: Any) -> Step:
        session = self.session._replace(**changes)
        after = self.state._replace(sessions=tuple(sorted((*self.others, session), key=by_text)))
        return Step(f"{session.does}: {name}", after)

    def written(self, name: str) -> Step:
        """A claim looks after the ends that it has written itself, and commits."""
        told = [job for what, job, _ in self.session.writes if what == "tell"]
        for job in told if self.session.does.startswith(CLAIMS) else ():
            if job not in self.session.looked:
                return self.step(name, next="look", job=job, looked=(*self.session.looked, job))
        return self.step(name, next="commit")

    def over(self, name: str) -> Step:
        return Step(f"{self.session.does}: {name}", self.state._replace(sessions=self.others))


def merge(rows: Rows, writes: tuple[Write, ...]) -> Rows:
    for what, job, how in writes:
        if what == "status":
            rows = rows._replace(jobs=put(rows.jobs, job, str(how)))
        elif what == "mark":
            rows = rows._replace(marked=put(rows.marked, job, 1))
        elif what == "fail":
            rows = rows._replace(failed=put(rows.failed, job, int(how)))
        elif what == "cut":
            rows = rows._replace(edges=tuple(e for e in rows.edges if e != (job, how)))
        elif what == "tell":
            rows = rows._replace(ends=tuple(sorted({*rows.ends, job})))
        elif what == "told":
            rows = rows._replace(ends=tuple(end for end in rows.ends if end != job))
    return rows


# ---------------------------------------------------------------- promote


def promote(turn: Turn) -> Iterator[Step]:
    """Locks a due child, without waiting."""
    if turn.is_touched(turn.session.job):
        return
    then = "mark"
    if turn.scope.breaks("count before mark"):
        turn = turn._replace(session=turn.session._replace(alive=alive(turn)))
    yield turn.lock(turn.session.job).step("locks it", next=then)


def alive(turn: Turn) -> tuple[int, ...]:
    rows, child = turn.sees(), turn.session.job
    return tuple(p for p, c in rows.edges if c == child and rows.jobs[p] not in ENDED)


def mark_parents(turn: Turn) -> Iterator[Step]:
    """Marks the parents that live. One that is locked puts the child off."""
    rows = turn.sees()
    if rows.jobs[turn.session.job] != DUE:
        yield turn.over("it is not due any more")
        return
    for parent in alive(turn):
        if rows.marked[parent]:
            continue
        if not turn.is_touched(parent):
            turn = turn.lock(parent).write("mark", parent)
        elif not turn.scope.breaks("a locked parent needs no mark"):
            yield turn.over(f"{job_name(parent)} is locked: another time")
            return
    yield turn.step("marks its parents", next="count")


def count_parents(turn: Turn) -> Iterator[Step]:
    """A new statement. Parents that have ended are in the history."""
    rows, child = turn.sees(), turn.session.job
    living = turn.session.alive if turn.scope.breaks("count before mark") else alive(turn)
    for parent in (p for p, c in rows.edges if c == child and p not in living):
        turn = cut(turn, parent, child, rows.jobs[parent])
    turn = turn.write("status", child, PENDING)
    yield settle(turn, child, bool(living)).written("counts its parents")


def cut(turn: Turn, parent: int, child: int, outcome: str) -> Turn:
    if outcome == BAD and not turn.scope.breaks("the outcome is not kept"):
        turn = turn.write("fail", child, 1)
    return turn.write("cut", parent, child)


def settle(turn: Turn, child: int, waits: bool) -> Turn:
    """What becomes of a pending child that is locked, when the edges of ended parents are gone."""
    rows, policy = turn.sees(), turn.scope.kinds[child].on_parent
    if rows.failed[child] and policy == "cancel":
        turn = end_job(turn, child, BAD)
    elif not waits:
        held = rows.failed[child] and policy == "hold"
        turn = turn.write("status", child, HELD if held else TODO)
    return turn


def end_job(turn: Turn, job: int, outcome: str) -> Turn:
    """archive_jobs.sql: a marked job leaves a row. Its own edges go."""
    rows = turn.sees()
    turn = turn.write("status", job, outcome)
    for parent, child in rows.edges:
        if child == job:
            turn = turn.write("cut", parent, child)
    folds = turn.session.does.startswith(("promote", "fold"))
    mute = turn.scope.breaks("a cancelled child tells nobody") and folds
    mute |= turn.scope.breaks("a cancelled job tells nobody") and not folds and outcome == BAD
    mute |= turn.scope.breaks("finish frees the children") and not folds
    return turn if mute or not rows.marked[job] else turn.write("tell", job)


# ---------------------------------------------------------------- fold


def fold(turn: Turn) -> Iterator[Step]:
    """Takes the row of an end, and the rows of the children that nobody has locked."""
    parent, rows = turn.session.job, turn.sees()
    if parent not in rows.ends:
        yield turn.over("somebody else did it")
        return
    if turn.scope.breaks("count without the child's lock") and turn.session.counted is None:
        yield turn.step("counts", counted=rows.edges)
        return
    for child in (c for p, c in rows.edges if p == parent):
        if not turn.is_touched(child):
            turn = turn.lock(child)
    yield turn.step("locks the children", next="fold")


def fold_children(turn: Turn) -> Iterator[Step]:
    """A new statement, so that the edges that others have cut meanwhile are gone."""
    parent, rows = turn.session.job, turn.sees()
    left = False
    for child in (c for p, c in rows.edges if p == parent):
        if child not in turn.session.locked:
            left = True
            continue
        turn = cut(turn, parent, child, rows.jobs[parent])
        if rows.jobs[child] == PENDING:
            edges = turn.sees().edges
            if turn.session.counted is not None:
                edges = tuple(e for e in turn.session.counted if e != (parent, child))
            turn = settle(turn, child, any(c == child for _, c in edges))
    done = not left or turn.scope.breaks("a locked child is forgotten")
    own = parent in (job for what, job, _ in turn.session.writes if what == "tell")
    if done and (not own or turn.scope.breaks("a claim forgets an end of its own")):
        turn = turn.write("told", parent)
    yield turn.written("looks after the children")


# ---------------------------------------------------------------- ends


def end_attempt(turn: Turn) -> Iterator[Step]:
    """finish.sql: it waits for claims only, which commit soon."""
    job, rows = turn.session.job, turn.state.rows
    if rows.jobs[job] != DOING:
        yield turn.over("is refused")
        return
    if any(job in other.locked for other in turn.others):
        return
    seen = turn.session.marked
    for outcome in (GOOD, BAD) if turn.state.faults.failures else (GOOD,):
        after = end_job(turn.lock(job), job, outcome)
        if turn.scope.breaks("marked as it was seen") and not seen:
            after = after.write("told", job)
        then = "commit"
        if turn.scope.breaks("finish frees the children") and rows.marked[job]:
            then = "free"
        if turn.scope.breaks("finish waits for the children") and rows.marked[job]:
            then = "update children"
        step = after.step(f"DELETE, {outcome}", next=then)
        if outcome == BAD:
            faults = turn.state.faults._replace(failures=turn.state.faults.failures - 1)
            step = step._replace(state=step.state._replace(faults=faults), helps=False)
        yield step


def free_children(turn: Turn) -> Iterator[Step]:
    """Of a mutant."""
    parent = turn.session.job
    for child in (c for p, c in turn.sees().edges if p == parent):
        turn = cut(turn, parent, child, turn.sees().jobs[parent])
        if turn.sees().jobs[child] == PENDING:
            turn = settle(turn, child, any(c == child for _, c in turn.sees().edges))
    yield turn.step("frees the children", next="commit")


def update_children(turn: Turn) -> Iterator[Step]:
    """Of a mutant."""
    children = [c for p, c in turn.sees().edges if p == turn.session.job]
    if turn.state.locked in children:
        yield Step(f"{turn.session.does}: waits", turn.state._replace(broken=HELD_UP))
    else:
        yield turn.step("updates the children", next="commit")


def cancel(turn: Turn) -> Iterator[Step]:
    """cancel_job.sql of a job that is not running. A person may wait."""
    job = turn.session.job
    if turn.sees().jobs[job] not in OUTSIDE:
        yield turn.over("it does not wait any more")
    elif not turn.is_touched(job):
        yield end_job(turn.lock(job), job, BAD).step("DELETE", next="commit")


def expire(turn: Turn) -> Iterator[Step]:
    """expire_jobs.sql, in a claim: it does not wait."""
    job = turn.session.job
    if turn.sees().jobs[job] not in OUTSIDE or turn.is_touched(job):
        yield turn.over("leaves it alone")
    else:
        yield end_job(turn.lock(job), job, BAD).written("DELETE")


def commit(turn: Turn) -> Iterator[Step]:
    after = turn.state._replace(rows=turn.sees(), sessions=turn.others)
    yield Step(f"{turn.session.does}: COMMIT", after)


STATEMENTS: dict[str, Callable[[Turn], Iterator[Step]]] = {
    "promote": promote,
    "mark": mark_parents,
    "count": count_parents,
    "look": fold,
    "fold": fold_children,
    "end": end_attempt,
    "free": free_children,
    "update children": update_children,
    "cancel": cancel,
    "expire": expire,
    "commit": commit,
}
