"""A peer's processes, as the harness sees them: a producer that takes orders, and workers.

A *cold* worker has imported its modules, and then waits for the order to go. A *warm* worker has
run some jobs. Then *the operating system pauses it* (SIGSTOP) while the counted jobs are enqueued.
In both cases all jobs are there at once when the worker may go on. So the measured time does not
include the enqueueing, and no peer has to cooperate.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from typing import Any

import psutil

from bench.jobs import Load, Ran
from bench.meter import cpu_seconds
from bench.peers.adapter import ROOT, Peer

ANSWER_SECONDS = 180


class PeerFailed(Exception):
    """A peer's process exited or does not answer. The message has its last lines on stderr."""


class Process:
    def __init__(self, peer: Peer, *arguments: str) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "",
            **dict(peer.environment),
        }
        self._popen = subprocess.Popen(
            [*peer.command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )
        self.name = f"{peer.name} {arguments[0]}"
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        self.process = psutil.Process(self._popen.pid)

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            self.note(json.loads(line)) if line.startswith('{"ran"') else self._lines.put(line)
        self._lines.put("")

    def _read_errors(self) -> None:
        assert self._popen.stderr is not None
        for line in self._popen.stderr:
            self._errors = [*self._errors[-30:], line]

    def note(self, message: dict[str, Any]) -> None:
        """Handle a message that is not an answer."""

    def ask(self, line: str) -> None:
        assert self._popen.stdin is not None
        try:
            self._popen.stdin.write(line + "\n")
            self._popen.stdin.flush()
        except BrokenPipeError:
            raise self.failed("exited") from None

    def answer(self) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            raise self.failed(f"did not answer within {ANSWER_SECONDS} s") from None
        if not line:
            raise self.failed("exited")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def failed(self, what: str) -> PeerFailed:
        return PeerFailed(
            f"{self.name} {what}: {''.join(self._errors[-8:]).strip() or 'nothing on stderr'}"
        )

    @property
    def alive(self) -> bool:
        return self._popen.poll() is None

    def wait(self) -> int:
        return self._popen.wait(ANSWER_SECONDS)

    def kill(self) -> None:
        self._popen.kill()
        self._popen.wait()
        for reader in self._readers:
            reader.join(5)
        for stream in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()


class ProducerProcess(Process):
    def __init__(self, peer: Peer, dsn: str) -> None:
        super().__init__(peer, "produce", dsn)
        self.answer()  # wait until it is ready

    def one_by_one(self, count: int, *, pause: float = 0, **jobs: float | str) -> dict[str, Any]:
        return self._order(count=count, pause=pause, **jobs)

    def bulk(self, count: int, *, calls: int = 1, **jobs: float | str) -> float:
        return float(self._order(count=count, calls=calls, **jobs)["seconds"])

    def begin(self, **order: float | str) -> None:
        """Send an order without waiting for its answer."""
        self.ask(json.dumps(order))

    def _order(self, **order: float | str) -> dict[str, Any]:
        self.begin(**order)
        return self.answer()


class WorkerProcess(Process):
    def __init__(self, peer: Peer, dsn: str, load: Load) -> None:
        self.load = load
        self.ran = 0
        self._waiting = True  # for the order to go
        self.warmed = 0  # how many of these jobs were for warming up
        super().__init__(peer, "work", dsn, json.dumps(load._asdict()))
        self.answer()  # wait until it is ready

    def note(self, message: dict[str, Any]) -> None:
        self.ran = message["ran"]

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on. A cold worker has only imported its modules, and now connects."""
        if self._waiting:
            self._waiting = False
            self.ask("go")
        else:
            self.process.send_signal(signal.SIGCONT)

    @property
    def cpu_seconds(self) -> float:
        return cpu_seconds(self.process.pid)

    @property
    def memory(self) -> int:
        return int(self.process.memory_info().rss)

    def stop(self) -> list[Ran]:
        self.ask("stop")
        return [Ran(*ran) for ran in self.answer()["trace"]]
