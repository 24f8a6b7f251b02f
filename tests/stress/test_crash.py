"""Processes are killed. No job is lost, and the jobs of a lane neither overlap nor overtake."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Query
from tests.evidence.events import History, Tail
from tests.evidence.judge import check, describe
from tests.evidence.record import environment
from tests.stress.crash_app import HEARTBEAT, STALLED
from tests.waiting import wait_until

pytestmark = pytest.mark.landing

LANES = [f"lane{n}" for n in range(100)]
JOBS, PRODUCERS, WORKERS, FREE = 100, 3, 4, 1000
LIMIT = 300  # seconds; only keeps a failing test from hanging
FINAL = "SELECT args->>'op', (args->>'index')::int, fence, status::text FROM finished_jobs"
Process = subprocess.Popen[bytes]


def spawn(folder: Path, dsn: str, who: str, *arguments: str) -> Process:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.stress.crash_app", *arguments],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "INTURN_DSN": dsn, **environment(folder, "crash", who)},
    )


def test_workers_killed_on_the_way_lose_nothing_and_keep_every_lane_in_order(
    app_dsn: str, query: Query, tmp_path: Path
) -> None:
    history, tail = History(tmp_path, "crash", "conductor"), Tail(tmp_path)
    history.write("settings", excuse=STALLED - 2 * HEARTBEAT)
    producers = [
        spawn(
            tmp_path,
            app_dsn,
            f"producer.{n}",
            "produce",
            ",".join(LANES[n::PRODUCERS]),
            str(JOBS),
            str(FREE // PRODUCERS + (n < FREE % PRODUCERS)),
            str(n),
        )
        for n in range(PRODUCERS)
    ]
    workers = {f"worker.{n}": spawn(tmp_path, app_dsn, f"worker.{n}", "work")
               for n in range(WORKERS)}  # fmt: skip
    try:
        for who, after in (("worker.0", 1500), ("worker.1", 4000)):
            wait_until(lambda: has_ended(tail, after), LIMIT)  # noqa: B023
            wait_until(lambda: is_stopped_in_a_lane_job(tail, who, workers[who]), LIMIT)  # noqa: B023
            victim = workers.pop(who)
            victim.kill()
            victim.wait()
            history.write("killed", victim=who)
        assert [producer.wait(LIMIT) for producer in producers] == [0] * PRODUCERS
        wait_until(lambda: query("SELECT count(*) FROM jobs") == [(0,)], LIMIT)
        for worker in workers.values():
            worker.send_signal(signal.SIGTERM)
        assert [worker.wait(LIMIT) for worker in workers.values()] == [0, 0]
    finally:
        for process in (*producers, *workers.values()):
            process.kill()
            process.wait()

    for op, index, fence, status in query(FINAL):
        history.write("final", job=[op, index], fence=fence, status=status)
    history.close()
    verdict = check(tmp_path)
    assert verdict.word == "valid", describe(verdict)
    assert verdict.counts["a worker was killed in the middle of a job"]
    assert len(verdict.evidence.finals) == JOBS * len(LANES) + FREE
    assert (
        query("SELECT * FROM lanes WHERE state IS NOT NULL") == query("SELECT * FROM workers") == []
    )


def has_ended(tail: Tail, jobs: int) -> bool:
    tail.look()
    return sum(event.name == "end" for event in tail.events) > jobs


def is_stopped_in_a_lane_job(tail: Tail, who: str, process: Process) -> bool:
    """Stop the process, look, and let it go on if it is between two jobs."""
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    tail.look()
    lanes = {
        event.facts["fence"]: event.facts["lane"]
        for event in tail.events
        if event.name == "begin" and event.who == who
    }
    if any(lanes[fence] for fence in tail.running[who]):
        return True
    process.send_signal(signal.SIGCONT)
    return False
