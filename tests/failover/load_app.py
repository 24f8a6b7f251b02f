"""Tasks and producers for a failover: each run and each answer is written to a log."""

import os
import random
import signal
import sys
import time
from pathlib import Path

from inturn import App, JobContext, PsycopgConnector
from inturn.errors import ConnectorException
from tests.failover.history import write

# Behind a pooler that does not know prepared statements, like PgBouncer before 1.21.
app = (
    App(connector=PsycopgConnector(prepare_threshold=None))
    if "FAILOVER_POOLER" in os.environ
    else App()
)
log = Path(os.environ.get("FAILOVER_LOG", "failover.log"))


@app.task(name="step", pass_context=True)
def step(context: JobContext, lane: str, number: int, seconds: float) -> None:
    write(log, "start", lane, number, context.fence, context.job.id)
    time.sleep(seconds)
    write(log, "end", lane, number, context.fence, context.job.id)


def defer(lane: str, number: int, seconds: float) -> None:
    """Record an error as unsure: the job may exist or not. Its number is not used again."""
    try:
        step.configure(lock=lane).defer(lane=lane, number=number, seconds=seconds)
    except ConnectorException as error:
        write(log, "unsure", lane, number, note=str(error).replace("\n", " "))
        time.sleep(0.1)
    else:
        write(log, "ack", lane, number)


def produce(lanes: list[str], pause: float) -> None:
    """Defer until SIGTERM or the parent's end: in order in each lane, the lanes mixed at random."""
    over: list[int] = []
    parent = os.getppid()
    signal.signal(signal.SIGTERM, lambda number, _: over.append(number))
    dice = random.Random(lanes[0])
    following = dict.fromkeys(lanes, 0)
    with app.open():
        while not over and os.getppid() == parent:
            lane = dice.choice(lanes)
            defer(lane, following[lane], 0.002 + 0.006 * dice.random())
            following[lane] += 1
            time.sleep(pause)


if __name__ == "__main__":
    produce(sys.argv[1].split(","), float(sys.argv[2]))
