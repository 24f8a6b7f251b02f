"""A random walk over everything that can happen to jobs, and what must hold after each step.

A walk has actors: workers, a person, and a user whose transaction locks a job. In each step one of
them does something, or the open transaction of one commits. Each feature of the engine is a class
below. It adds options to new jobs, acts to the steps, and invariants.

A walk has some of the features, as its seed says: in a walk with all of them, each would be rare.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, LiteralString, NamedTuple

from tests.race.harness import Job, PromiseBroken, Session, Stage, Worker, promise

Options = dict[str, Any]
Act = Callable[[], None]
DEFER: LiteralString = """
SELECT defer(%s, queue => %s, priority => %s, lock => %s, locks => %s::text[], shared => %s::text[],
    scheduled_at => clock() + %s::interval, on_retry => %s, on_failure => %s, limit_key => %s,
    group_key => %s, batch_id => %s, after => %s::bigint[], on_parent => %s,
    expires_at => clock() + %s::interval)
"""
PLAIN: Options = {  # in the order of DEFER
    "task": "task",
    "queue": "default",
    "priority": 0,
    "lock": None,
    "locks": None,
    "shared": None,
    "at": None,
    "on_retry": "hold",
    "on_failure": "continue",
    "limit": None,
    "group": None,
    "batch": None,
    "after": None,
    "on_parent": "cancel",
    "expires_in": None,
}
# What several jobs of one call can have, see Session.defer.
IN_ONE_CALL = ("queue", "on_retry", "on_failure", "expires_in", "limit", "group", "task")


class Feature:
    """What one feature adds to a walk. Nothing here is called while a promise is broken."""

    def __init__(self, walk: "Walk") -> None:
        self.walk, self.random, self.person = walk, walk.random, walk.person
        self.begin()

    def begin(self) -> None: ...

    def options(self, given: Options) -> Options:
        """Return options of a new job, beside those that it has so far."""
        return {}

    def acts(self) -> list[Act]:
        """Return what people may do while no transaction is open."""
        return []

    def look(self, worker: Worker) -> Any:
        """Return what `judge` needs to know of the time before a claim or an end."""

    def judge(self, worker: Worker, jobs: list[Job], before: Any) -> None:
        """Check the jobs that have started."""

    def judge_claim(self, worker: Worker, jobs: list[Job]) -> None:
        """Check the jobs that a claim has started, and not the end of another job."""

    def check(self) -> None:
        """Check what holds after each step."""

    def check_at_rest(self) -> None:
        """Check what holds while no transaction is open."""

    def let_go(self) -> None:
        """End what would keep jobs from starting for ever."""

    def check_the_end(self) -> None:
        """Check what holds when every job has ended."""

    def rows(self, statement: LiteralString, *parameters: object) -> list[Any]:
        return self.walk.stage.control.execute(statement, parameters or None).fetchall()

    def none(self, statement: LiteralString, text: str) -> None:
        found = self.rows(statement)
        promise(not found, f"{text}: {found}")


# ---------------------------------------------------------------- lanes

# A job that could start, and that nobody will look at: it is blocked, the head of all of its lanes,
# and each of them has no row, or readers beside which it can start.
ASLEEP: LiteralString = """
SELECT job.id FROM jobs AS job
WHERE job.status = 'blocked' AND job.keeps_lanes IS NULL AND NOT EXISTS (
    SELECT FROM unnest(lanes_of(job.lock, job.locks)) AS lane
    LEFT JOIN lanes AS held ON held.lock = lane
    WHERE (SELECT head.id FROM lane_heads(ARRAY[lane]) AS head) <> job.id
       OR NOT (held.lock IS NULL OR (held.readers IS NOT NULL AND held.stopped IS NULL
               AND held.look_at IS NULL AND coalesce(lane = ANY (job.shared), false))))
