"""The interface to what creates spans, if anything does: `inturn.tracing`, with OpenTelemetry."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
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
        """Record the ids of the jobs. Return the jobs."""


class Tracer(Protocol):
    """Called when the app defers jobs, its workers run one, or a person changes something."""

    def send(self, jobs: Sequence[NewJob]) -> AbstractContextManager[Sending]:
        """Trace the call inside the block, which defers these jobs."""

    def process(
        self, job: Job, worker: str, run: Awaitable[Outcome | None]
    ) -> Awaitable[Outcome | None]:
        """Trace an attempt at a job. Await `run` once and return its outcome."""

    def change(
        self, action: str, by: str, of: Mapping[str, str]
    ) -> AbstractContextManager[Callable[[str], object]]:
        """Trace the change made inside the block. Call the yielded function with the outcome."""
