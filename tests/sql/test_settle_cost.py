"""No claim does unbounded work for children, however many wait and whichever sessions have them locked.

Each shape is built small and large, and rows are counted, which repeat on any machine.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
import pytest

from inturn.sql import source_file
from inturn.testing import Databases
from tests.sql.counted import Counter

pytestmark = [pytest.mark.fresh_database, pytest.mark.proof]

CLAIMS = 4
SAME = 1.15
PER_CHILD = 60  # rows; a claim looks at a thousand children
END: LiteralString = (
    "SELECT finish(%s, NULL, 0, array_agg(id), array_agg(claim_id), "
    "array_agg(%s::job_status), array_agg(NULL::jsonb)) "
    "FROM jobs WHERE status = 'doing'"
)


class Family:
    """One worker, the jobs of one shape, and a user with a transaction of their own."""

    def __init__(self, connection: psycopg.Connection[Any], user: psycopg.Connection[Any]) -> None:
        self.connection, self.user = connection, user
        self.counter = Counter(connection)
        [(self.worker,)] = self.query("SELECT register_worker('w', 'h', 1, NULL, 1)")

    def query(self, statement: LiteralString, *parameters: object) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else []

    def parents(self, count: int) -> None:
        self.query(
            "INSERT INTO jobs (task, created_at, status, has_children) "
            "SELECT 't', now(), 'todo', true FROM generate_series(1, %s)", count,
        )  # fmt: skip

    def children(self, count: int, status: str = "pending") -> None:
        self.query(
            "INSERT INTO jobs (task, created_at, status, scheduled_at, has_parents, has_children) "
            "SELECT 't', now(), %s, now(), true, true FROM generate_series(1, %s)", status, count,
        )  # fmt: skip

    def edges(self, parent: LiteralString, children: int, after: int) -> None:
        """Add an edge to each child n from 1, whose parent is an expression of n."""
        self.query(
            "INSERT INTO edges (parent, child, on_parent) SELECT " + parent + ", %s + n, 'cancel' "
            "FROM generate_series(1, %s) AS n", after, children,
        )  # fmt: skip

    def end(self, status: str = "succeeded") -> None:
        """Start all parents and end them."""
        while self.query("SELECT id FROM claim(%s, NULL, 500)", self.worker):
            pass
        self.query(END, self.worker, status)

    def lock(self, condition: LiteralString) -> None:
        self.user.execute("SELECT FROM jobs WHERE " + condition + " FOR UPDATE")

    def most_rows(self) -> int:
        """Return what the most expensive of some claims has met."""
        rows = []
        for _ in range(CLAIMS):
            with self.counter.count() as work:
                self.query("SELECT id FROM claim(%s, NULL, 1)", self.worker)
            rows.append(work.rows)
        return max(rows)

    def waiting(self) -> int:
        return int(
            self.query("SELECT count(*) FROM jobs WHERE status IN ('pending', 'scheduled')")[0][0]
        )


@contextmanager
def family(databases: Databases) -> Iterator[Family]:
    path = "-c search_path=inturn"
    with (
        databases.clone() as dsn,
        psycopg.connect(dsn, autocommit=True, options=path) as connection,
        psycopg.connect(dsn, options=path) as user,
    ):
        yield Family(connection, user)


def one_parent(f: Family, count: int) -> None:
    f.parents(1)
    f.children(count)
    f.edges("1", count, 1)
    f.end()


def one_parent_that_failed(f: Family, count: int) -> None:
    f.parents(1)
    f.children(count)
    f.edges("1", count, 1)
    f.end("failed")


def one_parent_with_locked_children(f: Family, count: int) -> None:
    f.parents(1)
    f.children(count)
    f.edges("1", count, 1)
    f.lock("status = 'pending'")
    f.end()


def many_parents_with_locked_children(f: Family, count: int) -> None:
    f.parents(count // 50)
    f.children(count // 50)
    f.edges("n", count // 50, count // 50)
    f.lock("status = 'pending'")
    f.end()


def parents_that_are_locked(f: Family, count: int) -> None:
    f.parents(count // 50)
    f.query(
        "UPDATE jobs SET has_children = NULL, status = 'scheduled', "
        "scheduled_at = now() + interval '1 day'"
    )
    f.children(count // 50, "scheduled")
    f.edges("n", count // 50, count // 50)
    f.lock("scheduled_at > now() + interval '1 hour'")


def a_chain_that_is_cancelled(f: Family, count: int) -> None:
    f.parents(1)
    f.children(count // 10)
    f.edges("n", count // 10, 1)
    f.end("failed")


def a_tree_that_is_cancelled(f: Family, count: int) -> None:
    """Each job has ten children."""
    f.parents(1)
    f.children(count // 10)
    f.edges("(n + 9) / 10", count // 10, 1)
    f.end("failed")


Shape = Callable[[Family, int], None]
SHAPES: dict[Shape, tuple[int, int]] = {
    one_parent: (5_000, 100_000),
    one_parent_that_failed: (5_000, 50_000),
    one_parent_with_locked_children: (5_000, 100_000),
    many_parents_with_locked_children: (75_000, 500_000),
    parents_that_are_locked: (60_000, 200_000),
    a_chain_that_is_cancelled: (2_000, 100_000),
    a_tree_that_is_cancelled: (50_000, 100_000),
}


def rows(databases: Databases, shape: Shape, count: int, text: str | None = None) -> int:
    with family(databases) as f:
        if text is not None:
            f.connection.execute(text.encode())
        shape(f, count)
        before = f.waiting()
        met = f.most_rows()
        assert before > CLAIMS, "there was nothing to do"
        return met


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_a_claim_does_the_same_work_however_many_children_wait(
    databases: Databases, shape: Shape
) -> None:
    small, large = (rows(databases, shape, count) for count in SHAPES[shape])
    assert large <= SAME * small
    assert large <= PER_CHILD * 1000


def test_a_claim_that_looks_at_all_locked_children_is_noticed(databases: Databases) -> None:
    text = source_file("settle_ends").read_text(encoding="utf-8")
    unbounded = text.replace("LIMIT v_left", "")
    assert unbounded != text
    small, large = (
        rows(databases, one_parent_with_locked_children, count, unbounded)
        for count in (5_000, 10_000)
    )
    assert large > SAME * small


def test_a_claim_that_looks_through_all_ends_for_each_child_is_noticed(
    databases: Databases,
) -> None:
    index = "DROP INDEX ends_job; CREATE INDEX ends_job ON ends (job_id)"
    met = rows(databases, one_parent_that_failed, 5_000, index)
    assert met > PER_CHILD * 1000