"""
WRONG_LINES: LiteralString = """
SELECT * FROM (
    SELECT lane, job.priority, job.id FROM jobs AS job, unnest(job.locks[2:]) AS lane
    WHERE job.status IN ('todo', 'blocked', 'limited', 'paused') AND job.keeps_lanes IS NULL
) AS wanted FULL JOIN waits ON waits.lock = lane AND waits.id = wanted.id
    AND waits.priority = wanted.priority
WHERE lane IS NULL OR waits.lock IS NULL
"""
WRONG_ROWS: LiteralString = """
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
OVERLAPS: LiteralString = """
SELECT one.id, other.id
FROM jobs AS one, jobs AS other, unnest(lanes_of(one.lock, one.locks)) AS lane
WHERE one.status = 'doing' AND other.status = 'doing' AND one.id < other.id
    AND lane = ANY (lanes_of(other.lock, other.locks))
    AND NOT coalesce(lane = ANY (one.shared) AND lane = ANY (other.shared), false)
"""
IN_LINE: LiteralString = """
SELECT id, priority, lanes_of(lock, locks) FROM jobs
WHERE status IN ('todo', 'blocked', 'limited', 'paused') AND keeps_lanes IS NULL
    AND lock IS NOT NULL AND NOT EXISTS (SELECT FROM lanes WHERE lanes.job_id = jobs.id)
"""
STOPPED: LiteralString = """
SELECT jobs.id, lanes.lock FROM jobs, lanes
WHERE lanes.lock = ANY (lanes_of(jobs.lock, jobs.locks)) AND lanes.stopped IS NOT NULL
"""


class Waiting(NamedTuple):
    """A job in line."""

    rank: tuple[int, int]
    lanes: frozenset[str]


class Lanes(Feature):
    """One lane, several lanes, shared ones. People pause lanes, skip, move and lock jobs."""

    names = "abc"

    def options(self, given: Options) -> Options:
        pick = self.random.choice
        options: Options = {
            "on_retry": pick(["hold", "release"]),
            "on_failure": pick(["continue", "continue", "halt"]),
            "at": pick([None, None, None, None, "1 hour"]),
        }
        count = pick([0, 1, 1, 2, 2, 3])
        locks = self.random.sample(self.names, count)
        shared = [lock for lock in locks if self.random.random() < 0.4]
        if count == 1 and not shared:
            return options | {"lock": locks[0]}
        return options | ({"locks": locks, "shared": shared} if locks else {})

    def acts(self) -> list[Act]:
        return [self.change_lane, self.lock_job, self.move_jobs]

    def change_lane(self) -> None:
        lane = self.random.choice(self.names)
        changes = [
            self.person.pause,
            self.person.resume_lane,
            self.person.resume_lane,
            self.person.retry_head,
            self.person.cancel_waiting,
        ]
        if self.walk.stage.lanes().get(lane) != "held":
            changes.append(self.person.skip_head)
        self.random.choice(changes)(lane)

    def move_jobs(self) -> None:
        """A person gives jobs another priority or queue. Those of groups take turns by theirs."""
        found = [id for (id,) in self.rows("SELECT id FROM jobs WHERE group_key IS NULL")]
        chosen = self.random.sample(sorted(found), min(3, len(found)))
        priority, queue = self.random.choice([(0, None), (3, None), (None, "x"), (1, "default")])
        before = self.walk.stage.statuses()
        moved = self.person.run(
            "SELECT id FROM change_jobs('move', %s, jobs_where(statuses => "
            "'{todo,blocked,limited,scheduled,pending}'), p_priority => %s, p_queue => %s, p_by => 'me') "
            "WHERE outcome = 'done'",
            *(chosen, priority, queue),
        )
        after = self.walk.stage.statuses()
        wrong = [id for (id,) in moved if after[id] not in (before[id], "todo")]
        promise(not wrong, f"moved, and waiting for something else: {wrong}")

    def lock_job(self) -> None:
        """A user's transaction locks a job that waits."""
        waiting = [id for id, status in self.walk.stage.statuses().items() if status != "doing"]
        if waiting:
            user = self.walk.open = self.walk.user
            user.begin()
            user.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", self.random.choice(waiting))

    def look(self, worker: Worker) -> tuple[dict[int, Waiting], set[Any]]:
        return self.in_line(), set(self.rows(STOPPED))

    def judge(self, worker: Worker, jobs: list[Job], before: Any) -> None:
        """A job that was in line went before no better one of a lane, unless that one went too."""
        line, stopped = before
        started = {job.id for job in jobs}
        # Others may have expired, in the worker's open transaction as well.
        still = {id for id, *_ in worker.run(IN_LINE)}
        for id in started & line.keys():
            better = [
                other
                for other, waiting in line.items()
                if waiting.rank < line[id].rank and waiting.lanes & line[id].lanes
            ]
            passed = still & set(better) - started
            promise(not passed, f"{id} started before {passed}")
        wrong = [each for each in stopped & set(self.rows(STOPPED)) if each[0] in started]
        promise(not wrong, f"jobs started in lanes that are stopped: {wrong}")

    def in_line(self) -> dict[int, Waiting]:
        rows = self.rows(IN_LINE)
        return {id: Waiting((-priority, id), frozenset(lanes)) for id, priority, lanes in rows}

    def check_at_rest(self) -> None:
        self.none(OVERLAPS, "jobs overlap")
        self.none(WRONG_ROWS, "rows of lanes do not fit the jobs")
        self.none(WRONG_LINES, "lines do not fit the jobs")
        self.none(ASLEEP, "jobs sleep that could start")

    def let_go(self) -> None:
        for lane, state in self.walk.stage.lanes().items():
            if state in ("paused", "halted", "held", "retrying"):
                self.person.resume_lane(lane)


