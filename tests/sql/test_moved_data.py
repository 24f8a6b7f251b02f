"""The files of a server outlive it: in a later major version, and as a backup restores them."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from inturn.embedded import Server
from inturn.embedded.binaries import find_binaries, reachable, server_account
from inturn.schema.migrate import migrate, prepare_history
from tests.race.harness import Stage
from tests.sql.in_flight import assert_all_ends, fill, leave_horizon
from tests.waiting import wait_until

pytestmark = pytest.mark.proof
OLDER = Path("/usr/lib/postgresql/15/bin")  # of Debian, the oldest version that is supported
HERE = "here"
# Newer minor versions mark columns, and the new server may be older than they are (see snapshot.py).
UNMARK = "UPDATE pg_attribute SET attoptions = NULL WHERE attoptions::text LIKE '{pg_attver=%}'"


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of the server's account. Sockets need a shorter path than pytest's."""
    place = Path(tempfile.mkdtemp(prefix="inturn-moved-"))
    server_account().take(place)
    yield place
    shutil.rmtree(place)


def run(place: Path, *command: str | Path) -> None:
    """Run a program as the account of the server. Some write into the folder they run in."""
    account = server_account()
    groups: list[int] | None = None if account.uid is None else []
    done = subprocess.run(
        command, cwd=place, user=account.uid, group=account.gid, extra_groups=groups,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    logs = [
        re.findall(".*error: .*", file.read_text()) for file in place.rglob("pg_upgrade_dump_*.log")
    ]
    assert done.returncode == 0, [done.stdout[-500:], done.stderr, *logs]


def begin(dsn: str) -> int:
    """Put jobs of every kind in flight, and return how many there are."""
    migrate(dsn)
    prepare_history(dsn)
    with closing(Stage(dsn)) as stage:
        fill(stage)
        leave_horizon(stage)
        return len(stage.statuses())


def go_on(dsn: str, count: int) -> None:
    with closing(Stage(dsn)) as stage:
        assert len(stage.statuses()) == count
        assert_all_ends(stage)


def test_the_queue_goes_on_after_pg_upgrade(place: Path, bin_dir: Path | None) -> None:
    account, old, new = server_account(), place / "old", place / "new"
    if not OLDER.exists():
        pytest.fail("There is no PostgreSQL 15. On Debian: apt-get install postgresql-15")
    with Server(old, bin_dir=OLDER) as server:
        count = begin(server.dsn())
        with psycopg.connect(server.dsn()) as connection:
            connection.execute(UNMARK)
    binaries = reachable(find_binaries(bin_dir), account, place)
    options = "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-data-checksums"
    run(place, binaries / "initdb", *options, "-D", new)
    folders = "-b", OLDER, "-B", binaries, "-d", old, "-D", new, "-s", place
    run(place, binaries / "pg_upgrade", "--no-sync", "--username=postgres", *folders)
    with Server(new, bin_dir=bin_dir) as server:
        with psycopg.connect(server.dsn()) as connection:
            assert connection.info.server_version // 10000 > 15
        go_on(server.dsn(), count)


def test_the_queue_goes_on_at_the_point_in_time_to_which_it_is_restored(
    place: Path, bin_dir: Path | None
) -> None:
    account, backup, archive = server_account(), place / "backup", place / "archive"
    archive.mkdir()
    account.take(archive)
    binaries = reachable(find_binaries(bin_dir), account, place)
    settings = {"archive_mode": "on", "archive_command": f"cp %p {archive}/%f"}
    with Server(bin_dir=bin_dir, settings=settings) as server:
        # It ends all jobs after the point, so that the restored server has to forget that.
        migrate(server.dsn())
        run(place, binaries / "pg_basebackup", "-c", "fast", "-D", backup, "-d", server.dsn())
        count = begin(server.dsn())
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("SELECT pg_create_restore_point(%s)", [HERE])
            with closing(Stage(server.dsn())) as stage:
                assert_all_ends(stage)
            row = connection.execute("SELECT pg_walfile_name(pg_switch_wal())").fetchone()
            assert row is not None
            wait_until((archive / row[0]).exists)
    (backup / "recovery.signal").touch()
    account.take(backup)
    target = {
        "restore_command": f"cp {archive}/%f %p",
        "recovery_target_name": HERE,
        "recovery_target_action": "promote",
    }
    with Server(backup, bin_dir=bin_dir, settings=target) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            is_over = "SELECT FROM pg_control_recovery() WHERE NOT pg_is_in_recovery()"
            wait_until(lambda: connection.execute(is_over).fetchall())
        go_on(server.dsn(), count)
