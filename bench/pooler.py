"""Run PgBouncer in transaction mode in front of the server, if it is installed.

inturn through PgBouncer is a peer of its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

BINARY = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")
VARIABLE = "INTURN_BENCH_POOLER"  # tells the processes of our peer where PgBouncer listens
PORT = 6432
SETTINGS = """
[databases]
* = host={host} port={port} user={user}
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
listen_port = {own_port}
auth_type = any
pool_mode = transaction
default_pool_size = 20
max_client_conn = 200
ignore_startup_parameters = extra_float_digits,options
logfile = {folder}/log
pidfile = {folder}/pid
"""


def missing() -> str | None:
    return None if BINARY else "PgBouncer is not installed"


@contextlib.contextmanager
def pooler(dsn: str) -> Iterator[None]:
    """Run PgBouncer. Meanwhile the environment variable VARIABLE names the folder of its socket."""
    if BINARY is None:
        yield
        return
    server = conninfo_to_dict(dsn)
    folder = Path(tempfile.mkdtemp(prefix="inturn-pooler-"))
    folder.chmod(0o777)  # PgBouncer refuses to run as root and needs access as another account
    config = folder / "config"
    own = {"host": server["host"], "port": server["port"], "user": server["user"]}
    config.write_text(SETTINGS.format(**own, folder=folder, own_port=PORT))
    command = [BINARY, *(["-u", "nobody"] if os.geteuid() == 0 else []), str(config)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.environ[VARIABLE] = str(folder)
    try:
        _await(through(dsn))
        yield
    finally:
        del os.environ[VARIABLE]
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def through(dsn: str) -> str:
    """Return the address of the same database through PgBouncer."""
    return make_conninfo(dsn, host=os.environ[VARIABLE], port=PORT)


def _await(dsn: str) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            psycopg.connect(dsn).close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