# ---------------------------------------------------------------- limits


class Limits(Feature):
    """Keys with slots, which people change, and one with a rate."""

    rate, burst = 60, 3  # of "often"; the walk may take minutes on a slow machine

    def begin(self) -> None:
        self.slots = {"k1": 1, "k2": 2}
        for key, slots in self.slots.items():
            self.person.set_limit(key, slots)
        self.person.set_limit("often", None, self.rate, self.burst)
        [(self.since,)] = self.rows("SELECT clock()")
        self.starts = 0  # of "often"

    def options(self, given: Options) -> Options:
        return {"limit": self.random.choice([None, None, "k1", "k1", "k2", "often"])}

    def acts(self) -> list[Act]:
        return [self.set_limit]

    def set_limit(self) -> None:
        key = self.random.choice(list(self.slots))
        self.slots[key] = self.random.randrange(1, 4)
        self.person.set_limit(key, self.slots[key])

    def look(self, worker: Worker) -> dict[str, int]:
        return self.doing()

    def judge(self, worker: Worker, jobs: list[Job], before: dict[str, int]) -> None:
        after = self.doing()
        for key, slots in self.slots.items():
            promise(after[key] <= max(slots, before[key]), f"{after[key]} of {key} run")
        [(count, minutes)] = self.rows(
            "SELECT count(*) FILTER (WHERE limit_key = 'often'), "
            "extract(epoch FROM clock() - %s)::float / 60 FROM jobs WHERE id = ANY (%s)",
            self.since,
            [job.id for job in jobs],
        )
        self.starts += count
        most = self.burst + self.rate * minutes + self.walk.put_backs
        promise(self.starts <= most, f"{self.starts} of a rate started, and {most} may")

    def doing(self) -> dict[str, int]:
        rows = self.rows(
            "SELECT limit_key::text, count(*) FROM jobs WHERE status = 'doing' GROUP BY 1"
        )
        return {"k1": 0, "k2": 0} | {key: count for key, count in rows if key}

    def check(self) -> None:
        rows = self.rows(
            "SELECT key, used, (SELECT count(*) FROM jobs WHERE status = 'doing' "
            "AND limit_gate(limit_key) = key) FROM gates"
        )
        for key, used, doing in rows:
            promise(used == doing, f"{key} counts {used}, and {doing} run")

    def check_at_rest(self) -> None:
        self.none(
            "SELECT DISTINCT gate, queue, look_at FROM gated_jobs AS asleep "
            "JOIN gates ON key = gate LEFT JOIN LATERAL gate_rule(key) AS rule ON true "
            "CROSS JOIN LATERAL fold_key(gates, rule) AS now "
            "WHERE coalesce(now.free, 1) > 0 "
            # A claim ends the pauses that are over before it looks.
            "AND NOT EXISTS (SELECT FROM pauses WHERE task_gate(name) = key AND until <= clock()) "
            "AND NOT EXISTS (SELECT FROM gate_looks AS asked WHERE asked.key = gates.key) "
            # The next look is soon if an open transaction had the job locked.
            "AND (look_at IS NULL OR look_at > clock() + interval '1 s' "
            "AND NOT EXISTS (SELECT FROM jobs AS token WHERE status = 'todo' "
            "AND limit_gate(token.limit_key) = gates.key AND token.queue = asleep.queue))",
            "the next claim wakes nobody of these, though there are slots",
        )

    def let_go(self) -> None:
        self.person.run("SELECT remove_limit('often')")


