"""The worker's loop: it claims, reports, puts back and sleeps, one call to the server at a time."""

import logging
import time
from collections.abc import Awaitable, Callable
from uuid import UUID

import anyio

from inturn.errors import DatabaseUnavailable, WorkerLost
from inturn.model import Again, Committed, Ended, Job, Outcome
from inturn.operations import work
from inturn.worker import events
from inturn.worker.appetite import Appetite
from inturn.worker.hands import Hands
from inturn.worker.link import Link
from inturn.worker.options import Options
from inturn.worker.pace import Pace
from inturn.worker.trail import Trail
from inturn.worker.vigil import Vigil

logger = logging.getLogger("inturn.worker.worker")


class Loop:
    """`register` gives the worker an id, at the start and whenever it was taken for dead."""

    def __init__(
        self,
        link: Link,
        options: Options,
        hands: Hands,
        appetite: Appetite,
        pace: Pace,
        register: Callable[[], Awaitable[UUID]],
    ) -> None:
        self._link = link
        self._options = options
        self._hands = hands
        self._appetite = appetite
        self._pace = pace
        self._register = register
        self._vigil = Vigil(link)
        self._trail = Trail()
        self.id: UUID
        self.stopping = False
        self.aborting: str | None = None  # why
        self._abort_asked = False  # perhaps a job of ours is to end
        self._lost = False  # we were taken for dead
        self._busy = False  # somebody's open transaction keeps what has ended from being reported
        self._outages = 0  # failed calls in a row: after one, the outcome of the last is unknown
        self._unclear: set[int] = set()  # jobs whose ends were on the way then

    async def register(self) -> None:
        self.id = await self._register()
        self._vigil.registered()

    async def work(self) -> None:
        while not self._is_over():
            try:
                await self._step()
            except WorkerLost:
                self.note_lost(self.id)
            except DatabaseUnavailable as error:
                await self._outage(error)

    def _is_over(self) -> bool:
        if self._hands:
            return False
        if self.aborting and self._outages:
            return True  # what cannot be reported now is taken over later
        has_eaten = self._appetite.sated and not self._appetite.hungry
        return not self._hands.ended and (self.stopping or (has_eaten and not self._options.wait))

    async def _step(self) -> None:
        if self._lost:
            await self._register_again()
        elif self._outages:
            await self._resume()
        elif self._abort_asked:
            await self._abort_jobs()
        elif self._holds_up_jobs:
            await self._put_back()
        elif self._may_claim and (self._busy or self._pace.prefers_claim(len(self._hands))):
            await self._claim()
        elif self._hands.ended:
            await self._finish()
        elif self._may_claim:
            await self._claim()
        else:
            await self._sleep()

    @property
    def _may_claim(self) -> bool:
        return self._appetite.hungry and not self.stopping and len(self._hands) < self._pace.capacity

    @property
    def _holds_up_jobs(self) -> bool:
        waiting = self._hands.slots.waiting
        return bool(waiting) and (self.stopping or self._pace.until_stale(waiting[0]) <= 0)

    async def _claim(self) -> None:
        room = self._pace.capacity - len(self._hands)
        if marks := self._trail.marks():
            jobs = await self._link.run(work.claim_further(self.id, marks, room))
            self._trail.went_on(jobs, room)
            self._start(jobs)
            return
        self._appetite.begin()
        began = time.monotonic()
        jobs = await self._link.run(work.claim(self.id, self._options.queues, room, self._appetite.patient))
        self._trail.begin(jobs, room, time.monotonic() - began)
        self._start(jobs)
        if len(jobs) == room:
            self._appetite.was_filled()
            await self._vigil.was_filled(self.id)
        elif jobs and await self._vigil.found_some(self.id):
            self._appetite.rest()
        else:
            wake = await self._vigil.found_less(self.id, self._options.queues)
            self._appetite.found_less(len(jobs), wake.delay, wake.told)

    async def _finish(self) -> None:
        """Report everything that has ended; take over what its lanes hand back."""
        outcomes = self._hands.take_ended()
        ended = [outcome for outcome in outcomes if isinstance(outcome, Ended)]
        again = [outcome for outcome in outcomes if isinstance(outcome, Again)]
        accepted = {outcome.job.id for outcome in outcomes if isinstance(outcome, Committed)}
        retried, done = work.Retried(set(), set()), work.Finished(set(), [], set())
        try:
            if again:
                retried = await self._link.run(work.retry(again))
            if ended:
                want = 0 if self.stopping else len(ended)
                done = await self._link.run(
                    work.finish(self.id, self._options.queues, want, ended, self._options.forget)
                )
        except DatabaseUnavailable:
            self._hands.ended[:0] = outcomes  # finish is idempotent: what took effect is not accepted twice
            self._unclear |= {outcome.job.id for outcome in outcomes}
            raise
        busy = retried.busy | done.busy
        self._busy = bool(busy)
        self._hands.ended[:0] = [outcome for outcome in outcomes if outcome.job.id in busy]
        outcomes = [outcome for outcome in outcomes if outcome.job.id not in busy]
        self._hands.let_go(outcomes)
        self._start(done.next)
        self._pace.note(len(outcomes))
        if again or len(done.next) < sum(outcome.job.lock is not None for outcome in outcomes):
            self._appetite.hungry = True  # a lane went back, perhaps with a job that only we have room for
        elif not self._options.wait:
            self._appetite.hungry = True  # what jobs have deferred meanwhile is to be done too, before the end
        self._log(outcomes, accepted | retried.accepted | done.accepted)

    def _log(self, outcomes: list[Outcome], accepted: set[int]) -> None:
        for outcome in outcomes:
            if outcome.job.id in accepted:
                events.note_outcome(outcome)
            elif outcome.job.id in self._unclear:
                events.note_unclear(outcome.job)
            else:
                events.note_lost(outcome.job)
        self._unclear.clear()

    def _start(self, jobs: list[Job]) -> None:
        if self.aborting:
            return  # they go back with the others when we leave
        for job in jobs:
            self._hands.start(job)

    async def _put_back(self) -> None:
        """What was claimed ahead and finds no slot is for others to run."""
        self._pace.slow_down()
        jobs = self._hands.take_unbegun()
        busy = await self._link.run(work.put_back(jobs))
        self._start([job for job in jobs if job.id in busy])
        self._appetite.hungry = True  # ... or for us, when a slot is free: a claim may have found no more than these

    async def _sleep(self) -> None:
        self._appetite.lie_down()
        if self._hands.ended or self._abort_asked or self._lost or self._may_claim or self._holds_up_jobs:
            return
        waiting = self._hands.slots.waiting
        await self._appetite.sleep(self._pace.until_stale(waiting[0]) if waiting else None, for_good=self.stopping)

    def note_abort(self) -> None:
        if self._hands:
            self._abort_asked = True
            self._appetite.ring()

    async def _abort_jobs(self) -> None:
        self._abort_asked = False
        self._hands.abort(await self._link.run(work.abort_requests(self.id)))

    # ------------------------------------------------------------------ when something went wrong

    async def _outage(self, error: DatabaseUnavailable) -> None:
        pause = min(30.0, 0.1 * 2 ** min(self._outages, 20))
        self._outages += 1
        logger.warning("database.lost: %s; next try in %.1f s", error, pause)
        await anyio.sleep(pause)

    async def _resume(self) -> None:
        """A reply may have been lost: run what the server says is ours and we have not heard of."""
        jobs = await self._link.run(work.owned(self.id))
        self._start([job for job in jobs if not self._hands.knows(job)])
        self._outages = 0
        self._appetite.hungry = True

    def note_lost(self, worker_id: UUID) -> None:
        if worker_id != self.id:
            return  # the loop was told first, and we are another worker by now
        self._lost = True
        self._appetite.ring()

    async def _register_again(self) -> None:
        logger.error(
            "worker.lost: %s was taken for dead, its jobs were taken over; registering anew", self._options.name
        )
        self._hands.take_unbegun()
        self._hands.give_back("the worker was taken for dead and the job taken over")
        await self.register()
        self._lost = False
        self._appetite.hungry = True
