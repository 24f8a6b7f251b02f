"""Traces with OpenTelemetry: a span where a job is deferred, and one for each attempt.

Each change made in the dashboard gets one, too.

    from inturn.tracing import Tracing

    app = App(dsn, tracing=Tracing())

It needs only OpenTelemetry's API. Without an SDK, which your program chooses and configures, spans
go nowhere. Nothing here is imported unless you use it.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Literal

from inturn.errors import ConfigurationError, MissingExtra
from inturn.model import Job, Outcome, Status, name_outcome
from inturn.tasks.deferred import DeferredJob
from inturn.tasks.headers import TRACE, add_header
from inturn.tasks.lanes import first_lock
from inturn.tasks.options import CheckedOptions, NewJob

if find_spec("opentelemetry") is None:
    raise MissingExtra("Tracing", "otel")

from opentelemetry import trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context, attach, detach
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

logger = logging.getLogger(__name__)
MAX_BYTES = 1024  # of the context stored with a job, as JSON
MANY = 100  # from this many, the jobs of a call share one span
FAILURES = ("failed", "retried")


class Tracing:
    """Creates spans for an app's jobs. Pass it to the app.

        app = App(dsn, tracing=Tracing(relation="child"))

    relation: how an attempt relates to the trace that deferred its job. With "link", it starts its
    own trace, which links to that one. With "child", it is part of that one.
    baggage: whether baggage travels with the job too.
    tracer_provider: where spans go, instead of OpenTelemetry's global provider.
    """

    def __init__(
        self,
        relation: Literal["link", "child"] = "link",
        *,
        baggage: bool = False,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        if relation not in ("link", "child"):
            raise ConfigurationError(f"relation: {relation!r} is not 'link' or 'child'")
        self._is_child = relation == "child"
        self._propagators: list[TextMapPropagator] = [TraceContextTextMapPropagator()]
        if baggage:
            self._propagators.append(W3CBaggagePropagator())
        self._tracer = trace.get_tracer("inturn", version("inturn"), tracer_provider)

    # ------------------------------------------------------------------ deferring

    @contextmanager
    def send(self, jobs: Sequence[NewJob]) -> "Iterator[SendingSpan]":
        """Trace the call inside the block, which defers these jobs."""
        if not jobs:
            yield SendingSpan(jobs, [])
            return
        queues = {job.options.queue for job in jobs}
        queue = jobs[0].options.queue if len(queues) == 1 else None
        attributes = _describe("send", queue)
        if len(jobs) == 1:
            attributes |= _describe_new(jobs[0])
        else:
            attributes["messaging.batch.message_count"] = len(jobs)
        with self._tracer.start_as_current_span(
            "send" if queue is None else f"send {queue}",
            kind=SpanKind.PRODUCER if len(jobs) == 1 else SpanKind.CLIENT,
            attributes=attributes,
        ) as span:
            spans = [span] if len(jobs) == 1 else self._create(jobs)
            try:
                yield SendingSpan(self._carry(jobs, spans), spans)
            except BaseException as error:
                span.set_attribute("error.type", _name_type(error))
                raise
            finally:
                for each in spans:
                    if each is not span:
                        each.end()

    def _create(self, jobs: Sequence[NewJob]) -> list[Span]:
        """Return a span for each of several jobs, or none if there are too many."""
        if len(jobs) >= MANY:
            return []
        return [
            self._tracer.start_span(
                f"create {job.options.queue}",
                kind=SpanKind.PRODUCER,
                attributes=_describe("create", job.options.queue) | _describe_new(job),
            )
            for job in jobs
        ]

    def _carry(self, jobs: Sequence[NewJob], spans: Sequence[Span]) -> list[NewJob]:
        """Return the jobs with the contexts of these spans, or else all with the current one."""
        if spans:
            return [
                job._replace(options=_add_context(job.options, self._write(span)))
                for job, span in zip(jobs, spans, strict=True)
            ]
        context = self._write(trace.get_current_span())
        changed = {id(job.options): _add_context(job.options, context) for job in jobs}
        return [job._replace(options=changed[id(job.options)]) for job in jobs]

    def _write(self, span: Span) -> dict[str, str]:
        context: dict[str, str] = {}
        for propagator in self._propagators:
            propagator.inject(context, trace.set_span_in_context(span))
        # The parent comes first and is short. Without the rest, the trace is still complete.
        while len(json.dumps(context)) > MAX_BYTES:
            context.popitem()
        return context

    # ------------------------------------------------------------------ running

    async def process(
        self, job: Job, worker: str, run: Awaitable[Outcome | None]
    ) -> Outcome | None:
        """Trace an attempt at a job. Errors in tracing do not affect the job."""
        try:
            context = self._start(job, worker)
        except Exception:
            logger.exception("tracing.failed: job %s %s runs without a span", job.id, job.task_name)
            return await run
        token = attach(context)
        outcome = None
        try:
            outcome = await run
            return outcome
        finally:
            detach(token)
            try:
                _end(trace.get_current_span(context), outcome)
            except Exception:
                logger.exception("tracing.failed: the span of job %s %s", job.id, job.task_name)

    def _start(self, job: Job, worker: str) -> Context:
        """Start the span of an attempt. Return a context in which it is the current one."""
        origin = self._read(job)
        creation = trace.get_current_span(origin).get_span_context()
        span = self._tracer.start_span(
            f"process {job.queue}",
            context=origin if self._is_child else Context(),
            kind=SpanKind.CONSUMER,
            links=[Link(creation)] if creation.is_valid and not self._is_child else [],
            attributes=_describe("process", job.queue)
            | _describe_job(job)
            | {"messaging.client.id": worker},
        )
        return trace.set_span_in_context(span, origin)

    def _read(self, job: Job) -> Context:
        """Return the context that deferred the job. SQL code may have written anything there."""
        stored = (job.headers or {}).get(TRACE)
        context = Context()
        if isinstance(stored, dict):
            known = {name: value for name, value in stored.items() if isinstance(value, str)}
            for propagator in self._propagators:
                context = propagator.extract(known, context)
        return context

    # ------------------------------------------------------------------ changing

    @contextmanager
    def change(
        self, action: str, by: str, of: Mapping[str, str]
    ) -> Iterator[Callable[[str], object]]:
        """Trace the change inside the block, made by a person in the dashboard."""
        names = {"job": "messaging.message.id"}
        targets = {names.get(kind, f"inturn.{kind}"): name for kind, name in of.items()}
        with self._tracer.start_as_current_span(
            f"change {action}", attributes={"user.name": by} | targets
        ) as span:
            yield partial(span.set_attribute, "inturn.outcome")


@dataclass(eq=False)
class SendingSpan:
    """A call that defers jobs, while it is traced."""

    jobs: Sequence[NewJob]
    _spans: Sequence[Span]

    def note(self, deferred: list[DeferredJob[Any]]) -> list[DeferredJob[Any]]:
        """Record the ids of the jobs on their spans. Return the jobs."""
        for span, id in zip(self._spans, deferred, strict=False):
            span.set_attribute("messaging.message.id", str(int(id)))
        return deferred


def _add_context(options: CheckedOptions, context: dict[str, str]) -> CheckedOptions:
    if not context:  # there is no SDK, or it creates no spans here
        return options
    headers = add_header(options.headers, TRACE, context)
    changed: CheckedOptions = options._replace(headers=headers)
    return changed


def _end(span: Span, outcome: Outcome | None) -> None:
    """End the span of an attempt. Without an outcome, the job went back to its lane."""
    try:
        name = "given_back" if outcome is None else name_outcome(outcome)
        span.set_attribute("inturn.outcome", name)
        error = None if outcome is None else outcome.details.exception
        if name in FAILURES or (name == Status.SUCCEEDED and error is not None):
            _note_error(span, error)
    finally:
        span.end()


def _note_error(span: Span, error: BaseException | None) -> None:
    description = None
    with suppress(Exception):  # some errors cannot print themselves
        description = None if error is None else str(error)
    span.set_status(StatusCode.ERROR, description)
    if error is not None:
        span.set_attribute("error.type", _name_type(error))
        with suppress(Exception):
            span.record_exception(error)


def _name_type(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")


def _describe(operation: str, queue: str | None) -> dict[str, AttributeValue]:
    return {
        "messaging.system": "inturn",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        **({} if queue is None else {"messaging.destination.name": queue}),
    }


def _describe_new(job: NewJob) -> dict[str, AttributeValue]:
    lock = first_lock(job.options.lock)
    return {"inturn.task": job.task_name, **({} if lock is None else {"inturn.lock": lock})}


def _describe_job(job: Job) -> dict[str, AttributeValue]:
    return {
        "messaging.message.id": str(job.id),
        "inturn.task": job.task_name,
        "inturn.attempt": job.attempts + 1,
        **({} if job.lock is None else {"inturn.lock": job.lock}),
        **({} if job.waited is None else {"inturn.waited": max(0.0, job.waited)}),
    }