# ---------------------------------------------------------------- groups


WEIGHTS = {"a": 1, "b": 1, "c": 2, "d": 5}


class Groups(Feature):
    """Groups of jobs that take turns.

    Between two turns of a group that waits all the time, each other group has at most one turn at
    the same worker. So whatever the others do, they start no more jobs than their weights allow.
    This holds of jobs that nothing else keeps from starting, so those of groups are such.
    """

    def begin(self) -> None:
        self.since: dict[Worker, dict[str, Counter[str]]] = {}
        self.lanes = 0
        for group in ("c", "d"):
            self.person.run("SELECT set_group(%s, %s)", group, WEIGHTS[group])

    def options(self, given: Options) -> Options:
        group = self.random.choice(["a", "a", "b", "c", "d", None])
        if group is None and not self.alone:
            return {}
        self.lanes += 1
        lock = self.random.choice([None, None, f"lane {self.lanes}", f"lane of {group}"])
        many = self.random.choice([1, 1, 3, 30])
        return PLAIN | {"group": group, "lock": lock, "many": many, "priorities": 1}

    @property
    def alone(self) -> bool:
        """Whether the jobs without a group are a group too, because nothing else is of them."""
        return self.walk.features == [self]

    def judge_claim(self, worker: Worker, jobs: list[Job]) -> None:
        books = self.since.setdefault(worker, {})
        if self.walk.open is not None or worker.queues or self.is_paused():
            books.clear()  # it may be kept from jobs
            return
        rows = self.rows(
            "SELECT coalesce(group_key, '') FROM jobs WHERE id = ANY (%s) "
            "AND (group_key IS NOT NULL OR %s)",
            [job.id for job in jobs],
            self.alone,
        )
        started, waiting = Counter(group for (group,) in rows), self.waiting()
        for group in books.keys() - waiting:
            del books[group]
        for group in waiting:
            starts = books.setdefault(group, Counter())
            starts.update(started)
            turns = starts[group] / self.weight(group)
            for other, count in starts.items():
                promise(
                    other == group or count <= self.weight(other) * (turns + 2),
                    f"{other} started {count} jobs while {group} waited and started {turns} turns",
                )

    def weight(self, group: str) -> int:
        return WEIGHTS.get(group, 1)

    def waiting(self) -> set[str]:
        """Return the groups of which a free job waits. Those of lanes may wait for their lane."""
        rows = self.rows(
            "SELECT DISTINCT coalesce(group_key, '') FROM jobs WHERE status = 'todo' "
            "AND lock IS NULL AND (group_key IS NOT NULL OR %s)",
            self.alone,
        )
        return {group for (group,) in rows}

    def is_paused(self) -> bool:
        return bool(self.rows("SELECT FROM paused_queues"))


