"""The workers and producers of the stress run. They write down what really happened."""

import os
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import psycopg

import inturn
from inturn import App, JobContext, RetryStrategy
from inturn.errors import BadArgument
from tests.evidence.record import attempt, history, keep_notes, put_off_full_claims
from tests.stress.own_batches import Batches

HEARTBEAT, STALLED = (
    0.5,
    2.5,
)  # seconds; a machine that is busy must not make a live worker look dead
TOLERANCES = {  # how far the judge may trust times (tests/evidence/evidence.py)
    "excuse": STALLED - 2 * HEARTBEAT,
    "learning": 2.0,
    "delay": 1.0,
    "turns": 30,
}
LIMITS: dict[str, dict[str, int]] = {  # of a second
    "slots": {"slots": 2},
    "rate": {"rate": 15, "burst": 5},
    "both": {"slots": 2, "rate": 30, "burst": 4},
}
BACKLOG = 400  # so much may wait before producers slow down
FLOOD = 100  # jobs of one group in one call
LANES = [
    f"{kind}{n}"
    for kind, count in (("equal", 8), ("ranked", 4), ("release", 4))
    for n in range(count)
]

app = App()


@app.task(name="step", pass_context=True, retry=RetryStrategy(max_attempts=3, wait=0.02))
def step(context: JobContext, fails: int, seconds: float) -> None:
    """Fail in the first attempts, as many as the job says."""
    with attempt(context, context.job.id):
        time.sleep(seconds)
        if context.job.attempts < fails:
            raise RuntimeError("as requested")


@app.task(name="report", pass_context=True, retry=RetryStrategy(max_attempts=3, wait=0.02))
def report(context: JobContext, fails: int) -> None:
    """Run at the end of a batch, and record how its jobs have ended."""
    with attempt(context, context.job.id):
        assert context.batch is not None
        counts = context.batch._asdict()
        del counts["id"]
        history().write("counted", fence=context.job.fence, counts=counts)
        if context.job.attempts < fails:
            raise RuntimeError("as requested")


