"""Random walks: whatever workers, deaths and people do, a limit holds, and no job sleeps for ever.

After each step, the count of each key is compared with the jobs that run. At the end, the
reconciler must find nothing, and a new worker must get every job that is left.
"""

from collections.abc import Callable
from random import Random

import psycopg
import pytest

from tests.race.harness import Job, Mutation, PromiseBroken, Stage, Worker, promise
from tests.race.walks import run_walk

STEPS = 120
KEYS = (None, "k1", "k1", "k2")
LOCKS = (None, None, "a", "b")


class Walk:
    """A stage, its actors, and the next thing that one of them does."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.random = Random(seed)
        self.person = stage.session()
        self.workers = [stage.worker(), stage.worker(), stage.worker("x")]
        self.hands: dict[Worker, list[Job]] = {worker: [] for worker in self.workers}
        self.open: Worker | None = None  # has claimed and not committed
        self.limits = {"k1": 1, "k2": 2}
        for key, slots in self.limits.items():
            self.person.set_limit(key, slots)

    def step(self) -> None:
        if self.open is not None and self.random.random() < 0.4:
            self.open.commit()
            self.open = None
        acts: list[Callable[[], None]] = [self.defer, self.claim, self.claim, self.end, self.end]
        if self.open is None:
            acts += [self.begin_claim, self.die, self.change_job, self.change_lane, self.set_limit]
        self.random.choice(acts)()
        self.check()

    def check(self) -> None:
        rows = self.stage.control.execute(
            "SELECT key, used, (SELECT count(*) FROM jobs WHERE status = 'doing' "
            "AND limit_key = key) FROM limit_keys"
        ).fetchall()
        for key, used, doing in rows:
            promise(used == doing, f"{key} counts {used}, and {doing} run")
        if self.open is not None:
            return  # it may hold the key
        asleep = self.stage.control.execute(
            "SELECT DISTINCT limit_key, queue, look_at FROM jobs AS asleep "
            "JOIN limit_keys ON key = limit_key "
            "WHERE status = 'limited' AND used < (SELECT slots FROM find_limit(key)) "
            "AND NOT EXISTS (SELECT FROM limit_looks AS asked WHERE asked.key = limit_keys.key) "
            "AND (look_at IS NULL OR NOT EXISTS (SELECT FROM jobs AS token WHERE status = 'todo' "
            "AND token.limit_key = limit_keys.key AND token.queue = asleep.queue))"
        ).fetchall()
        promise(not asleep, f"the next claim wakes nobody of {asleep}, though there are slots")

    def defer(self) -> None:
        pick = self.random.choice
        self.person.defer(
            pick(LOCKS),
            *[self.random.randrange(3) for _ in range(self.random.randrange(1, 4))],
            queue=pick(["default", "default", "x"]),
            limit=pick(KEYS),
            on_retry=pick(["hold", "release"]),
            on_failure=pick(["continue", "continue", "halt"]),
        )

    def claim(self) -> None:
        worker = self.random.choice([each for each in self.workers if each is not self.open])
        before = self.doing()
        jobs = worker.claim(self.random.randrange(1, 5), slots=self.random.choice([None, 0, 1, 2]))
        self.hands[worker] += jobs
        after = self.doing()
        for key, slots in self.limits.items():
            promise(after[key] <= max(slots, before[key]), f"{after[key]} of {key} run")

    def begin_claim(self) -> None:
        self.open = self.random.choice(self.workers)
        self.open.begin()
        self.hands[self.open] += self.open.claim(self.random.randrange(1, 5))

    def end(self) -> None:
        worker = self.random.choice(self.workers)
        jobs = self.hands[worker]
        if not jobs or worker is self.open:
            return
        job = jobs.pop(self.random.randrange(len(jobs)))
        match self.random.randrange(4):
            case 0:
                worker.retry(job, delay=self.random.choice(["0", "0", "1 hour"]))
                busy = worker.busy
            case 1:
                busy = worker.put_back(job)
            case _:
                done = worker.finish(job, status=self.random.choice(["succeeded", "failed"]))
                jobs += done.following
                busy = done.busy
        if busy:
            jobs.append(job)

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
        job = self.random.choice(ids)
        self.random.choice([self.person.cancel, self.person.delete, self.person.retry_job])(job)

    def change_lane(self) -> None:
        lane = self.random.choice("ab")
        changes = [
            self.person.pause,
            self.person.resume_lane,
            self.person.retry_head,
            self.person.cancel_waiting,
        ]
        if self.stage.lanes().get(lane) != "held":
            changes.append(self.person.skip_head)
        self.random.choice(changes)(lane)

    def set_limit(self) -> None:
        key = self.random.choice(["k1", "k2"])
        self.limits[key] = self.random.randrange(1, 4)
        self.person.set_limit(key, self.limits[key])

    def doing(self) -> dict[str, int]:
        rows = self.stage.control.execute(
            "SELECT limit_key::text, count(*) FROM jobs WHERE status = 'doing' GROUP BY 1"
        ).fetchall()
        return {"k1": 0, "k2": 0} | {key: count for key, count in rows if key}

    def settle(self) -> None:
        """End the walk, and let a new worker do what is left."""
        if self.open is not None:
            self.open.commit()
        self.check()
        self.person.hasten("1 second")
        self.stage.worker().hasten("1 second")
        self.person.reconcile()
        found = [each for each in self.stage.audited() if each[0].startswith("reconcile")]
        promise(not found, f"nobody would ever have woken {found}")
        for lane, state in self.stage.lanes().items():
            if state in ("paused", "halted", "held", "retrying"):
                self.person.resume_lane(lane)
        self.stage.drain()


def run_walks(stage: Stage) -> None:
    for seed in range(50):
        run_walk(Walk(stage, seed), STEPS)


@pytest.mark.parametrize("seed", range(12))
def test_a_limit_holds_and_no_job_sleeps_whatever_happens(stage: Stage, seed: int) -> None:
    run_walk(Walk(stage, seed), STEPS)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("archive_jobs.sql", "THEN leave_looks(ARRAY[gone.limit_key::text])", "THEN true"),
        ("claim.sql", "array_agg(lock) FILTER (WHERE fits)", "array_agg(lock)"),
        ("handover_candidates.sql", "AND NOT head.limited", ""),
        ("limited_queues.sql", "AND jobs.queue > found.queue", "AND false"),
        ("put_back.sql", "PERFORM notify_workers(wake_limited(v_back.keys, true));", "NULL;"),
    ],
    ids=lambda value: value if value.endswith(".sql") else "",
)
def test_a_walk_finds_a_protection_that_is_missing(
    stage: Stage, file: str, old: str, new: str
) -> None:
    stage.mutate(Mutation("a protection is missing", file, old, new))
    with pytest.raises((PromiseBroken, psycopg.Error)):
        run_walks(stage)
