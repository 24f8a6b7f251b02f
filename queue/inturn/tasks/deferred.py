"""What `defer` returns."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, Generic, TypeVar, overload

from inturn.values import Decoders

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)  # what a call of the task returns


class DeferredJob(int, Generic[R_co]):
    """The id of a deferred job. It is an int that can also wait for the job's result.

        job = write.configure(queueing_lock="letters", on_conflict="skip").defer(letter="a")
        if not job.is_new:
            print(f"job {job} was waiting already and stands for this one")

        total = report.defer(day=1).result(timeout=60)

    When pickled, written as JSON or sent to the database, it is a plain number.
    """

    is_new: bool = True  # False if the job was already waiting under the same queueing lock
    # `enqueue.defer_jobs` sets these:
    _manager: Any = None  # the job manager of the app that deferred it
    _decoders: Decoders | None = None  # of its task, if known here

    # The result of an async task is what its coroutine returns.
    @overload
    def result(
        self: DeferredJob[Coroutine[Any, Any, T]], timeout: float | timedelta | None = None
    ) -> T: ...
    @overload
    def result(self: DeferredJob[T], timeout: float | timedelta | None = None) -> T: ...
    def result(self, timeout: float | timedelta | None = None) -> Any:
        """Wait until the job ends and return what its task returned. See `job_manager.result`.

        The task's return annotation restores values that JSON lacks, such as a datetime.
        """
        return self._decode(self._manager.result(int(self), timeout))

    @overload
    async def result_async(
        self: DeferredJob[Coroutine[Any, Any, T]],
        timeout: float | timedelta | None = None,  # noqa: ASYNC109 (as in result)
    ) -> T: ...
    @overload
    async def result_async(
        self: DeferredJob[T],
        timeout: float | timedelta | None = None,  # noqa: ASYNC109 (as in result)
    ) -> T: ...
    async def result_async(self, timeout: float | timedelta | None = None) -> Any:  # noqa: ASYNC109 (as in result)
        """Like `result`, in an event loop."""
        return self._decode(await self._manager.result_async(int(self), timeout))

    def _decode(self, value: Any) -> Any:
        return value if self._decoders is None else self._decoders.decode_result(value)

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)
