"""A move whose servers fail over, are copied with all their files, or lose what they did not flush."""

import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from inturn.cells import adopting
from inturn.cells.connector import Cells
from inturn.cells.move_gate import CellGate
from inturn.cells.move_servers import CannotMove, MoveOver, OldServer
from inturn.operations.engine import moving
from tests.cells.conftest import LOGICAL
from tests.cells.load import CELL, LANES, make_cells, query
from tests.cells.moves import SCHEMA, Killed, call, finish, make_move, refuse, serves, until
from tests.chaos.server import Server
from tests.waiting import wait_until

pytestmark = pytest.mark.landing
DEFER = f"SELECT {SCHEMA}.defer('t', lock => '{LANES[0]}')"
JOBS = f"SELECT count(*) FROM {SCHEMA}.jobs"
SLOT = "SELECT slot_name, active_pid FROM pg_replication_slots WHERE slot_name LIKE 'inturn_move%'"
BLOCKED = "SELECT 1 FROM pg_stat_activity WHERE pg_blocking_pids(pid) = ARRAY[%s::int]"
CONFIRMED = "SELECT confirmed_flush_lsn >= pg_current_wal_lsn() FROM pg_replication_slots"
VACUUM_SLOWLY = f"""
ALTER TABLE {SCHEMA}.progress SET (autovacuum_vacuum_threshold = 0,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 100,
    autovacuum_vacuum_cost_limit = 1);
INSERT INTO {SCHEMA}.progress (job_id, fence, done, text, updated_at)
SELECT n, 1, 1, repeat('x', 200), now() FROM generate_series(1, 40000) AS n;
DELETE FROM {SCHEMA}.progress
"""
VACUUMS = """
SELECT pid FROM pg_stat_activity
WHERE backend_type = 'autovacuum worker' AND query LIKE '%progress%'
"""


class Copy(Server):
    """A copy of all files of another server, which is a server of its own, or its standby."""

    def __init__(self, of: Server, *, is_standby: bool = False) -> None:
        super().__init__(bin_dir=of._binaries, settings=LOGICAL)
        self._of, self._is_standby = of, is_standby

    def _make_cluster(self) -> None:
        self._clusters += 1
        words = ["-c", "fast", "-D", str(self._data), "-d", self._of.dsn]
        self._account.run(
            [self._binaries / "pg_basebackup", *words, *(["-R"] if self._is_standby else [])]
        )


@pytest.fixture
def old(bin_dir: Path | None) -> Iterator[Server]:
    settings = LOGICAL | {"autovacuum_naptime": "1s"}
    with Server(bin_dir=bin_dir, settings=settings) as server:
        yield server


@pytest.fixture
def new(bin_dir: Path | None) -> Iterator[Server]:
    with Server(bin_dir=bin_dir, settings=LOGICAL) as server:
        yield server


@pytest.fixture
def cells(old: Server, tmp_path: Path) -> Cells:
    return make_cells(tmp_path, old.dsn)


def configure(server: Server, *settings: str) -> None:
    for setting in settings:
        query(server.dsn, f"ALTER SYSTEM {setting}")
    [(before, _)] = query(server.dsn, "SELECT pg_conf_load_time(), pg_reload_conf()")
    wait_until(lambda: query(server.dsn, "SELECT pg_conf_load_time() > %s", before) == [(True,)])


def set_back(server: Server, earlier: Copy) -> None:
    """Give a server the files that it had earlier."""
    server.stop("immediate")
    server._account.run(["rm", "-r", server._data])
    server._account.run(["cp", "-a", earlier._data, server._data])
    server.start()


def drop_slot(dsn: str) -> bool:
    """Lose the slot, like a standby that is promoted. Return True if it is gone."""
    for slot, pid in query(dsn, SLOT):
        query(dsn, "SELECT pg_terminate_backend(%s, 2000)", pid)
        with suppress(psycopg.errors.ObjectInUse):
            query(dsn, "SELECT pg_drop_replication_slot(%s)", slot)
    return not query(dsn, SLOT)


