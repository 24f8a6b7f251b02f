"""The worker of `queue dev`: a process of its own, ended and started anew when code changes."""

import logging
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from watchfiles import PythonFilter, watch

logger = logging.getLogger("inturn.dev")
GRACE = "5"  # seconds: who has just saved a file does not wait for a long job
LOOK = 300  # milliseconds between looks at the process


def follow(path: str, dsn: str, *, verbose: bool) -> None:
    """Until KeyboardInterrupt."""
    here = Path.cwd()
    worker = Worker(path, dsn, verbose=verbose)
    try:
        worker.start()
        only = PythonFilter(ignore_paths=[here / ".inturn"])
        for changes in watch(
            here, watch_filter=only, step=100, rust_timeout=LOOK, yield_on_timeout=True
        ):
            if changes:
                names = sorted({os.path.relpath(name, here) for _, name in changes})
                logger.info("dev.changed: %s; starting the worker anew", ", ".join(names))
                worker.stop()
                worker.start()
            else:
                worker.look()
        raise KeyboardInterrupt  # so the iteration ends when one came while it slept
    finally:
        worker.stop()


class Worker:
    def __init__(self, path: str, dsn: str, *, verbose: bool) -> None:
        self._command = [
            sys.executable,
            "-m",
            "inturn.cli",
            "-a",
            path,
            "worker",
            "--dsn",
            dsn,
            "--grace",
            GRACE,
        ]
        self._command += ["-v"] if verbose else []
        self._environment = {**os.environ, "INTURN_DSN": dsn}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C is meant for us: as the worker's second signal it would abort its jobs
        )

    def look(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            logger.warning(
                "dev.worker_ended: with status %d; it starts anew when a file changes",
                self._process.returncode,
            )
            self._process = None

    def stop(self) -> None:
        """Let it finish what runs. Interrupted, tell it again, which aborts what runs; then kill it."""
        process, self._process = self._process, None
        if process is None:
            return
        for end in (process.terminate, process.terminate, process.kill):
            with suppress(KeyboardInterrupt):
                end()
                process.wait()
                return
