"""A primary ends under load and its standby takes over: real servers, workers and producers."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from inturn import App
from tests.evidence.judge import Verdict, describe
from tests.evidence.rules.jobs import lost_keys
from tests.failover.cluster import NEXT_TRANSACTION, Cluster, wait_until
from tests.failover.load import STALLED, Load

pytestmark = pytest.mark.proof

LONG = [f"long{n}" for n in range(4)]
LONG_SECONDS = STALLED + 4.0


@pytest.fixture
def load(cluster: Cluster, tmp_path: Path) -> Iterator[Load]:
    with Load(tmp_path, cluster.dsn, cluster.dsn) as load:
        load.goes_on()
        yield load


def defer(load: Load, lane: str, *seconds: float) -> None:
    """Defer a job for each duration."""
    app = App(load.dsn)
    with app.open():
        for number, duration in enumerate(seconds):
            op = f"{lane}/{number}"
            load.history.write("call", op=op, lane=lane, jobs=[{}])
            app.configure_task("step", lock=lane).defer(lane=lane, number=number, seconds=duration)
            load.history.write("ok", op=op)


def start_long_jobs(load: Load) -> None:
    """Each has another job behind it, which must wait."""
    for lane in LONG:
        defer(load, lane, LONG_SECONDS, 0.0)
        load.await_event("begin", lane)


def nothing_is_wrong(found: Verdict) -> None:
    assert found.word == "valid", describe(found)


def test_a_standby_that_was_waited_for_loses_nothing_and_starts_no_running_job_again(
    cluster: Cluster, load: Load
) -> None:
    """The outage is longer than the stalled timeout, but no worker may be taken for dead."""
    cluster.make_synchronous()
    start_long_jobs(load)
    cluster.primary.crash()
    away = time.monotonic()
    wait_until(lambda: time.monotonic() > away + STALLED + 1)
    cluster.promote()
    load.goes_on()
    found = load.finish()
    nothing_is_wrong(found)


def test_a_standby_that_lags_behind_loses_what_it_had_not_received_and_nothing_else(
    cluster: Cluster, load: Load
) -> None:
    replicated = time.monotonic_ns()  # what was acknowledged before
    cluster.catch_up()
    cluster.cut()
    load.goes_on(100)
    defer(load, "tail", 1.0, *[0.0] * 20)
    load.await_event("begin", "tail")
    cluster.primary.crash()
    load.await_event("end", "tail")  # and so has everything else that was claimed there
    load.history.write("forgotten", since=replicated)
    cluster.promote()
    load.goes_on()
    found = load.finish()
    nothing_is_wrong(found)
    lost = lost_keys(found.evidence)
    assert lost >= {(f"tail/{number}", 0) for number in range(1, 21)}, (
        "nothing was lost, so nothing was tried"
    )
    assert found.counts["an id was given again"], "the ids of jobs that were lost are free"


def test_sessions_that_become_read_only_move_to_the_new_primary_and_back(
    cluster: Cluster, load: Load
) -> None:
    """A pooler or proxy may keep them open. Then only an error shows that they lead nowhere."""
    start_long_jobs(load)
    for _ in range(2):
        transaction = cluster.switch_over()
        load.goes_on()
        assert cluster.standby.ask(NEXT_TRANSACTION) == transaction, (
            "somebody has written to the old primary"
        )
        cluster.rejoin()
    found = load.finish()
    nothing_is_wrong(found)