def test_after_a_failover_of_the_old_server_nothing_is_lost(
    old: Server, new: Server, cells: Cells
) -> None:
    with Copy(old, is_standby=True) as standby:
        until(make_move(cells, new.dsn), "wait")
        [(subscription,)] = query(new.dsn, "SELECT subname FROM pg_subscription")
        slow = f"SELECT count(*) FROM pg_publication WHERE pubname = '{subscription}'"
        wait_until(lambda: query(standby.dsn, slow) == [(1,)])
        old.stop("immediate")
        query(standby.dsn, "SELECT pg_promote()")
        assert cells.file is not None
        text = cells.file.read_text()
        cells.file.write_text(text.replace(str(old.port), str(standby.port)))
        query(new.dsn, f"ALTER SUBSCRIPTION {subscription} CONNECTION '{standby.dsn}'")
        query(standby.dsn, DEFER)
        assert "has lost the slot of this move, as in a failover" in refuse(cells, new.dsn)
        assert (serves(standby.dsn), serves(new.dsn)) == (True, False)
        make_move(cells, new.dsn).abort()
        before = query(standby.dsn, JOBS)
        finish(cells, new.dsn)
        assert query(new.dsn, JOBS) == before


def test_a_slot_that_is_made_late_does_not_close_the_cell(
    old: Server, new: Server, cells: Cells
) -> None:
    move = until(make_move(cells, new.dsn), "wait")
    wait_until(lambda: drop_slot(old.dsn))
    query(old.dsn, DEFER)
    token = move.open_token()
    assert token is not None
    move.old.make_slot(token)  # by a mover that had looked before
    with pytest.raises(CannotMove, match="has lost the slot of this move"):
        move.close()
    assert (serves(old.dsn), serves(new.dsn)) == (True, False)


def test_a_slot_is_made_while_others_create_tables(old: Server, new: Server, cells: Cells) -> None:
    """It waits for old transactions twice, and PostgreSQL takes note of the tables in between."""
    move = until(make_move(cells, new.dsn), "publish")
    with ThreadPoolExecutor() as pool, ExitStack() as ends:
        first, second = (ends.enter_context(psycopg.connect(old.dsn)) for _ in range(2))
        first.execute("SELECT pg_current_xact_id()")
        made = pool.submit(move.slot)
        wait_until(lambda: query(old.dsn, BLOCKED, first.info.backend_pid))
        second.execute("SELECT pg_current_xact_id()")
        first.commit()
        wait_until(lambda: query(old.dsn, BLOCKED, second.info.backend_pid))
        query(old.dsn, "CREATE TABLE made_meanwhile ()")
        second.commit()
        made.result()
    assert len(query(old.dsn, SLOT)) == 1


def test_a_copy_of_all_files_is_not_the_new_home(old: Server, new: Server, cells: Cells) -> None:
    assert cells.file is not None
    text = cells.file.read_text()
    with Copy(old) as copy:
        assert serves(copy.dsn), "nothing in it tells that it is a copy"
        assert "already has a schema inturn_01" in refuse(cells, copy.dsn)
        until(make_move(cells, new.dsn), "close")
        with pytest.raises(MoveOver):
            make_move(cells, copy.dsn).open()
        assert cells.file.read_text() == text
    finish(cells, new.dsn)


def test_an_incomplete_copy_of_the_new_server_never_opens(
    old: Server, new: Server, cells: Cells
) -> None:
    until(make_move(cells, new.dsn), "wait")
    with Copy(new) as copy:
        assert "Cell 1 is being moved to" in refuse(cells, copy.dsn)
        query(old.dsn, DEFER)
        until(make_move(cells, new.dsn), "close")
        with pytest.raises(CannotMove, match="has only a part of the copy"):
            make_move(cells, copy.dsn).open()
        assert not serves(copy.dsn)
        finish(cells, new.dsn)
        with pytest.raises(MoveOver):
            make_move(cells, copy.dsn).open()


