"""Batches: jobs that join, ends that are counted, the close, and the claim that ends the batch.

A transaction in which jobs join shares the gate and writes an event. An end and the close only
write an event. A claim locks the row of the batch, takes the events in a new statement, and counts
them. If the batch is closed and no job is left, it takes the gate for itself, looks for events once
more in a new statement, and ends the batch. It waits for nobody: without the gate, it leaves a note
that a later claim must look again.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tests.race.flow_model.state import NOBODY, job_name
from tests.race.search import Step as AnyStep
from tests.race.search import by_text, put

UNBORN, LIVE, ENDED, AGAIN = "unborn", "live", "ended", "again"  # again: run after the end

EARLY = "the callback is ready although a job of the batch has not ended"
TWICE = "the callback is ready twice"
MISCOUNTED = "the counts of an ended batch are not those of its jobs"

MUTANTS = {
    "a join does not share the gate": "a producer only writes its event",
    "an end does not need the gate": "a claim ends the batch although somebody has the gate",
    "no second look": "a claim that has the gate does not look for events again",
    "the gate stays": "jobs can join a batch that has ended",
    "a count without the row": "two claims count the same events",
    "nobody looks again": "a claim that does not get the gate leaves no note",
    "the close ends the batch": "the close ends it at once if it sees no job left",
    "a retry is not counted": "a job that is retried before the end writes no event",
    "a retry does not share the gate": "a retry writes its event, and the batch can end meanwhile",
    "ends go on counting": "the end of a job that was retried after the end writes an event",
}


class Faults(NamedTuple):
    rollbacks: int = 0
    retries: int = 0
    crashes: int = 0


class Scope(NamedTuple):
    jobs: int
    faults: Faults = Faults()
    claims: int = 2  # side by side
    mutant: str = ""

    def breaks(self, mutant: str) -> bool:
        assert mutant in MUTANTS
        return self.mutant == mutant


class Rows(NamedTuple):
    """What is committed. `events` may hold one several times."""

    jobs: tuple[str, ...]
    events: tuple[str, ...] = ()
    look: bool = False
    closed: bool = False
    total: int = 0
    done: int = 0
    callbacks: int = 0  # how often it became ready
    gate: bool = True

    @property
    def has_ended(self) -> bool:
        return self.callbacks > 0


class Session(NamedTuple):
    """A transaction. What it writes is seen by others once it commits."""

    does: str
    next: str = "commit"
    job: int = NOBODY
    status: str = ""  # of the job
    event: str = ""
    shares: bool = False  # the gate
    alone: bool = False
    taken: tuple[str, ...] = ()
    counted: Rows | None = None  # the row of the batch, as this claim writes it, without the jobs


class State(NamedTuple):
    rows: Rows
    sessions: tuple[Session, ...]
    to_come: tuple[int, ...]
    faults: Faults
    close_is_to_come: bool = True


Step = AnyStep[State]
MEANING = {"joined": (1, 0), "end": (0, 1), "back": (0, -1), "closed": (0, 0)}


class Batch:
    """The model, as `explore` asks for it."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def start(self) -> State:
        jobs = range(self._scope.jobs)
        return State(Rows((UNBORN,) * len(jobs)), (), tuple(jobs), self._scope.faults)

    def broken(self, state: State) -> str:
        rows = state.rows
        if rows.callbacks > 1:
            return TWICE
        if rows.has_ended and LIVE in rows.jobs:
            return EARLY
        born = sum(status != UNBORN for status in rows.jobs)
        return MISCOUNTED if rows.has_ended and (rows.total, rows.done) != (born, born) else ""

    def same(self, state: State) -> State:
        """All jobs are equal: number them in the order of what there is of each."""
        statuses = state.rows.jobs
        at_work = {each.job: by_text(each._replace(job=0)) for each in state.sessions}
        keys = [
            (status, job in state.to_come, at_work.get(job, ""))
            for job, status in enumerate(statuses)
        ]
        order = sorted(range(len(keys)), key=keys.__getitem__)
        if order == sorted(order):
            return state
        names = {job: name for name, job in enumerate(order)} | {NOBODY: NOBODY}
        sessions = (each._replace(job=names[each.job]) for each in state.sessions)
        return state._replace(
            rows=state.rows._replace(jobs=tuple(statuses[job] for job in order)),
            sessions=tuple(sorted(sessions, key=by_text)),
            to_come=tuple(sorted(names[job] for job in state.to_come)),
        )

    def is_drained(self, state: State) -> bool:
        rows, idle = state.rows, not state.sessions
        return idle and rows.has_ended and not {LIVE, AGAIN} & {*rows.jobs} and not rows.events

    def steps(self, state: State) -> Iterator[Step]:
        yield from self._joins(state)
        yield from self._ends(state)
        yield from self._retries(state)
        if state.close_is_to_come:
            closes = Session("close", event="closed")
            if self._scope.breaks("the close ends the batch") and is_full(state.rows):
                closes = closes._replace(counted=end(row_of(state.rows)))
            yield enter(state._replace(close_is_to_come=False), closes, "close")
        folds = [each for each in state.sessions if each.does == "claim"]
        due = state.rows.events or state.rows.look
        is_free = not folds or self._scope.breaks("a count without the row")
        if due and is_free and len(folds) < self._scope.claims:
            yield enter(state, Session("claim", "take"), "claim: locks the batch")
        for session in state.sessions:
            yield from self._goes_on(state, session)

    def _joins(self, state: State) -> Iterator[Step]:
        if any(each.alone for each in state.sessions):
            return  # it waits for the claim
        shares = not self._scope.breaks("a join does not share the gate")
        for job in state.to_come:
            rest = state._replace(to_come=tuple(each for each in state.to_come if each != job))
            if not state.rows.gate:
                yield Step(f"{job_name(job)} is refused", rest, helps=False)
                continue
            joins = Session("producer", job=job, status=LIVE, event="joined", shares=shares)
            yield enter(rest, joins, f"{job_name(job)} joins", helps=False)

    def _ends(self, state: State) -> Iterator[Step]:
        touched = {each.job for each in state.sessions}
        for job, status in enumerate(state.rows.jobs):
            if status in (LIVE, AGAIN) and job not in touched:
                counts = not state.rows.has_ended or self._scope.breaks("ends go on counting")
                ends = Session("end", job=job, status=ENDED, event="end" if counts else "")
                yield enter(state, ends, f"end of {job_name(job)}")

    def _retries(self, state: State) -> Iterator[Step]:
        if not state.faults.retries or any(each.alone for each in state.sessions):
            return
        touched = {each.job for each in state.sessions}
        faults = state.faults._replace(retries=state.faults.retries - 1)
        for job, status in enumerate(state.rows.jobs):
            if status == ENDED and job not in touched:
                again = Session("retry", job=job, status=AGAIN)
                if state.rows.gate:
                    again = Session(
                        "retry",
                        job=job,
                        status=LIVE,
                        event="" if self._scope.breaks("a retry is not counted") else "back",
                        shares=not self._scope.breaks("a retry does not share the gate"),
                    )
                after = state._replace(faults=faults)
                yield enter(after, again, f"retry of {job_name(job)}", helps=False)

    def _goes_on(self, state: State, session: Session) -> Iterator[Step]:
        name = f"{session.does}: {session.next}"
        rest = leave(state, session)
        if session.next == "commit":
            yield Step(name, rest._replace(rows=self._commit(state.rows, session)))
        else:
            yield enter(rest, self._claims(state, session), name)
        faults = state.faults
        if session.does in ("producer", "retry") and faults.rollbacks:
            fewer = faults._replace(rollbacks=faults.rollbacks - 1)
            yield Step(f"{session.does}: ROLLBACK", rest._replace(faults=fewer), helps=False)
        if session.does in ("claim", "end") and faults.crashes:
            fewer = faults._replace(crashes=faults.crashes - 1)
            yield Step(f"{session.does}: CRASH", rest._replace(faults=fewer), helps=False)

    def _claims(self, state: State, session: Session) -> Session:
        rows = state.rows
        if session.next == "take":
            counted = row_of(rows)._replace(
                look=False, closed=rows.closed or "closed" in rows.events
            )
            for event in rows.events:
                joined, ended = MEANING[event]
                counted = counted._replace(total=counted.total + joined, done=counted.done + ended)
            follows = "gate" if counted.closed and is_full(counted) else "commit"
            return session._replace(taken=rows.events, counted=counted, next=follows)
        assert session.counted is not None
        later = not self._scope.breaks("nobody looks again")
        looks_again = session._replace(counted=session.counted._replace(look=later), next="commit")
        if session.next == "gate":
            in_use = any(each.shares or each.alone for each in state.sessions)
            if in_use and not self._scope.breaks("an end does not need the gate"):
                return looks_again
            return session._replace(alone=True, next="look again")
        unseen = Counter(rows.events) - Counter(session.taken)
        if unseen and not self._scope.breaks("no second look"):
            return looks_again
        return session._replace(counted=end(session.counted), next="commit")

    def _commit(self, rows: Rows, session: Session) -> Rows:
        if session.counted is not None:
            new = session.counted
            left = Counter(rows.events) - Counter(session.taken)
            rows = new._replace(
                jobs=rows.jobs,
                events=tuple(sorted(left.elements())),
                gate=rows.gate and (new.gate or self._scope.breaks("the gate stays")),
                callbacks=rows.callbacks + (new.callbacks > 0 and not new.gate),
            )
        if session.job >= 0:
            rows = rows._replace(jobs=put(rows.jobs, session.job, session.status))
        if session.event:
            rows = rows._replace(events=tuple(sorted((*rows.events, session.event))))
        return rows


def is_full(rows: Rows) -> bool:
    return rows.total == rows.done and not rows.has_ended


def row_of(rows: Rows) -> Rows:
    """Return the row of the batch alone, so that states do not differ in what nobody reads."""
    return rows._replace(jobs=(), events=())


def end(rows: Rows) -> Rows:
    return rows._replace(callbacks=1, gate=False, closed=True)


def enter(state: State, session: Session, name: str, *, helps: bool = True) -> Step:
    sessions = tuple(sorted((*state.sessions, session), key=by_text))
    return Step(name, state._replace(sessions=sessions), helps)


def leave(state: State, session: Session) -> State:
    sessions = list(state.sessions)
    sessions.remove(session)
    return state._replace(sessions=tuple(sessions))
