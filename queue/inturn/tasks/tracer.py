"""What makes spans of jobs and changes, if anything does: `inturn.tracing`, with OpenTelemetry."""

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
        """Note which jobs they have become. Return them."""


class Tracer(Protocol):
    """What an app calls when it defers jobs, its workers run one, or a person changes something."""

    def send(self, jobs: Sequence[NewJob]) -> AbstractContextManager[Sending]:
        """Trace the call that defers these jobs, which is made inside the block."""

    def process(
        self, job: Job, worker: str, run: Awaitable[Outcome | None]
    ) -> Awaitable[Outcome | None]:
        """Trace an attempt at a job. Await the run, once, and return its outcome."""

    def change(
        self, action: str, by: str, of: Mapping[str, str]
    ) -> AbstractContextManager[Callable[[str], object]]:
        """Trace a change that is made inside the block. Call what it gives with the outcome."""
