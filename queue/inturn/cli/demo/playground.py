"""The lanes that `queue demo --web` leaves to play with, and the worker that runs their jobs.

Each lane is stuck in another way, and its remedy works.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from inturn import App, JobContext, RetryStrategy
from inturn.cli.demo.worker import HEARTBEAT, STALLED
from inturn.errors import InturnError

HALTED, RETRYING, PAUSED, BUSY = "customer:ann", "customer:bob", "customer:cleo", "report:year"
STATES = {HALTED: "halted", RETRYING: "retrying", PAUSED: "paused", BUSY: "held"}
TO_TRY = {
    HALTED: ("halted by a failed job", "read its error, then Retry head"),
    RETRYING: ("waits ten minutes for a retry", "Retry head now"),
    PAUSED: ("paused by a person", "Resume"),
    BUSY: ("waits for a job that hangs", "open the running job, then Abort"),
}
BEHIND = 3  # jobs that wait in each lane
START_SECONDS = 60


class CardDeclined(Exception):
    """What a payment provider would raise."""


class MailServerBusy(Exception):
    """What a mail server would raise."""


def make_app(dsn: str) -> App:
    app = App(dsn)
    failed: set[int] = set()  # each fails once, so a retry succeeds

    @app.task(name="charge", pass_context=True, on_failure="halt")
    async def charge(context: JobContext, order: int) -> None:
        await anyio.sleep(0.5)  # time to watch
        if order == 1 and context.job.id not in failed:
            failed.add(context.job.id)
            raise CardDeclined(f"The card for order {order} has expired")

    @app.task(name="mail", pass_context=True, on_retry="hold", retry=RetryStrategy(wait=600))
    async def mail(context: JobContext, letter: int) -> None:
        await anyio.sleep(0.5)
        if letter == 1 and context.job.id not in failed:
            failed.add(context.job.id)
            raise MailServerBusy("451 Try again later")

    @app.task(name="report")
    async def report(month: int) -> None:
        await anyio.sleep(3600 if month == 1 else 0.5)

    return app


@contextmanager
def open_playground(dsn: str) -> Iterator[None]:
    """Fill the lanes, and run a worker for them until the end of the block."""
    app = make_app(dsn)
    with app.open():
        _fill(app)
        worker = subprocess.Popen(
            [sys.executable, "-m", "inturn.cli.demo.playground", dsn],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us
        )
        try:
            _wait(app)
            yield
        finally:
            worker.kill()
            worker.wait()


def describe_playground(dsn: str, script: str) -> str:
    """Return what to try, and the commands for those who prefer a terminal."""
    lanes = [(lock, *words) for lock, words in TO_TRY.items()]
    widths = [max(len(lane[column]) for lane in lanes) for column in (0, 1)]
    lines = [
        f"  {lock:<{widths[0]}}  {state:<{widths[1]}}  {remedy}" for lock, state, remedy in lanes
    ]
    return "\n".join(
        [
            "Four lanes to play with. Open each, and try what frees it:",
            *lines,
            "In another terminal:",
            f"  export INTURN_DSN='{dsn}'",
            f"  {script} lanes explain {HALTED}",
        ]
    )


def _fill(app: App) -> None:
    app.lanes.pause(PAUSED, reason="The supplier is closed until Monday", by="demo")
    for lock, task, argument, first in (
        (HALTED, "charge", "order", 1),
        (RETRYING, "mail", "letter", 1),
        (PAUSED, "charge", "order", 11),
        (BUSY, "report", "month", 1),
    ):
        configured = app.configure_task(task, lock=lock)
        configured.batch_defer(*({argument: first + nth} for nth in range(BEHIND + 1)))


def _wait(app: App) -> None:
    """Return when each lane is in its state."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if STATES.items() <= {lane.lock: lane.state for lane in app.lanes.list()}.items():
            return
        time.sleep(0.05)
    raise InturnError(f"The lanes to play with were not ready within {START_SECONDS} s.")


def main(dsn: str) -> None:
    make_app(dsn).run_worker(
        name="demo",
        update_heartbeat_interval=HEARTBEAT,
        stalled_worker_timeout=STALLED,
        db_grace=1.0,  # if the demo is killed, its server ends, and then this does
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
