"""The app of the crash test. Its tasks and producers write down what really happened."""

import random
import sys
import time

from inturn import App, JobContext
from tests.evidence.record import attempt, history

# seconds; a machine that is busy must not make a live worker look dead
HEARTBEAT, STALLED = 0.3, 4.0
app = App()


@app.task(name="step", pass_context=True)
def step(context: JobContext, op: str, index: int) -> None:
    with attempt(context, [op, index]):
        time.sleep(random.random() * 0.004)


def produce(lanes: list[str], jobs: int, free_jobs: int, seed: int) -> None:
    """Defer the jobs of each lane and of none, one or a few in a call. The lanes are mixed."""
    dice, calls = random.Random(seed), 0
    left: dict[str | None, int] = {**dict.fromkeys(lanes, jobs), None: free_jobs}
    with app.open():
        while left:
            calls += 1
            lane, op = dice.choice(list(left)), f"{history().who}/{calls}"
            count = min(left[lane], dice.choice([1, 1, 1, 5, 20]))
            history().write("call", op=op, lane=lane, jobs=[{}] * count)
            step.configure(lock=lane).batch_defer(*({"op": op, "index": n} for n in range(count)))
            history().write("ok", op=op)
            left[lane] -= count
            if not left[lane]:
                del left[lane]


def work(cell: int) -> None:
    app.cell(cell).run_worker(
        concurrency=8,
        update_heartbeat_interval=HEARTBEAT,
        stalled_worker_timeout=STALLED,
        fetch_job_polling_interval=60,
    )


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(int(sys.argv[2]) if sys.argv[2:] else 0)
    else:
        lanes, jobs, free_jobs, seed = sys.argv[2:]
        produce(lanes.split(","), int(jobs), int(free_jobs), int(seed))
