"""The server on which everything is measured, and its counters.

Its settings are durable, as in production: every commit reaches the disk, and so does the data. The
settings keep checkpoints and autovacuum out of the runs, because they would hit a peer by chance.
An arena analyses the tables itself. The harness connects as a role of its own, so its calls are not
counted with the peers' calls.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import psutil
import psycopg
from psycopg.sql import SQL, Identifier

from bench.meter import server_cpu_seconds
from inturn.embedded import Server

SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "16GB",
    "checkpoint_timeout": "30min",
    "max_connections": "200",
    "autovacuum": "off",
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "top",
}
OBSERVER = "observer"

COUNTERS = """
SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS wal,
       coalesce((
           SELECT sum(calls) FROM pg_stat_statements AS s JOIN pg_roles AS r ON r.oid = s.userid
           WHERE r.rolname <> %s AND s.dbid = (SELECT oid FROM pg_database WHERE datname = %s)
       ), 0) AS calls
"""
IN_TRANSACTION = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = %s AND usename <> %s AND xact_start IS NOT NULL
"""
OBSERVERS = "SELECT pid FROM pg_stat_activity WHERE usename = %s"
BACKEND = "SELECT pg_backend_pid()"


class Counters(NamedTuple):
    wal: int
    calls: int

    def since(self, before: Counters) -> Counters:
        return Counters(self.wal - before.wal, self.calls - before.calls)


class Bed:
    """The server as the harness uses it: create and drop databases, read counters."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._control = psycopg.connect(server.dsn(), autocommit=True)
        self._control.execute("CREATE EXTENSION pg_stat_statements")
        self._control.execute(SQL("CREATE ROLE {} SUPERUSER LOGIN").format(Identifier(OBSERVER)))
        self._control.close()
        self._control = self.observe("postgres")
        self.version = str(self._control.info.parameter_status("server_version"))
        self._postmaster = self._find_postmaster()

    def dsn(self, database: str) -> str:
        return self._server.dsn(database)

    def observe(self, database: str) -> psycopg.Connection[Any]:
        dsn = self.dsn(database).replace("//postgres@", f"//{quote(OBSERVER)}@")
        return psycopg.connect(dsn, autocommit=True)

    def create(self, database: str, template: str = "template1") -> None:
        self._control.execute(
            SQL("CREATE DATABASE {} TEMPLATE {}").format(Identifier(database), Identifier(template))
        )

    def drop(self, database: str) -> None:
        self._control.execute(
            SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(database))
        )

    def counters(self, database: str) -> Counters:
        row = self._control.execute(COUNTERS, [OBSERVER, database]).fetchone()
        assert row is not None
        return Counters(int(row[0]), int(row[1]))

    def in_transaction(self, database: str) -> bool:
        row = self._control.execute(IN_TRANSACTION, [database, OBSERVER]).fetchone()
        return row is not None and row[0] > 0

    def _find_postmaster(self) -> psutil.Process:
        row = self._control.execute(BACKEND).fetchone()
        assert row is not None
        postmaster = psutil.Process(row[0]).parent()
        assert postmaster is not None
        return postmaster

    @property
    def cpu_seconds(self) -> float:
        """The CPU time of all processes of the server, except those that serve the harness."""
        observers = {row[0] for row in self._control.execute(OBSERVERS, [OBSERVER])}
        return server_cpu_seconds(self._postmaster, observers)

    def close(self) -> None:
        self._control.close()


@contextmanager
def bed(**settings: str) -> Iterator[Bed]:
    """Run the server with its data on disk, in a temporary folder.

    The folder is removed at the end, also after SIGTERM.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    folder = Path(tempfile.mkdtemp(prefix="inturn-bench-"))
    folder.chmod(0o755)  # root runs the server as another account
    try:
        with Server(folder / "data", settings={**SETTINGS, **settings}) as server:
            bed = Bed(server)
            try:
                yield bed
            finally:
                bed.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