# ---------------------------------------------------------------- pauses


class TaskPauses(Feature):
    """Tasks that people pause. A claim that began before a pause may still start their jobs."""

    names = ("mail", "bank", "other")

    def options(self, given: Options) -> Options:
        return {"task": self.random.choice(self.names)}

    def acts(self) -> list[Act]:
        return [self.pause_or_resume, self.pause_or_resume]

    def pause_or_resume(self) -> None:
        task, until = self.random.choice(self.names), self.random.choice([None, None, "1 ms"])
        if self.random.random() < 0.5:
            self.person.run("SELECT pause_task(%s, NULL, clock() + %s::interval)", task, until)
        else:
            self.person.run("SELECT resume_task(%s)", task)

    def look(self, worker: Worker) -> set[str]:
        return self.paused()

    def judge(self, worker: Worker, jobs: list[Job], before: set[str]) -> None:
        paused = before & self.paused()  # one may have ended by itself
        rows = self.rows("SELECT id, task FROM jobs WHERE id = ANY (%s)", [job.id for job in jobs])
        wrong = [id for id, task in rows if task in paused]
        promise(not wrong, f"{wrong} started although their task is paused")

    def paused(self) -> set[str]:
        return {task for (task,) in self.rows("SELECT task FROM paused_tasks")}

    def check_at_rest(self) -> None:
        self.none(
            "SELECT id, task FROM jobs WHERE status = 'paused' "
            "AND NOT EXISTS (SELECT FROM pauses WHERE kind = 'task' AND name = task) "
            "AND NOT EXISTS (SELECT FROM gate_looks WHERE key = task_gate(task)) "
            "AND NOT EXISTS (SELECT FROM gates WHERE key = task_gate(task) AND look_at IS NOT NULL)",
            "jobs wait at the gate of a task that is not paused, and no claim will look",
        )

    def let_go(self) -> None:
        for task in self.names:
            self.person.run("SELECT resume_task(%s)", task)


class QueuePauses(Feature):
    """Queues that people pause, or all of them."""

    names = ("default", "x", None)

    def acts(self) -> list[Act]:
        return [self.pause_or_resume]

    def pause_or_resume(self) -> None:
        queue, until = self.random.choice(self.names), self.random.choice([None, "1 ms"])
        if self.random.random() < 0.4:
            self.person.run("SELECT pause_queue(%s, NULL, clock() + %s::interval)", queue, until)
        else:
            self.person.run("SELECT resume_queue(%s)", queue)

    def look(self, worker: Worker) -> set[str | None]:
        return self.paused()

    def judge(self, worker: Worker, jobs: list[Job], before: set[str | None]) -> None:
        paused = before & self.paused()
        wrong = [job.id for job in jobs if None in paused or job.queue in paused]
        promise(not wrong, f"{wrong} started although their queue is paused")

    def paused(self) -> set[str | None]:
        return {queue for (queue,) in self.rows("SELECT queue FROM paused_queues")}

    def let_go(self) -> None:
        for queue in self.names:
            self.person.run("SELECT resume_queue(%s)", queue)


# ---------------------------------------------------------------- parents, batches, expiry


