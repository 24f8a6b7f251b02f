"""What is stored outlives its server: its transaction ids mean nothing in a younger cluster."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from inturn.embedded import Server
from inturn.embedded.binaries import find_binaries
from inturn.schema.migrate import migrate, prepare_history
from tests.race.harness import Stage
from tests.waiting import wait_until

pytestmark = pytest.mark.landing

AGES = """
DO $$ BEGIN FOR i IN 1..20000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$
"""
NEXT_ID = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
SYNCED = "SELECT FROM pg_subscription_rel WHERE srsubstate <> 'r'"
APPLIED = "SELECT FROM inturn.limits WHERE pattern = 'marker'"
LEFT = "SELECT id, status, task, explain.reason, explain.detail FROM jobs, LATERAL explain(id)"
Move = Callable[[str, str, Path], None]


@pytest.fixture
def old(bin_dir: Path | None) -> Iterator[str]:
    with Server(bin_dir=bin_dir, settings={"wal_level": "logical"}) as server:
        migrate(server.dsn())
        prepare_history(server.dsn())
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute(AGES)
        yield server.dsn()


@pytest.fixture
def new(bin_dir: Path | None) -> Iterator[str]:
    with Server(bin_dir=bin_dir) as server:
        yield server.dsn()


def dumped(old: str, new: str, binaries: Path, *options: str) -> None:
    """Move by a dump, as to another major version or another host."""
    dump = subprocess.run([binaries / "pg_dump", *options, old], check=True, capture_output=True)
    subprocess.run([binaries / "psql", "-qXo/dev/null", new], check=True, input=dump.stdout)


def replicated(old: str, new: str, binaries: Path) -> None:
    """Move by logical replication, which carries no sequences."""
    dumped(old, new, binaries, "--schema-only")
    with (
        psycopg.connect(old, autocommit=True) as source,
        psycopg.connect(new, autocommit=True) as target,
    ):
        source.execute("CREATE PUBLICATION everything FOR ALL TABLES")
        target.execute(f"CREATE SUBSCRIPTION everything CONNECTION '{old}' PUBLICATION everything")
        wait_until(lambda: not target.execute(SYNCED).fetchall())
        source.execute("SELECT inturn.set_limit('marker', 1)")
        wait_until(lambda: target.execute(APPLIED).fetchall())
        target.execute("DROP SUBSCRIPTION everything")
        target.execute(
            "SELECT setval('inturn.' || sequence, needed) FROM inturn.sequences_behind()"
        )


@pytest.mark.parametrize("move", [dumped, replicated])
def test_the_queue_goes_on_in_a_younger_cluster_with_everything_in_flight(
    old: str, new: str, move: Move, bin_dir: Path | None
) -> None:
    with closing(Stage(old)) as stage:
        fill(stage)
        horizon = leave_horizon(stage)
        count = len(stage.statuses())
        move(old, new, find_binaries(bin_dir))
    with closing(Stage(new)) as stage:
        [(next_id,)] = stage.control.execute(NEXT_ID).fetchall()
        assert next_id < horizon
        assert len(stage.statuses()) == count
        assert left_after_two_minutes(stage) == []
        assert stage.lanes() == {}
        for table in ("edges", "batch_events", "waits", "ends"):
            assert stage.control.execute(f"SELECT FROM {table}".encode()).fetchall() == [], table


def fill(stage: Stage) -> None:
    """Put jobs of every kind in flight."""
    producer, worker = stage.session(), stage.worker()
    producer.set_limit("one", 1)
    producer.run("SELECT set_limit('often', p_rate => 1, p_period => '1 s')")
    producer.run("SELECT register_schedules('{tick}', '{a}', '{* * * * *}', '{UTC}')")
    [(batch,)] = producer.run("SELECT open_batch('b', 'callback')")
    producer.run("SELECT defer('t', batch_id => %s), defer('t', batch_id => %s)", batch, batch)
    for lock in ("lane", "lane", "lane", "again", "again"):
        producer.defer(lock)
    producer.defer_several("lane", "other")
    producer.defer_several("read", shared=["read"])
    for limit in ("one", "often"):
        producer.defer(None, 0, 0, 0, limit=limit)
    producer.defer(None, 0, 0, group="tenant")
    producer.defer(None, delay="1 hour")
    running = worker.claim(30)
    producer.defer_after(running[0].id)
    worker.retry(running[1], delay="10 s")
    worker.finish(running[2])
    producer.run("SELECT close_batch(%s)", batch)


def leave_horizon(stage: Stage) -> int:
    """Let a job come after one whose transaction is rolled back. Return the id that is stored."""
    producer, person, worker = stage.session(), stage.session(), stage.worker()
    person.begin()
    [gone] = person.defer(None)
    child = producer.defer_after(gone, on_parent="go")
    worker.claim(30)
    person.rollback()
    [(horizon,)] = producer.run("SELECT horizon FROM edges WHERE child = %s", child)
    return int(horizon)


def left_after_two_minutes(stage: Stage) -> list[tuple[object, ...]]:
    """Return the jobs that a new worker could not do, with the reasons."""
    worker = stage.worker()
    stage.control.execute("DELETE FROM workers WHERE id <> %s", [worker.id])
    worker.rescue()
    for seconds in range(60):
        worker.hasten(f"{3600 + 2 * seconds} seconds")
        worker.finish(*worker.claim(30), want=0)
    return stage.control.execute(LEFT).fetchall()