class Producer:
    def __init__(self, seed: str, seconds: float) -> None:
        self.dice, self.calls = random.Random(seed), 0
        self.until = time.monotonic() + seconds
        self.known: deque[int] = deque(maxlen=30)  # jobs that others may come after
        self.batches = Batches(self.dice, app, report)

    def work(self, dsn: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection, app.open():
            while time.monotonic() < self.until:
                self.defer(connection)
                self.batches.close_some()
                if self.calls % 20 == 0:
                    while waiting(connection) > BACKLOG and time.monotonic() < self.until:
                        time.sleep(0.05)
            self.batches.close_all()

    def defer(self, connection: psycopg.Connection) -> None:
        """Make a call in its own transaction, which often commits late and sometimes never."""
        self.calls += 1
        op = f"{history().who}/{self.calls}"
        connection.execute("BEGIN")
        ops = [*self.batches.open_some(connection, op), op]
        try:
            jobs = self.insert(connection, op)
        except BadArgument:  # somebody has given the batch up
            connection.execute("ROLLBACK")
            self.answer("fail", ops)
            self.batches.forget()
            return
        self.batches.close_early(connection)
        if self.dice.random() < 0.15:
            time.sleep(self.dice.random() * 0.1)
            history().write("seen", what="a commit was delayed")
        if self.dice.random() < 0.05:
            connection.execute("ROLLBACK")
            self.answer("fail", ops)
            return
        connection.execute("COMMIT")
        self.answer("ok", ops, fence=last_fence(connection))
        self.batches.settle()
        # Not after a callback: if such a job joined the batch, each would wait for the other.
        self.known.extend(jobs)

    def answer(self, answer: str, ops: list[str], **facts: int) -> None:
        for op in ops:
            history().write(answer, op=op, **facts)

    def insert(self, connection: psycopg.Connection, op: str) -> list[int]:
        dice = self.dice
        if dice.random() < 0.01:
            return self.flood(connection, op)
        lane = dice.choice([None, *LANES])
        priority = dice.choice([0, 0, 1]) if lane and lane.startswith("ranked") else 0
        scheduled = dice.random() < 0.05
        halts = lane is not None and lane.startswith("equal") and dice.random() < 0.01
        flow = {} if halts else self.flow()
        also: dict[str, Any] = self.batches.choose() | {
            "queue": dice.choice(["x", "x", "y"]),
            "group": dice.choice([None, None, "large", "large", "small"]),
        }
        lanes = {} if halts or lane is None else self.several(lane)
        deferrer = step.configure(
            lock=locks(lane, **lanes),
            priority=priority,
            schedule_in={"milliseconds": 300} if scheduled else None,
            on_retry="release" if lane and lane.startswith("release") else "hold",
            on_failure="halt" if halts else "continue",
            limit=flow.get("limit"),
            after=flow.get("after"),
            on_parent=flow.get("on_parent"),
            expires_in={"seconds": flow["expires"]} if "expires" in flow else None,
            connection=connection,
            **also,
        )
        jobs = [
            {
                "fails": 9 if halts else dice.choice([0] * 15 + [1, 9]),
                "seconds": dice.choice([0.001] * 30 + [0.2]) if not flow else 0.02,
            }
            for _ in range(dice.choice([1, 1, 1, 4]))
        ]
        releases = lane is not None and lane.startswith("release")
        told = {"priority": priority, "later": scheduled, "releases": releases}
        specs = [{"fails": job["fails"], **told, **flow, **also, **lanes} for job in jobs]
        return told_ids(op, lane, specs, lambda: deferrer.batch_defer(*jobs))

    def several(self, lane: str) -> dict[str, list[str]]:
        """Choose further lanes, of the same kind, and which of all of them to share."""
        if self.dice.random() > 0.25:
            return {}
        kind = [other for other in LANES if other[:5] == lane[:5] and other != lane]
        more = self.dice.sample(kind, self.dice.choice([0, 1, 1, 2]))
        chosen = [other for other in (lane, *more) if self.dice.random() < 0.5]
        return {"also": more, "shared": chosen}

    def flood(self, connection: psycopg.Connection, op: str) -> list[int]:
        """Defer so many jobs of one group that others must not wait for all of them."""
        also: dict[str, Any] = {"group": "large", "queue": "x"}
        jobs = [{"fails": 0, "seconds": 0.001}] * FLOOD
        deferrer = step.configure(connection=connection, **also)
        return told_ids(op, None, [also] * FLOOD, lambda: deferrer.batch_defer(*jobs))

    def flow(self) -> dict[str, Any]:
        """Return what the jobs of a call wait for besides their lane: mostly nothing."""
        dice, chosen = self.dice, dict[str, Any]()
        if dice.random() < 0.2:
            chosen["limit"] = dice.choice([*LIMITS, "slots"])
        if dice.random() < 0.2 and self.known:
            chosen["after"] = dice.sample(list(self.known), min(len(self.known), 3))
            chosen["on_parent"] = dice.choice(["cancel", "go", "hold"])
        if dice.random() < 0.1:
            chosen["expires"] = dice.choice([0.4, 1.0, 30.0])
        return chosen


def told_ids(
    op: str, lane: str | None, specs: list[dict[str, Any]], call: Callable[[], Iterable[Any]]
) -> list[int]:
    """Make a call, and write it down with the ids of its jobs."""
    history().write("call", op=op, lane=lane, jobs=specs)
    ids = [int(id) for id in call()]
    history().write("inserted", op=op, ids=ids)
    return ids


def locks(lane: str | None, also: Sequence[str] = (), shared: Sequence[str] = ()) -> Any:
    """Return the argument `lock` for a job of these lanes."""
    if lane is None or not (also or shared):
        return lane
    return [inturn.shared(lock) if lock in shared else lock for lock in (lane, *also)]


def waiting(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT count(*) FROM inturn.jobs").fetchone()
    assert row
    return int(row[0])


def last_fence(connection: psycopg.Connection) -> int:
    """Return a fence below those of all later claims."""
    row = connection.execute("SELECT last_value FROM inturn.fences").fetchone()
    assert row
    return int(row[0])


def work(queues: list[str] | None) -> None:
    keep_notes()
    put_off_full_claims()
    history().write("serves", queues=queues)
    app.run_worker(
        queues=queues,
        concurrency=6,
        update_heartbeat_interval=HEARTBEAT,
        stalled_worker_timeout=STALLED,
        fetch_job_polling_interval=1,
        max_lost_attempts=None,  # bad luck must not fail a job
    )


if __name__ == "__main__":
    history()  # also of a process that does nothing
    if sys.argv[1] == "work":
        work(sys.argv[2].split(",") if sys.argv[2] else None)
    else:
        Producer(sys.argv[2], float(sys.argv[3])).work(os.environ["INTURN_DSN"])