class Parents(Feature):
    """Jobs that come after others."""

    def options(self, given: Options) -> Options:
        known = [*self.walk.stage.statuses(), *self.walk.finished()]
        if not known or self.random.random() < 0.6:
            return {}
        after = self.random.sample(known, min(len(known), self.random.choice([1, 1, 2])))
        return {"after": after, "on_parent": self.random.choice(["cancel", "go", "hold"])}

    def judge(self, worker: Worker, jobs: list[Job], before: object) -> None:
        for job in jobs:
            after, on_parent = self.walk.deferred.get(job.id, ([], ""))
            if {job.id, *after} & self.walk.retried:
                continue  # a person may run it at any time
            rows = self.rows("SELECT id, status::text FROM all_jobs WHERE id = ANY (%s)", after)
            early = [row for row in rows if row[1] not in ENDED]
            promise(not early, f"{job.id} started before the end of {early}")
            failed = [row for row in rows if row[1] != "succeeded"]
            promise(on_parent == "go" or not failed, f"{job.id} started in spite of {failed}")

    def let_go(self) -> None:
        """Nobody waits for a person any more."""
        later = self.walk.stage.worker()
        later.hasten("1 year")
        later.claim(0)  # those that are scheduled wait for their parents from now on
        statuses = self.walk.stage.statuses()
        for id, (_, on_parent) in self.walk.deferred.items():
            if on_parent == "hold" and statuses.get(id) == "pending":
                self.person.retry_job(id)


ENDED = ("succeeded", "failed", "cancelled", "aborted")


class Batches(Feature):
    """Batches that people open, close and cancel. The callback runs when all jobs have ended."""

    def begin(self) -> None:
        self.open: dict[int, int] = {}  # their callbacks

    def options(self, given: Options) -> Options:
        if self.walk.open is not None or not self.open:
            return {}  # a claim that ends a batch has its gate
        batch = self.random.choice([None, *self.open])
        if batch is None:
            return {}
        # Nothing that waits for the callback, or the batch would wait for itself.
        earlier = [parent for parent in given["after"] or () if parent < self.open[batch]]
        return {"batch": batch, "after": earlier or None}

    def acts(self) -> list[Act]:
        return [self.open_batch, self.close, self.cancel, self.run_again]

    def open_batch(self) -> None:
        lock = self.random.choice([None, "a"])
        [(id,)] = self.person.run("SELECT open_batch('b', 'callback', lock => %s)", lock)
        [(self.open[id],)] = self.rows("SELECT callback_id FROM batches WHERE id = %s", id)

    def close(self) -> None:
        if self.open:
            batch = self.random.choice(list(self.open))
            del self.open[batch]
            self.person.run("SELECT close_batch(%s)", batch)

    def cancel(self) -> None:
        if self.open and self.random.random() < 0.2:
            batch, _ = self.open.popitem()
            last = 0
            while last is not None:
                [(last,)] = self.person.run("SELECT last FROM cancel_batch(%s, %s)", batch, last)

    def run_again(self) -> None:
        """A person runs a job once more while its batch has not ended."""
        rows = self.rows(
            "SELECT job.id FROM finished_jobs AS job JOIN batches ON batches.id = batch_id "
            "WHERE ended_at IS NULL ORDER BY 1"
        )
        if rows:
            [job] = self.random.choice(rows)
            self.walk.retried.add(job)
            self.person.retry_job(job)

    def check(self) -> None:
        self.none(
            "SELECT id, total, succeeded, failed, cancelled, aborted FROM batches "
            "WHERE ended_at IS NOT NULL AND total <> succeeded + failed + cancelled + aborted",
            "batches ended before their jobs",
        )
        early = self.rows(
            "SELECT jobs.id FROM jobs JOIN batches ON callback_id = jobs.id "
            "WHERE ended_at IS NULL AND jobs.status <> 'pending'"
        )
        wrong = [id for (id,) in early if id not in self.walk.retried]
        promise(not wrong, f"callbacks are ready before their batches have ended: {wrong}")

    def let_go(self) -> None:
        for batch in self.open:
            self.person.run("SELECT close_batch(%s)", batch)

    def check_the_end(self) -> None:
        self.none("SELECT id FROM batches WHERE ended_at IS NULL", "batches that never end")


