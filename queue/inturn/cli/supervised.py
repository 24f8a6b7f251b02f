"""A worker of `queue worker --processes N`, as the process itself sees it: how it hears of its crew and speaks to it.

It has one end of a pair of sockets. The crew learns from a word on it that the worker serves, the worker learns from its
end that the crew is gone, by whatever death.
"""

import logging
import os
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger("inturn.crew")

SOCKET, DSN, OWN_PATH = (
    "INTURN_CREW_SOCKET",
    "INTURN_CREW_DSN",
    "INTURN_CREW_PYTHONPATH",
)  # in the environment
PATH = "PYTHONPATH"
SERVING = b"serving\n"


class Member:
    def __init__(self, ours: socket.socket) -> None:
        self._ours = ours

    def tell_serving(self) -> None:
        with suppress(OSError):  # the crew is gone, and we are about to hear of that
            self._ours.sendall(SERVING)

    def heed(self) -> None:
        """Drain when the crew is gone."""
        threading.Thread(target=self._wait, name="inturn-crew", daemon=True).start()

    def _wait(self) -> None:
        from inturn.worker import signals

        with suppress(OSError):
            while self._ours.recv(64):
                pass
        logger.error("crew.gone: this worker drains")
        signals.drain()


def environment(dsn: str | None) -> dict[str, str]:
    """For members, which import from where their crew does: a script's folder, say, or what it has added to the path."""
    told = dict(os.environ)
    if dsn is not None:
        told[DSN] = dsn
    if PATH in told:
        told[OWN_PATH] = told[PATH]
    told[PATH] = os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path)
    return told


def join(dsn: str | None) -> tuple[Member | None, str | None]:
    """Us as a member, if there is a crew, and the address of the database.

    What the crew has put into the environment is taken out of it: a process that a task starts is not a member, and needs
    no password.
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
    return Member(ours), dsn


def without_dsn(arguments: list[str]) -> list[str]:
    """A process list shows arguments to everybody, and there may be a password in the address."""
    kept, words = [], iter(arguments)
    for word in words:
        if word == "--dsn":
            next(words, None)
        elif not word.startswith("--dsn="):
            kept.append(word)
    return kept
