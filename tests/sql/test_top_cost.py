"""A look of `queue top` is cheap whatever the statistics say. Rows and pages are counted.

That it does not grow with one kind of rows is in test_reads_cost.py.
"""

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from inturn.cli.live.look import Look, Meter, read
from tests.sql.recorder import KINDS, LARGE, SMALL, Recorder
from tests.sql.test_growth import Bench

pytestmark = pytest.mark.fresh_database


@pytest.fixture
def bench(dsn: str) -> Iterator[Bench]:
    with closing(
        psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn")
    ) as connection:
        yield Bench(connection)


def look(bench: Bench) -> tuple[Look, dict[str, int]]:
    """Return the look, and the rows and pages of each statement."""
    recorder = Recorder(bench)
    with bench.connection.transaction():
        seen = read(recorder.run, "inturn", 20, Meter())
    return seen, recorder.costs


@pytest.mark.landing
def test_a_look_at_all_kinds_at_once_does_not_read_whole_tables(bench: Bench) -> None:
    """A join may be planned otherwise once each of its sides is large."""
    kinds = ("free jobs", "halted lanes", "distinct lanes")
    found, grown_to = [], 0
    for rows in (SMALL, LARGE - SMALL):
        for kind in kinds:
            bench.grow(KINDS[kind], grown_to + 1, grown_to + rows)
            grown_to += rows
        look(bench)
        found.append(look(bench)[1])
    small, large = found
    # Each probe may take a page more, since the trees are deeper. It reads no more rows.
    counts = {what: cost for what, cost in large.items() if what.startswith("rows of ")}
    grown = {what: (small[what], cost) for what, cost in counts.items() if cost > small[what] + 20}
    assert grown == {}, f"{grown_to:,} rows"


def test_a_look_reads_no_more_if_the_statistics_are_those_of_an_empty_table(bench: Bench) -> None:
    """A plan that was made for an empty table may read all of a full one."""
    kinds = ("free jobs", "halted lanes", "distinct lanes")
    for kind in kinds:
        bench.grow(KINDS[kind], 1 + SMALL * kinds.index(kind), SMALL * (1 + kinds.index(kind)))
    look(bench)
    _, analysed = look(bench)
    bench.connection.execute(
        "UPDATE pg_class SET reltuples = 0, relpages = 0 "
        "WHERE relnamespace = 'inturn'::regnamespace AND relkind = 'r'"
    )
    bench.connection.execute("DELETE FROM pg_statistic WHERE starelid = 'jobs'::regclass")
    bench.connection.execute("DELETE FROM pg_statistic WHERE starelid = 'lanes'::regclass")
    bench.connection.execute("DISCARD PLANS")
    look(bench)
    _, now = look(bench)
    assert {
        what: (analysed[what], cost) for what, cost in now.items() if cost > 2 * analysed[what] + 20
    } == {}


def test_with_many_rows_the_lanes_are_still_found(bench: Bench) -> None:
    bench.grow(KINDS["halted lanes"], 1, SMALL)
    bench.grow(KINDS["distinct lanes"], SMALL + 1, 2 * SMALL)
    seen, _ = look(bench)
    assert [lane.state for lane in seen.troubled] == ["halted"] * 20
    assert seen.lanes["halted"] == 10_000


def test_the_view_of_queues_is_too_cheap_to_be_compiled(bench: Bench) -> None:
    """A server with JIT compiles what it takes for expensive, which takes seconds each time."""
    for kind in ("free jobs", "distinct lanes", "halted lanes"):
        bench.grow(KINDS[kind], 1 + SMALL * len(kind), SMALL * (1 + len(kind)))
        [(plan,)] = bench.connection.execute(
            "EXPLAIN (FORMAT JSON) SELECT * FROM queue_status"
        ).fetchall()
        [(limit,)] = bench.connection.execute("SHOW jit_above_cost").fetchall()
        assert plan[0]["Plan"]["Total Cost"] < float(limit), kind
