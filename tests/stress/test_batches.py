"""Worker processes are killed while batches run. Each callback runs once, and after all the jobs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.conftest import Query
from tests.stress.batch_app import app, report
from tests.waiting import wait_until

BATCHES, JOBS, PRODUCERS, WORKERS, KILLS = 5, 150, 2, 3, 4
LIMIT = 200  # seconds; only keeps a failing test from hanging


def spawn(*arguments: object, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.stress.batch_app", *map(str, arguments)],
        cwd=Path(__file__).parents[2],
        env=os.environ | environment,
    )


def violations(lines: list[list[str]], ended: dict[int, tuple[int, ...]]) -> list[str]:
    """Return what the log shows against the promise. `ended` has the jobs of each batch, counted."""
    found = []
    for batch, counts in ended.items():
        own = [words for words in lines if words[1] == str(batch)]
        reports = [words for words in own if words[0] == "report"]
        if reports != [["report", str(batch), *map(str, counts)]]:
            found.append(f"batch {batch} with {counts} reports {reports}")
        elif own[-1] != reports[0]:
            found.append(f"batch {batch} goes on after its report")
    return found


def test_each_callback_runs_once_and_last_although_workers_are_killed(
    app_dsn: str, query: Query, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.touch()
    environment = {"INTURN_DSN": app_dsn, "BATCH_LOG": str(log)}
    batches = [
        batch
        for (batch,) in query(
            "SELECT open_batch('batch ' || n, %s) FROM generate_series(1, %s) AS n",
            report.name,
            BATCHES,
        )
    ]
    assert app.tasks[report.name] is report
    named = ",".join(map(str, batches))
    producers = [spawn("produce", named, JOBS, n, **environment) for n in range(PRODUCERS)]
    workers = [spawn("work", **environment) for _ in range(WORKERS)]
    try:
        for kill in range(KILLS):
            enough = (kill + 1) * BATCHES * JOBS * PRODUCERS // (KILLS + 2)
            wait_until(lambda: log.read_bytes().count(b"\n") > enough, LIMIT)  # noqa: B023
            workers[kill].kill()
            workers[kill].wait()
            workers.append(spawn("work", **environment))
        assert [producer.wait(LIMIT) for producer in producers] == [0] * PRODUCERS
        for batch in batches:
            query("SELECT close_batch(%s)", batch)
        wait_until(lambda: query("SELECT count(*) FROM jobs") == [(0,)], LIMIT)
        for worker in workers[KILLS:]:
            worker.send_signal(signal.SIGTERM)
        assert [worker.wait(LIMIT) for worker in workers[KILLS:]] == [0] * WORKERS
    finally:
        for process in (*producers, *workers):
            process.kill()
            process.wait()

    ended = {
        batch: tuple(counts)
        for batch, *counts in query(
            "SELECT batch_id, count(*), count(*) FILTER (WHERE status = 'succeeded'), "
            "count(*) FILTER (WHERE status = 'failed') FROM finished_jobs "
            "WHERE task = 'load' GROUP BY batch_id"
        )
    }
    assert sorted(ended) == sorted(batches)
    assert all(total >= JOBS * PRODUCERS for total, *_ in ended.values())
    lines = [line.split() for line in log.read_text().splitlines()]
    assert violations(lines, ended) == []
    assert {state for (state,) in query("SELECT state FROM batch_status")} == {"ended"}
    assert query("SELECT * FROM batch_events") == query("SELECT * FROM batch_gates") == []


def test_the_log_shows_a_callback_that_runs_twice_too_early_or_with_wrong_counts() -> None:
    load, last = ["load", "7", "1"], ["report", "7", "1", "1", "0"]
    assert violations([load, last], {7: (1, 1, 0)}) == []
    for lines in ([load], [load, last, last], [last, load], [load, ["report", "7", "2", "1", "1"]]):
        assert violations(lines, {7: (1, 1, 0)}) != []