class Expiry(Feature):
    """Jobs that must start soon, or never."""

    def options(self, given: Options) -> Options:
        return {"expires_in": self.random.choice([None, None, "1 day", "20 ms"])}

    def look(self, worker: Worker) -> set[int]:
        rows = self.rows(
            "SELECT id FROM jobs WHERE expires_at <= clock() AND NOT was_attempted "
            "AND status <> 'doing'"
        )
        return {id for (id,) in rows}

    def judge(self, worker: Worker, jobs: list[Job], before: set[int]) -> None:
        late = before & {job.id for job in jobs}
        promise(not late, f"{late} started although they had expired")


VERIFY = """
SELECT promise, job_id, other_id, seen
FROM verify_slice(%s, '{}', 'infinity', p_size => 1000000, p_calls => '0', p_open => '0')
WHERE verdict = 'broken'
"""
FEATURES: dict[str, type[Feature]] = {
    "lanes": Lanes,
    "limits": Limits,
    "task pauses": TaskPauses,
    "queue pauses": QueuePauses,
    "parents": Parents,
    "batches": Batches,
    "expiry": Expiry,
    "groups": Groups,  # the last: its jobs have no other options
}


# ---------------------------------------------------------------- the walk


class Walk:
    """A stage, its actors, and the next thing that one of them does."""

    def __init__(self, stage: Stage, seed: int, features: Iterable[str]) -> None:
        self.stage = stage
        self.random = Random(seed)
        self.takes_over = bool(seed // 2 % 2)  # else a finish hands nothing over
        self.person, self.user = stage.session(), stage.session()
        self.workers = [stage.worker(), stage.worker(), stage.worker("x")]
        self.hands: dict[Worker, list[Job]] = {worker: [] for worker in self.workers}
        self.open: Session | None = None  # has an open transaction
        self.deferred: dict[int, tuple[list[int], str]] = {}  # the parents of each job
        self.retried: set[int] = set()  # jobs that a person has run again
        self.put_backs = 0
        chosen = set(features)
        self.features = [make(self) for name, make in FEATURES.items() if name in chosen]

    def run(self, steps: int) -> None:
        for step in range(steps):
            try:
                self.step()
            except PromiseBroken as broken:
                raise PromiseBroken(f"step {step}: {broken}") from broken
        self.settle()

    def step(self) -> None:
        if self.open is not None and self.random.random() < 0.4:
            self.open.commit()
            self.open = None
        acts: list[Act] = [self.defer, self.claim, self.claim, self.work, self.end, self.end]
        if self.open is None:
            acts += [self.begin_claim, self.die, self.change_job]
            acts += [act for feature in self.features for act in feature.acts()]
        self.random.choice(acts)()
        self.check()

    def check(self) -> None:
        for feature in self.features:
            feature.check()
            if self.open is None:
                feature.check_at_rest()

    def defer(self) -> None:
        pick = self.random.choice
        options = PLAIN | {"priority": self.random.randrange(3)}
        options["queue"] = pick(["default", "default", "x"])
        options |= {"many": self.random.randrange(1, 4), "priorities": 3}
        for feature in self.features:
            options |= feature.options(options)
        many, highest = options.pop("many"), options.pop("priorities")
        rest = [name for name, value in options.items() if value != PLAIN[name]]
        if many > 1 and set(rest) <= {*IN_ONE_CALL, "lock", "priority"}:
            priorities = [self.random.randrange(highest) for _ in range(many)]
            given = {name: options[name] for name in IN_ONE_CALL}
            ids = self.person.defer(options["lock"], *priorities, **given)
            self.deferred |= dict.fromkeys(ids, ([], "cancel"))
            return
        if options["at"] and options["expires_in"]:
            options["expires_in"] = None
        [(id,)] = self.person.run(DEFER, *(options[name] for name in PLAIN))
        self.deferred[id] = options["after"] or [], options["on_parent"]

    def claim(self) -> None:
        worker = self.random.choice([each for each in self.workers if each is not self.open])
        slots = self.random.choice([None, None, 0, 1, 2])
        self.take(worker, self.random.choice([1, 2, 3, 4, 12]), slots)

    def begin_claim(self) -> None:
        worker = self.random.choice(self.workers)
        worker.begin()
        self.open = worker
        self.take(worker, self.random.randrange(1, 5))

    def work(self) -> None:
        """A worker ends a job soon, and may get the next of its lane."""
        worker = self.random.choice([each for each in self.workers if each is not self.open])
        self.take(worker, 1)
        acts = [act for feature in self.features for act in feature.acts()]
        if acts and self.open is None and self.random.random() < 0.5:
            self.random.choice(acts)()
        if self.hands[worker]:
            job, busy = self.hands[worker].pop(), list[int]()
            self.watch(worker, lambda: self.finish(worker, [job], busy))
            self.hands[worker] += [job for _ in busy]

    def take(self, worker: Worker, room: int, slots: int | None = None) -> None:
        ids = [0, *self.deferred]
        since = self.random.choice([None, None, ids[len(ids) // 2], ids[-1] - 1])
        jobs = self.watch(worker, lambda: worker.claim(room, slots=slots, since=since))
        for feature in self.features:
            feature.judge_claim(worker, jobs)

    def watch(self, worker: Worker, call: Callable[[], list[Job]]) -> list[Job]:
        """Let a worker get jobs, and judge them."""
        before = [feature.look(worker) for feature in self.features]
        jobs = call()
        self.hands[worker] += jobs
        for feature, seen in zip(self.features, before, strict=True):
            feature.judge(worker, jobs, seen)
        return jobs

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
                self.put_backs += len(ended)
            case _:
                busy = []
                self.watch(worker, lambda: self.finish(worker, ended, busy))
        jobs += [job for job in ended if job.id in busy]

    def finish(self, worker: Worker, jobs: list[Job], busy: list[int]) -> list[Job]:
        status = self.random.choice(["succeeded", "succeeded", "failed"])
        done = worker.finish(*jobs, status=status, want=10 if self.takes_over else 0)
        busy += done.busy
        return done.following

    def die(self) -> None:
        worker = self.random.choice(self.workers)
        self.stage.forget(worker)
        self.person.rescue()
        if self.random.random() < 0.5 and self.hands[worker]:
            promise(worker.finish(*self.hands[worker]).accepted == [], "its fence refuses it")
        self.hands[worker] = []
        worker.register()

    def change_job(self) -> None:
        job = self.random.choice([*self.stage.statuses(), 0, *self.finished()])
        change = self.random.choice([self.person.cancel, self.person.delete, self.person.retry_job])
        if change == self.person.retry_job:
            self.retried.add(job)
        change(job)

    def finished(self) -> list[int]:
        rows = self.stage.control.execute(
            "SELECT id FROM finished_jobs WHERE status <> 'succeeded' AND id = ANY (%s) "
            "ORDER BY id DESC LIMIT 3",
            [[*self.deferred]],
        ).fetchall()
        return [id for (id,) in rows]

    def settle(self) -> None:
        """End the walk, and let a new worker do what is left."""
        if self.open is not None:
            self.open.commit()
            self.open = None
        self.check()
        self.person.hasten("1 second")
        self.stage.worker().hasten("1 second")
        self.person.reconcile()
        found = [each for each in self.stage.audited() if each[0].startswith("reconcile")]
        promise(not found, f"nobody would ever have woken {found}")
        for feature in self.features:
            feature.let_go()
        self.check()
        self.stage.drain()
        for feature in self.features:
            feature.check_the_end()
        self.verify()
        self.stage.dismiss()

    def verify(self) -> None:
        """Let `verify` judge what the walk has left. No call here waits for another."""
        found = self.person.run(VERIFY, min(self.deferred, default=1) - 1)
        promise(not found, f"verify finds {found}")
