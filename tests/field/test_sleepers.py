"""A worker that was stopped or suspended starts no job that others may have taken over."""

import os
import signal
from functools import partial
from pathlib import Path

from inturn import App
from tests.conftest import Query
from tests.field.conftest import Start
from tests.waiting import wait_until

FAST = ("--heartbeat", "0.2", "--stalled-after", "1", "--log-level", "error")
JOBS = 2000


IN_HAND = "SELECT FROM jobs WHERE status = 'doing' HAVING count(*) > 12"


def test_a_worker_that_wakes_up_starts_nothing_that_others_have_taken_over(
    worker: Start, app: App, query: Query, tmp_path: Path
) -> None:
    log = tmp_path / "task.log"
    nap = app.configure_task("tests.field.field_app.nap")
    nap.batch_defer(*[{"number": number} for number in range(JOBS)])
    sleeper = worker(*FAST)
    wait_until(lambda: len(log.read_text().split()) > JOBS / 4)
    wait_until(partial(stop_with_jobs_in_hand, sleeper.pid, query))
    slept_at = len(log.read_text().splitlines())
    worker(*FAST)
    wait_until(lambda: query("SELECT FROM finished_jobs HAVING count(*) = %s", JOBS))
    os.kill(sleeper.pid, signal.SIGCONT)
    wait_until(lambda: query("SELECT FROM workers HAVING count(*) = 2"))  # it has registered again
    late = log.read_text().splitlines()[slept_at:]
    assert [line for line in late if line.endswith(f":{sleeper.pid}")] == []


def stop_with_jobs_in_hand(pid: int, query: Query) -> bool:
    """Stop a worker. If it has not claimed any jobs ahead, let it go on and return False."""
    os.kill(pid, signal.SIGSTOP)
    if query(IN_HAND):
        return True
    os.kill(pid, signal.SIGCONT)
    return False
