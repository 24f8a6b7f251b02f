"""One tenant has very many jobs in front. Nine others go on as if it were one of them.

`make fair-shares` runs it with a million jobs in front (INTURN_FAIR_FLOOD).
"""

import os
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import Query
from tests.waiting import wait_until

FLOOD = int(os.environ.get("INTURN_FAIR_FLOOD") or 20_000)
EACH, WORKERS = 100, 2
SMALL = [f"small{n}" for n in range(9)]
LIMIT = 300  # seconds; only keeps a failing test from hanging
DEFER = """
SELECT count(*)
FROM (SELECT %s::integer AS jobs, %s::text AS name, %s::text AS group_key) AS given
CROSS JOIN LATERAL defer_jobs(
    array_fill('tell'::text, ARRAY[jobs]),
    array_fill(jsonb_build_object('group', name), ARRAY[jobs]),
    NULL, NULL, NULL, NULL, NULL, p_group_keys => array_fill(group_key, ARRAY[jobs]))
"""


def defer(query: Query, name: str, count: int, *, grouped: bool) -> None:
    for start in range(0, count, 50_000):
        query(DEFER, min(50_000, count - start), name, name if grouped else None)


def run_until_the_nine_have_ended(dsn: str, log: Path) -> tuple[list[str], float]:
    """Return the groups in the order in which their jobs started, and the seconds that it took."""
    log.write_text("")
    began = time.monotonic()
    workers = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.stress.fair_app"],
            cwd=Path(__file__).parents[2],
            env=os.environ | {"INTURN_DSN": dsn, "FAIR_LOG": str(log)},
        )
        for _ in range(WORKERS)
    ]
    try:
        wait_until(partial(has_all_of_the_nine, log), LIMIT)
        return log.read_text().splitlines(), time.monotonic() - began
    finally:
        for worker in workers:
            worker.terminate()
            worker.wait()


def has_all_of_the_nine(log: Path) -> bool:
    counts = Counter(log.read_text().splitlines())
    return all(counts[name] >= EACH for name in SMALL)


def count_in_front(started: list[str]) -> int:
    """Return how many jobs of the large tenant started before the last one of the nine."""
    last = max(number for number, name in enumerate(started) if name in SMALL)
    return started[:last].count("large")


@pytest.mark.proof
def test_nine_tenants_behind_one_with_very_many_jobs_end_as_if_alone(
    app_dsn: str, query: Query, tmp_path: Path
) -> None:
    defer(query, "large", FLOOD, grouped=True)
    for name in SMALL:
        defer(query, name, EACH, grouped=True)
    started, seconds = run_until_the_nine_have_ended(app_dsn, tmp_path / "log")
    in_front = count_in_front(started)
    print(f"{FLOOD:,} in front: {in_front} of them before the nine had ended, {seconds:.1f} s")
    # A turn for each of theirs. A group whose first job another claim has locked misses a turn.
    assert in_front <= 2 * EACH, Counter(started)
    assert in_front > EACH / 2, "the large one has its share too"


@pytest.mark.proof
def test_the_log_shows_tenants_that_wait_for_the_large_one(
    app_dsn: str, query: Query, tmp_path: Path
) -> None:
    defer(query, "large", 2_000, grouped=False)
    for name in SMALL:
        defer(query, name, EACH, grouped=False)
    started, _ = run_until_the_nine_have_ended(app_dsn, tmp_path / "log")
    assert count_in_front(started) > 2 * EACH
