"""`app.job_manager`: what a person does with a single job."""

from inturn.connectors import PsycopgConnector
from inturn.model import Reason, Status
from inturn.operations import Operation, jobs


class Jobs:
    def __init__(self, connector: PsycopgConnector) -> None:
        self._connector = connector

    def get_job_status(self, job_id: int) -> Status | None:
        """None: there is no such job."""
        return self._connector.run(jobs.status(job_id))

    async def get_job_status_async(self, job_id: int) -> Status | None:
        """None: there is no such job."""
        return await self._connector.run_async(jobs.status(job_id))

    def explain(self, job_id: int) -> list[Reason]:
        """Why it is not running, in order; `ready` alone: nothing is in its way."""
        return self._connector.run(jobs.explain(job_id))

    async def explain_async(self, job_id: int) -> list[Reason]:
        """Why it is not running, in order; `ready` alone: nothing is in its way."""
        return await self._connector.run_async(jobs.explain(job_id))

    def cancel_job_by_id(self, job_id: int, abort: bool = False, delete_job: bool = False) -> bool:
        """Cancel a job that is not being done; with `abort` ask its worker to end one that is. False: nothing was to do."""
        return self._connector.run(_cancel(job_id, abort, delete_job))

    async def cancel_job_by_id_async(self, job_id: int, abort: bool = False, delete_job: bool = False) -> bool:
        """Cancel a job that is not being done; with `abort` ask its worker to end one that is. False: nothing was to do."""
        return await self._connector.run_async(_cancel(job_id, abort, delete_job))

    def retry_job_by_id(self, job_id: int) -> bool:
        """Run a finished job again at its old place, or a scheduled one now. False: it waits already, or is being done."""
        return self._connector.run(jobs.retry(job_id))

    async def retry_job_by_id_async(self, job_id: int) -> bool:
        """Run a finished job again at its old place, or a scheduled one now. False: it waits already, or is being done."""
        return await self._connector.run_async(jobs.retry(job_id))


def _cancel(job_id: int, abort: bool, delete_job: bool) -> Operation[bool]:
    if delete_job:
        return (yield from jobs.delete(job_id))
    status = yield from jobs.cancel(job_id, abort)
    return status is Status.CANCELLED or (abort and status is Status.DOING)
