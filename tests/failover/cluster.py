"""A primary and a streaming standby of the embedded binaries, which tests can break.

Each node listens on a socket in its own folder, so its address survives a restart.
Clients know both addresses and ask for the one that accepts writes, as in production.
"""

import contextlib
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import psycopg

from inturn.embedded.binaries import Account
from inturn.embedded.server import GUARDIAN
from inturn.schema.migrate import migrate

PORT, DATABASE = "5432", "queue"
NEXT_TRANSACTION = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"
LIMIT = 120.0  # seconds: only keeps a failing test from hanging
SETTINGS = {
    "listen_addresses": "",
    "port": PORT,
    "fsync": "off",  # we kill processes, not machines
    "wal_log_hints": "on",  # for pg_rewind
    "wal_keep_size": "256MB",
    "shared_buffers": "32MB",
}


def wait_until(condition: Callable[[], object], what: str = "a condition") -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline, f"{what} does not come true"
        time.sleep(0.02)


class Node:
    def __init__(self, home: Path, binaries: Path, account: Account) -> None:
        self.home = home
        self._data = home / "data"
        self._binaries = binaries
        self._account = account
        self._guardian: subprocess.Popen[bytes] | None = None
        home.mkdir(mode=0o700)
        account.take(home)

    @property
    def dsn(self) -> str:
        return f"host={self.home} port={PORT} user=postgres dbname={DATABASE}"

    # -- setup

    def lay_out(self) -> None:
        self._run(
            "initdb",
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--no-sync",
            "-D",
            self._data,
        )

    def copy(self, primary: "Node") -> None:
        """Become a standby of that node."""
        self._run(
            "pg_basebackup",
            "-R",
            "-c",
            "fast",
            "--no-sync",
            "-D",
            self._data,
            "-d",
            primary._admin_dsn,
        )

    def rewind(self, primary: "Node") -> None:
        """After a clean end, drop the node's own last writes and become a standby of the other."""
        primary.ask(
            "CHECKPOINT"
        )  # before PostgreSQL 16, pg_rewind learns its timeline only from a checkpoint
        source = f"--source-server={primary._admin_dsn}"
        self._run("pg_rewind", "-R", "--no-sync", f"--target-pgdata={self._data}", source)

    @property
    def _admin_dsn(self) -> str:
        return f"host={self.home} port={PORT} user=postgres dbname=postgres"

    def _run(self, program: str, *arguments: str | Path) -> None:
        self._account.run([self._binaries / program, *arguments])

    # -- start and stop

    def start(self, **settings: str) -> None:
        given = {**SETTINGS, "unix_socket_directories": str(self.home), **settings}
        options = [f"--{name}={value}" for name, value in given.items()]
        scrap = self.home / "scrap"  # the guardian removes the folders it is given, here none
        with (self.home.parent / f"{self.home.name}.log").open("ab") as log:
            server: list[str | Path] = [self._binaries / "postgres", "-D", self._data, *options]
            self._guardian = self._account.launch(
                ["/bin/sh", "-c", GUARDIAN, "failover-node", scrap, scrap, *server], log
            )
        wait_until(self._answers, "a server's first answer")

    def stop(self) -> None:
        """Stop with the fast shutdown. Sessions end, and a standby gets every write."""
        self._end(b"INT\n")

    def crash(self) -> None:
        """Kill all its processes at once, as when a machine dies."""
        pid = int((self._data / "postmaster.pid").read_text().split()[0])
        for process in (server := psutil.Process(pid), *server.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._end(b"KILL\n")

    def close(self) -> None:
        if self._guardian is not None:
            self._end(b"QUIT\n")

    def _end(self, order: bytes) -> None:
        guardian, self._guardian = self._guardian, None
        assert guardian is not None
        assert guardian.stdin is not None
        with guardian.stdin as orders, contextlib.suppress(BrokenPipeError):
            orders.write(order)
            guardian.wait(LIMIT)
        guardian.wait(LIMIT)

    def _answers(self) -> bool:
        assert self._guardian is not None
        assert self._guardian.poll() is None, "the server has ended"
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self._admin_dsn):
            return True
        return False

    # -- statements

    def ask(self, statement: str) -> object:
        """Return the first value of the answer."""
        with psycopg.connect(self._admin_dsn, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            cursor = connection.execute(statement.encode())
            row = cursor.fetchone() if cursor.description else None
            return row[0] if row else None

    def set(self, **settings: str) -> None:
        for name, value in settings.items():
            self.ask(f"ALTER SYSTEM SET {name} = '{value}'")
        self.ask("SELECT pg_reload_conf()")


class Cluster:
    """Swap `primary` and `standby` when the standby is promoted."""

    def __init__(self, place: Path, binaries: Path, account: Account) -> None:
        self.nodes = [Node(place / name, binaries, account) for name in "ab"]
        self.primary, self.standby = self.nodes

    @property
    def dsn(self) -> str:
        hosts = ",".join(str(node.home) for node in self.nodes)
        return f"host={hosts} port={PORT} user=postgres dbname={DATABASE} target_session_attrs=read-write"

    def start(self) -> None:
        self.primary.lay_out()
        self.primary.start()
        self.primary.ask(f"CREATE DATABASE {DATABASE}")
        migrate(self.primary.dsn)
        self.standby.copy(self.primary)
        self.standby.start()

    def make_synchronous(self) -> None:
        """From now on, a commit is acknowledged only when the standby has it too."""
        self.primary.set(synchronous_standby_names="*")
        state = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
        wait_until(lambda: self.primary.ask(state) == 1, "synchronous replication")

    def catch_up(self) -> None:
        """Return when the standby has everything that the primary has written by now."""
        end = self.primary.ask("SELECT pg_current_wal_lsn()")
        wait_until(
            lambda: self.standby.ask(f"SELECT pg_last_wal_replay_lsn() >= '{end}'"),
            "the standby's catching up",
        )

    def cut(self) -> None:
        """Stop the replication without an error on either side."""
        self.standby.set(primary_conninfo="")
        wait_until(
            lambda: self.standby.ask("SELECT count(*) FROM pg_stat_wal_receiver") == 0,
            "the end of the stream",
        )

    def promote(self) -> None:
        self.primary, self.standby = self.standby, self.primary
        assert self.primary.ask("SELECT pg_promote(true, 60)")

    def switch_over(self) -> object:
        """Make the primary read-only under its sessions, and promote the standby. Nothing is lost.

        Return the primary's next transaction id: if it stays, nobody has written there since.
        """
        self.primary.set(default_transaction_read_only="on")
        wait_until(self._primary_is_quiet, "the end of the last write")
        self.catch_up()
        self.promote()
        return self.standby.ask(NEXT_TRANSACTION)

    def rejoin(self) -> None:
        """The former primary becomes a standby."""
        self.standby.ask("ALTER SYSTEM RESET default_transaction_read_only")
        self.standby.stop()
        self.standby.rewind(self.primary)
        self.standby.start()
        self.catch_up()

    def close(self) -> None:
        for node in self.nodes:
            node.close()

    def _primary_is_quiet(self) -> bool:
        """Wait until all sessions know the change: under load this can take long."""
        before = self.primary.ask(NEXT_TRANSACTION)
        time.sleep(0.2)
        return before == self.primary.ask(NEXT_TRANSACTION)
