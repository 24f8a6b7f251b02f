"""A worker's record of its claims."""

from typing import Any

from inturn import App
from inturn.model import Ended, Job, Status
from inturn.worker.middleware_chain import MiddlewareChain
from inturn.worker.options import Options
from inturn.worker.running_jobs import RunningJobs

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


def test_an_unknown_job_is_found_in_as_many_comparisons_as_there_are_claims() -> None:
    nobody: Any = None
    app = App("postgresql://nowhere.invalid/")
    running = RunningJobs(
        app, app.connector, Options(), lambda: None, MiddlewareChain(nobody, None, None)
    )
    for number in range(COUNT):
        running.unreported.add(Ended(job(f"{number}"), Status.SUCCEEDED))
    assert running.find_unknown((1, f"{number}") for number in range(COUNT)) == set()
    assert Claim.compared <= 2 * COUNT
    assert running.find_unknown([(1, "7"), (1, "new"), (2, "7")]) == {(1, "new"), (2, "7")}
    running.take_ended()
    assert running.find_unknown([(1, "7")]) == {(1, "7")}