def test_a_crash_cannot_undo_the_closing(old: Server, new: Server, cells: Cells) -> None:
    query(old.dsn, "ALTER DATABASE postgres SET synchronous_commit = off")
    configure(old, "SET wal_writer_delay = '10s'")
    until(make_move(cells, new.dsn), "close")
    old.stop("immediate")
    old.start()
    assert not serves(old.dsn)
    finish(cells, new.dsn)


@contextmanager
def receiving(server: Server, folder: Path) -> Iterator[None]:
    """Archive the WAL of a server, which is never flushed up to its end."""
    program = [str(server._binaries / "pg_receivewal"), "-d", server.dsn, "-D", str(folder)]
    process = subprocess.Popen(program, stderr=subprocess.DEVNULL)
    try:
        written = "SELECT write_lsn FROM pg_stat_replication WHERE write_lsn IS NOT NULL"
        wait_until(lambda: query(server.dsn, written))
        yield
    finally:
        process.kill()
        process.wait()


def test_an_archive_of_the_wal_is_no_standby(
    old: Server, new: Server, cells: Cells, tmp_path: Path
) -> None:
    with receiving(old, tmp_path):
        query(old.dsn, "CREATE ROLE clerk LOGIN")
        clerk = make_conninfo(old.dsn, user="clerk")
        assert query(clerk, moving.MAY_WATCH) == [(False,)]
        assert len(query(clerk, moving.STANDBYS_BEHIND, 0)) == 1, "it may be a standby that lags"
        query(old.dsn, "GRANT pg_monitor TO clerk")
        assert query(clerk, moving.MAY_WATCH) == [(True,)]
        assert query(clerk, moving.STANDBYS_BEHIND, 10**15) == []
        finish(cells, new.dsn)
    assert serves(new.dsn)


