"""The server of `queue dev` in this folder, for other commands to find."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(".inturn")
FILE = FOLDER / "server.json"
VARIABLE = "INTURN_DSN"


class DevServer(NamedTuple):
    dsn: str
    pid: int


def find_dev_server() -> DevServer | None:
    """Return the server of a `queue dev` running in this folder."""
    try:
        noted = json.loads(FILE.read_text(encoding="utf-8"))
        server = DevServer(str(noted["dsn"]), int(noted["pid"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return server if _is_alive(server.pid) else None


def use_dev_server() -> None:
    """Let this process and its children use that server unless another is named."""
    from inturn.cli.version import NAMES

    if any(os.environ.get(name) for name in NAMES):
        return
    server = find_dev_server()
    if server is not None:
        os.environ[VARIABLE] = server.dsn


@contextmanager
def announce(dsn: str) -> Iterator[None]:
    """Let other commands find this server until the end of the block."""
    FILE.write_text(json.dumps(DevServer(dsn, os.getpid())._asdict()), encoding="utf-8")
    try:
        yield
    finally:
        FILE.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return pid > 0
