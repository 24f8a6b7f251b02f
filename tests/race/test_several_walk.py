"""Random walks over jobs with several and shared lanes: no overlap, right order, nobody sleeps.

After each step, the rows of the lanes are compared with the jobs. At the end, the reconciler must
find nothing, and a new worker must get every job that is left.
"""

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import psycopg
import pytest

from tests.race.harness import Job, Mutation, PromiseBroken, Session, Stage, Worker, promise
from tests.race.walks import run_walk

STEPS = 120
LANES = "abc"
# A job that could start, and that nobody will look at: it is blocked, the head of all of its lanes,
# and each of them has no row, or readers beside which it can start.
ASLEEP = """
SELECT job.id FROM jobs AS job
WHERE job.status = 'blocked' AND job.keeps_lanes IS NULL AND NOT EXISTS (
    SELECT FROM unnest(lanes_of(job.lock, job.locks)) AS lane
    LEFT JOIN lanes AS held ON held.lock = lane
    WHERE (SELECT head.id FROM lane_heads(ARRAY[lane]) AS head) <> job.id
       OR NOT (held.lock IS NULL OR (held.readers IS NOT NULL AND held.stopped IS NULL
               AND held.look_at IS NULL AND coalesce(lane = ANY (job.shared), false))))
"""
WRONG_LINES = """
SELECT * FROM (
    SELECT lane, job.priority, job.id FROM jobs AS job, unnest(job.locks[2:]) AS lane
    WHERE job.status IN ('todo', 'blocked', 'limited', 'paused') AND job.keeps_lanes IS NULL
) AS wanted FULL JOIN waits ON waits.lock = lane AND waits.id = wanted.id
    AND waits.priority = wanted.priority
WHERE lane IS NULL OR waits.lock IS NULL
"""
WRONG_ROWS = """
WITH own AS (
    SELECT job.id, job.worker_id, job.keeps_lanes, lane,
        coalesce(lane = ANY (job.shared), false) AS shares
    FROM jobs AS job, unnest(lanes_of(job.lock, job.locks)) AS lane
    WHERE job.status = 'doing' OR job.keeps_lanes
), wanted AS (
    SELECT lane, nullif(count(*) FILTER (WHERE shares), 0)::integer AS readers,
        max(worker_id::text) FILTER (WHERE NOT shares)::uuid AS worker_id,
        max(id) FILTER (WHERE keeps_lanes AND NOT shares) AS job_id
    FROM own GROUP BY lane
)
SELECT wanted, lanes FROM wanted FULL JOIN lanes ON lanes.lock = lane
WHERE wanted.readers IS DISTINCT FROM lanes.readers
   OR wanted.worker_id IS DISTINCT FROM lanes.worker_id
   OR (wanted.job_id IS DISTINCT FROM lanes.job_id AND (wanted.job_id IS NOT NULL OR EXISTS (
        SELECT FROM jobs WHERE jobs.id = lanes.job_id AND jobs.locks IS NOT NULL)))
"""
OVERLAPS = """
SELECT one.id, other.id FROM jobs AS one, jobs AS other, unnest(lanes_of(one.lock, one.locks)) AS lane
WHERE one.status = 'doing' AND other.status = 'doing' AND one.id < other.id
    AND lane = ANY (lanes_of(other.lock, other.locks))
    AND NOT coalesce(lane = ANY (one.shared) AND lane = ANY (other.shared), false)
"""
IN_LINE = """
SELECT id, priority, lanes_of(lock, locks) FROM jobs
WHERE status IN ('todo', 'blocked', 'limited', 'paused') AND keeps_lanes IS NULL AND lock IS NOT NULL
    AND NOT EXISTS (SELECT FROM lanes WHERE lanes.job_id = jobs.id)
"""


class Waiting(NamedTuple):
    """A job in line."""

    rank: tuple[int, int]
    lanes: frozenset[str]


