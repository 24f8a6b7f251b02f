"""Money is moved between accounts while workers are killed. Its sum never changes."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import psycopg
import pytest

from tests.conftest import Query
from tests.stress.transfer_app import TABLE, WRONG
from tests.waiting import wait_until

ACCOUNTS, WORKERS, PRODUCERS = 200, 4, 2
# The suite has a short form.
TRANSFERS = int(os.environ.get("INTURN_TRANSFERS", "400"))
LIMIT = 300 + TRANSFERS // 20  # seconds; only keeps a failing test from hanging
FILL = "INSERT INTO public.accounts SELECT id, 0 FROM generate_series(0, %s) AS id"
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
LEFT = "SELECT count(*) FROM jobs"
REGISTERED = "SELECT count(*) FROM workers WHERE pid = ANY(%s)"
STARVED = "SELECT count(*) FROM finished_jobs WHERE status <> 'succeeded'"


def spawn(dsn: str, *arguments: str) -> subprocess.Popen[bytes]:
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.stress.transfer_app", *arguments],
        cwd=root,
        env=os.environ | {"INTURN_DSN": dsn},
    )


def has_ended(query: Query, jobs: float) -> bool:
    [(count,)] = query("SELECT count(*) FROM finished_jobs")
    return bool(count > jobs)


@pytest.mark.fresh_database
@pytest.mark.proof
def test_money_that_is_moved_between_accounts_is_neither_lost_nor_made(
    app_dsn: str, query: Query
) -> None:
    with psycopg.connect(app_dsn, autocommit=True) as connection:
        connection.execute(TABLE)
        connection.execute(WRONG)
        connection.execute(FILL, [ACCOUNTS - 1])
    producers = [
        spawn(app_dsn, "produce", str(ACCOUNTS), str(TRANSFERS // PRODUCERS), str(n))
        for n in range(PRODUCERS)
    ]
    workers = [spawn(app_dsn, "work") for _ in range(WORKERS)]
    try:
        for place, part in ((0, 0.2), (1, 0.6)):
            wait_until(partial(has_ended, query, part * TRANSFERS), LIMIT)
            workers[place].kill()
            workers[place].wait()
            workers[place] = spawn(app_dsn, "work")
        assert [producer.wait(LIMIT) for producer in producers] == [0] * PRODUCERS
        wait_until(lambda: query(LEFT) == [(0,)], LIMIT)
        # Before that, a signal would just kill them.
        pids = [worker.pid for worker in workers]
        wait_until(lambda: query(REGISTERED, pids) == [(WORKERS,)], LIMIT)
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        assert [worker.wait(LIMIT) for worker in workers] == [0] * WORKERS
    finally:
        for process in (*producers, *workers):
            process.kill()
            process.wait()

    assert query("SELECT sum(balance), max(balance) > 0 FROM public.accounts") == [(0, True)]
    assert query("SELECT * FROM public.changes") == [], "an audit ran beside a transfer"
    assert query(DEADLOCKS) == [(0,)]
    assert query(STARVED) == [(0,)]
    assert has_ended(query, TRANSFERS - 1)
    left = "SELECT lock FROM lanes WHERE state IS NOT NULL UNION ALL SELECT lock FROM waits"
    assert query(left) == []
