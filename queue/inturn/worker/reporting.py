"""Tells the server how jobs ended, and starts the jobs that their lanes hand over."""

from inturn.errors import DatabaseUnavailable, InturnError
from inturn.model import Again, Committed, Ended, Outcome, Status
from inturn.operations.engine import finish
from inturn.worker import joblog
from inturn.worker.claiming.claiming import Claiming
from inturn.worker.error_text import storable
from inturn.worker.failures import Failures
from inturn.worker.floors import Floors
from inturn.worker.state import LoopState

ABOUT_VALUES = ("22", "23")  # the SQLSTATE classes for bad data and violated constraints


class Reporting:
    """Reports outcomes in batches. `finish` is idempotent, so a report may be sent twice."""

    def __init__(self, state: LoopState, failures: Failures, claiming: Claiming) -> None:
        self._state = state
        self._connection = state.connection
        self._running = state.running
        self._forget = state.options.forget
        self._failures = failures
        self._claiming = claiming
        self._floors = Floors(state.connection)
        self._unclear: set[int] = set()  # jobs whose ends were being sent when a call failed

    async def report(self) -> None:
        """Report everything that has ended, and start the jobs that the lanes hand over."""
        outcomes = self._running.take_ended()
        if self._running.progress:
            await self._store_progress(outcomes)
        try:
            await self._report(outcomes)
        except InturnError as error:
            self._running.unreported.requeue(outcomes)
            self._unclear |= {outcome.job.id for outcome in outcomes}
            if not _is_about_values(error):
                raise
            await self._report_each()
        if self._failures.last is not None:
            self._failures.note_answer(is_stored=True)

    async def report_last(self) -> None:
        """Try once more to report what has ended, including outcomes that are held."""
        if outcomes := self._running.take_ended(everything=True):
            await self._report(outcomes)
        if self._running.progress:  # last, since it matters less
            await self._running.progress.store_all()

    async def _store_progress(self, outcomes: list[Outcome]) -> None:
        """Store the last progress of these attempts, before their ends are reported."""
        try:
            await self._running.progress.store_ended([each.job.fence for each in outcomes])
        except DatabaseUnavailable:
            self._running.unreported.requeue(outcomes)
            raise

    async def _report(self, outcomes: list[Outcome]) -> None:
        ended: list[Ended] = []
        again: list[Again] = []
        accepted: set[int] = set()
        if any(isinstance(outcome, Again) for outcome in outcomes):
            outcomes = await self._end_aborted(outcomes)
        for outcome in outcomes:
            match outcome:
                case Ended():
                    ended.append(outcome)
                case Again():
                    again.append(outcome)
                case Committed(job=job):
                    accepted.add(job.id)
        retried, done = finish.Retried(set(), set()), finish.Finished(set(), [], set())
        if again:
            retried = await self._connection.run(finish.retry(again))
        if ended:
            done = await self._finish(ended)
        held: list[Outcome] = []
        if busy := retried.busy | done.busy:
            held = [outcome for outcome in outcomes if outcome.job.id in busy]
            outcomes = [outcome for outcome in outcomes if outcome.job.id not in busy]
        self._running.unreported.hold(held)
        self._running.release_resources(outcomes)
        self._running.start_all(done.next)
        left = len([outcome for outcome in outcomes if outcome.job.lock is not None])
        kept = len([job for job in done.next if job.lock is not None])
        self._claiming.note_reported(
            len(outcomes),
            handed_over=len(done.next),
            lanes_went_back=bool(again) or kept < left,
        )
        self._log(outcomes, accepted | retried.accepted | done.accepted)

    async def _end_aborted(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Return the outcomes, with no further attempt for jobs that an operator aborted.

        The request may not have reached us yet.
        """
        asked = await self._connection.run(
            finish.list_abort_requests(self._state.registration.worker_id)
        )
        return [
            _end(outcome) if isinstance(outcome, Again) and outcome.job.id in asked else outcome
            for outcome in outcomes
        ]

    async def _finish(self, ended: list[Ended]) -> finish.Finished:
        state, floors = self._state, self._floors
        if floors.are_due:
            await floors.refresh()
        final = floors.final
        known = floors.of(ended) if final else None
        want = 0 if state.is_stopped else len(ended)
        mine, forget, horizon = state.registration, self._forget, floors.horizon
        done = await self._connection.run(
            finish.finish(mine.worker_id, mine.queues, want, ended, forget, known, horizon)
        )
        if done.next:
            floors.note_first(done.next, final)
        return done

    async def _report_each(self) -> None:
        """Find out which outcomes the database refuses to store, and report those as failures."""
        outcomes = self._running.take_ended()
        while outcomes:
            outcome = outcomes.pop()
            try:
                await self._report([outcome])
            except InturnError as error:
                if not _is_about_values(error):
                    self._running.unreported.requeue([*outcomes, outcome])
                    raise
                joblog.note_refused(outcome.job, error)
                reason = storable(
                    f"the database refused to store its end: {error}\n{outcome.error or ''}"
                )
                try:
                    await self._report([Ended(outcome.job, Status.FAILED, reason)])
                except InturnError:
                    self._running.unreported.requeue([*outcomes, outcome])
                    raise

    def _log(self, outcomes: list[Outcome], accepted: set[int]) -> None:
        observer = self._running.observer
        if refused := [outcome.job for outcome in outcomes if outcome.job.id not in accepted]:
            for job in refused:
                if observer is not None:
                    observer.note_refused(job, unclear=job.id in self._unclear)
                if job.id in self._unclear:
                    joblog.note_unclear(job)
                else:
                    joblog.note_lost(job)
            self._unclear -= {job.id for job in refused}
            outcomes = [outcome for outcome in outcomes if outcome.job.id in accepted]
        if self._unclear:
            self._unclear -= accepted
        if observer is not None:
            observer.note_ends(outcomes)
        joblog.note_outcomes(outcomes)


def _is_about_values(error: InturnError) -> bool:
    """Return True if the server would refuse these values however often they are sent.

    Any other error says nothing about the job, and must not turn a success into a failure.
    """
    return (getattr(error.__cause__, "sqlstate", None) or "").startswith(ABOUT_VALUES)


def _end(again: Again) -> Ended:
    status = Status.ABORTED if again.uncharged else Status.FAILED
    return Ended(again.job, status, again.error, details=again.details)