def test_a_standby_that_lags_is_seen_before_the_cell_is_closed(
    old: Server, new: Server, cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.cells.moving.STANDBY_SECONDS", 0.5)
    move = until(make_move(cells, new.dsn), "wait")
    with standing_by(old) as pid:
        with asleep(pid), monkeypatch.context() as patch:
            patch.setattr("inturn.cells.move_gate.CATCH_UP_SECONDS", 0.5)
            query(old.dsn, DEFER)
            with pytest.raises(CannotMove, match=r"lag: walreceiver\. Let them catch up first"):
                move.close()
            assert serves(old.dsn)
        move.close()
        with asleep(pid):
            query(old.dsn, "SELECT pg_switch_wal()")
            with pytest.raises(CannotMove, match="could serve the cell if they were promoted"):
                move.open()
            move.ignore_standbys = True
            move.open()
    finish(cells, new.dsn)


def test_a_standby_that_has_only_a_slot_is_seen(
    old: Server, new: Server, cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.cells.move_gate.CATCH_UP_SECONDS", 0.1)
    move = until(make_move(cells, new.dsn), "wait")
    query(old.dsn, "SELECT pg_create_physical_replication_slot('away', true)")
    query(old.dsn, DEFER)
    with pytest.raises(CannotMove, match=r"that of the slot away \(drop it if its"):
        move.close()


def test_a_standby_that_does_not_know_the_opening_is_seen(
    old: Server, new: Server, cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it were promoted then, an adoption there would not refuse."""
    monkeypatch.setattr("inturn.cells.move_gate.CATCH_UP_SECONDS", 0.5)
    move = until(make_move(cells, new.dsn), "clean")
    noted = OldServer.note_opening
    with standing_by(old) as pid, ExitStack() as sleeps:

        def note(*given: Any) -> None:
            sleeps.enter_context(asleep(pid))
            noted(*given)

        monkeypatch.setattr(OldServer, "note_opening", note)
        with pytest.raises(CannotMove, match="could serve the cell if they were promoted"):
            move.open()
        assert not serves(new.dsn)
        monkeypatch.undo()
    finish(cells, new.dsn)


@contextmanager
def standing_by(server: Server) -> Iterator[int]:
    """Start a standby. Yield the pid of what receives its WAL."""
    stand = "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn IS NOT NULL"
    with Copy(server, is_standby=True) as standby:
        wait_until(
            lambda: query(server.dsn, f"{stand} AND application_name = 'walreceiver'") == [(1,)]
        )
        [(pid,)] = query(standby.dsn, "SELECT pid FROM pg_stat_wal_receiver")
        yield pid


@contextmanager
def asleep(pid: int) -> Iterator[None]:
    """Stop a process for a while."""
    subprocess.run(["kill", "-STOP", str(pid)], check=True)
    try:
        yield
    finally:
        subprocess.run(["kill", "-CONT", str(pid)], check=True)


def kill(*_: object) -> None:
    raise Killed


def test_the_new_server_is_lost_before_it_opens(
    old: Server, new: Server, cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        query(old.dsn, DEFER)
    [(last,)] = query(old.dsn, f"SELECT max(id) FROM {SCHEMA}.jobs")
    [(fence,)] = query(old.dsn, f"SELECT last_value FROM {SCHEMA}.fences")
    move = until(make_move(cells, new.dsn), "close")
    closed = move.find_closed()
    new.stop("immediate")
    asked = call(cells, "cells", "adopt", "--cell", str(CELL)).stderr
    assert f"closed for good, also that at {move.new}, schema {SCHEMA}? There is no" in asked
    with monkeypatch.context() as patch:
        patch.setattr(OldServer, "drop_dead_slots", kill)
        with pytest.raises(Killed):
            adopting.adopt(old.dsn, SCHEMA, agree=lambda other: None)
    done = call(cells, "cells", "adopt", "--cell", str(CELL), "--yes")
    assert done.returncode == 0, done.output
    assert serves(old.dsn)
    assert query(old.dsn, JOBS) == [(4,)]
    [(first,)] = query(old.dsn, DEFER)
    assert (first % 1024, first - last > 1024 * 10**9) == (CELL, True)
    assert query(old.dsn, f"SELECT nextval('{SCHEMA}.fences') > %s + 1000", fence) == [(True,)]
    assert query(old.dsn, SLOT) == []
    new.start()
    looks, look = [closed], move.find_closed
    monkeypatch.setattr(move, "find_closed", lambda: looks.pop() if looks else look())
    with pytest.raises(MoveOver, match=r"cell in inturn_01 was opened at .* again"):
        move.open()  # after it has slept
    assert not serves(new.dsn)
    make_move(cells, new.dsn).abort()
    finish(cells, new.dsn)


def test_autovacuum_gives_way(old: Server, new: Server, cells: Cells) -> None:
    until(make_move(cells, new.dsn), "wait")
    query(old.dsn, VACUUM_SLOWLY)
    wait_until(lambda: query(old.dsn, VACUUMS), 60)
    before = time.monotonic()
    finish(cells, new.dsn)
    assert time.monotonic() - before < 60


def test_a_prepared_transaction_is_named(
    old: Server, new: Server, cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.cells.move_gate.TRY_SECONDS", 0.5)
    move = until(make_move(cells, new.dsn), "wait")
    with psycopg.connect(old.dsn) as connection:
        connection.execute(f"SELECT {SCHEMA}.set_limit('stripe', 4)".encode())
        connection.execute("PREPARE TRANSACTION 'order 7'")
    time.sleep(1.1)
    with pytest.raises(CannotMove, match="transactions: the prepared transaction order 7"):
        move.close()
    query(old.dsn, "ROLLBACK PREPARED 'order 7'")


def test_a_slot_names_the_transactions_it_waits_for(
    old: Server, new: Server, cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.cells.move_servers.SLOT_SECONDS", 1)
    move = make_move(cells, new.dsn)
    move.publish()
    query(old.dsn, "CREATE DATABASE other")
    other = make_conninfo(old.dsn, dbname="other")
    with psycopg.connect(other, application_name="report") as connection:
        connection.execute("SELECT pg_current_xact_id()")
        with pytest.raises(CannotMove, match=r"began before it: \d+ \(report\)\. End them"):
            move.slot()
    monkeypatch.undo()
    finish(cells, new.dsn)


def test_the_copy_names_the_transactions_it_waits_for(
    old: Server, new: Server, cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy of each table makes a slot of its own."""
    monkeypatch.setattr("inturn.cells.moving.STALLED_SECONDS", 1)
    move = until(make_move(cells, new.dsn), "schema")
    query(old.dsn, "CREATE DATABASE other")
    other = make_conninfo(old.dsn, dbname="other")
    with (
        ThreadPoolExecutor() as beside,
        psycopg.connect(other, application_name="report") as connection,
    ):
        connection.execute("SELECT pg_current_xact_id()")
        move.copy()
        with pytest.raises(CannotMove, match=r"began before it: \d+ \(report\)\. End them"):
            beside.submit(move.wait).result(60)
        short = "SET LOCAL statement_timeout = '1s'"
        monkeypatch.setattr("inturn.cells.move_servers.WITHIN_SECONDS", short)
        with pytest.raises(CannotMove, match="the old server's, which wait for transactions"):
            move.abort()
    monkeypatch.undo()
    move.abort()
    finish(cells, new.dsn)


def test_a_new_server_that_lost_a_part_of_the_copy_never_opens(
    old: Server, new: Server, cells: Cells
) -> None:
    """It goes back to an earlier state, as in a failover to a standby that lags, or a restore."""
    until(make_move(cells, new.dsn), "wait")
    with Copy(new) as earlier:
        earlier.stop("fast")
        for _ in range(5):
            query(old.dsn, DEFER)
        wait_until(lambda: query(new.dsn, JOBS) == [(5,)])
        wait_until(lambda: query(old.dsn, CONFIRMED) == [(True,)])
        set_back(new, earlier)
    query(old.dsn, DEFER)
    assert "These tables differ: jobs. Did" in refuse(cells, new.dsn)
    assert (serves(old.dsn), serves(new.dsn)) == (True, False)
    make_move(cells, new.dsn).abort()
    before = query(old.dsn, JOBS)
    finish(cells, new.dsn)
    assert query(new.dsn, JOBS) == before


def test_a_new_server_that_lost_a_part_of_the_closed_copy_never_opens(
    old: Server, new: Server, cells: Cells
) -> None:
    query(old.dsn, DEFER)
    until(make_move(cells, new.dsn), "wait")
    with Copy(new) as earlier:
        earlier.stop("fast")
        until(make_move(cells, new.dsn), "close")
        set_back(new, earlier)
    assert "has only a part of the copy. Did it fail over" in refuse(cells, new.dsn)
    assert (serves(old.dsn), serves(new.dsn)) == (False, False)
    done = call(cells, "cells", "adopt", "--cell", str(CELL), "--yes")
    assert done.returncode == 0, done.output
    assert query(old.dsn, JOBS) == [(1,)]
    make_move(cells, new.dsn).abort()
    finish(cells, new.dsn)


def test_a_new_server_that_starts_again_during_the_comparison_never_opens(
    old: Server, new: Server, cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = until(make_move(cells, new.dsn), "wait")
    checked = CellGate._check_history

    def check(self: CellGate) -> object:
        since = checked(self)
        new.stop("immediate")
        new.start()
        return since

    monkeypatch.setattr(CellGate, "_check_history", check)
    with pytest.raises(CannotMove, match=r"was started while it was compared\. Run"):
        move.close()
    monkeypatch.undo()
    assert (serves(old.dsn), serves(new.dsn)) == (True, False)
    finish(cells, new.dsn)


def lose_slot_of_history(new: Server) -> None:
    """Bring back what a crash can leave: the copy is noted, and its slot is gone."""
    query(
        new.dsn,
        "SET allow_system_table_mods = on; UPDATE pg_subscription_rel SET srsubstate = 'f', "
        f"srsublsn = NULL WHERE srrelid = '{SCHEMA}.finished_jobs'::regclass",
    )
    new.stop("fast")
    new.start()


def test_a_table_that_is_not_followed_any_more_keeps_the_cell_open(
    old: Server, new: Server, cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history is not compared in the gate, and what changes in it would be skipped."""
    move = until(make_move(cells, new.dsn), "wait")
    monkeypatch.setattr("inturn.cells.moving.STALLED_SECONDS", 1)
    lose_slot_of_history(new)
    with pytest.raises(CannotMove, match="copies tables again"):
        move.close()
    with pytest.raises(CannotMove, match="does not copy from"):
        make_move(cells, new.dsn).wait()
    monkeypatch.undo()
    move.abort()
    finish(cells, new.dsn)
    assert (serves(old.dsn), serves(new.dsn)) == (False, True)


def test_a_copy_without_a_free_worker_ends_the_wait(
    old: Server, new: Server, cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The apply worker runs on, and nothing fails."""
    monkeypatch.setattr("inturn.cells.moving.STALLED_SECONDS", 1)
    configure(new, "SET max_sync_workers_per_subscription = 0")
    move = until(make_move(cells, new.dsn), "copy")
    with ThreadPoolExecutor() as beside:
        waits = beside.submit(move.wait)
        try:
            with pytest.raises(CannotMove, match="replication_workers is used up"):
                waits.result(60)
        finally:
            configure(new, "RESET max_sync_workers_per_subscription")
    monkeypatch.undo()
    finish(cells, new.dsn)


def test_a_crash_cannot_undo_that_the_tables_are_followed(
    old: Server, new: Server, cells: Cells
) -> None:
    configure(new, "SET wal_writer_delay = '10s'")
    until(make_move(cells, new.dsn), "wait")
    new.stop("immediate")
    new.start()
    states = "SELECT DISTINCT srsubstate FROM pg_subscription_rel"
    assert query(new.dsn, states) == [("r",)]
    finish(cells, new.dsn)


def test_only_one_of_two_complete_copies_opens(old: Server, new: Server, cells: Cells) -> None:
    """A standby of the new server has all of the copy too, and may have another address."""
    slept = until(make_move(cells, new.dsn), "close")
    with Copy(new) as copy:
        other = make_move(cells, copy.dsn)
        with pytest.raises(CannotMove, match="will never serve it, and") as refused:
            other.open()
        _, _, remedy = str(refused.value).partition("run this again: ")
        query(old.dsn, remedy)
        other.open()
        with pytest.raises(CannotMove, match="will never serve it, and"):
            slept.open()
        assert [serves(each.dsn) for each in (old, new, copy)] == [False, False, True]


def test_a_slot_that_the_server_has_given_up_is_named(
    old: Server, new: Server, cells: Cells
) -> None:
    until(make_move(cells, new.dsn), "wait")
    [(subscription,)] = query(new.dsn, "SELECT subname FROM pg_subscription")
    query(new.dsn, f"ALTER SUBSCRIPTION {subscription} DISABLE")
    query(old.dsn, "ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    query(old.dsn, "SELECT pg_reload_conf()")

    def is_lost() -> bool:
        query(old.dsn, "SELECT pg_logical_emit_message(false, '', repeat('x', 1000000))")
        query(old.dsn, "SELECT pg_switch_wal()")
        query(old.dsn, "CHECKPOINT")
        return query(old.dsn, "SELECT wal_status FROM pg_replication_slots") == [("lost",)]

    wait_until(is_lost)
    query(new.dsn, f"ALTER SUBSCRIPTION {subscription} ENABLE")
    move = make_move(cells, new.dsn)
    for step in ("slot", "close"):
        with pytest.raises(CannotMove, match=r"has lost the slot .* or by max_slot_wal_keep_size"):
            getattr(move, step)()
    move.abort()
    assert query(old.dsn, SLOT) == []


def test_a_worker_that_does_not_end_is_named(
    old: Server, new: Server, cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = until(make_move(cells, new.dsn), "close")
    short = "SET LOCAL statement_timeout = '1s'"
    monkeypatch.setattr("inturn.cells.move_servers.WITHIN_SECONDS", short)
    [(pid,)] = query(new.dsn, "SELECT pid FROM pg_stat_subscription WHERE relid IS NULL")
    with asleep(pid), pytest.raises(CannotMove, match=r"does not end\. See pg_stat_subscription"):
        move.open()
    monkeypatch.undo()
    assert (serves(old.dsn), serves(new.dsn)) == (False, False)
    finish(cells, new.dsn)
