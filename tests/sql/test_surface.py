"""What a job costs does not grow with the batch, the lanes in hand, the depth, or the queues.

Rows and bytes of WAL are counted, not seconds. On a double logarithmic scale the slope is 1 if the
cost grows in proportion.
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import linear_regression
from typing import LiteralString

import psycopg
import pytest

from inturn.sql import find_folder
from tests.sql.one_worker import CLAIM, Worker

pytestmark = pytest.mark.fresh_database

FLAT = 0.1
CLAIM_OF: LiteralString = "SELECT id, claim_id FROM claim(%s, %s, %s)"

# Lists that are short whatever the size of a batch.
SHORT = {"p_queues", "r.queues", "v_queues", "queues", "tasks", "p_forget", "p_seen", "v_new"}
SHORT |= {"p_statuses", "v_statuses", "v_stored", "v_live", "p_states"}
# A job has at most eight lanes.
SHORT |= {
    "locks",
    "jobs.locks",
    "shared",
    "jobs.shared",
    "job.shared",
    "p_job.shared",
    "v_first.shared",
    "p_shared",
    "p_job_locks",
}
SHORT |= {"p_job.locks", "p_new", "job.locks", "due.locks"}

# Where each of the ids or locks in the list is looked up in an index.
KEYS = {"id", "job.id", "jobs.id", "again.id", "lock", "lanes.lock", "key"}
KEYS |= {"edges.parent", "edges.child", "seq", "batch_id", "limit_key", "gate"}
RIVALS = "v_id and v_ids"  # in defer_unless_waiting: those under one queueing lock


@pytest.fixture
def worker(dsn: str) -> Iterator[Worker]:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        yield Worker(connection)


def slope(costs: dict[int, float]) -> float:
    """Of the line through the points in a double logarithmic picture."""
    return linear_regression(
        [math.log10(size) for size in costs], [math.log10(cost) for cost in costs.values()]
    ).slope


def hand_over(worker: Worker, count: int) -> float:
    """Return the rows per job of a claim of so many lanes, and of the finish that hands them on."""
    hand = worker.claim("claim", count)
    assert len(hand) == count
    assert len(worker.finish("finish", hand, count)) == count
    return (worker.rows["claim"] + worker.rows["finish"]) / count


def test_what_a_job_costs_does_not_grow_with_the_batch(worker: Worker) -> None:
    for _ in range(2):
        worker.defer(16 + 32 + 64 + 128, lanes=True)
    worker.defer(1)  # something else that is ready
    costs = {count: hand_over(worker, count) for count in (16, 32, 64, 128)}
    assert slope(costs) < FLAT, costs


def test_what_a_job_costs_does_not_grow_with_the_lanes_that_are_in_hand(worker: Worker) -> None:
    costs: dict[int, float] = {}
    for _ in range(2):
        worker.defer(1600, lanes=True)
    held = 0
    for size in (100, 200, 400, 800):
        while held < size:
            held += len(worker.query(CLAIM, worker.id, 100))
        costs[size] = hand_over(worker, 100)
        held += 100
    assert slope(costs) < FLAT, costs


def test_what_a_job_costs_does_not_grow_with_the_depth_of_its_lane(worker: Worker) -> None:
    costs: dict[int, float] = {}
    deep = 0
    for depth in (4, 16, 64, 256):
        for _ in range(depth - deep):
            worker.defer(16, lanes=True)
        deep = depth
        while worker.query(CLAIM, worker.id, 16):
            pass  # until the tokens of held lanes are out of the way
        hand = worker.query("SELECT id, claim_id FROM jobs WHERE status = 'doing'")
        assert len(worker.finish("finish", hand, 16)) == 16
        costs[depth] = worker.rows["finish"] / 16
    assert slope(costs) < FLAT, costs


def test_what_a_claim_writes_does_not_grow_with_the_queues(worker: Worker) -> None:
    wal, rows = {}, {}
    for count in (1, 8, 64):
        queues = [f"{count}-{n}" for n in range(count)]
        worker.defer(1024, queues=count)
        before = written(worker)
        claimed = [worker.query(CLAIM_OF, worker.id, queues, 100) for _ in range(4)]
        assert [len(jobs) for jobs in claimed] == [100] * 4
        wal[count] = (written(worker) - before) / 400
        with worker.counter.count() as work:
            worker.query(CLAIM_OF, worker.id, queues, 100)
        rows[count] = work.rows
    assert slope(wal) < FLAT, wal
    assert rows[64] - rows[1] < 64 * 60, f"a few probes for each queue: {rows}"


def written(worker: Worker) -> float:
    return float(worker.query("SELECT pg_current_wal_insert_lsn() - '0/0'")[0][0])


def compared_lists(text: str) -> list[str]:
    """Return what compares each row of something with each element of a list."""
    code = re.sub(r"--.*", "", text)
    lists = re.findall(r"([\w.]+)\s*(?:=\s*ANY|<>\s*ALL)\s*\(\s*([\w.]+)\s*\)", code)
    found = [
        f"{what} and {name}"
        for what, name in lists
        if name not in SHORT and not (what in KEYS and f"{what} = ANY ({name})" in code)
    ]
    found = [each for each in found if each != RIVALS]
    return found + re.findall(r"[\w.]+\s*<@\s*[\w.]+", code)


@pytest.mark.parametrize(
    "file",
    sorted((find_folder("sql") / "functions").rglob("*.sql")),
    ids=lambda file: file.stem,
)
def test_no_call_compares_all_of_a_batch_with_each_other(file: Path) -> None:
    """Rows that are counted do not show it: a list is compared within one row."""
    assert compared_lists(file.read_text(encoding="utf-8")) == []


def test_lists_that_are_compared_are_seen() -> None:
    assert compared_lists("WHERE t.lock <> ALL (p_lost)") == ["t.lock and p_lost"]
    assert compared_lists("AND NOT v_look.lanes <@ v_used") == ["v_look.lanes <@ v_used"]
    assert compared_lists("WHERE jobs.id = ANY (v_ids) AND job_id = ANY (v_ids)") == [
        "job_id and v_ids"
    ]
    assert compared_lists("WHERE jobs.id = ANY (v_ids)") == []
