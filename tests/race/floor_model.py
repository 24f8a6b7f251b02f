"""The floor of a lane: a search for its next job that begins behind the jobs that are gone.

All jobs have one priority, so they run in the order of their ids, and one worker holds the lane. It
hands one job over after another (finish.sql), and asks now and then which ids are final
(final_ids.sql). Producers commit in any order. Each job that a look finds must be the best that
waits at that moment.

A step is a statement, or a part of one at which another session may come in between.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tests.race.scopes.floor import SKIPPED, Scope
from tests.race.search import Step, put

NONE, WAITS, BACK, RUNS, GONE = "none", "waits", "waits, came back", "runs", "gone"
Steps = Iterator[Step["State"]]


class Producer(NamedTuple):
    """A transaction that defers one job: it takes an xid, draws an id, locks `jobs` and commits.

    Or it brings a job back, and what it draws is the number of that job (back_id).
    """

    has_xid: bool = False
    is_older: bool = False  # than the horizon: it had an xid when that was taken
    id: int = 0  # who has drawn one holds a lock on the sequence
    writes: bool = False  # holds the lock of an INSERT on `jobs`
    is_over: bool = False
    brings: int = 0  # the job that comes back


class Worker(NamedTuple):
    final: int = 0
    noted: int | None = None  # the answer of final_ids, and the session that gave it
    has_horizon: bool = False
    session: int = 0
    floor: int = 0
    floor_final: int = 0  # what was final before the search that noted the floor


class State(NamedTuple):
    producers: tuple[Producer, ...]
    jobs: tuple[str, ...]  # by id - 1
    numbers: tuple[int, ...]  # of the jobs, as they came back; 0: it drew none
    returns: int  # that may still happen
    sessions: int  # that may still end
    worker: Worker = Worker()
    awaited: int = 0  # the job that the lane waits for
    last_id: int = 0
    session: int = 1
    broken: str = ""


class Floor:
    """The model that `search.explore` explores."""

    def __init__(self, scope: Scope) -> None:
        self.scope, self.breaks = scope, scope.breaks

    def start(self) -> State:
        producers = (Producer(),) * self.scope.jobs
        jobs = (GONE,) * self.scope.gone + (NONE,) * (self.scope.jobs + self.scope.returns)
        returns, sessions = self.scope.returns, self.scope.sessions
        start = State(producers, jobs, (0,) * len(jobs), returns, sessions)
        return start._replace(last_id=self.scope.gone)

    def steps(self, state: State) -> Steps:
        for number, each in enumerate(state.producers):
            if not each.is_over:
                yield from self.defer_job(state, number, each)
        yield from self.finish(state)
        yield from self.final_ids(state)
        if state.returns:
            yield from self.come_back(state._replace(returns=state.returns - 1))
        if state.sessions:
            yield from self.end_session(state._replace(sessions=state.sessions - 1, session=2))

    def defer_job(self, state: State, number: int, own: Producer) -> Steps:
        id = state.last_id + 1
        late = self.breaks("an id is drawn before there is a transaction id")
        if not own.id and (own.has_xid or late):
            what, own, state = f"draws {id}", own._replace(id=id), state._replace(last_id=id)
        elif not own.has_xid:
            what, own = "has an xid", own._replace(has_xid=True)
        elif not own.writes:
            what, own = "locks jobs", own._replace(writes=True)
        else:
            over = state._replace(producers=put(state.producers, number, Producer(is_over=True)))
            committed = over._replace(jobs=put(state.jobs, own.id - 1, WAITS))
            if own.brings:
                numbers = put(state.numbers, own.brings - 1, own.id)
                jobs = put(state.jobs, own.brings - 1, BACK)
                committed = over._replace(jobs=jobs, numbers=numbers)
            yield Step(f"producer {number} commits {own.id}", committed)
            yield Step(f"producer {number} rolls back", over, helps=False)
            return
        after = state._replace(producers=put(state.producers, number, own))
        yield Step(f"producer {number} {what}", after)

    def finish(self, state: State) -> Steps:
        """End the job that runs, if any, and start the one that the lane waits for, or the next."""
        worker = state.worker
        jobs = tuple(GONE if job == RUNS else job for job in state.jobs)
        is_known = worker.session == state.session or self.breaks("a floor outlives its session")
        floor = worker.floor if is_known else 0
        waiting = [id for id, job in enumerate(jobs, 1) if job in (WAITS, BACK)]
        known = (
            worker.final if self.breaks("a number is old once it is final") else worker.floor_final
        )
        old = {id for id, number in enumerate(state.numbers, 1) if 0 < number <= known}
        found = [id for id in waiting if id >= floor or (jobs[id - 1] == BACK and id not in old)]
        head = state.awaited or min(found, default=0)
        if not head:
            broken = SKIPPED if waiting else ""
            if RUNS in state.jobs or broken:
                yield Step("the lane is empty", state._replace(jobs=jobs, broken=broken))
            return
        workers = [worker]
        if not state.awaited or self.breaks("a job that the lane waits for counts as found"):
            workers = self.note_first(worker, head)
        skips = "".join(f", skips {id}" for id, job in enumerate(jobs, 1) if head > id >= floor)
        broken = SKIPPED if not state.awaited and min(waiting) < head else ""
        jobs = put(jobs, head - 1, RUNS)
        for worker in workers:
            after = state._replace(jobs=jobs, worker=worker, awaited=0, broken=broken)
            yield Step(f"starts {head} from floor {floor}{skips}", after)

    def note_first(self, worker: Worker, head: int) -> list[Worker]:
        """The look has seen all final ids below the head: none of them waits, or will.

        If the head is below the floor, the worker may keep its floor or take the lower one.
        """
        seen = head if self.breaks("the floor is the last job") else min(head, worker.final + 1)
        noted = worker._replace(floor=seen, floor_final=worker.final)
        if seen >= worker.floor:
            return [noted]
        if self.breaks("a floor stays with what is final now"):
            worker = worker._replace(floor_final=worker.final)
        return [worker, noted]

    def final_ids(self, state: State) -> Steps:
        """Note the last id, then take a transaction id, and wait until all older ones are over."""
        worker = state.worker
        early = self.breaks("the horizon is taken before the id is read")
        if worker.session not in (0, state.session):
            if worker.noted is not None and self.breaks("an unknown horizon is over"):
                worker = worker._replace(session=state.session, final=worker.noted, noted=None)
            else:
                worker = Worker()
            yield Step("begins anew", state._replace(worker=worker), helps=False)
        elif worker.noted is not None and worker.has_horizon:
            yield from self.learn(state, worker)
        elif worker.noted is None and (worker.has_horizon or not early):
            worker = worker._replace(noted=state.last_id, session=state.session)
            yield Step(f"notes {state.last_id}", state._replace(worker=worker), helps=False)
        else:
            producers = tuple(each._replace(is_older=each.has_xid) for each in state.producers)
            worker = worker._replace(has_horizon=True)
            after = state._replace(worker=worker, producers=producers)
            yield Step("takes a horizon", after, helps=False)

    def learn(self, state: State, worker: Worker) -> Steps:
        noted = worker.noted
        assert noted is not None
        older = [each for each in state.producers if each.is_older]
        drawn = [each for each in older if each.id]
        if self.breaks("patience looks for locks on jobs"):
            drawn = [each for each in older if each.writes]
        if older == [] or self.breaks("ids are final at once"):
            what = f"learns: {noted} is final"
        elif drawn == [] or self.breaks("patience looks at no locks"):
            what = f"learns: {noted} is final, though a transaction is open"
        else:
            return
        worker = worker._replace(final=noted, noted=None, has_horizon=False)
        if RUNS in state.jobs and self.breaks("the floor rises without a look"):
            worker = self.note_first(worker, state.jobs.index(RUNS) + 1)[0]
        yield Step(what, state._replace(worker=worker), helps=False)

    def come_back(self, state: State) -> Steps:
        """A job that runs is retried, or one that has ended is restored or was scheduled."""
        mark = WAITS if self.breaks("a job comes back without a mark") else BACK
        for id, job in enumerate(state.jobs, 1):
            if id in (each.brings for each in state.producers if not each.is_over):
                continue
            if job == GONE:
                own = Producer(brings=id)
                after = state._replace(producers=(*state.producers, own))
                yield Step(f"{id} begins to come back", after, helps=False)
            numbers = put(state.numbers, id - 1, 0)
            after = state._replace(jobs=put(state.jobs, id - 1, mark), numbers=numbers)
            if job in (RUNS, GONE):
                yield Step(f"{id} comes back into the line", after, helps=False)
            if job == RUNS:
                after = after._replace(awaited=id)
                yield Step(f"{id} comes back, and the lane waits for it", after, helps=False)

    def end_session(self, state: State) -> Steps:
        """The worker has another session, perhaps after a standby that lacks ids was promoted."""
        yield Step("the worker connects anew", state, helps=False)
        producers = tuple(
            each._replace(is_over=True) if each.has_xid else each for each in state.producers
        )
        for known in range(state.last_id):
            jobs = (*state.jobs[:known], *(NONE for _ in state.jobs[known:]))
            after = state._replace(producers=producers, jobs=jobs, last_id=known)
            after = after._replace(awaited=state.awaited if state.awaited <= known else 0)
            yield Step(f"a standby that knows {known} is promoted", after, helps=False)

    def broken(self, state: State) -> str:
        return state.broken

    def same(self, state: State) -> State:
        """Return the state with the producers in one order: they are interchangeable."""
        return state._replace(producers=tuple(sorted(state.producers)))

    def is_drained(self, state: State) -> bool:
        return all(each.is_over for each in state.producers if not each.brings) and not (
            {WAITS, BACK, RUNS} & set(state.jobs)
        )
