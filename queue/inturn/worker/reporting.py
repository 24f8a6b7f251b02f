"""Tells the server how jobs ended, and starts the jobs that their lanes hand over."""

import asyncio
from typing import TypeGuard

from inturn.errors import ConnectorException, DatabaseUnavailable, InturnError
from inturn.model import Again, Committed, Ended, Outcome, Status
from inturn.operations.engine import finish
from inturn.worker import joblog
from inturn.worker.claiming.claiming import Claiming
from inturn.worker.error_text import storable
from inturn.worker.failures import Failures
from inturn.worker.floors import Floors
from inturn.worker.state import LoopState

# Of a call that fails or is cancelled, no outcome may get lost.
FAILED_CALLS = (InturnError, asyncio.CancelledError)
MOST_REFUSED = 10  # ends that are held while the worker claims more jobs
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
        self._refused: set[int] = set()  # jobs whose ends the database refuses; they are held

    async def report(self, *, everything: bool = False) -> None:
        """Report what has ended, or everything that is held too. Start what the lanes hand over."""
        outcomes = self._running.take_ended(everything=everything)
        try:
            if self._running.progress:  # before the ends, so that an ended job has its last one
                await self._running.progress.store_ended([each.job.fence for each in outcomes])
            await self._report(outcomes)
        except FAILED_CALLS as error:
            self._unclear |= {outcome.job.id for outcome in outcomes}
            if not _is_refusal(error):
                self._running.unreported.requeue(outcomes)
                raise
            await self._report_each(outcomes)
        if self._failures.last is not None:
            self._failures.note_answer(is_stored=not self._refused)

    async def report_last(self) -> None:
        """Try once more to report everything."""
        if self._running.unreported:
            await self.report(everything=True)
        if self._running.progress:  # last, since it matters less
            await self._running.progress.store_all()

    async def _report_each(self, outcomes: list[Outcome]) -> None:
        """Report one after the other, so that those that the database refuses hold up no other.

        If it refuses many, it probably refuses all. Then raise its error, which stops the claims.
        """
        refusal: ConnectorException | None = None
        while outcomes:
            outcome, *outcomes = outcomes
            try:
                await self._report([outcome])
            except FAILED_CALLS as error:
                if not _is_refusal(error):
                    self._running.unreported.requeue([outcome, *outcomes])
                    raise
                refusal = error
                is_new = outcome.job.id not in self._refused
                if is_new:
                    self._refused.add(outcome.job.id)
                    joblog.note_refused(outcome.job, error)
                if is_new and _is_about_values(error):
                    outcomes = [_fail(outcome, error), *outcomes]
                else:
                    self._running.unreported.hold([outcome])
        if refusal is not None:
            self._failures.note_refusal(refusal)
            if len(self._refused) > MOST_REFUSED:
                raise refusal

    async def _report(self, outcomes: list[Outcome]) -> None:
        if any(isinstance(outcome, Again) for outcome in outcomes):
            outcomes = await self._end_aborted(outcomes)
        ended = [outcome for outcome in outcomes if isinstance(outcome, Ended)]
        again = [outcome for outcome in outcomes if isinstance(outcome, Again)]
        accepted = {outcome.job.id for outcome in outcomes if isinstance(outcome, Committed)}
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
        if self._refused:
            self._refused -= {outcome.job.id for outcome in outcomes}
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
        ids = [outcome.job.id for outcome in outcomes if isinstance(outcome, Again)]
        mine = self._state.registration.worker_id
        asked = await self._connection.run(finish.list_abort_requests(mine, ids))
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


def _is_refusal(error: BaseException) -> TypeGuard[ConnectorException]:
    """Return True if the server refuses the statement, for example because a trigger raises."""
    return isinstance(error, ConnectorException) and not isinstance(error, DatabaseUnavailable)


def _is_about_values(error: InturnError) -> bool:
    """Return True if the server would refuse these values however often they are sent.

    Any other error says nothing about the job, and must not turn a success into a failure.
    """
    return (getattr(error.__cause__, "sqlstate", None) or "").startswith(ABOUT_VALUES)


def _fail(outcome: Outcome, refusal: InturnError) -> Ended:
    reason = f"the database refused to store its end: {refusal}\n{outcome.error or ''}"
    # In ASCII, which every encoding of a database has: the letters may be what it refuses.
    return Ended(
        outcome.job, Status.FAILED, storable(reason.encode("ascii", "backslashreplace").decode())
    )


def _end(again: Again) -> Ended:
    status = Status.ABORTED if again.uncharged else Status.FAILED
    return Ended(again.job, status, again.error, details=again.details)
