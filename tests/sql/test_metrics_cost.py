"""A look for metrics is cheap whatever the statistics say. Rows and pages are counted.

That it does not grow with the queue is in test_reads_cost.py.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import make_dataclass
from typing import get_type_hints

import psycopg
import pytest

from inturn.operations.reading import measures
from inturn.operations.reading.parts import read_parts
from inturn.operations.reading.situation import Situation
from tests.sql.recorder import KINDS, SMALL, Recorder
from tests.sql.test_growth import Bench

pytestmark = pytest.mark.fresh_database


@pytest.fixture
def bench(dsn: str) -> Iterator[Bench]:
    with closing(
        psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn")
    ) as connection:
        yield Bench(connection)


def look(bench: Bench) -> dict[str, int]:
    """Return the rows and pages of each statement, and of each part of one."""
    recorder = Recorder(bench)
    for kind in (Situation, measures.Measures):
        for part in get_type_hints(kind, include_extras=True).items():
            recorder.run(read_parts(make_dataclass("Part", [part]), "inturn"))
    recorder.run(measures.count_repairs())
    recorder.run(measures.measure_server())
    return recorder.costs


def test_a_look_reads_no_more_if_the_statistics_are_those_of_an_empty_table(bench: Bench) -> None:
    """A plan that was made for an empty table may read all of a full one."""
    bench.grow(KINDS["free jobs"], 1, SMALL)
    look(bench)
    analysed = look(bench)
    bench.connection.execute("UPDATE pg_class SET reltuples = 0, relpages = 0 "
                             "WHERE relnamespace = 'inturn'::regnamespace AND relkind = 'r'")  # fmt: skip
    bench.connection.execute("DELETE FROM pg_statistic WHERE starelid = 'jobs'::regclass")
    for statement in KINDS["free jobs"]:
        bench.connection.execute("CREATE TEMPORARY TABLE IF NOT EXISTS numbers (n int)")
        bench.connection.execute(
            statement, {"first": 1, "last": 1, "worker": bench.worker, "other": bench.other}
        )
    look(bench)
    now = look(bench)
    assert {
        what: (analysed[what], cost) for what, cost in now.items() if cost > 2 * analysed[what] + 20
    } == {}
