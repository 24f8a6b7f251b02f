"""Tasks and producers for a failover. They write down each run and each answer."""

import os
import random
import signal
import sys
import time

from inturn import App, JobContext, PsycopgConnector
from inturn.errors import ConnectorException
from tests.evidence.record import attempt, history

# Behind a pooler that does not know prepared statements, like PgBouncer before 1.21.
app = (
    App(connector=PsycopgConnector(prepare_threshold=None))
    if "FAILOVER_POOLER" in os.environ
    else App()
)


@app.task(name="step", pass_context=True)
def step(context: JobContext, lane: str, number: int, seconds: float) -> None:
    with attempt(context, [f"{lane}/{number}", 0]):
        time.sleep(seconds)


def defer(lane: str, number: int, seconds: float) -> None:
    """Record an error as unclear: the job may exist or not. Its number is not used again."""
    op = f"{lane}/{number}"
    history().write("call", op=op, lane=lane, jobs=[{}])
    try:
        step.configure(lock=lane).defer(lane=lane, number=number, seconds=seconds)
    except ConnectorException as error:
        history().write("unclear", op=op, settled=True, why=str(error)[:200])
        time.sleep(0.1)
    else:
        history().write("ok", op=op)


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
