"""What `defer` returns."""

from datetime import timedelta
from typing import Any


class DeferredJob(int):
    """The id of a job that waits now: an int like any other, that knows more.

        job = write.configure(queueing_lock="letters", on_conflict="skip").defer(letter="a")
        if not job.is_new:
            print(f"job {job} was there before, and stands for this one")

        total = report.defer(day=1).result(timeout=60)

    Where it travels (pickled, as JSON, to the database) it is the plain number.
    """

    is_new: bool = True  # False: it waited already under the same queueing lock
    _manager: Any = None  # the job manager of the app that it was deferred through

    def result(self, timeout: float | timedelta | None = None) -> Any:
        """Wait for the end of the job and return what its task returned, see `job_manager.result`."""
        return self._manager.result(int(self), timeout)

    async def result_async(self, timeout: float | timedelta | None = None) -> Any:  # noqa: ASYNC109 (as in result)
        """Like `result`, in an event loop."""
        return await self._manager.result_async(int(self), timeout)

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)


def deferred_through(manager: object) -> type[DeferredJob]:
    """The class of what is deferred through one app. It knows whom to ask, so that not each job of a large batch need to."""
    return type("DeferredJob", (DeferredJob,), {"_manager": manager, "__module__": __name__})
