"""The app of the test of batches. Its tasks and producers write down what really happened."""

import itertools
import random
import sys
import time

from inturn import App, JobContext
from tests.evidence.record import attempt, history

HEARTBEAT, STALLED = 0.3, 1.0  # seconds
CALLS = itertools.count()
app = App()


@app.task(name="load", pass_context=True)
def load(context: JobContext, op: str, index: int, part: int) -> None:
    with attempt(context, [op, index]):
        time.sleep(random.random() * 0.003)
        if part == 0:  # it splits
            assert context.job.batch_id is not None
            defer(context.job.batch_id, None, [1, 2])
        if part % 10 == 9:
            raise RuntimeError("as requested")


@app.task(name="report", pass_context=True)
def report(context: JobContext) -> None:
    with attempt(context, context.job.id):
        assert context.batch is not None
        counts = context.batch._asdict()
        del counts["id"]
        history().write("counted", fence=context.job.fence, counts=counts)


def defer(batch: int, lock: str | None, parts: list[int]) -> None:
    op = f"{history().who}/{next(CALLS)}"
    specs = [{"batch": batch, "fails": part % 10 == 9} for part in parts]
    history().write("call", op=op, lane=lock, jobs=specs)
    load.configure(batch=batch, lock=lock).batch_defer(
        *({"op": op, "index": index, "part": part} for index, part in enumerate(parts))
    )
    history().write("ok", op=op)


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
            defer(batch, lock, [dice.randrange(30) for _ in range(count)])
            if not left[batch]:
                del left[batch]


def work() -> None:
    app.run_worker(
        concurrency=8,
        update_heartbeat_interval=HEARTBEAT,
        stalled_worker_timeout=STALLED,
        fetch_job_polling_interval=60,
    )


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work()
    else:
        given, jobs, seed = sys.argv[2:]
        produce([int(batch) for batch in given.split(",")], int(jobs), int(seed))
