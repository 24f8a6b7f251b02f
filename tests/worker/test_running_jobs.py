"""A worker's record of its claims."""

from typing import Any

import anyio
import pytest

from inturn import App
from inturn.model import Ended, Job, Status
from inturn.worker.connection import WorkerConnection
from inturn.worker.middleware_chain import MiddlewareChain
from inturn.worker.options import Options
from inturn.worker.running_jobs import RunningJobs
from inturn.worker.unreported import ProgressReports

COUNT = 1000  # as many as may be at hand


class Claim(str):
    """A claim id that counts comparisons."""

    compared = 0
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Claim.compared += 1
        return str.__eq__(self, other)


def job(claim: str) -> Job:
    return Job(1, Claim(claim), 1, "task", "default", None, 0, 0, None, {})


def _running_jobs() -> RunningJobs:
    nobody: Any = None
    app = App("postgresql://nowhere.invalid/")
    chain = MiddlewareChain(nobody, None, None)
    progress = ProgressReports(WorkerConnection(app.connector), lambda: None)
    return RunningJobs(app, app.connector, Options(), lambda: None, chain, progress)


@pytest.mark.anyio
async def test_an_unknown_job_is_found_in_as_many_comparisons_as_there_are_claims() -> None:
    running = _running_jobs()
    for number in range(COUNT):
        running.unreported.add(Ended(job(f"{number}"), Status.SUCCEEDED))
    assert running.find_unknown((1, f"{number}") for number in range(COUNT)) == set()
    assert Claim.compared <= 2 * COUNT
    assert running.find_unknown([(1, "7"), (1, "new"), (2, "7")]) == {(1, "new"), (2, "7")}
    running.take_ended()
    assert running.find_unknown([(1, "7")]) == {(1, "7")}


@pytest.mark.anyio
async def test_jobs_that_wait_for_a_slot_are_known_and_can_be_aborted() -> None:
    """A job that is not known is put back, so it would run twice."""
    running = _running_jobs()

    async def work() -> None:
        running.start_all([Job(id=number, claim_id="a") for number in (1, 2, 3)])
        assert running.in_hand == 3
        claims = {(1, "a"), (2, "a"), (3, "a"), (3, "b")}
        assert running.find_unknown(claims) == {(3, "b")}
        running.abort([2])
        assert [job.id for job in running.take_waiting()] == [1, 3]
        [aborted] = running.take_ended()
        assert isinstance(aborted, Ended)
        assert (aborted.job.id, aborted.status) == (2, Status.ABORTED)

    with anyio.fail_after(120):
        await running.serve(work)
