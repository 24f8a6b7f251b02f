"""PgBouncer in transaction mode, where it is installed. One worker connects through it."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from psycopg.sql import SQL, Identifier, Literal

from inturn.database.connector import RELIED_ON
from tests.chaos.server import Server, free_port, with_parent

BINARY = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")
LIMIT = 10.0  # seconds: only keeps a failing run from hanging
SETTINGS = """
[databases]
* = host=127.0.0.1 port={server} user=pooled
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 20
server_login_retry = 1
query_wait_timeout = 10
ignore_startup_parameters = extra_float_digits,options
logfile = {folder}/log
pidfile = {folder}/pid
"""


class Pooler:
    def __init__(self, server: Server) -> None:
        self.port = free_port()
        self._server = server
        self._folder = Path(tempfile.mkdtemp(prefix="inturn-chaos-pooler-"))
        self._folder.chmod(0o777)  # it refuses to run as root, and writes its files there
        self._config = self._folder / "config"
        self._config.write_text(
            SETTINGS.format(server=server.port, own=self.port, folder=self._folder)
        )
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Give the role the settings that docs/outages.md advises for a pooler."""
        with self._server.connect() as connection:
            connection.execute("CREATE ROLE pooled SUPERUSER LOGIN")
            for name, value in RELIED_ON.items():
                connection.execute(
                    SQL("ALTER ROLE pooled SET {} = {}").format(Identifier(name), Literal(value))
                )
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        """Return when it accepts connections."""
        assert BINARY is not None
        (self._folder / "pid").unlink(missing_ok=True)
        command = [BINARY, *(["-u", "nobody"] if os.geteuid() == 0 else []), str(self._config)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=with_parent(signal.SIGKILL),
        )
        deadline = time.monotonic() + LIMIT
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline, (self._folder / "log").read_text()[-2000:]
                time.sleep(0.02)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
