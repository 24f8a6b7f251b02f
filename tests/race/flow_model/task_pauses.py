"""Pauses of a task: a gate that claims close behind a job, and open again.

One task can be paused, and one lane has several jobs. A claim looks at the pause when it begins. If
it meets a job of the paused task, it locks the gate of the task, reads the pause again, and sets
the job aside. Then it gives the lane back. The end of the pause leaves a row, the look, which asks
claims to open the gate: a claim locks the gate, deletes the look, and wakes a job that is aside.
Nobody waits for the gate, and a person locks nothing.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tests.race.flow_model.state import NOBODY, job_name
from tests.race.search import Step as AnyStep
from tests.race.search import by_text, put

UNBORN, TODO, BLOCKED, ASIDE = "unborn", "todo", "blocked", "aside"
DOING, DONE = "doing", "done"
LINE = (TODO, BLOCKED, ASIDE)
STARTED = "a job of a paused task starts"
SLEEPS = "a job is aside, the pause is over, and no look says that claims must wake it"
OVERTAKEN = "a job starts before another one of its lane"
TWICE = "two jobs of a lane run"

MUTANTS = {
    "aside without the gate": "a claim sets a job aside whether or not it has the gate",
    "judged by the first look": "a claim that has the gate does not read the pause again",
    "a locked gate needs no look": "a claim sets a job aside at a locked gate, and leaves no look",
    "opened without the gate": "a claim takes the look though another one has the gate",
    "looked before the lock": "a claim looks for jobs that are aside before it has the gate",
    "the look goes with the first": "a claim wakes one job, and leaves no look for the others",
    "the resume leaves no look": "the end of a pause leaves nothing that claims could find",
    "a paused head is handed over": "the end of a job does not look at the pause",
    "a head that is aside is handed over": "the end of a job keeps the lane for it",
    "a claim starts what it cannot set aside": "without the gate, the job starts",
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
    paused: bool = False
    asks: bool = False  # there is a look
    held: bool = False  # the row of the lane


class Session(NamedTuple):
    """A claim, or the end of a job. What it writes is seen by others once it commits."""

    does: str
    next: str
    job: int = NOBODY
    seen: int = NOBODY  # the token that led it to the lane
    saw: bool = False  # the pause when it began
    lane: bool = False  # it has the lane locked
    gate: bool = False  # it has the gate locked
    early: bool = False  # something was aside when it began
    jobs: tuple[tuple[int, str], ...] = ()  # written
    held: bool | None = None
    asks: bool = False  # it leaves a look
    drops: bool = False  # it deletes the look
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
        if ASIDE in jobs and not (state.rows.paused or state.rows.asks):
            return SLEEPS
        running = [job for job, status in enumerate(jobs) if status == DOING]
        return TWICE if sum(kinds[job].in_lane for job in running) > 1 else ""

    def same(self, state: State) -> State:
        return state

    def is_drained(self, state: State) -> bool:
        idle = not state.sessions and not state.rows.held
        return idle and set(state.rows.jobs) == {DONE} and not state.rows.paused

    def steps(self, state: State) -> Iterator[Step]:
        rows = state.rows
        if state.pauses and not rows.paused:
            paused = state._replace(rows=rows._replace(paused=True), pauses=state.pauses - 1)
            yield Step("pause_task.sql", paused, helps=False)
        if rows.paused:
            yield Step("resume_task.sql", self._end_pause(state))
        if sum(each.does == "claim" for each in state.sessions) < self._scope.claims:
            began = Session("claim", "look", saw=rows.paused, early=ASIDE in rows.jobs)
            yield enter(state, began, "claim: begins")
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
                if not rows.asks:
                    yield "finds no look", session._replace(next="choose")
                elif self._gate_is_locked(state) and not self._scope.breaks(
                    "opened without the gate"
                ):
                    yield "does not get the gate", session._replace(next="choose")
                else:
                    yield "locks the gate", session._replace(next="open", gate=True)
            case "open":
                yield self._open(state, session)
            case "choose":
                yield from self._choose(state, session)
            case "judge":
                yield self._judge(state, session)
            case "head":
                head = self._head(rows)
                if self._scope.breaks("a head that is aside is passed by"):
                    head = self._head(rows, (TODO, BLOCKED))
                yield from self._meet(state, session, head)
            case "next":
                yield self._hand_over(state, session)

    def _open(self, state: State, session: Session) -> tuple[str, Session]:
        """check_gates.sql, after it has locked the gate, in a new statement."""
        aside = [job for job, status in enumerate(state.rows.jobs) if status == ASIDE]
        if self._scope.breaks("looked before the lock") and not session.early:
            aside = []
        woken = () if state.rows.paused else tuple((job, TODO) for job in aside[:1])
        again = len(aside) > len(woken) > 0 and not self._scope.breaks(
            "the look goes with the first"
        )
        return "opens the gate", session._replace(next="commit", jobs=woken, drops=True, asks=again)

    def _choose(self, state: State, session: Session) -> Iterator[tuple[str, Session]]:
        """A free job by its row, or a token of the lane by the lane."""
        found = False
        for job, status in enumerate(state.rows.jobs):
            if status != TODO or job in {each.job for each in state.sessions}:
                continue
            if not self._scope.kinds[job].in_lane:
                found = True
                yield from self._meet(state, session._replace(job=job, seen=job), job)
            elif not state.rows.held and not any(each.lane for each in state.sessions):
                found = True
                yield (
                    "acquire_lanes.sql",
                    session._replace(next="head", job=job, seen=job, lane=True),
                )
        if not found:
            yield "finds nothing", session._replace(next="commit")

    def _meet(self, state: State, session: Session, job: int) -> Iterator[tuple[str, Session]]:
        """It has the job: its row, or its lane, of which it is the head."""
        scope = self._scope
        if job == NOBODY or state.rows.jobs[job] == ASIDE:
            yield "cannot start the head", self._release(state, session, ())
            return
        session = session._replace(job=job)
        if not scope.kinds[job].paused or not session.saw:
            yield f"start_jobs.sql {job_name(job)}", self._run(state, session, job)
        elif scope.breaks("aside without the gate"):
            yield "does not lock the gate", session._replace(next="judge")
        elif not self._gate_is_locked(state):
            yield "locks the gate", session._replace(next="judge", gate=True)
        elif scope.breaks("a claim starts what it cannot set aside"):
            yield f"start_jobs.sql {job_name(job)}", self._run(state, session, job)
        else:
            asks = not scope.breaks("a locked gate needs no look")
            left = session._replace(asks=asks)
            yield "does not get the gate", self._release(state, left, ())
            yield "knows that it stays locked", self._set_aside(state, left, job)

    def _judge(self, state: State, session: Session) -> tuple[str, Session]:
        """take_slots.sql, after it has locked the gate, in a new statement."""
        if state.rows.paused or self._scope.breaks("judged by the first look"):
            return f"take_slots.sql {job_name(session.job)}", self._set_aside(
                state, session, session.job
            )
        return "finds the gate open", self._release(state, session, ())

    def _set_aside(self, state: State, session: Session, job: int) -> Session:
        if self._scope.breaks("the lane is kept") and session.lane:
            return session._replace(jobs=((job, ASIDE),), held=True, next="commit")
        return self._release(state, session, ((job, ASIDE),))

    def _run(self, state: State, session: Session, job: int) -> Session:
        return session._replace(
            next="commit",
            jobs=((job, DOING),),
            held=session.lane or None,
            overtakes=session.lane and self._head(state.rows) != job,
        )

    def _release(
        self, state: State, session: Session, jobs: tuple[tuple[int, str], ...]
    ) -> Session:
        """release_lanes.sql. A token that is not the head is blocked, and a blocked head a token."""
        if not session.lane:
            return session._replace(next="commit", jobs=jobs)
        rows = state.rows
        head = self._head(rows._replace(jobs=apply(rows.jobs, session.jobs)))
        if session.seen not in (NOBODY, head):
            jobs = (*jobs, (session.seen, BLOCKED))
        wakes = not self._scope.breaks("only aside is woken")
        if head != NOBODY and rows.jobs[head] == BLOCKED and head not in dict(jobs) and wakes:
            jobs = (*jobs, (head, TODO))
        return session._replace(next="commit", jobs=(*session.jobs, *jobs), held=False)

    def _hand_over(self, state: State, session: Session) -> tuple[str, Session]:
        """finish.sql: the lane's next job, or the lane goes back."""
        scope, rows = self._scope, state.rows
        ends = session._replace(jobs=((session.job, DONE),), saw=rows.paused)
        if not session.lane:
            return "ends", ends._replace(next="commit")
        head = self._head(rows._replace(jobs=apply(rows.jobs, ends.jobs)))
        if head == NOBODY:
            return "ends", self._release(state, ends, ())
        is_paused = scope.kinds[head].paused and rows.paused
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

    def _gate_is_locked(self, state: State) -> bool:
        return any(each.gate for each in state.sessions)

    def _end_pause(self, state: State) -> State:
        """By a person, or by a claim when its time has come."""
        ended = state._replace(rows=state.rows._replace(paused=False))
        return ended if self._scope.breaks("the resume leaves no look") else self._leave_look(ended)

    def _leave_look(self, state: State) -> State:
        """It is a row of its own: who has deleted looks has not seen it."""
        sessions = sorted((each._replace(drops=False) for each in state.sessions), key=by_text)
        return state._replace(rows=state.rows._replace(asks=True), sessions=tuple(sessions))

    def _commit(self, state: State, session: Session) -> State:
        rows, broken = state.rows, state.broken
        for job, status in session.jobs:
            kind = self._scope.kinds[job]
            if status == DOING and kind.paused and session.saw:
                broken = broken or STARTED
        if session.overtakes:
            broken = broken or OVERTAKEN
        asks = rows.asks and not session.drops
        rows = rows._replace(jobs=apply(rows.jobs, session.jobs), asks=asks)
        if session.held is not None:
            rows = rows._replace(held=session.held)
        state = state._replace(rows=rows, broken=broken)
        return self._leave_look(state) if session.asks else state


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
