"""What can happen next to jobs that come after other jobs, and what is promised of them."""

from collections.abc import Iterator

from tests.race.flow_model.dependencies import (
    AGAINST,
    BAD,
    DOING,
    DUE,
    EARLY,
    ENDED,
    HELD,
    OUTSIDE,
    STATEMENTS,
    TODO,
    UNBORN,
    Rows,
    Scope,
    Session,
    State,
    Step,
    Turn,
    merge,
)
from tests.race.flow_model.state import NOBODY, job_name
from tests.race.search import put


class Graph:
    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def start(self) -> State:
        count = len(self.scope.kinds)
        rows = Rows((UNBORN,) * count, (0,) * count, (0,) * count)
        return State(rows, (), self.scope.faults)

    def broken(self, state: State) -> str:
        return state.broken

    def same(self, state: State) -> State:
        return state

    def is_drained(self, state: State) -> bool:
        rows = state.rows
        return (
            all(job in (UNBORN, *ENDED) for job in rows.jobs)
            and not (rows.edges or rows.ends or state.sessions)
            and state.locked == NOBODY
        )

    def steps(self, state: State) -> Iterator[Step]:
        yield from self.defer(state)
        yield from self.run(state)
        yield from self.people(state)
        if len(state.sessions) < self.scope.sessions:
            yield from self.begin(state)
        for place, session in enumerate(state.sessions):
            others = (*state.sessions[:place], *state.sessions[place + 1 :])
            yield from STATEMENTS[session.next](Turn(self.scope, state, session, others))
            if state.faults.crashes:
                faults = state.faults._replace(crashes=state.faults.crashes - 1)
                gone = state._replace(sessions=others, faults=faults)
                yield Step(f"{session.does}: CRASH", gone, helps=False)

    def defer(self, state: State) -> Iterator[Step]:
        """A child commits with its edges. Until then nobody sees it, and it has locked nothing."""
        rows = state.rows
        job = rows.jobs.index(UNBORN) if UNBORN in rows.jobs else NOBODY
        if job == NOBODY:
            return
        after = self.scope.kinds[job].after
        edges = tuple(sorted((*rows.edges, *((parent, job) for parent in after))))
        born = rows._replace(jobs=put(rows.jobs, job, DUE if after else TODO), edges=edges)
        yield Step(f"producer: COMMIT {job_name(job)}", state._replace(rows=born), helps=False)

    def run(self, state: State) -> Iterator[Step]:
        """A claim's start, and a retry: of one row each. Lanes are the other model's."""
        busy = {job for session in state.sessions for job in session.locked}
        for job, status in enumerate(state.rows.jobs):
            if job in busy or job == state.locked:
                continue
            name = job_name(job)
            if status == TODO:
                started = state._replace(rows=merge(state.rows, (("status", job, DOING),)))
                broken = what_a_start_breaks(self.scope, state, job)
                yield Step(f"a claim: start_jobs.sql {name}", started._replace(broken=broken))
            elif status == DOING and state.faults.retries:
                faults = state.faults._replace(retries=state.faults.retries - 1)
                rows = merge(state.rows, (("status", job, TODO),))
                if self.scope.breaks("a retry ends the parent") and rows.marked[job]:
                    rows = merge(rows, (("tell", job, 0),))
                again = state._replace(rows=rows, faults=faults)
                yield Step(f"a worker: retry.sql {name}", again, helps=False)

    def people(self, state: State) -> Iterator[Step]:
        if state.locked != NOBODY:
            yield Step("user: COMMIT", state._replace(locked=NOBODY))
        busy = {job for session in state.sessions for job in session.locked}
        for job, status in enumerate(state.rows.jobs):
            if job in busy or job == state.locked:
                continue
            name = job_name(job)
            if state.faults.locks and state.locked == NOBODY and status in (*OUTSIDE, DOING):
                faults = state.faults._replace(locks=state.faults.locks - 1)
                held = state._replace(locked=job, faults=faults)
                yield Step(f"user: locks {name}", held, helps=False)
            if status == HELD:
                writes = (("fail", job, 0), ("status", job, TODO))
                rows = merge(state.rows, writes)
                yield Step(f"person: lets {name} go", state._replace(rows=rows))

    def begin(self, state: State) -> Iterator[Step]:
        busy = {job for session in state.sessions for job in session.looked}
        for job in state.rows.ends:
            if job not in busy:  # FOR UPDATE SKIP LOCKED
                yield self.open(state, "fold the end of", "look", job)
        for job, status in enumerate(state.rows.jobs):
            if status == DUE:
                yield self.open(state, "promote", "promote", job)
            elif status == DOING and not any(s.job == job for s in state.sessions):
                yield self.open(state, "finish", "end", job)
            if status in OUTSIDE and state.faults.cancels:
                faults = state.faults._replace(cancels=state.faults.cancels - 1)
                step = self.open(state._replace(faults=faults), "cancel", "cancel", job)
                yield step._replace(helps=False)
            if status in OUTSIDE and state.faults.expiries:
                faults = state.faults._replace(expiries=state.faults.expiries - 1)
                step = self.open(state._replace(faults=faults), "expire", "expire", job)
                yield step._replace(helps=False)

    def open(self, state: State, does: str, then: str, job: int) -> Step:
        early = self.scope.breaks("marked as it was seen")
        marked = state.rows.marked[job] if early else 0
        looked = (job,) if then == "look" else ()
        session = Session(f"{does} {job_name(job)}", then, job, looked=looked, marked=marked)
        return Turn(self.scope, state, session, state.sessions).step("begins")


def what_a_start_breaks(scope: Scope, state: State, job: int) -> str:
    kind, jobs = scope.kinds[job], state.rows.jobs
    if any(jobs[parent] not in ENDED for parent in kind.after):
        return EARLY
    if kind.on_parent == "cancel" and any(jobs[parent] == BAD for parent in kind.after):
        return AGAINST
    return ""
