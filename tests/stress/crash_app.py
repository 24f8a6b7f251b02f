"""The app of the crash test. Its tasks log what really ran."""

import os
import random
import sys
import time
from pathlib import Path

from inturn import App
from tests.stress import history

app = App()
log = Path(os.environ.get("CRASH_LOG", "crash.log"))


@app.task(name="step")
def step(lane: str, number: int) -> None:
    history.write(log, "start", lane, number)
    time.sleep(random.random() * 0.004)
    history.write(log, "end", lane, number)


def produce(lanes: list[str], jobs: int, free: str, free_jobs: int, seed: int) -> None:
    """Defer each lane's jobs in order, one or a few in a call. The lanes are mixed at random."""
    dice = random.Random(seed)
    left = {lane: list(range(jobs)) for lane in lanes} | {free: list(range(free_jobs))}
    with app.open():
        while left:
            lane = dice.choice(list(left))
            count = dice.choice([1, 1, 1, 5, 20])
            numbers, left[lane] = left[lane][:count], left[lane][count:]
            lock = None if lane == free else lane
            step.configure(lock=lock).batch_defer(*({"lane": lane, "number": n} for n in numbers))
            if not left[lane]:
                del left[lane]


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
        lanes, jobs, free, free_jobs, seed = sys.argv[2:]
        produce(lanes.split(","), int(jobs), free, int(free_jobs), int(seed))
