"""A PostgreSQL server that can be stopped in every way, and returns with its data and port.

It listens on loopback only.
"""

import contextlib
import ctypes
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Self

import psycopg

from inturn.embedded.binaries import find_binaries, reachable, server_account
from tests.chaos.clock import Clock

LIMIT = 60.0  # seconds: only keeps a failing run from hanging
STOPS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT, "kill": signal.SIGKILL}
SETTINGS = {
    "fsync": "off",  # nobody cuts the power here, and the system keeps what a killed server wrote
    "max_connections": "100",
    "shared_buffers": "64MB",
    "autovacuum_naptime": "5s",
    "max_prepared_transactions": "5",
}
_libc = ctypes.CDLL(None)


def with_parent(end: signal.Signals) -> Callable[[], object]:
    """Return a function to run in a child: the child gets this signal when its parent ends.

    The function also resets SIGHUP, which a child under nohup would ignore.
    """

    def prepare() -> None:
        _libc.prctl(1, int(end))
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    return prepare


def free_port() -> int:
    """Return a free port below those that the kernel hands out."""
    while True:
        port = random.randrange(23_000, 30_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class Server:
    def __init__(
        self,
        *,
        bin_dir: Path | None = None,
        settings: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.clock = clock
        self._clusters = 0
        self.port = free_port()
        self._settings = {**SETTINGS, **(settings or {})}
        self._account = server_account()
        self._folder = Path(tempfile.mkdtemp(prefix="inturn-chaos-"))
        self._binaries = reachable(find_binaries(bin_dir), self._account, self._folder)
        self._log: IO[bytes] = (self._folder / "server.log").open("wb")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._account.take(self._folder)
        self._make_cluster()
        self.start()
        return self

    def _make_cluster(self) -> None:
        options = [
            "--no-sync",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--username=postgres",
        ]
        self._clusters += 1
        self._account.run([self._binaries / "initdb", *options, "-D", self._data])

    @property
    def _data(self) -> Path:
        return self._folder / f"data-{self._clusters}"

    def __exit__(self, *_: object) -> None:
        self.stop("immediate")
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        if self.clock is not None:
            self.clock.close()

    def move(self) -> None:
        """Dump the database and the roles, and restore them into a new cluster there."""
        dump, roles = self._folder / "dump", self._folder / "roles.sql"
        self._account.run([self._binaries / "pg_dump", "-Fc", "-f", dump, "-d", self.dsn])
        self._account.run([self._binaries / "pg_dumpall", "-r", "-f", roles, "-d", self.dsn])
        self.stop("fast")
        self._make_cluster()
        self.start()
        self._account.run([self._binaries / "psql", "-q", "-f", roles, "-d", self.dsn])
        self._account.run([self._binaries / "pg_restore", "-e", "-d", self.dsn, dump])

    def age(self, oldest: int) -> None:
        """Let the server, which is stopped, believe that this is its oldest transaction."""
        self._account.run([self._binaries / "pg_resetwal", "-u", str(oldest), "-D", self._data])

    @property
    def dsn(self) -> str:
        return self.dsn_at(self.port)

    def dsn_at(self, port: int) -> str:
        return f"postgresql://postgres@127.0.0.1:{port}/postgres"

    def connect(self, *, autocommit: bool = True) -> psycopg.Connection[Any]:
        """Connect past the proxy. None of our faults changes the settings of this connection."""
        settings = (
            "-c default_transaction_read_only=off -c search_path=inturn "
            "-c default_transaction_isolation=read\\ committed -c array_nulls=on"
        )
        return psycopg.connect(self.dsn, autocommit=autocommit, connect_timeout=5, options=settings)

    def deadlocks(self) -> list[str]:
        """Return the deadlocks in its log. Its own counter starts again with every crash."""
        lines = (self._folder / "server.log").read_text(errors="replace").splitlines()
        return [line for line in lines if "deadlock detected" in line]

    def start(self) -> None:
        """Return when it answers.

        After a kill, its shared memory is in use until the last backend ends.
        """
        deadline = time.monotonic() + LIMIT
        while True:
            if self._process is None or self._process.poll() is not None:
                self._process = self._launched()
            with contextlib.suppress(psycopg.OperationalError), self.connect():
                return
            assert time.monotonic() < deadline, (self._folder / "server.log").read_text()[-2000:]
            time.sleep(0.02)

    def stop(self, how: str) -> None:
        if self._process is not None:
            self._process.send_signal(STOPS[how])
            self._process.wait(LIMIT)
            self._process = None

    def _launched(self) -> subprocess.Popen[bytes]:
        place = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
        }
        options = [f"--{name}={value}" for name, value in {**self._settings, **place}.items()]
        return subprocess.Popen(
            [self._binaries / "postgres", "-D", self._data, *options],
            env={**os.environ, **({} if self.clock is None else self.clock.environment())},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            cwd="/",
            start_new_session=True,
            user=self._account.uid,
            group=self._account.gid,
            extra_groups=None if self._account.uid is None else [],
            preexec_fn=with_parent(signal.SIGQUIT),
        )
