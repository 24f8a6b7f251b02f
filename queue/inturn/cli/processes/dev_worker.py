"""The worker process of `queue dev`, which restarts when code changes."""

import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from watchfiles import PythonFilter, watch

from inturn.cli.settings import ENTRY

logger = logging.getLogger("inturn.dev")
GRACE = "5"  # seconds: do not wait for a long job after you save a file
CHECK_INTERVAL = 300  # milliseconds between checks of the process


def follow(path: str, dsn: str, options: Sequence[str]) -> None:
    """Run the worker, and restart it after each change, until KeyboardInterrupt."""
    here = Path.cwd()
    worker = DevWorkerProcess(path, dsn, options)
    try:
        worker.start()
        only = PythonFilter(ignore_paths=[here / ".inturn"])
        for changes in watch(
            here, watch_filter=only, step=100, rust_timeout=CHECK_INTERVAL, yield_on_timeout=True
        ):
            if changes:
                names = sorted({os.path.relpath(name, here) for _, name in changes})
                logger.info("dev.changed: %s. Restarting the worker", ", ".join(names))
                worker.stop()
                worker.start()
            else:
                worker.check()
        raise KeyboardInterrupt  # watch() ends this way if Ctrl-C came while it slept
    finally:
        worker.stop()


class DevWorkerProcess:
    def __init__(self, path: str, dsn: str, options: Sequence[str]) -> None:
        self._command = [sys.executable, *ENTRY, "-a", path, "worker", "--dsn", dsn]
        self._command += ["--grace", GRACE, *options]
        self._environment = {**os.environ, "INTURN_DSN": dsn}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            # Keep Ctrl-C from the worker: it would be a second signal, which aborts its jobs.
            process_group=0,
        )

    def check(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            logger.warning(
                "dev.worker_ended: status %d. It restarts when you change a file",
                self._process.returncode,
            )
            self._process = None

    def stop(self) -> None:
        """Let the worker finish its jobs.

        Each further Ctrl-C escalates: abort the jobs, then kill the worker.
        """
        process, self._process = self._process, None
        if process is None:
            return
        for end in (process.terminate, process.terminate, process.kill):
            with suppress(KeyboardInterrupt):
                end()
                process.wait()
                return
