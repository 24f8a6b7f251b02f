"""A worker process of `queue worker --processes N`, and its link to the supervisor.

The two share a pair of sockets.
The worker writes a word once it serves, and then every few seconds: a process that hangs, because
it was stopped or its interpreter is locked, is silent.
If the supervisor dies, however that happens, the worker reads the end of the stream.
"""

import logging
import os
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path

from inturn.health.systemd import VARIABLES

logger = logging.getLogger(__name__)

# These are set in the environment of each worker process.
SOCKET = "INTURN_SUPERVISOR_SOCKET"
DSN = "INTURN_SUPERVISOR_DSN"
OWN_PATH = "INTURN_SUPERVISOR_PYTHONPATH"
PATH = "PYTHONPATH"
SERVING, ALIVE, RETIRING = b"serving\n", b".", b"retiring\n"
WORD_SECONDS = 5.0  # between two words


class SupervisorLink:
    """The worker process's end of the sockets."""

    def __init__(self, ours: socket.socket) -> None:
        self._ours = ours
        self._is_serving = False

    def report_serving(self) -> None:
        with suppress(OSError):  # the supervisor is gone; our reader will notice
            self._ours.sendall(SERVING)
        self._is_serving = True

    def report_retiring(self) -> None:
        with suppress(OSError):
            self._ours.sendall(RETIRING)

    def drain_when_gone(self) -> None:
        """Start a thread that drains the worker if the supervisor dies."""
        threading.Thread(target=self._wait, name="inturn-supervisor", daemon=True).start()

    def _wait(self) -> None:
        from inturn.worker import signals

        self._ours.settimeout(WORD_SECONDS)
        while self._hears_nothing():
            if self._is_serving:
                with suppress(OSError):
                    self._ours.send(ALIVE)
        logger.error("supervisor.gone: this worker drains")
        signals.drain()

    def _hears_nothing(self) -> bool:
        """Listen for a while. Return False if the supervisor is gone."""
        try:
            return bool(self._ours.recv(64))
        except TimeoutError:
            return True
        except OSError:
            return False


def make_environment(dsn: str | None) -> dict[str, str]:
    """Return the environment for worker processes.

    They use the supervisor's import path, such as the folder of a script.
    """
    # Only the supervisor talks to systemd.
    environment = {name: text for name, text in os.environ.items() if name not in VARIABLES}
    if dsn is not None:
        environment[DSN] = dsn
    if PATH in environment:
        environment[OWN_PATH] = environment[PATH]
    environment[PATH] = os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path)
    return environment


def join_supervisor(dsn: str | None) -> tuple[SupervisorLink | None, str | None]:
    """Return the link to the supervisor, if any, and the address of the database.

    Remove the supervisor's additions from the environment: a process that a task starts is not a
    worker and needs no password.
    """
    number = os.environ.pop(SOCKET, None)
    if number is None:
        return None, dsn
    dsn = os.environ.pop(DSN, None)
    path = os.environ.pop(OWN_PATH, None)
    os.environ.pop(PATH, None)
    if path is not None:
        os.environ[PATH] = path
    ours = socket.socket(fileno=int(number))
    ours.set_inheritable(False)
    return SupervisorLink(ours), dsn


def without_dsn(arguments: list[str]) -> list[str]:
    """Return the arguments without --dsn.

    All users can see arguments in the process list, and the address may contain a password.
    """
    kept, words = [], iter(arguments)
    for word in words:
        if word == "--dsn":
            next(words, None)
        elif not word.startswith("--dsn="):
            kept.append(word)
    return kept
