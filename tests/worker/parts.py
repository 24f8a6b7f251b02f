"""A worker's parts without its threads."""

from typing import Any

from inturn import App
from inturn.worker.claiming.claiming import Claiming
from inturn.worker.claiming.prefetch import Prefetch
from inturn.worker.claiming.wakeups import Wakeups
from inturn.worker.connection import WorkerConnection
from inturn.worker.loop import Loop
from inturn.worker.middleware_chain import MiddlewareChain
from inturn.worker.options import options
from inturn.worker.progress import ProgressReports
from inturn.worker.recovery import Recovery
from inturn.worker.registration import Registration
from inturn.worker.running_jobs import RunningJobs

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
        prefetch = Prefetch(o.concurrency)
        self.claiming = Claiming(self.claims, mine, o, running, wakeups, prefetch)
        self.recovery = Recovery(link, mine, o, running, self.claiming)
        self.loop = Loop(link, mine, o, running, self.claiming, self.recovery, lambda: True)

    async def run_once(self) -> None:
        await self.loop.run_once()

    async def close(self) -> None:
        await self.claims.close()
        await self.link.close()
