"""No view, metric, check or list touches more pages beside five times as many rows of a kind.

Pages repeat on any machine, times do not. reads.py finds what reads, so that nothing is left out.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import LiteralString

import psycopg
import pytest

from tests.sql.reads import SQL, Gauge, find_lists
from tests.sql.recorder import KINDS
from tests.sql.test_growth import Bench

pytestmark = pytest.mark.fresh_database

# A list searches the newest 10,000 jobs, and as many of the others by an index.
SMALL, LARGE = 24_000, 120_000
# Five times as many rows make a tree a level deeper, so a probe of two pages touches three, and a
# few more while others clean up. A reader without a bound touches five times as many.
DEEPER, SAME = 2.0, 1.05
FEW = 20  # pages or rows that a reader may need more


@pytest.fixture
def bench(dsn: str) -> Iterator[Bench]:
    with closing(
        psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn")
    ) as connection:
        yield Bench(connection)


def read_twice(bench: Bench, statements: list[LiteralString]) -> list[Gauge]:
    """Read everything beside few rows, and then beside five times as many."""
    gauges = []
    for first, last in ((1, SMALL), (SMALL + 1, LARGE)):
        bench.grow(statements, first, last)
        Gauge(bench).read_all()  # the first calls after a VACUUM read the catalogue
        gauges.append(Gauge(bench))
        gauges[-1].read_all()
    return gauges


def find_growth(
    small: dict[str, int], large: dict[str, int], most: float
) -> dict[str, tuple[int, int]]:
    return {
        name: (small.get(name, 0), count)
        for name, count in large.items()
        if count > most * small.get(name, 0) + FEW
    }


@pytest.mark.proof
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_reads_touches_more_pages_beside_more(bench: Bench, kind: str) -> None:
    small, large = read_twice(bench, KINDS[kind])
    grown = find_growth(small.pages, large.pages, DEEPER)
    if grown:  # somebody may have cleaned up meanwhile; what is not bounded is there again
        grown = find_growth(small.pages, Gauge(bench).read_all(), DEEPER)
    assert grown == {}, f"from {SMALL:,} to {LARGE:,}"


@pytest.mark.proof
def test_nothing_reads_more_rows_if_there_is_more_of_several_kinds(bench: Bench) -> None:
    """A join may be planned otherwise once each of its sides is large.

    Each of its probes may touch a page more, since the trees are deeper. It reads no more rows.
    """
    small, large = read_twice(
        bench,
        [
            *KINDS["free jobs"],
            *KINDS["halted lanes"],
            "INSERT INTO jobs (created_at, status, task, lock) "
            "SELECT now(), 'todo', 't', 'free lane ' || n FROM numbers",
        ],
    )
    assert find_growth(small.rows, large.rows, SAME) == {}, f"from {SMALL:,} to {LARGE:,}"


def test_everything_that_reads_is_measured(bench: Bench) -> None:
    pages = Gauge(bench).read_all()
    files = [("view", "views"), ("monitoring", "monitoring")]
    for kind, folder in files:
        names = {f"{kind} {file.stem}" for file in (SQL / folder).glob("*.sql")}
        assert names
        assert names <= pages.keys()
    readers = {name.partition(": ")[0] for name in pages}
    assert {"metrics", "doctor", "top"} <= readers
    assert {" ".join(words) for words in find_lists()} <= readers
    assert len(find_lists()) >= 6


@pytest.mark.proof
def test_a_view_that_reads_everything_is_seen(bench: Bench) -> None:
    bench.connection.execute(
        "CREATE OR REPLACE VIEW forgotten_batches AS SELECT id, 'x'::text AS name, "
        "created_at::timestamptz AS opened_at, id AS callback_id FROM jobs"
    )
    small, large = read_twice(bench, KINDS["free jobs"])
    grown = find_growth(small.pages, large.pages, DEEPER)
    assert "view forgotten_batches" in grown
    assert "doctor: find_standstill" in grown
