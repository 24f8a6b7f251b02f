"""Two versions side by side under load: an upgrade and a downgrade lose nothing and repeat nothing.

Each version is a tree of files of its own, and each worker a process that imports one of them.
"""

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from inturn.cli.output.exit_status import SCHEMA
from tests.cli.calling import PATIENCE
from tests.cli.conftest import Until
from tests.cli.conftest import folder as folder
from tests.deploy.versions import (
    LANES,
    TASKS,
    Producer,
    Record,
    Version,
    make_later_version,
    more,
    recording,
)

pytestmark = pytest.mark.landing

ENOUGH = 40  # jobs that are run in each situation


@pytest.fixture
def this(folder: Path, dsn: str) -> Version:
    (folder / "upgrade_tasks.py").write_text(TASKS)
    return Version(folder, dsn)


@pytest.fixture
def later(this: Version, tmp_path: Path) -> Version:
    return Version(this.folder, this.dsn, make_later_version(tmp_path))


@pytest.fixture
def until(folder: Path) -> Until:
    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            logs = {file.name: file.read_text()[-2000:] for file in folder.glob("*.log")}
            assert time.monotonic() < deadline, logs
            time.sleep(0.02)

    return wait


@pytest.fixture
def record(dsn: str) -> Iterator[Record]:
    with recording(dsn) as record:
        yield record


def assert_all_ran_once_and_in_order(producer: Producer, record: Record, until: Until) -> None:
    until(lambda: record.succeeded() == len(producer.acknowledged))
    rows = record.rows()
    twice = [job for job, times in Counter(job for job, _, _ in rows).items() if times > 1]
    assert twice == []
    assert {job: (lane, number) for job, lane, number in rows} == producer.acknowledged
    for each in range(LANES):
        numbers = [number for _, lane, number in rows if lane == f"lane {each}"]
        assert numbers == sorted(numbers)
        assert numbers


def test_the_later_version_is_one(this: Version, later: Version) -> None:
    status = later.run("schema", "status")
    assert status.returncode == SCHEMA
    assert "is at revision 0001, this version needs 0002" in status.stderr
    plan = later.run("migrate", "--plan")
    assert plan.stdout.splitlines()[:2] == [
        "schema inturn: revision 0001 -> 0002",
        "  run 0002.up.sql: Colours.",
    ]
    assert this.run("schema", "status").returncode == 0


@pytest.mark.proof
@pytest.mark.fresh_database
def test_workers_of_both_versions_run_beside_each_other_after_an_upgrade_under_load(
    this: Version, later: Version, record: Record, dsn: str, until: Until
) -> None:
    ran_by_this, ran_by_later = partial(record.count, "this"), partial(record.count, "later")
    with this.worker("old-1") as first, this.worker("old-2") as second, Producer(dsn) as producer:
        until(more(ran_by_this, ENOUGH))
        migrated = later.run("migrate")
        assert migrated.returncode == 0, migrated.stderr
        assert "revision 0001 -> 0002" in migrated.stdout
        until(more(ran_by_this, ENOUGH))  # they go on
        with later.worker("new-1") as third:
            until(more(ran_by_later, ENOUGH))
            until(more(ran_by_this, ENOUGH))  # at the same time
            assert [each.poll() for each in (first, second, third)] == [None] * 3
            for each in (first, second):
                each.send_signal(signal.SIGTERM)
                assert each.wait(60) == 0
            until(more(ran_by_later, ENOUGH))
            producer.stop()
            assert_all_ran_once_and_in_order(producer, record, until)
    assert producer.refused == 0
    with psycopg.connect(dsn) as connection:
        changed = connection.execute(
            "SELECT count(*) FROM pg_proc WHERE prosrc LIKE '%%the later version%%'"
        )
        assert changed.fetchone() == (3,)


@pytest.mark.fresh_database
def test_the_version_before_may_start_and_migrate_after_the_upgrade(
    this: Version, later: Version, record: Record, dsn: str, until: Until
) -> None:
    assert later.run("migrate").returncode == 0
    again = this.run("migrate")  # as a container does before each start
    assert again.stdout == "schema inturn: revision 0002, up to date\n"
    assert this.run("migrate", "--plan").stdout == "schema inturn: revision 0002, nothing to do\n"
    assert this.run("schema", "status").returncode == 0
    with this.worker("old-1"), later.worker("new-1"), Producer(dsn) as producer:
        until(more(partial(record.count, "this"), ENOUGH))
        until(more(partial(record.count, "later"), ENOUGH))
        producer.stop()
        assert_all_ran_once_and_in_order(producer, record, until)
    assert later.run("migrate", "--plan").stdout.endswith("nothing to do\n")


@pytest.mark.fresh_database
def test_a_version_that_the_later_one_does_not_serve_says_why_it_ends(
    this: Version, tmp_path: Path
) -> None:
    later = Version(this.folder, this.dsn, make_later_version(tmp_path, serves_this=False))
    assert later.run("migrate").returncode == 0
    for words in (["worker"], ["migrate"], ["schema", "status"]):
        refused = this.run(*words)
        assert refused.returncode == SCHEMA
        assert "is at revision 0002, newer than this version knows (0001)" in refused.stderr


@pytest.mark.proof
@pytest.mark.fresh_database
def test_a_downgrade_under_load_loses_no_job_and_runs_none_twice(
    this: Version, later: Version, record: Record, dsn: str, until: Until
) -> None:
    assert later.run("migrate").returncode == 0
    with Producer(dsn) as producer:
        with later.worker("new-1") as worker:
            until(more(partial(record.count, "later"), ENOUGH))
            worker.send_signal(signal.SIGTERM)  # as the document says: first stop the workers
            assert worker.wait(60) == 0
        done = later.run("schema", "downgrade", "--yes")
        assert done.returncode == 0, done.stderr
        assert "run 0002.down.sql, undoing: Colours." in done.stdout
        until(more(lambda: producer.refused, 1))  # nobody can defer, and nobody is told otherwise
        assert this.run("worker").returncode == SCHEMA
        assert this.run("migrate").returncode == 0
        until(more(lambda: len(producer.acknowledged), ENOUGH))
        with this.worker("old-1"):
            until(more(partial(record.count, "this"), ENOUGH))
            producer.stop()
            assert_all_ran_once_and_in_order(producer, record, until)
