"""A call does the same work whenever the tables were analysed, and however wrong that is by now.

The tables of a queue breathe. Autovacuum analyses them when it likes, perhaps when they are empty,
and the planner then believes for a long time that they are.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import LiteralString

import pytest

from inturn.testing import Databases
from tests.sql.counted import open_clone
from tests.sql.one_worker import AT_ONCE, CLAIM, LANES, Worker

pytestmark = pytest.mark.fresh_database

# A plan that reads a whole table in place of a key meets a multiple of the rows.
SAME = 1.15


@contextmanager
def worker(databases: Databases) -> Iterator[Worker]:
    with open_clone(databases) as connection:
        yield Worker(connection)


def hold_half(worker: Worker) -> None:
    for _ in range(LANES // 2 // AT_ONCE):
        worker.query(CLAIM, worker.id, AT_ONCE)


def never(worker: Worker) -> None:
    worker.fill()
    hold_half(worker)


def before_the_first_job(worker: Worker) -> None:
    worker.analyse()
    never(worker)


def after_the_last_job(worker: Worker) -> None:
    worker.fill()
    worker.drain()
    worker.analyse()
    never(worker)


def when_all_was_waiting(worker: Worker) -> None:
    worker.fill()
    worker.analyse()
    hold_half(worker)


def in_between(worker: Worker) -> None:
    never(worker)
    worker.analyse()


MOMENTS: list[Callable[[Worker], None]] = [
    before_the_first_job, after_the_last_job, when_all_was_waiting, in_between
]  # fmt: skip


@pytest.fixture(scope="module")
def usual(databases: Databases) -> dict[str, int]:
    """The rows that each call meets if nothing was ever analysed."""
    with worker(databases) as here:
        never(here)
        here.work()
        return here.rows


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.__name__)
def test_a_call_does_the_same_work_whenever_the_tables_were_analysed(
    databases: Databases, usual: dict[str, int], moment: Callable[[Worker], None]
) -> None:
    with worker(databases) as here:
        moment(here)
        here.work()
    different = {
        call: (usual[call], rows)
        for call, rows in here.rows.items()
        if not usual[call] / SAME - 20 < rows < usual[call] * SAME + 20
    }
    assert different == {}


REPORTS: list[LiteralString] = [
    "SELECT * FROM lane_status",
    "SELECT * FROM list_lanes(1000)",
    "SELECT * FROM count_jobs(10000, jobs_where('{claimed,doing,blocked}'))",
    "SELECT * FROM queue_status",
]


@pytest.mark.parametrize("moment", [never, *MOMENTS], ids=lambda moment: moment.__name__)
def test_a_report_does_not_compare_each_lane_with_each_job(
    databases: Databases, moment: Callable[[Worker], None]
) -> None:
    with worker(databases) as here:
        moment(here)
        for report in REPORTS:
            here.counted(report, report)
        held = here.query("SELECT count(*) FROM lane_status WHERE job_status IS NOT NULL")
    assert held == [(LANES // 2,)]
    assert {report: rows for report, rows in here.rows.items() if rows > 40 * LANES} == {}
