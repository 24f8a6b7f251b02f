"""Pauses of a task: claims that set jobs aside, claims that wake them, and the row between the two.

One task can be paused, and one lane has several jobs. A claim looks at the pause when it begins. If
the pause is over, it locks the row alone, wakes a job that is aside, and deletes the row if none is
left. If it meets a job of the paused task, it sets it aside under a shared lock of the row, and
gives the lane back. A person pauses and resumes, and locks nothing that a claim would wait for.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tests.race.flow_model.state import NOBODY, job_name
from tests.race.lane_model import put
from tests.race.search import Step as AnyStep
from tests.race.search import by_text

UNBORN, TODO, BLOCKED, ASIDE = "unborn", "todo", "blocked", "aside"
DOING, DONE = "doing", "done"
LINE = (TODO, BLOCKED, ASIDE)
NONE, LIVE, OVER = "", "live", "over"  # the row of the pause
SHARE, ALONE = "share", "alone"  # its locks

STARTED = "a job of a paused task starts"
SLEEPS = "a job is aside, and no row says that claims must wake it"
OVERTAKEN = "a job starts before another one of its lane"
TWICE = "two jobs of a lane run"

MUTANTS = {
    "aside without the row": "a claim sets a job aside whether or not there is a row",
    "the row is not locked": "a claim sees the row, and sets a job aside without locking it",
    "the row goes meanwhile": "a claim deletes the row though another one sets a job aside",
    "looked before the lock": "a claim looks for jobs that are aside before it locks the row",
    "the row goes with the first": "a claim wakes one job and deletes the row",
    "the resume deletes the row": "a resume leaves nothing that claims could find",
    "a paused head is handed over": "the end of a job does not look at the pause",
    "a head that is aside is handed over": "the end of a job keeps the lane for it",
    "a claim starts what it cannot set aside": "without the row, the job starts",
    "a head that is aside is passed by": "a claim starts the one behind it",
    "the lane is kept": "a claim that sets a job aside keeps its lane",
    "only aside is woken": "a lane that goes back makes no token of its head",
}


class Kind(NamedTuple):
    in_lane: bool = True
    paused: bool = True  # it is of the task that is paused
    late: bool = False  # it is committed at any time


class Scope(NamedTuple):
    kinds: tuple[Kind, ...]
    pauses: int = 1
    claims: int = 2  # side by side
    mutant: str = ""

    def breaks(self, mutant: str) -> bool:
        assert mutant in MUTANTS
        return self.mutant == mutant


class Rows(NamedTuple):
    jobs: tuple[str, ...]
    pause: str = NONE
    held: bool = False  # the row of the lane


class Session(NamedTuple):
    """A claim, or the end of a job. What it writes is seen by others once it commits."""

    does: str
    next: str
    job: int = NOBODY
    saw: str = NONE  # the pause when it began
    lane: bool = False  # it has the lane locked
    row: str = ""  # how it has locked the row of the pause
    early: bool = False  # there was something aside, in an old look
    jobs: tuple[tuple[int, str], ...] = ()  # written
    held: bool | None = None
    drops: bool = False  # the row of the pause
    overtakes: bool = False


class State(NamedTuple):
    rows: Rows
    sessions: tuple[Session, ...]
    pauses: int
    broken: str = ""


Step = AnyStep[State]


class TaskPause:
    """The model, as `explore` asks for it. The jobs are tokens, the best of the lane first."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def start(self) -> State:
        jobs = tuple(UNBORN if kind.late else TODO for kind in self._scope.kinds)
        return State(Rows(jobs), (), self._scope.pauses)

    def broken(self, state: State) -> str:
        jobs, kinds = state.rows.jobs, self._scope.kinds
        if state.broken:
            return state.broken
        if ASIDE in jobs and state.rows.pause == NONE:
            return SLEEPS
        running = [job for job, status in enumerate(jobs) if status == DOING]
        return TWICE if sum(kinds[job].in_lane for job in running) > 1 else ""

    def same(self, state: State) -> State:
        return state

    def is_drained(self, state: State) -> bool:
        idle = not state.sessions and not state.rows.held
        return idle and set(state.rows.jobs) == {DONE} and state.rows.pause == NONE

    def steps(self, state: State) -> Iterator[Step]:
        rows = state.rows
        if state.pauses and rows.pause != LIVE and not self._row_is(state, ALONE):
            paused = state._replace(rows=rows._replace(pause=LIVE), pauses=state.pauses - 1)
            yield Step("pause_task.sql", paused, helps=False)
        if rows.pause == LIVE:
            left = NONE if self._scope.breaks("the resume deletes the row") else OVER
            yield Step("resume_task.sql", state._replace(rows=rows._replace(pause=left)))
        if sum(each.does == "claim" for each in state.sessions) < self._scope.claims:
            yield enter(state, Session("claim", "look", saw=rows.pause), "claim: begins")
        busy = {each.job for each in state.sessions}
        for job, status in enumerate(rows.jobs):
            if status == UNBORN:
                born = rows._replace(jobs=put(rows.jobs, job, TODO))
                yield Step(f"producer: COMMIT {job_name(job)}", state._replace(rows=born))
            if status == DOING and job not in busy:
                ends = Session("finish", "next", job, lane=self._scope.kinds[job].in_lane)
                yield enter(state, ends, f"finish of {job_name(job)}")
        for session in state.sessions:
            rest = leave(state, session)
            for name, after in self._goes_on(rest, session):
                yield enter(rest, after, f"{session.does}: {name}")
            if session.next == "commit":
                yield Step(f"{session.does}: COMMIT", self._commit(rest, session))

    def _goes_on(self, state: State, session: Session) -> Iterator[tuple[str, Session]]:
        rows = state.rows
        match session.next:
            case "look":
                early = ASIDE in rows.jobs
                follows = "lock" if session.saw == OVER else "choose"
                yield "looks at the pause", session._replace(next=follows, early=early)
            case "lock":
                is_locked = self._row_is(state, ALONE) or (
                    self._row_is(state, SHARE) and not self._scope.breaks("the row goes meanwhile")
                )
                if rows.pause != OVER or is_locked:
                    yield "does not get the row", session._replace(next="choose")
                else:
                    yield "locks the row", session._replace(next="wake", row=ALONE)
            case "wake":
                yield self._wake(state, session)
            case "choose":
                yield from self._choose(state, session)
            case "head":
                head = self._head(rows)
                if self._scope.breaks("a head that is aside is passed by"):
                    head = self._head(rows, (TODO, BLOCKED))
                yield self._meet(state, session, head)
            case "next":
                yield self._hand_over(state, session)

    def _wake(self, state: State, session: Session) -> tuple[str, Session]:
        """resume_tasks.sql, after it has locked the row."""
        aside = [job for job, status in enumerate(state.rows.jobs) if status == ASIDE]
        if self._scope.breaks("looked before the lock") and not session.early:
            aside = []
        drops = len(aside) <= 1 or self._scope.breaks("the row goes with the first")
        woken = tuple((job, TODO) for job in aside[:1])
        return "wakes", session._replace(next="commit", jobs=woken, drops=drops)

    def _choose(self, state: State, session: Session) -> Iterator[tuple[str, Session]]:
        """A free job by its row, or a token of the lane by the lane."""
        found = False
        for job, status in enumerate(state.rows.jobs):
            if status != TODO or job in {each.job for each in state.sessions}:
                continue
            if not self._scope.kinds[job].in_lane:
                found = True
                yield self._meet(state, session._replace(job=job), job)
            elif not state.rows.held and not any(each.lane for each in state.sessions):
                found = True
                yield "acquire_lanes.sql", session._replace(next="head", job=job, lane=True)
        if not found:
            yield "finds nothing", session._replace(next="commit")

    def _meet(self, state: State, session: Session, job: int) -> tuple[str, Session]:
        """It has the job: its row, or its lane, of which it is the head."""
        scope, seen = self._scope, session.job
        if job == NOBODY or state.rows.jobs[job] == ASIDE:
            return "cannot start the head", self._release(state, session, (), seen)
        session = session._replace(job=job)
        if not scope.kinds[job].paused or session.saw != LIVE:
            return f"start_jobs.sql {job_name(job)}", self._run(state, session, job)
        has_row = state.rows.pause != NONE and not self._row_is(state, ALONE)
        if has_row or scope.breaks("aside without the row"):
            shares = has_row and not scope.breaks("the row is not locked")
            after = session._replace(row=SHARE if shares else "")
            if scope.breaks("the lane is kept") and session.lane:
                after = after._replace(jobs=((job, ASIDE),), held=True, next="commit")
            else:
                after = self._release(state, after, ((job, ASIDE),), seen)
            return f"set_aside.sql {job_name(job)}", after
        if scope.breaks("a claim starts what it cannot set aside"):
            return f"start_jobs.sql {job_name(job)}", self._run(state, session, job)
        return "does not get the row", self._release(state, session, (), seen)

    def _run(self, state: State, session: Session, job: int) -> Session:
        return session._replace(
            next="commit",
            jobs=((job, DOING),),
            held=session.lane or None,
            overtakes=session.lane and self._head(state.rows) != job,
        )

    def _release(
        self, state: State, session: Session, jobs: tuple[tuple[int, str], ...], seen: int = NOBODY
    ) -> Session:
        """release_lanes.sql. A token that is not the head is blocked, and a blocked head a token."""
        if not session.lane:
            return session._replace(next="commit", jobs=jobs)
        rows = state.rows
        head = self._head(rows._replace(jobs=apply(rows.jobs, session.jobs)))
        if seen not in (NOBODY, head):
            jobs = (*jobs, (seen, BLOCKED))
        wakes = not self._scope.breaks("only aside is woken")
        if head != NOBODY and rows.jobs[head] == BLOCKED and head not in dict(jobs) and wakes:
            jobs = (*jobs, (head, TODO))
        return session._replace(next="commit", jobs=(*session.jobs, *jobs), held=False)

    def _hand_over(self, state: State, session: Session) -> tuple[str, Session]:
        """finish.sql: the lane's next job, or the lane goes back."""
        scope, rows = self._scope, state.rows
        ends = session._replace(jobs=((session.job, DONE),), saw=rows.pause)
        if not session.lane:
            return "ends", ends._replace(next="commit")
        head = self._head(rows._replace(jobs=apply(rows.jobs, ends.jobs)))
        if head == NOBODY:
            return "ends", self._release(state, ends, ())
        is_paused = scope.kinds[head].paused and rows.pause == LIVE
        if is_paused and not scope.breaks("a paused head is handed over"):
            return "gives the lane back", self._release(state, ends, ())
        if rows.jobs[head] == ASIDE:
            if scope.breaks("a head that is aside is handed over"):
                return "keeps the lane", ends._replace(next="commit", held=True)
            return "gives the lane back", self._release(state, ends, ())
        started = (*ends.jobs, (head, DOING))
        return f"hands {job_name(head)} over", ends._replace(next="commit", jobs=started)

    def _head(self, rows: Rows, line: tuple[str, ...] = LINE) -> int:
        lane = [job for job, kind in enumerate(self._scope.kinds) if kind.in_lane]
        return next((job for job in lane if rows.jobs[job] in line), NOBODY)

    def _row_is(self, state: State, lock: str) -> bool:
        return any(each.row == lock for each in state.sessions)

    def _commit(self, state: State, session: Session) -> State:
        rows, broken = state.rows, state.broken
        for job, status in session.jobs:
            kind = self._scope.kinds[job]
            if status == DOING and kind.paused and session.saw == LIVE:
                broken = broken or STARTED
        if session.overtakes:
            broken = broken or OVERTAKEN
        rows = rows._replace(jobs=apply(rows.jobs, session.jobs))
        if session.held is not None:
            rows = rows._replace(held=session.held)
        if session.drops and rows.pause == OVER:
            rows = rows._replace(pause=NONE)
        return state._replace(rows=rows, broken=broken)


def apply(jobs: tuple[str, ...], written: tuple[tuple[int, str], ...]) -> tuple[str, ...]:
    for job, status in written:
        jobs = put(jobs, job, status)
    return jobs


def enter(state: State, session: Session, name: str) -> Step:
    sessions = tuple(sorted((*state.sessions, session), key=by_text))
    return Step(name, state._replace(sessions=sessions))


def leave(state: State, session: Session) -> State:
    sessions = list(state.sessions)
    sessions.remove(session)
    return state._replace(sessions=tuple(sessions))
