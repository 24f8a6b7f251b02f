"""A primary ends under load and its standby takes over: real servers, workers and producers."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from inturn import App
from tests.failover.cluster import NEXT_TRANSACTION, Cluster, wait_until
from tests.failover.history import Report, write
from tests.failover.load import STALLED, Load

pytestmark = pytest.mark.proof

LONG = [f"long{n}" for n in range(4)]
LONG_SECONDS = STALLED + 4.0


@pytest.fixture
def load(cluster: Cluster, tmp_path: Path) -> Iterator[Load]:
    with Load(tmp_path / "log", cluster.dsn, cluster.dsn) as load:
        load.goes_on()
        yield load


def defer(load: Load, lane: str, *seconds: float) -> None:
    """Defer a job for each duration."""
    app = App(load.dsn)
    with app.open():
        for number, duration in enumerate(seconds):
            app.configure_task("step", lock=lane).defer(lane=lane, number=number, seconds=duration)
            write(load.log, "ack", lane, number)


def start_long_jobs(load: Load) -> None:
    """Each has another job behind it, which must wait."""
    for lane in LONG:
        defer(load, lane, LONG_SECONDS, 0.0)
        load.await_event("start", lane)


def nothing_is_wrong(found: Report) -> None:
    assert found.overlaps == []
    assert found.overtaken == []
    assert found.fallen == []
    assert found.unended == []
    assert found.from_nowhere == set()


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
    assert found.lost == set()
    assert found.twice == set()


def test_a_standby_that_lags_behind_loses_what_it_had_not_received_and_nothing_else(
    cluster: Cluster, load: Load
) -> None:
    replicated = {event[1:3] for event in load.events() if event.kind == "ack"}
    cluster.catch_up()
    cluster.cut()
    load.goes_on(100)
    defer(load, "tail", 1.0, *[0.0] * 20)
    load.await_event("start", "tail")
    cluster.primary.crash()
    load.await_event("end", "tail")  # and so has everything else that was claimed there
    forgotten_at = time.monotonic_ns()
    cluster.promote()
    load.goes_on()
    found = load.finish([forgotten_at])
    print(
        len(found.acknowledged),
        len(found.lost),
        len(found.twice),
        len(found.resumed),
        len(found.shared_ids),
        found.gap,
    )
    nothing_is_wrong(found)
    assert found.lost & replicated == set()
    assert found.lost >= {("tail", number) for number in range(1, 21)}, (
        "nothing was lost, so nothing was tried"
    )
    assert found.shared_ids, "the ids of jobs that were lost are given again"


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
    assert found.lost == set()
    assert found.twice == set()
