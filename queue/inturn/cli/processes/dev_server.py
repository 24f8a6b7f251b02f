"""The server of `queue dev` in this folder, for other commands to find."""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(".inturn")
FILE = FOLDER / "server.json"
KEPT = FOLDER / "address.json"
VARIABLE = "INTURN_DSN"


class DevServer(NamedTuple):
    dsn: str
    pid: int


class DevAddress(NamedTuple):
    """What each start in this folder has again: tabs, bookmarks and settings stay good."""

    key: str  # in the link to the dashboard
    password: str  # for --port
    web_port: int | None  # the first one that was free


def find_dev_server() -> DevServer | None:
    """Return the server of a `queue dev` running in this folder."""
    with suppress(OSError, ValueError, TypeError, KeyError), FILE.open(encoding="utf-8") as file:
        noted = json.load(file)
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return DevServer(str(noted["dsn"]), int(noted["pid"]))
    return None


def use_dev_server() -> None:
    """Let this process and its children use that server unless another is named."""
    from inturn.cli.version import NAMES

    if any(os.environ.get(name) for name in NAMES):
        return
    server = find_dev_server()
    if server is not None:
        os.environ[VARIABLE] = server.dsn


def find_address() -> DevAddress:
    """Return the address that this folder has had, or a new one."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        kept = json.loads(KEPT.read_text(encoding="utf-8"))
        port = kept["web_port"]
        return DevAddress(str(kept["key"]), str(kept["password"]), port and int(port))
    return DevAddress(secrets.token_urlsafe(24), secrets.token_urlsafe(24), None)


def keep_address(address: DevAddress) -> None:
    """Keep the address for the next start, readable only for its user."""
    KEPT.unlink(missing_ok=True)
    with open(os.open(KEPT, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(address._asdict(), file)


@contextmanager
def announce(dsn: str) -> Iterator[None]:
    """Let other commands find this server until the end of the block.

    The file is locked until then, however the process ends. Its number could be that of another
    process by now, and in a container it is the same at each start.
    """
    with FILE.open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        json.dump(DevServer(dsn, os.getpid())._asdict(), file)
        file.flush()
        try:
            yield
        finally:
            FILE.unlink(missing_ok=True)
