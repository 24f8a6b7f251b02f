"""Run `queue` to its end: in the test's own process, or as a process of its own.

A process costs half a second. It is needed for what only a process has: signals, terminals, other
processes, the environment at import, and what an import costs.
"""

import gc
import io
import logging
import os
import signal
import subprocess
import sys
import threading
import traceback
import urllib.request
import warnings
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from contextvars import Context
from pathlib import Path
from types import FrameType, ModuleType
from typing import IO, NamedTuple
from unittest.mock import patch

from inturn import cli
from inturn.__main__ import main
from inturn.worker import signals

SCRIPT = Path(sys.executable).with_name("queue")
PATIENCE = 60  # seconds: only keeps a failing test from hanging
ROOT = Path(__file__).parents[2]
NOTHING: Mapping[str, str] = {}


class Ended(NamedTuple):
    returncode: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


def open_page(link: str, path: str) -> str:
    """Return a page of the dashboard, as a browser that has opened the link."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    address, _, secret = link.partition("?")
    with opener.open(f"{address}?{secret}", timeout=PATIENCE):  # it gives a cookie
        pass
    with opener.open(address + path, timeout=PATIENCE) as page:
        text: str = page.read().decode()
        return text


def invoke(
    *words: str,
    folder: Path | None = None,
    env: Mapping[str, str] = NOTHING,
    stdin: IO[str] | None = None,
) -> Ended:
    """Run `queue` in this process, which is the same afterwards."""
    stdout, stderr = Written(), Written()
    with (
        patch.dict(os.environ, clean(env), clear=True),
        patch.object(sys, "argv", [str(SCRIPT), *words]),
        patch.object(sys, "stdin", stdin or io.TextIOWrapper(io.BytesIO(), encoding="utf-8")),
        patch.object(sys, "stdout", stdout),
        patch.object(sys, "stderr", stderr),
        # Only a process that ends may do this. `_own_threads` finds what should have ended here.
        patch.object(cli, "leave_threads_behind"),
        patch.object(signals, "dedicate"),
        patch.object(gc, "freeze"),
        chdir(folder or Path.cwd()),
        warnings.catch_warnings(),
        _own_logging(),
        _own_modules(folder),
        _own_signals(),
        _own_threads(),
    ):
        returncode = Context().run(_call_main)
    return Ended(returncode, stdout.read_all(), stderr.read_all())


def run_process(
    *words: str,
    folder: Path | None = None,
    env: Mapping[str, str] = NOTHING,
    stdin: int = subprocess.DEVNULL,
) -> Ended:
    """Run the installed script `queue` as a process."""
    done = subprocess.run(
        [SCRIPT, *words],
        cwd=folder,
        env=clean(env),
        stdin=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def type_in(command: str, folder: Path | None = None, /, **environment: str) -> Ended:
    """Let a shell split commands of `queue` into words, run them here, and return the last end."""
    split = f"queue() {{ printf '%s\\0' \"$@\" $'\\n'; }}; {command}"
    done = subprocess.run(["bash", "-c", split], capture_output=True, text=True, check=True)
    *calls, rest = done.stdout.split("\0\n\0")
    assert calls, command
    assert rest == "", command
    return [invoke(*each.split("\0"), folder=folder, env=environment) for each in calls][-1]


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    """Return our environment without variables that name an app, a database or a terminal."""
    foreign = (
        "INTURN_",
        "DATABASE_URL",
        "PG",
        "NO_COLOR",
        "FORCE_COLOR",
        "TERM",
        "COLUMNS",
        "PYTHON",
    )
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(foreign) or name == "PYTHONPATH"
    }
    return {**ours, **environment}  # PYTHONPATH may say which inturn is tested


def _call_main() -> int:
    try:
        main()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)  # as the interpreter does
        return 1
    return 0


class Written(io.TextIOWrapper):
    """What a command writes. A thread that an earlier test left behind may not write into it."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")
        self._others = {each.ident for each in threading.enumerate()} - {threading.get_ident()}
        self._strays: list[str] = []

    def write(self, text: str) -> int:
        if threading.get_ident() in self._others:
            name = threading.current_thread().name
            self._strays.append(f"{name} wrote {text!r}\n{''.join(traceback.format_stack())}")
        return super().write(text)

    def read_all(self) -> str:
        assert self._strays == [], "\n".join(self._strays)
        self.seek(0)
        return self.read()


@contextmanager
def _own_logging() -> Iterator[None]:
    """Begin with loggers that nobody has configured."""
    root = logging.getLogger()
    before = {logger: _settings(logger) for logger in (root, *_loggers())}
    for logger in before:
        _set(logger, (logging.NOTSET, [], [], True, False))
    root.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger in (root, *_loggers()):
            _set(logger, before.get(logger, (logging.NOTSET, [], [], True, False)))


LoggerSettings = tuple[int, list[logging.Handler], list["logging._FilterType"], bool, bool]


def _loggers() -> list[logging.Logger]:
    found = logging.root.manager.loggerDict.values()
    return [logger for logger in found if isinstance(logger, logging.Logger)]


def _settings(logger: logging.Logger) -> LoggerSettings:
    return logger.level, logger.handlers, logger.filters, logger.propagate, logger.disabled


def _set(logger: logging.Logger, settings: LoggerSettings) -> None:
    level, logger.handlers, logger.filters, logger.propagate, logger.disabled = settings
    logger.setLevel(level)


@contextmanager
def _own_modules(folder: Path | None) -> Iterator[None]:
    """Import the modules of the folder anew, and forget them."""
    names = set() if folder is None else {path.stem for path in folder.iterdir()}
    before = {name: sys.modules.pop(name) for name in [*sys.modules] if name in names}
    others = {*sys.modules}
    path = [each for each in sys.path if each != str(ROOT)]  # a script has no checkout in its path
    try:
        with patch.object(sys, "path", path), patch.object(sys, "dont_write_bytecode", True):
            yield
    finally:
        for name in sys.modules.keys() - others:
            if _is_in(sys.modules[name], Path.cwd()):
                del sys.modules[name]
        sys.modules.update(before)


def _is_in(module: ModuleType, folder: Path) -> bool:
    places = (
        [module.__file__] if getattr(module, "__file__", None) else getattr(module, "__path__", [])
    )
    return any(Path(str(place)).is_relative_to(folder) for place in places)


@contextmanager
def _own_signals() -> Iterator[None]:
    """Restore the handlers of signals, and limit how long it takes."""
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        for number, handler in before.items():
            if signal.getsignal(number) != handler:
                signal.signal(number, handler)


def _give_up(number: int, _: FrameType | None) -> None:
    raise TimeoutError(f"the command takes longer than {PATIENCE} seconds")


@contextmanager
def _own_threads() -> Iterator[None]:
    """Fail if a thread goes on that would end with the process, or keep it from ending."""
    before = {*threading.enumerate()}
    yield
    for thread in {*threading.enumerate()} - before:
        thread.join(PATIENCE)
        assert not thread.is_alive(), f"{thread.name} goes on"