class Walk:
    """A stage, its actors, and the next thing that one of them does."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.random = Random(seed)
        self.person, self.user = stage.session(), stage.session()
        self.workers = [stage.worker(), stage.worker(), stage.worker("x")]
        self.hands: dict[Worker, list[Job]] = {worker: [] for worker in self.workers}
        self.open: Session | None = None  # has an open transaction
        self.person.set_limit("k", 1)

    def step(self) -> None:
        if self.open is not None and self.random.random() < 0.4:
            self.open.commit()
            self.open = None
        acts: list[Callable[[], None]] = [self.defer, self.claim, self.claim, self.end, self.end]
        if self.open is None:
            acts += [self.begin_claim, self.lock_job, self.die, self.change_job, self.change_lane]
        self.random.choice(acts)()
        self.check()

    def check(self) -> None:
        if self.open is not None:
            return
        for statement, text in [
            (OVERLAPS, "jobs overlap"),
            (WRONG_ROWS, "rows of lanes do not fit the jobs"),
            (WRONG_LINES, "lines do not fit the jobs"),
            (ASLEEP, "jobs sleep that could start"),
        ]:
            found = self.stage.control.execute(statement.encode()).fetchall()
            promise(not found, f"{text}: {found}")

    def defer(self) -> None:
        pick = self.random.choice
        locks = self.random.sample(LANES, pick([1, 1, 2, 2, 3]))
        shared = [lock for lock in locks if self.random.random() < 0.4]
        options: dict[str, Any] = {
            "queue": pick(["default", "default", "x"]),
            "on_retry": pick(["hold", "release"]),
            "on_failure": pick(["continue", "continue", "halt"]),
            "limit": pick([None, None, None, "k"]),
        }
        priority = self.random.randrange(3)
        if len(locks) == 1 and not shared:
            self.person.defer(locks[0], priority, **options)
        else:
            at = pick([None, None, None, "1 hour"])
            self.person.defer_several(*locks, shared=shared, priority=priority, at=at, **options)

    def claim(self) -> None:
        worker = self.random.choice([each for each in self.workers if each is not self.open])
        line = self.in_line()
        jobs = worker.claim(self.random.randrange(1, 5))
        self.hands[worker] += jobs
        self.check_order(line, jobs)

    def begin_claim(self) -> None:
        self.open = worker = self.random.choice(self.workers)
        line = self.in_line()
        worker.begin()
        jobs = worker.claim(self.random.randrange(1, 5))
        self.hands[worker] += jobs
        self.check_order(line, jobs)

    def check_order(self, line: dict[int, Waiting], jobs: list[Job]) -> None:
        """A job that was in line went before no better one of a lane, unless that one went too."""
        started = {job.id for job in jobs}
        for id in started & line.keys():
            better = [
                other
                for other, waiting in line.items()
                if waiting.rank < line[id].rank and waiting.lanes & line[id].lanes
            ]
            promise(started.issuperset(better), f"{id} started before {better}")

    def in_line(self) -> dict[int, Waiting]:
        rows = self.stage.control.execute(IN_LINE).fetchall()
        return {id: Waiting((-priority, id), frozenset(lanes)) for id, priority, lanes in rows}

    def lock_job(self) -> None:
        """A user's transaction locks a job that waits."""
        waiting = [id for id, status in self.stage.statuses().items() if status != "doing"]
        if waiting:
            self.open = self.user
            self.user.begin()
            self.user.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", self.random.choice(waiting))

    def end(self) -> None:
        worker = self.random.choice(self.workers)
        jobs = self.hands[worker]
        if not jobs or worker is self.open:
            return
        ended = self.random.sample(jobs, self.random.randrange(1, len(jobs) + 1))
        for job in ended:
            jobs.remove(job)
        match self.random.randrange(4):
            case 0:
                worker.retry(*ended, delay=self.random.choice(["0", "0", "1 hour"]))
                busy = worker.busy
            case 1:
                busy = worker.put_back(*ended)
            case _:
                done = worker.finish(*ended, status=self.random.choice(["succeeded", "failed"]))
                jobs += done.following
                busy = done.busy
        jobs += [job for job in ended if job.id in busy]

    def die(self) -> None:
        worker = self.random.choice(self.workers)
        self.stage.forget(worker)
        self.person.rescue()
        if self.random.random() < 0.5 and self.hands[worker]:
            promise(worker.finish(*self.hands[worker]).accepted == [], "its fence refuses it")
        self.hands[worker] = []
        worker.register()

    def change_job(self) -> None:
        ids = [*self.stage.statuses(), 0]
        finished = self.stage.control.execute(
            "SELECT id FROM finished_jobs WHERE status <> 'succeeded'"
        ).fetchall()
        job = self.random.choice([*ids, *(id for (id,) in finished[-3:])])
        self.random.choice([self.person.cancel, self.person.delete, self.person.retry_job])(job)

    def change_lane(self) -> None:
        lane = self.random.choice(LANES)
        changes = [
            self.person.pause,
            self.person.resume_lane,
            self.person.resume_lane,
            self.person.retry_head,
            self.person.cancel_waiting,
        ]
        if self.stage.lanes().get(lane) != "held":
            changes.append(self.person.skip_head)
        self.random.choice(changes)(lane)

    def settle(self) -> None:
        """End the walk, and let a new worker do what is left."""
        if self.open is not None:
            self.open.commit()
            self.open = None
        self.check()
        self.person.hasten("1 second")
        self.stage.worker().hasten("1 second")
        self.person.reconcile()
        found = [each for each in self.stage.audited() if each[0] == "reconcile"]
        promise(not found, f"nobody would ever have woken {found}")
        for lane in LANES:
            self.person.resume_lane(lane)
        self.check()
        self.stage.drain()


