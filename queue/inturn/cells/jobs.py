"""`app.job_manager` and `app.batches` over cells. A bulk is one transaction in each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inturn.cells.asking import CellsUnanswered, ask_all, ask_all_async
from inturn.cells.placing import place_job
from inturn.cells.router import Router
from inturn.errors import BadArgument, InturnError
from inturn.tasks.deferred import DeferredJob
from inturn.tasks.options import NewJob
from inturn.tasks.tracer import Tracer

Groups = dict[int, list[int]]  # the places of jobs, by cell


class PartlyDeferred(InturnError):
    """A call for several cells has deferred the jobs of some.

    `deferred` has what `batch_defer_jobs` would return, with None for each job that was not
    deferred. `errors` has the error of each cell. Defer the jobs at `left` again, unless the error
    has `outcome_unknown`.
    """

    def __init__(
        self, deferred: Sequence[DeferredJob[Any] | None], errors: Mapping[int, InturnError]
    ) -> None:
        self.deferred = list(deferred)
        self.errors = dict(errors)
        self.left = [place for place, job in enumerate(deferred) if job is None]
        done = len(self.deferred) - len(self.left)
        cell, error = next(iter(self.errors.items()))
        super().__init__(
            f"{done} of {len(self.deferred)} jobs were deferred. Those of cell "
            f"{', '.join(map(str, self.errors))} were not: see `left`, and defer them again. "
            f"Cell {cell}: {error}"
        )


class CellJobs(Router):
    """The job manager of an app with cells."""

    @property
    def tracing(self) -> Tracer | None:
        """Creates spans: one for each cell of a call."""
        tracing: Tracer | None = self._parts[0].tracing
        return tracing

    @tracing.setter
    def tracing(self, tracing: Tracer | None) -> None:
        for part in self._parts:
            part.tracing = tracing

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
        local = None if connection is None else self._cells.find_local(connection)
        groups = self._group(jobs, local)
        if len(groups) <= 1:
            for cell in groups:
                return list(self._parts[cell].batch_defer_jobs(jobs, connection))
            return []
        if connection is not None:
            raise self._refuse_split(jobs, groups)
        try:
            found = ask_all(
                list(groups),
                lambda cell: self._parts[cell].batch_defer_jobs([jobs[at] for at in groups[cell]]),
            )
        except CellsUnanswered as error:
            raise _tell_part(len(jobs), groups, error) from error
        return _in_order(len(jobs), groups, found)

    async def batch_defer_jobs_async(
        self, jobs: Sequence[NewJob], connection: object = None
    ) -> list[DeferredJob[Any]]:
        """Like `batch_defer_jobs`, in an event loop."""
        local = None if connection is None else await self._cells.find_local_async(connection)
        groups = self._group(jobs, local)
        if len(groups) <= 1:
            for cell in groups:
                return list(await self._parts[cell].batch_defer_jobs_async(jobs, connection))
            return []
        if connection is not None:
            raise self._refuse_split(jobs, groups)
        try:
            found = await ask_all_async(
                list(groups),
                lambda cell: self._parts[cell].batch_defer_jobs_async(
                    [jobs[at] for at in groups[cell]]
                ),
            )
        except CellsUnanswered as error:
            raise _tell_part(len(jobs), groups, error) from error
        return _in_order(len(jobs), groups, found)

    def _group(self, jobs: Sequence[NewJob], local: frozenset[int] | None) -> Groups:
        """Return the jobs of each cell. Free jobs go to one that is in use anyway."""
        places = [place_job(job.options, len(self._parts)) for job in jobs]
        free: int | None = None
        if None in places:
            used = {each for each in places if each is not None}
            free = self._cells.choose_free(used, local)
        groups: Groups = {}
        for at, place in enumerate(places):
            groups.setdefault(free if place is None else place, []).append(at)  # type: ignore[arg-type]
        return groups

    def _refuse_split(self, jobs: Sequence[NewJob], groups: Groups) -> BadArgument:
        named = ", ".join(
            f"{jobs[places[0]].options.lock or jobs[places[0]].task_name!r} is in cell {cell}"
            for cell, places in groups.items()
        )
        return BadArgument(
            "connection",
            f"is one transaction, but the jobs are for several cells: {named}. Give them one cell "
            "key, or defer without connection= after your commit",
        )


class CellBatches(Router):
    """The batches of an app with cells. Each is in one cell."""

    def open(self, name: str, *, callback: Any = None, connection: object = None) -> int:
        """Open a batch in the cell of its callback, or of the connection, else in any."""
        local = None if connection is None else self._cells.find_local(connection)
        part = self._parts[self._place_batch(callback, local)]
        return int(part.open(name, callback=callback, connection=connection))

    async def open_async(
        self, name: str, *, callback: Any = None, connection: object = None
    ) -> int:
        """Like `open`, in an event loop."""
        local = None if connection is None else await self._cells.find_local_async(connection)
        part = self._parts[self._place_batch(callback, local)]
        return int(await part.open_async(name, callback=callback, connection=connection))

    def _place_batch(self, callback: Any, local: frozenset[int] | None) -> int:
        options = getattr(callback, "_options", None)
        place = None if options is None else place_job(options, len(self._parts))
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


def _tell_part(size: int, groups: Groups, error: CellsUnanswered) -> InturnError:
    """Return the error of a bulk, which is the cells' own if none has deferred anything."""
    if not error.answers:
        return next(iter(error.errors.values()))
    return PartlyDeferred(_in_order(size, groups, error.answers), error.errors)
