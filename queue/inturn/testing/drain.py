"""Run waiting jobs in the test's process: the real worker, which ends when none is left."""

import asyncio
from collections.abc import Callable, Mapping
from threading import get_ident
from typing import Any

from inturn.app import App
from inturn.errors import InturnError
from inturn.testing.recording import Recorder, Run
from inturn.testing.transactions import FrameworkConnector
from inturn.worker.claiming.claiming import Prefetch
from inturn.worker.options import options
from inturn.worker.worker import Worker

# The worker ends by itself, leaves the test's signal handlers alone, and does not listen: its
# claims find every job.
IN_A_TEST = {"wait": False, "install_signal_handlers": False, "listen_notify": False}


class Endless(InturnError):
    """There were more runs than any test can intend."""


class Drain:
    """One call of `Queue.drain`: a worker that can be restarted, and its runs.

    `until` is called after each run. Once it is true, no other job starts, so with a concurrency of
    1 nothing runs after that.
    """

    def __init__(
        self,
        app: App,
        given: Mapping[str, Any],
        *,
        until: Callable[[], object] | None = None,
        at_most: int,
        note: Callable[[Run], object],
    ) -> None:
        self.runs: list[Run] = []
        self.met = False
        self._app = app
        self._options = options({**app.worker_defaults, **given, **IN_A_TEST})
        self._until = until
        self._at_most = at_most
        self._note_run = note
        self._refused: BaseException | None = None  # an exception of `until`
        self._recorder = Recorder(app, self._note)
        self._worker: Worker
        self._loop: asyncio.AbstractEventLoop
        self._thread: int  # of the event loop

    @property
    def is_over(self) -> bool:
        return self.met or self._refused is not None or self._ran_too_often

    @property
    def _ran_too_often(self) -> bool:
        return len(self.runs) > self._at_most

    async def work(self) -> None:
        """Run the jobs that are ready, and those that become ready along the way."""
        self._app.perform_import_paths()
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        # With a condition, claim nothing ahead: claimed jobs would run even once it is met.
        prefetch = Prefetch(self._options.concurrency, most_ahead=0) if self._until else None
        self._worker = Worker(self._recorder, self._app.connector, self._options, prefetch)
        try:
            await self._worker.run()
        finally:
            if isinstance(self._app.connector, FrameworkConnector):
                await self._app.connector.run_in_thread(self._app.connector.close_idle)

    def check(self) -> None:
        """Raise the error that invalidates the outcome, if there was one."""
        if self._refused is not None:
            raise self._refused
        if self._recorder.unknown is not None:
            raise self._recorder.unknown
        if not self.met and self._ran_too_often:
            last = self.runs[-1].job
            raise Endless(
                f"There were more than {self._at_most:,} runs. The last one was of task "
                f"{last.task_name} (job {last.id}, attempt {last.attempts + 1}). Does a task defer "
                "itself, or retry forever without a wait? If you need more runs: drain(at_most=…)"
            )

    def _note(self, run: Run) -> None:
        """Record a run, in its own thread.

        The loop gets our call before it sees the end of the run, so no job starts in between.
        """
        self.runs.append(run)
        self._note_run(run)
        if self._until is not None and not self.is_over:
            try:
                self.met = bool(self._until())
            except BaseException as error:
                self._refused = error
        if self.is_over:
            self._loop.call_soon_threadsafe(self._worker.stop, "the condition of the test is met")
        if isinstance(self._app.connector, FrameworkConnector) and get_ident() != self._thread:
            self._app.connector.close_idle()  # the thread of a run may end with this drain
