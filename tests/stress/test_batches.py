"""Worker processes are killed while batches run. Each callback runs once, and after all the jobs."""

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
from tests.stress.batch_app import HEARTBEAT, STALLED, app, report
from tests.waiting import wait_until

BATCHES, JOBS, PRODUCERS, WORKERS, KILLS = 5, 150, 2, 3, 4
LIMIT = 200  # seconds; only keeps a failing test from hanging
FINAL = """
SELECT args->>'op', (args->>'index')::int, id, fence, status::text FROM finished_jobs
"""
OPEN = "SELECT open_batch('batch ' || n, %s) FROM generate_series(1, %s) AS n"


def spawn(folder: Path, dsn: str, who: str, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.stress.batch_app", *map(str, arguments)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "INTURN_DSN": dsn, **environment(folder, "batches", who)},
    )


@pytest.mark.proof
def test_each_callback_runs_once_and_last_although_workers_are_killed(
    app_dsn: str, query: Query, tmp_path: Path
) -> None:
    history, tail = History(tmp_path, "batches", "conductor"), Tail(tmp_path)
    history.write("settings", excuse=STALLED - 2 * HEARTBEAT)
    batches = open_batches(query, history)
    named = ",".join(map(str, batches))
    producers = [
        spawn(tmp_path, app_dsn, f"producer.{n}", "produce", named, JOBS, n)
        for n in range(PRODUCERS)
    ]
    workers = [spawn(tmp_path, app_dsn, f"worker.{n}", "work") for n in range(WORKERS)]
    try:
        for kill in range(KILLS):
            enough = (kill + 1) * BATCHES * JOBS * PRODUCERS // (KILLS + 2)
            wait_until(lambda: ended(tail) > enough, LIMIT)  # noqa: B023
            workers[kill].kill()
            workers[kill].wait()
            history.write("killed", victim=f"worker.{kill}")
            workers.append(spawn(tmp_path, app_dsn, f"worker.{len(workers)}", "work"))
        assert [producer.wait(LIMIT) for producer in producers] == [0] * PRODUCERS
        for batch in batches:
            history.write("closed", batch=batch)
            query("SELECT close_batch(%s)", batch)
        wait_until(lambda: query("SELECT count(*) FROM jobs") == [(0,)], LIMIT)
        for worker in workers[KILLS:]:
            worker.send_signal(signal.SIGTERM)
        assert [worker.wait(LIMIT) for worker in workers[KILLS:]] == [0] * WORKERS
    finally:
        for process in (*producers, *workers):
            process.kill()
            process.wait()

    note_ends(query, history)
    verdict = check(tmp_path)
    assert verdict.word == "valid", describe(verdict)
    assert verdict.counts["a callback ran"] == BATCHES
    assert verdict.counts["jobs of batches whose callback ran"] >= BATCHES * JOBS * PRODUCERS
    assert {state for (state,) in query("SELECT state FROM batch_status")} == {"ended"}
    assert query("SELECT * FROM batch_events") == query("SELECT * FROM batch_gates") == []


def open_batches(query: Query, history: History) -> list[int]:
    assert app.tasks[report.name] is report
    batches = [batch for (batch,) in query(OPEN, report.name, BATCHES)]
    for batch, callback in query("SELECT id, callback_id FROM batch_status"):
        history.write("call", op=f"batch {batch}", lane=None, jobs=[{"callback_of": batch}])
        history.write("inserted", op=f"batch {batch}", ids=[callback])
        history.write("ok", op=f"batch {batch}")
    return batches


def note_ends(query: Query, history: History) -> None:
    for op, index, job, fence, status in query(FINAL):
        history.write("final", job=[op, index] if op else job, fence=fence, status=status)
    history.close()


def ended(tail: Tail) -> int:
    tail.look()
    return sum(event.name == "end" for event in tail.events)
