"""The workers and producers of the stress run. They log what really happened (ledger.py)."""

import logging
import os
import random
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import psycopg

from inturn import App, JobContext, RetryStrategy
from tests.stress import ledger
from tests.stress.flow_ledger import LIMITS

HEARTBEAT, STALLED = (
    0.5,
    2.5,
)  # seconds; a machine that is busy must not make a live worker look dead
BACKLOG = 400  # so much may wait before producers slow down
LANES = [
    f"{kind}{n}"
    for kind, count in (("equal", 8), ("ranked", 4), ("release", 4))
    for n in range(count)
]

app = App()
log = Path(os.environ.get("STRESS_LOG", "stress.log"))


@app.task(name="step", pass_context=True, retry=RetryStrategy(max_attempts=3, wait=0.02))
def step(context: JobContext, fails: int, seconds: float) -> None:
    """Fail in the first attempts, as many as the job says."""
    job = context.job
    ledger.write(log, "start", job=job.id, fence=job.fence, attempt=job.attempts + 1)
    try:
        time.sleep(seconds)
        if context.job.attempts < fails:
            raise RuntimeError("as requested")
    finally:
        ledger.write(log, "end", fence=context.job.fence)


class Producer:
    def __init__(self, seed: str, until: float) -> None:
        self.dice, self.until, self.calls = random.Random(seed), until, 0
        self.known: deque[int] = deque(maxlen=30)  # jobs that others may come after

    def work(self, dsn: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection, app.open():
            while time.monotonic() < self.until:
                self.defer(connection)
                if self.calls % 20 == 0:
                    while waiting(connection) > BACKLOG and time.monotonic() < self.until:
                        time.sleep(0.05)

    def defer(self, connection: psycopg.Connection) -> None:
        """Make a call in its own transaction, which often commits late and sometimes never."""
        dice = self.dice
        self.calls += 1
        lane = dice.choice([None, *LANES])
        priority = dice.choice([0, 0, 1]) if lane and lane.startswith("ranked") else 0
        scheduled = dice.random() < 0.05
        halts = lane is not None and lane.startswith("equal") and dice.random() < 0.01
        flow = {} if halts else self.flow()
        deferrer = step.configure(
            lock=lane,
            priority=priority,
            queue=dice.choice(["x", "x", "y"]),
            group=dice.choice([None, None, "large", "large", "small"]),
            schedule_in={"milliseconds": 300} if scheduled else None,
            on_retry="release" if lane and lane.startswith("release") else "hold",
            on_failure="halt" if halts else "continue",
            limit=flow.get("limit"),
            after=flow.get("after"),
            on_parent=flow.get("on_parent"),
            expires_in={"seconds": flow["expires"]} if "expires" in flow else None,
            connection=connection,
        )
        jobs = [
            {
                "fails": 9 if halts else dice.choice([0] * 15 + [1, 9]),
                "seconds": dice.choice([0.001] * 30 + [0.2]) if not flow else 0.02,
            }
            for _ in range(dice.choice([1, 1, 1, 4]))
        ]
        call, called = f"{os.getpid()} {self.calls}", time.monotonic()
        connection.execute("BEGIN")
        ids = deferrer.batch_defer(*jobs)
        ledger.write(
            log,
            "insert",
            call=call,
            called=called,
            jobs=[[id, lane, priority, scheduled] for id in ids],
            **flow,
        )
        if dice.random() < 0.15:
            time.sleep(dice.random() * 0.1)
            ledger.write(log, "delayed")
        if dice.random() < 0.05:
            connection.execute("ROLLBACK")
            ledger.write(log, "rollback", jobs=ids)
        else:
            connection.execute("COMMIT")
            ledger.write(log, "commit", jobs=ids)
            self.known.extend(map(int, ids))

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


def waiting(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT count(*) FROM inturn.jobs").fetchone()
    assert row
    return int(row[0])


class Outcomes(logging.Handler):
    """Log what the worker learned about the ends that it reported."""

    def emit(self, record: logging.LogRecord) -> None:
        match record.getMessage().split(":")[0]:
            case "job.lost":
                ledger.write(log, "refused", fence=record.__dict__["fence"])
            case "job.succeeded" | "job.failed" | "job.aborted":
                ledger.write(log, "accepted", fence=record.__dict__["fence"])


def work(queues: list[str] | None) -> None:
    logger = logging.getLogger("inturn.jobs")
    logger.setLevel(logging.INFO)
    logger.addHandler(Outcomes())
    logging.getLogger("inturn").addHandler(logging.NullHandler())
    app.run_worker(
        queues=queues,
        concurrency=6,
        update_heartbeat_interval=HEARTBEAT,
        stalled_worker_timeout=STALLED,
        fetch_job_polling_interval=1,
    )


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(sys.argv[2].split(",") if sys.argv[2] else None)
    else:
        Producer(sys.argv[2], float(sys.argv[3])).work(os.environ["INTURN_DSN"])
