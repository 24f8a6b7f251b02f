"""A worker's parts without its threads."""

from typing import Any

from inturn import App
from inturn.worker.claiming.claiming import Claiming, Prefetch
from inturn.worker.claiming.wakeups import Wakeups
from inturn.worker.connection import WorkerConnection
from inturn.worker.failures import Failures
from inturn.worker.loop import Loop, Recovery
from inturn.worker.middleware_chain import MiddlewareChain
from inturn.worker.options import options
from inturn.worker.registration import Registration
from inturn.worker.running_jobs import RunningJobs
from inturn.worker.state import LoopState
from inturn.worker.unreported import ProgressReports

NOBODY: Any = None  # the worker that middleware would see


class Parts:
    """A worker's parts without its threads, over connections of your own if you like."""

    def __init__(
        self,
        app: App,
        claims: WorkerConnection | None = None,
        link: WorkerConnection | None = None,
        **given: Any,
    ) -> None:
        o = options(given)
        wakeups = Wakeups(o.fetch_job_polling_interval)
        self.link = link = link or WorkerConnection(app.connector)
        self.claims = claims or WorkerConnection(app.connector)
        self.registration = mine = Registration(link, o, app)
        chain = MiddlewareChain(NOBODY, None, None)
        progress = ProgressReports(link, wakeups.interrupt_wait)
        self.running = running = RunningJobs(
            app, app.connector, o, wakeups.interrupt_wait, chain, progress
        )
        self.state = LoopState(link, mine, o, running, wakeups)
        failures = Failures(self.state)
        self.prefetch = Prefetch(o.concurrency)
        self.claiming = Claiming(self.state, failures, self.claims, self.prefetch)
        self.recovery = Recovery(self.state, failures, self.claiming)
        self.loop = Loop(self.state, failures, self.claiming, self.recovery, lambda: True)

    async def run_once(self) -> None:
        await self.loop.run_once()

    async def close(self) -> None:
        await self.claims.close()
        await self.link.close()
