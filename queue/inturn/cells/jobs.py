"""The parts of an app over cells that are more than their calls: jobs and batches.

A bulk of new jobs is one transaction in each cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from inturn.cells.asking import MOST_THREADS, ask_all, ask_all_async
from inturn.cells.placing import place_job, refuse_elsewhere
from inturn.cells.router import Router
from inturn.errors import CellsUnanswered, PartlyDeferred
from inturn.operations.engine.enqueue import check_new
from inturn.tasks.deferred import DeferredJob
from inturn.tasks.lanes import first_lock
from inturn.tasks.options import NewJob

Groups = dict[int, list[int]]  # the places of jobs, by cell


class CellJobs(Router):
    """The job manager of an app with cells."""

    def defer_job(self, job: NewJob, connection: object = None) -> DeferredJob[Any]:
        """Like `Jobs.defer_job`."""
        return self.batch_defer_jobs([job], connection)[0]

    async def defer_job_async(self, job: NewJob, connection: object = None) -> DeferredJob[Any]:
        """Like `Jobs.defer_job_async`."""
        return (await self.batch_defer_jobs_async([job], connection))[0]

    def batch_defer_jobs(
        self, jobs: Sequence[NewJob], connection: object = None
    ) -> list[DeferredJob[Any]]:
        """Enqueue jobs, in one transaction for each cell. Raise PartlyDeferred if some failed."""
        local = None if connection is None else self._cells.callers.find_cells(connection)
        groups = self._group(jobs, local)
        if len(groups) == 1:
            return list(self._part(min(groups)).batch_defer_jobs(jobs, connection))

        def defer(cell: int) -> Sequence[DeferredJob[Any]]:
            some = [jobs[at] for at in groups[cell]]
            return list(self._part(cell).batch_defer_jobs(some, connection))

        try:
            # A connection runs one statement at a time.
            found = ask_all(list(groups), defer, most_at_once=1 if connection else MOST_THREADS)
        except CellsUnanswered as error:
            _raise_part(len(jobs), groups, error)
        return _in_order(len(jobs), groups, found)

    async def batch_defer_jobs_async(
        self, jobs: Sequence[NewJob], connection: object = None
    ) -> list[DeferredJob[Any]]:
        local = (
            None if connection is None else await self._cells.callers.find_cells_async(connection)
        )
        groups = self._group(jobs, local)
        if len(groups) == 1:
            return list(await self._part(min(groups)).batch_defer_jobs_async(jobs, connection))

        async def defer(cell: int) -> Sequence[DeferredJob[Any]]:
            some = [jobs[at] for at in groups[cell]]
            return list(await self._part(cell).batch_defer_jobs_async(some, connection))

        try:
            at_once = 1 if connection else MOST_THREADS
            found = await ask_all_async(list(groups), defer, most_at_once=at_once)
        except CellsUnanswered as error:
            _raise_part(len(jobs), groups, error)
        return _in_order(len(jobs), groups, found)

    def _group(self, jobs: Sequence[NewJob], local: frozenset[int] | None) -> Groups:
        """Return the jobs of each cell.

        Free jobs go to the one that was named, or to one that is in use anyway.
        """
        count = len(self._cells.homes)
        places = [place_job(job.options, count, self._home) for job in check_new(jobs)]
        free = None
        if None in places:
            used = {each for each in places if each is not None}
            free = self._cells.choose_free(used, local)
        groups: Groups = {}
        for at, place in enumerate(places):
            groups.setdefault(free if place is None else place, []).append(at)  # type: ignore[arg-type]
        if local is not None and (away := groups.keys() - local):
            cell = min(away)
            options = jobs[groups[cell][0]].options
            name = (
                options.cell or first_lock(options.lock) or options.queueing_lock or options.limit
            )
            raise refuse_elsewhere(self._cells.homes[cell], local, name)
        return groups


class CellBatches(Router):
    """The batches of an app with cells. Each is in one cell."""

    def open(self, name: str, *, callback: Any = None, connection: object = None) -> int:
        """Open a batch in the cell of its callback, or of the connection, else in any."""
        local = None if connection is None else self._cells.callers.find_cells(connection)
        part = self._part(self._place_batch(callback, local))
        return int(part.open(name, callback=callback, connection=connection))

    async def open_async(
        self, name: str, *, callback: Any = None, connection: object = None
    ) -> int:
        local = (
            None if connection is None else await self._cells.callers.find_cells_async(connection)
        )
        part = self._part(self._place_batch(callback, local))
        return int(await part.open_async(name, callback=callback, connection=connection))

    def _place_batch(self, callback: Any, local: frozenset[int] | None) -> int:
        if self._home is not None:
            return self._home
        options = getattr(callback, "_options", None)
        place = None if options is None else place_job(options, len(self._cells.homes))
        return self._cells.choose_free(set(), local) if place is None else place


def _in_order(
    size: int, groups: Groups, found: Mapping[int, Sequence[DeferredJob[Any]]]
) -> list[Any]:
    """Return the jobs in the order of the call, and None for those that were not deferred."""
    deferred: list[DeferredJob[Any] | None] = [None] * size
    for cell, made in found.items():
        for at, job in zip(groups[cell], made, strict=True):
            deferred[at] = job
    return deferred


def _raise_part(size: int, groups: Groups, error: CellsUnanswered) -> NoReturn:
    """Raise the error of a bulk, which is a cell's own if none has deferred anything."""
    if not error.answers:
        own = next(iter(error.errors.values()))
        raise own from own.__cause__
    answers: Any = error.answers
    raise PartlyDeferred(_in_order(size, groups, answers), error.errors) from error