def run_walks(stage: Stage) -> None:
    for seed in range(12):
        run_walk(Walk(stage, seed), STEPS)


@pytest.mark.parametrize("seed", range(12))
def test_jobs_keep_all_of_their_lanes_in_order_whatever_happens(stage: Stage, seed: int) -> None:
    run_walk(Walk(stage, seed), STEPS)


MUTANTS = {
    "head of one lane is enough": (
        "start_in_lanes.sql", "WHERE head.id <> p_id", "WHERE head.id <> p_id AND head.lock = v_seen.lock"
    ),
    "one lane forgotten at finish": (
        "leave_lanes.sql", "unnest(job.locks) AS lane WHERE", "unnest(job.locks[:1]) AS lane WHERE"
    ),
    "retry keeps only one of two lanes": (
        "keep_or_leave.sql", "CROSS JOIN LATERAL unnest(job.locks) AS lane",
        "CROSS JOIN LATERAL unnest(job.locks[:1]) AS lane"
    ),
    "finish does not look at several-lane heads": (
        "release_lanes.sql", "FROM lane_heads(p_locks) WHERE", "FROM lane_heads(p_locks) WHERE NOT several AND"
    ),
    "a job stays in line": (
        "take_lanes.sql", "PERFORM leave_line(p_job.id, jobs.priority, p_job.locks)", "PERFORM 1"
    ),
    "a due job joins one lane": ("promote.sql", "PERFORM join_lanes(v_joining);", "NULL;"),
    "the first reader to end frees the lane": (
        "leave_lanes.sql", "nullif(greatest(readers - given.count, 0), 0)", "NULL"
    ),
    "a failed reader gives its share up": (
        "keep_or_leave.sql", "IF p_leaving IS NULL THEN", "PERFORM leave_lanes(p_keeping); IF p_leaving IS NULL THEN"
    ),
}  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_walk_finds_a_protection_that_is_missing(stage: Stage, mutant: str) -> None:
    stage.mutate(Mutation(mutant, *MUTANTS[mutant]))
    with pytest.raises((PromiseBroken, psycopg.Error)):
        run_walks(stage)
