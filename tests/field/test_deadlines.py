"""Defect D: calls had no deadline, so a dead connection idled a worker for 15 minutes."""

import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from inturn import App
from tests.conftest import Query
from tests.field.conftest import Start
from tests.proxy import Faulty
from tests.waiting import wait_until, within

pytestmark = pytest.mark.landing

SECONDS = 20.0  # generous: what is measured takes three to eight on an idle machine, and took 949
# These are the defaults with shorter times. Each fault lasts until a call has met it, and an
# attempt to connect too.
HASTY = ("-a", "tests.field.hasty_app:app", "--poll", "1", "--abort-job-polling-interval", "1")


def say(app: App, word: str) -> None:
    app.configure_task("tests.field.field_app.say", lock="lane").defer(word=word)


def vanish(proxy: Faulty) -> None:
    proxy.vanish()


def hang_for_a_while(proxy: Faulty) -> None:
    """Act like a pooler that is restarted after some time."""
    proxy.fall_silent()
    time.sleep(5)
    proxy.heal()


def refuse_for_a_while(proxy: Faulty) -> None:
    proxy.refuse()
    proxy.reset()
    time.sleep(3)
    proxy.heal()


def freeze_for_a_while(proxy: Faulty) -> None:
    proxy.freeze()
    time.sleep(3)
    proxy.thaw()


def delay(proxy: Faulty) -> None:
    proxy.delay(0.1)


FAULTS = {
    "half open": vanish,
    "hung pooler": hang_for_a_while,
    "refused": refuse_for_a_while,
    "half closed": Faulty.half_close,
    "reset": Faulty.reset,
    "frozen": freeze_for_a_while,
    "slow": delay,
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
def test_a_fault_of_the_network_costs_a_worker_seconds(
    faulty_server: tuple[Faulty, str],
    app: App,
    worker: Start,
    task_log: Callable[[], list[str]],
    fault: Callable[[Faulty], None],
) -> None:
    proxy, dsn = faulty_server
    process = worker(*HASTY, "--dsn", dsn)
    say(app, "before")
    wait_until(lambda: task_log() == ["before"])
    fault(proxy)
    say(app, "after")
    with within(SECONDS):
        wait_until(lambda: task_log() == ["before", "after"])
    assert process.poll() is None


@pytest.mark.parametrize("fault", [vanish, hang_for_a_while], ids=["half open", "hung pooler"])
def test_a_job_that_runs_meanwhile_runs_once(
    faulty_server: tuple[Faulty, str],
    app: App,
    query: Query,
    worker: Start,
    task_log: Callable[[], list[str]],
    fault: Callable[[Faulty], None],
) -> None:
    proxy, dsn = faulty_server
    worker(*HASTY, "--dsn", dsn)
    stay = app.configure_task("tests.field.field_app.stay", lock="lane").defer(seconds=2)
    say(app, "next")
    wait_until(task_log)
    fault(proxy)
    with within(SECONDS):
        wait_until(lambda: task_log() == ["stay", "next"])
    assert query("SELECT attempts FROM finished_jobs WHERE id = %s", stay) == [(1,)]


@pytest.mark.parametrize(("times", "status"), [(1, 0), (2, 128 + signal.SIGTERM)])
def test_a_worker_that_cannot_reach_its_database_ends_on_request(
    faulty_server: tuple[Faulty, str],
    app: App,
    query: Query,
    worker: Start,
    times: int,
    status: int,
) -> None:
    proxy, dsn = faulty_server
    process = worker(
        "--dsn", dsn
    )  # not a hasty one: the second signal must come to its end before the calls do
    say(app, "before")
    wait_until(lambda: query("SELECT FROM finished_jobs"))
    proxy.fall_silent()
    for number in range(times):
        if number:
            assert process.stderr is not None
            assert any("worker.stopping" in line for line in process.stderr)
            time.sleep(0.5)  # or the two signals count as one
        process.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=SECONDS)
    assert process.returncode == status, (
        "it goes on" if process.returncode is None else "it ended otherwise"
    )
