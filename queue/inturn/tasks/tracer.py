"""What makes spans of jobs, if anything does. `inturn.tracing` does with OpenTelemetry."""

from collections.abc import Awaitable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from inturn.model import Job, Outcome
from inturn.tasks.deferred import DeferredJob
from inturn.tasks.options import NewJob


class Sending(Protocol):
    """A call that defers jobs, while it is traced."""

    @property
    def jobs(self) -> Sequence[NewJob]:
        """The jobs to defer, with the context of the trace in their headers."""

    def note(self, deferred: list[DeferredJob[Any]]) -> list[DeferredJob[Any]]:
        """Note which jobs they have become. Return them."""


class Tracer(Protocol):
    """What an app calls whenever it defers jobs, and its workers whenever they run one."""

    def send(self, jobs: Sequence[NewJob]) -> AbstractContextManager[Sending]:
        """Trace the call that defers these jobs, which is made inside the block."""

    def process(
        self, job: Job, worker: str, run: Awaitable[Outcome | None]
    ) -> Awaitable[Outcome | None]:
        """Trace an attempt at a job. Await the run, once, and return its outcome."""
