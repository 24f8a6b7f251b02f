"""The app of the test of batches. Its tasks log what really ran, a line each."""

import os
import random
import sys
import time
from pathlib import Path

from inturn import App, JobContext

app = App()
log = Path(os.environ.get("BATCH_LOG", "batch.log"))


class Broken(Exception):
    pass


def write(*words: object) -> None:
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, (" ".join(map(str, words)) + "\n").encode())  # one write: whole lines
    finally:
        os.close(file)


@app.task(name="load", pass_context=True)
def load(context: JobContext, part: int) -> None:
    time.sleep(random.random() * 0.003)
    if part == 0:  # it splits
        load.configure(batch=context.job.batch_id).batch_defer({"part": 1}, {"part": 2})
    write("load", context.job.batch_id, context.job.id)
    if part % 10 == 9:
        raise Broken


@app.task(name="report", pass_context=True)
def report(context: JobContext) -> None:
    assert context.batch is not None
    counts = context.batch
    write("report", counts.id, counts.total, counts.succeeded, counts.failed)


def produce(batches: list[int], jobs: int, seed: int) -> None:
    """Fill the batches, one or a few jobs in a call."""
    dice = random.Random(seed)
    left = dict.fromkeys(batches, jobs)
    with app.open():
        while left:
            batch = dice.choice(list(left))
            count = min(left[batch], dice.choice([1, 1, 2, 20]))
            left[batch] -= count
            lock = f"lane {dice.randrange(9)}" if dice.random() < 0.3 else None
            load.configure(batch=batch, lock=lock).batch_defer(
                *({"part": dice.randrange(30)} for _ in range(count))
            )
            if not left[batch]:
                del left[batch]


def work() -> None:
    app.run_worker(
        concurrency=8,
        update_heartbeat_interval=0.3,
        stalled_worker_timeout=1.0,
        fetch_job_polling_interval=60,
    )


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work()
    else:
        given, jobs, seed = sys.argv[2:]
        produce([int(batch) for batch in given.split(",")], int(jobs), int(seed))
