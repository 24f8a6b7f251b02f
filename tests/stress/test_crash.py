"""Processes are killed. No job is lost, and the jobs of a lane neither overlap nor overtake."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import Query
from tests.stress.history import Run, read, violations
from tests.waiting import wait_until

LANES = [f"lane{n}" for n in range(100)]
JOBS, PRODUCERS, WORKERS, FREE = 100, 3, 4, 1000
LIMIT = 300  # seconds; only keeps a failing test from hanging


def spawn(*arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.stress.crash_app", *arguments],
        cwd=root,
        env=os.environ | environment,
    )


def test_workers_killed_on_the_way_lose_nothing_and_keep_every_lane_in_order(
    app_dsn: str, query: Query, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.touch()
    environment = {"INTURN_DSN": app_dsn, "CRASH_LOG": str(log)}
    free = {f"free{n}": FREE // PRODUCERS + (n < FREE % PRODUCERS) for n in range(PRODUCERS)}
    producers = [
        spawn(
            "produce",
            ",".join(LANES[n::PRODUCERS]),
            str(JOBS),
            f"free{n}",
            str(free[f"free{n}"]),
            str(n),
            **environment,
        )
        for n in range(PRODUCERS)
    ]
    workers = [spawn("work", **environment) for _ in range(WORKERS)]
    killed: dict[int, int] = {}
    try:
        for victim, after in ((workers[0], 1500), (workers[1], 4000)):
            wait_until(partial(has_ended, log, after), LIMIT)
            wait_until(partial(is_stopped_in_a_lane_job, log, victim), LIMIT)
            victim.kill()
            victim.wait()
            killed[victim.pid] = time.monotonic_ns()
        assert [producer.wait(LIMIT) for producer in producers] == [0] * PRODUCERS
        wait_until(lambda: query("SELECT count(*) FROM jobs") == [(0,)], LIMIT)
        for worker in workers[2:]:
            worker.send_signal(signal.SIGTERM)
        assert [worker.wait(LIMIT) for worker in workers[2:]] == [0, 0]
    finally:
        for process in (*producers, *workers):
            process.kill()
            process.wait()

    runs = read(log)
    assert violations(runs, {lane: JOBS for lane in LANES} | free, killed) == []
    assert [run for run in runs if run.end is None], "nobody was killed in the middle of a job"
    assert len(runs) >= JOBS * len(LANES) + FREE
    assert query("SELECT * FROM lanes") == query("SELECT * FROM workers") == []


def has_ended(log: Path, jobs: int) -> bool:
    return log.read_bytes().count(b"\nend") > jobs


def is_stopped_in_a_lane_job(log: Path, process: subprocess.Popen[bytes]) -> bool:
    """Stop the process, look, and let it go on if it is between two jobs."""
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    if any(
        run.pid == process.pid and run.end is None and run.lane.startswith("lane")
        for run in read(log)
    ):
        return True
    process.send_signal(signal.SIGCONT)
    return False


A, B = 1, 2  # processes
GOOD = [Run("lane", 0, A, 10, 20), Run("lane", 1, B, 20, 30)]
FORGED: dict[str, tuple[list[Run], dict[int, int], str]] = {
    "lost": (GOOD[:1], {}, "lane: 1 never ended"),
    "never started first": (GOOD[1:], {}, "lane: 0 never ended"),
    "overlap": ([GOOD[0], GOOD[1]._replace(start=15)], {}, "lane: 1 started while 0 ran"),
    "overlap with the dead": (
        [Run("lane", 0, A, 10, None), Run("lane", 0, B, 14, 20), *GOOD[1:]],
        {A: 15},
        "0 started while 0",
    ),
    "overtaken": ([Run("lane", 1, A, 5, 9), *GOOD[:1]], {}, "lane: 0 started after 1"),
    "the dead one's successor first": (
        [Run("lane", 0, A, 10, None), Run("lane", 1, B, 20, 30), Run("lane", 0, B, 30, 40)],
        {A: 15},
        "lane: 0 started after 1",
    ),
    "twice": (
        [*GOOD[:1], Run("lane", 0, B, 20, 25), Run("lane", 1, B, 25, 30)],
        {},
        "lane: 0 ran 2 times",
    ),
    "unended": (
        [Run("lane", 0, A, 10, None), *GOOD[1:]],
        {},
        "0 neither ended nor was its process killed",
    ),
    "from nowhere": ([*GOOD, Run("other", 0, A, 1, 2)], {}, "other: ran but was never deferred"),
}


@pytest.mark.parametrize(("runs", "killed", "message"), FORGED.values(), ids=list(FORGED))
def test_the_checker_finds_the_faults_of_a_forged_history(
    runs: list[Run], killed: dict[int, int], message: str
) -> None:
    found = violations(runs, {"lane": 2}, killed)
    assert any(message in violation for violation in found), found


def test_the_checker_accepts_what_was_promised() -> None:
    assert violations(GOOD, {"lane": 2}, {}) == []
    rescued = [Run("lane", 0, A, 10, None), Run("lane", 0, B, 20, 30), Run("lane", 1, B, 30, 40)]
    assert violations(rescued, {"lane": 2}, {A: 15}) == []
    reported_too_late = [
        Run("lane", 0, A, 10, 14),
        Run("lane", 0, B, 20, 30),
        Run("lane", 1, B, 30, 40),
    ]
    assert violations(reported_too_late, {"lane": 2}, {A: 15}) == []
