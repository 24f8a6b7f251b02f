"""The worker's loop: it claims, reports, puts back and sleeps, one call to the server at a time."""

import logging
import time
from collections.abc import Awaitable, Callable
from uuid import UUID

import anyio

from inturn.errors import ConnectorException, DatabaseBusy, DatabaseUnavailable, WorkerLost
from inturn.model import Again, Committed, Ended, Job, Outcome, Status
from inturn.operations import claim, finish, workers
from inturn.worker import events
from inturn.worker.appetite import Appetite
from inturn.worker.attempt import storable
from inturn.worker.backoff import Backoff
from inturn.worker.hands import Hands
from inturn.worker.link import Link
from inturn.worker.options import Options
from inturn.worker.pace import Pace
from inturn.worker.start import OUTAGE_PAUSES, grace_is_over
from inturn.worker.trail import Trail
from inturn.worker.vigil import Vigil

logger = logging.getLogger("inturn.worker.worker")
BUSY_PAUSES = 0.02, 1.0
DUE_SECONDS = 1.0  # at most, without a look at what is due


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
        is_settled: Callable[[], bool] = lambda: True,
    ) -> None:
        self._link = link
        self._options = options
        self._hands = hands
        self._appetite = appetite
        self._pace = pace
        self._register = register
        self._is_settled = is_settled  # whether nobody else's jobs may soon be ours
        self._vigil = Vigil(link)
        self._trail = Trail()
        self.id: UUID
        self.stopping = False
        self.aborting: str | None = None  # why
        self.ends_at = float("inf")  # when aborting, though not everything has been reported,
        self.may_abandon = False  # ... nor everything has ended
        self._claimed_at = time.monotonic()
        self._look_due = False  # at what the server says we are doing
        self._beat_due = False
        self._lost = False  # we were taken for dead
        self._away_since: float | None = (
            None  # the database: the outcome of the last call may be unknown
        )
        self._outages = Backoff(*OUTAGE_PAUSES)
        self._waits = Backoff(*BUSY_PAUSES)
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
            except DatabaseBusy as error:
                await self._wait_for_lock(error)
            except DatabaseUnavailable as error:
                await self._outage(error)
            else:
                self._waits.reset()

    def _is_over(self) -> bool:
        if self.aborting and (self._away_since is not None or self._is_out_of_time):
            return True  # what cannot be ended or reported now is taken over later
        if self._hands or self._hands.reports:
            return False
        has_eaten = self._appetite.sated and not self._appetite.hungry
        return self.stopping or (has_eaten and not self._options.wait and self._is_settled())

    @property
    def _is_out_of_time(self) -> bool:
        return time.monotonic() >= self.ends_at and (self.may_abandon or not self._hands)

    async def _step(self) -> None:
        if self._lost:
            await self._register_again()
        elif self._away_since is not None:
            await self._resume()
        elif self._beat_due:
            await self._beat()
        elif self._look_due:
            await self._look_over_jobs()
        elif self._holds_up_jobs:
            await self._put_back()
        elif self._forgets_what_is_due:
            await self._look_for_due()
        elif self._may_claim and self._pace.prefers_claim(len(self._hands)):
            await self._claim()
        elif self._hands.reports.is_due:
            await self._finish()
        elif self._may_claim:
            await self._claim()
        else:
            await self._sleep()

    @property
    def _may_claim(self) -> bool:
        if self._waits.failures and self._hands.reports:
            return False  # what has ended cannot be stored just now: it must not become ever more
        return (
            self._appetite.hungry and not self.stopping and len(self._hands) < self._pace.capacity
        )

    @property
    def _holds_up_jobs(self) -> bool:
        waiting = self._hands.slots.waiting
        return bool(waiting) and (self.stopping or self._pace.until_stale(waiting[0]) <= 0)

    @property
    def _forgets_what_is_due(self) -> bool:
        """Whether lanes keep handing us jobs, so that we make no claim, in which due jobs and lanes are looked after."""
        return (
            self._hands.reports.is_due
            and not self.stopping
            and time.monotonic() - self._claimed_at > DUE_SECONDS
        )

    async def _look_for_due(self) -> None:
        """A claim of no job: what is due is ready from then on, and lanes give way to it."""
        self._claimed_at = time.monotonic()
        await self._link.run(claim.claim(self.id, self._options.queues, 0, True))

    async def _claim(self) -> None:
        room = self._pace.capacity - len(self._hands)
        if marks := self._trail.marks():
            jobs = await self._link.run(claim.claim_further(self.id, marks, room))
            self._trail.went_on(jobs, room)
            self._start(jobs)
            return
        self._appetite.begin()
        began = self._claimed_at = time.monotonic()
        jobs = await self._link.run(
            claim.claim(self.id, self._options.queues, room, self._appetite.patient)
        )
        self._outages.reset()
        self._trail.begin(jobs, room, time.monotonic() - began)
        self._start(jobs)
        if len(jobs) == room:
            self._appetite.was_filled()
            await self._vigil.was_filled(self.id)
        elif jobs and await self._vigil.found_some(self.id):
            self._appetite.rest()
        else:
            wake = await self._vigil.found_less(self.id, self._options.queues)
            self._appetite.found_less(len(jobs), wake.delay, wake.notified)

    def _start(self, jobs: list[Job]) -> None:
        if self.aborting:
            return  # they go back with the others when we leave
        for job in jobs:
            self._hands.start(job)

    # ------------------------------------------------------------------ how jobs have ended

    async def _finish(self) -> None:
        """Report everything that has ended; take over what its lanes hand back."""
        outcomes = self._hands.take_ended()
        try:
            await self._report(outcomes)
        except ConnectorException as error:
            self._hands.reports.give_back(
                outcomes
            )  # finish is idempotent: what took effect is not accepted twice
            self._unclear |= {outcome.job.id for outcome in outcomes}
            if isinstance(error, DatabaseUnavailable):
                raise
            await self._report_each()

    async def _report(self, outcomes: list[Outcome]) -> None:
        ended = [outcome for outcome in outcomes if isinstance(outcome, Ended)]
        again = [outcome for outcome in outcomes if isinstance(outcome, Again)]
        accepted = {outcome.job.id for outcome in outcomes if isinstance(outcome, Committed)}
        retried, done = finish.Retried(set(), set()), finish.Finished(set(), [], set())
        if again:
            retried = await self._link.run(finish.retry(again))
        if ended:
            want = 0 if self.stopping else len(ended)
            done = await self._link.run(
                finish.finish(self.id, self._options.queues, want, ended, self._options.forget)
            )
        self._outages.reset()
        busy = retried.busy | done.busy
        self._hands.reports.hold(outcome for outcome in outcomes if outcome.job.id in busy)
        outcomes = [outcome for outcome in outcomes if outcome.job.id not in busy]
        self._hands.let_go(outcomes)
        self._start(done.next)
        self._pace.note(len(outcomes))
        if again or len(done.next) < sum(outcome.job.lock is not None for outcome in outcomes):
            self._appetite.hungry = (
                True  # a lane went back, perhaps with a job that only we have room for
            )
        elif not self._options.wait:
            self._appetite.hungry = (
                True  # what jobs have deferred meanwhile is to be done too, before the end
            )
        self._log(outcomes, accepted | retried.accepted | done.accepted)

    async def report_last(self) -> None:
        """Try once more to report what has ended; the worker takes over nothing for it."""
        self.stopping = True
        if outcomes := self._hands.take_ended(everything=True):
            await self._report(outcomes)

    async def _report_each(self) -> None:
        """The database refuses to store some of these ends: find out which, and store that it does."""
        outcomes = self._hands.take_ended()
        while outcomes:
            outcome = outcomes.pop()
            try:
                await self._report([outcome])
            except DatabaseUnavailable:
                self._hands.reports.give_back([*outcomes, outcome])
                raise
            except ConnectorException as error:
                events.note_refused(outcome.job, error)
                reason = storable(
                    f"the database refused to store how it ended: {error}\n{outcome.error or ''}"
                )
                try:
                    await self._report([Ended(outcome.job, Status.FAILED, reason)])
                except ConnectorException:
                    self._hands.reports.give_back([*outcomes, outcome])
                    raise

    def _log(self, outcomes: list[Outcome], accepted: set[int]) -> None:
        for outcome in outcomes:
            if outcome.job.id in accepted:
                events.note_outcome(outcome)
            elif outcome.job.id in self._unclear:
                events.note_unclear(outcome.job)
            else:
                events.note_lost(outcome.job)
            self._unclear.discard(outcome.job.id)

    async def _put_back(self) -> None:
        """What was claimed ahead and finds no slot is for others to run."""
        self._pace.slow_down()
        jobs = self._hands.take_unbegun()
        try:
            busy = await self._link.run(finish.put_back(jobs))
        except DatabaseBusy:
            self._start(jobs)
            raise
        self._start([job for job in jobs if job.id in busy])
        if busy:  # an open transaction keeps us from it
            await anyio.sleep(BUSY_PAUSES[0])
        self._appetite.hungry = (
            True  # ... or for us, when a slot is free: a claim may have found no more than these
        )

    async def _sleep(self) -> None:
        self._appetite.lie_down()
        due = (
            self._look_due or self._beat_due or self._lost or self._may_claim or self._holds_up_jobs
        )
        if due or self._hands.reports.is_due:
            return
        waiting = self._hands.slots.waiting
        left = self.ends_at - time.monotonic()
        limits = [
            self._pace.until_stale(waiting[0]) if waiting else None,
            self._hands.reports.until_due(),
            left if 0 < left < float("inf") else None,
        ]
        at_most = min((limit for limit in limits if limit is not None), default=None)
        await self._appetite.sleep(at_most, for_good=self.stopping)

    # ------------------------------------------------------------------ what the server says we are doing

    def note_look(self) -> None:
        """Look soon at what the server says we are doing: somebody may want a job aborted, or a reply was lost."""
        self._look_due = True
        self._appetite.ring()

    async def _look_over_jobs(self) -> None:
        """Also jobs that we know nothing of: a call whose reply was lost may have gone on for long, and only now committed."""
        self._look_due = False  # now, so that a request that comes meanwhile has us look again
        try:
            if self._hands:
                self._hands.abort(await self._link.run(finish.list_abort_requests(self.id)))
            await self._give_back_unknown()
        except BaseException:
            self._look_due = True
            raise

    async def _give_back_unknown(self) -> None:
        """Put back what is ours and not in hand: the reply to its claim was lost.

        It is not started under that claim. After a failover it may be one that we have run already, and the server has
        lost its end: then two runs would have one fence.
        """
        if self.aborting:
            return  # what we have given up is ours until we leave
        claims = await self._link.run(claim.list_claims_of_worker(self.id))
        if not self._hands.unknown(claims):
            return
        jobs = await self._link.run(claim.list_jobs_of_worker(self.id))
        lost = self._hands.unknown((job.id, job.claim_id) for job in jobs)
        unknown = [job for job in jobs if (job.id, job.claim_id) in lost]
        busy = await self._link.run(finish.put_back(unknown))
        for job in unknown:
            if job.id not in busy:
                events.note_found(job)
        self._appetite.hungry = True

    def note_beat(self) -> None:
        """The heart has no connection of its own: say over this one that we live."""
        self._beat_due = True
        self._appetite.ring()

    async def _beat(self) -> None:
        self._beat_due = False
        if not await self._link.run(workers.record_heartbeat(self.id)):
            self.note_lost(self.id)

    # ------------------------------------------------------------------ when something went wrong

    async def _wait_for_lock(self, error: DatabaseBusy) -> None:
        """Somebody has locked a table, or the like: it passes, and so far nothing has happened."""
        pause = self._waits.next()
        self._appetite.hungry = (
            True  # it may have been a claim, and whoever has deferred meanwhile has told us already
        )
        if pause > BUSY_PAUSES[1] / 2:
            logger.warning("database.busy: %s; next try in %.1f s", error, pause)
        await anyio.sleep(pause)

    async def _outage(self, error: DatabaseUnavailable) -> None:
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
        grace = self._options.db_grace
        if grace is not None and now - self._away_since >= grace:
            raise grace_is_over(grace, error) from error
        pause = self._outages.next()
        logger.warning("database.lost: %s; next try in %.1f s", error, pause)
        await anyio.sleep(pause)

    async def _resume(self) -> None:
        """A reply may have been lost: ask the server what is ours."""
        await self._give_back_unknown()
        await (
            self._beat()
        )  # a server that answers may still take nothing: it is read-only, or its disk is full
        self._away_since = None
        self._appetite.hungry = True

    def note_lost(self, worker_id: UUID) -> None:
        if worker_id != self.id:
            return  # the loop was told first, and we are another worker by now
        self._lost = True
        self._appetite.ring()

    async def _register_again(self) -> None:
        logger.error(
            "worker.lost: %s was taken for dead, its jobs were taken over; registering anew",
            self._options.name,
        )
        self._hands.take_unbegun()
        self._hands.give_back("the worker was taken for dead and the job taken over")
        await self.register()
        self._lost = False
        self._appetite.hungry = True
