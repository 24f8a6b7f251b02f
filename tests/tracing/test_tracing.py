"""Traces, with OpenTelemetry's SDK: which spans there are, and how they belong together."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from opentelemetry import baggage
from opentelemetry import trace as otel
from opentelemetry.context import attach, detach
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceState

from inturn import App, JobContext, PsycopgConnector, RetryStrategy
from inturn.errors import (
    AlreadyEnqueued,
    BadArgument,
    ConfigurationError,
    JobAborted,
    JobSkipped,
)
from inturn.tracing import Tracing
from tests.conftest import Query
from tests.tracing.conftest import Spans

pytestmark = pytest.mark.anyio
Trace = Callable[..., App]


def place(span: ReadableSpan) -> tuple[int, int]:
    """Return the trace and the id of a span."""
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def links(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def parent(span: ReadableSpan) -> tuple[int, int] | None:
    return None if span.parent is None else (span.parent.trace_id, span.parent.span_id)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


# ---------------------------------------------------------------- the two spans of a job


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_attempt_is_a_trace_of_its_own_that_links_to_where_the_job_was_deferred(
    trace: Trace, spans: Spans, is_async: bool
) -> None:
    app = trace()
    within: list[int] = []

    def run() -> None:
        within.append(otel.get_current_span().get_span_context().span_id)

    if is_async:

        @app.task(name="task")
        async def task() -> None:
            run()
    else:
        app.task(name="task")(run)

    with spans.provider.get_tracer("web").start_as_current_span("request") as request:
        job = app.configure_task("task", lock="a", queue="q").defer()
    await app.run_worker_async(name="w")

    sent, run_span = spans.one("send q"), spans.one("process q")
    assert parent(sent) == (request.get_span_context().trace_id, request.get_span_context().span_id)
    assert (parent(run_span), links(run_span)) == (None, [place(sent)])
    assert within == [place(run_span)[1]]
    assert (sent.kind, run_span.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    common = {
        "messaging.system": "inturn",
        "messaging.destination.name": "q",
        "messaging.message.id": str(int(job)),
        "inturn.task": "task",
        "inturn.lock": "a",
    }
    assert attributes(sent) == common | {
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
    }
    waited = attributes(run_span).pop("inturn.waited")
    assert waited > 0
    assert attributes(run_span) == common | {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.client.id": "w",
        "inturn.attempt": 1,
        "inturn.outcome": "succeeded",
        "inturn.waited": waited,
    }
    assert run_span.status.status_code is StatusCode.UNSET


async def test_an_attempt_can_be_a_part_of_the_trace_instead(trace: Trace, spans: Spans) -> None:
    app = trace(relation="child")

    @app.task(name="task")
    async def task() -> None: ...

    task.defer()
    await app.run_worker_async()
    sent, run = spans.one("send default"), spans.one("process default")
    assert (parent(run), links(run)) == (place(sent), [])


async def test_a_job_that_a_job_defers_belongs_to_the_attempt(trace: Trace, spans: Spans) -> None:
    app = trace()

    @app.task(name="second", queue="second")
    def second() -> None: ...

    @app.task(name="first", queue="first")
    def first() -> None:
        second.defer()

    async with app.open_async():
        await first.defer_async()
        await app.run_worker_async()
    assert parent(spans.one("send second")) == place(spans.one("process first"))
    assert links(spans.one("process second")) == [place(spans.one("send second"))]


async def test_a_span_around_the_worker_is_not_that_of_its_jobs(trace: Trace, spans: Spans) -> None:
    app = trace()

    @app.task(name="task")
    async def task() -> None: ...

    task.defer()
    with spans.provider.get_tracer("main").start_as_current_span("around"):
        await app.run_worker_async()
    assert parent(spans.one("process default")) is None


async def test_a_job_that_nobody_traced_has_a_span_without_links(
    trace: Trace, spans: Spans, query: Query
) -> None:
    app = trace()

    @app.task(name="task")
    async def task() -> None: ...

    query("SELECT defer('task')")
    for odd in ('{"otel": 1}', '{"otel": {"traceparent": 5}}', '{"otel": {"traceparent": "x"}}'):
        query("SELECT defer('task', headers => %s::jsonb)", odd)
    await app.run_worker_async()
    found = [(parent(each), links(each)) for each in spans.list("process default")]
    assert found == [(None, [])] * 4


async def test_sql_can_pass_a_trace_on(trace: Trace, spans: Spans, query: Query) -> None:
    app = trace()

    @app.task(name="task")
    async def task() -> None: ...

    origin = f"00-{'a' * 32}-{'b' * 16}-01"
    query(
        "SELECT defer('task', headers => %s::jsonb)", json.dumps({"otel": {"traceparent": origin}})
    )
    await app.run_worker_async()
    assert links(spans.one("process default")) == [(int("a" * 32, 16), int("b" * 16, 16))]


# ---------------------------------------------------------------- how attempts end


async def test_each_attempt_has_a_span_and_all_link_to_where_the_job_was_deferred(
    trace: Trace, spans: Spans
) -> None:
    app = trace()

    @app.task(name="fragile", retry=RetryStrategy(max_attempts=1))
    def fragile() -> None:
        raise LookupError("nobody there")

    fragile.configure(headers={"tenant": "acme"}).defer()
    await app.run_worker_async()
    first, last = spans.list("process default")
    for run, number, outcome in ((first, 1, "retried"), (last, 2, "failed")):
        assert links(run) == [place(spans.one("send default"))]
        found = attributes(run)
        assert (found["inturn.attempt"], found["inturn.outcome"]) == (number, outcome)
        assert found["error.type"] == "LookupError"
        assert (run.status.status_code, run.status.description) == (
            StatusCode.ERROR,
            "nobody there",
        )
        [event] = run.events
        assert event.name == "exception"
        assert (event.attributes or {})["exception.message"] == "nobody there"
    assert place(first)[0] != place(last)[0]


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("it cannot even be printed")


async def fall(context: JobContext) -> None:
    raise Unprintable


async def give_up(context: JobContext) -> None:
    raise JobAborted("enough")


async def skip(context: JobContext) -> None:
    raise JobSkipped("not now")


async def sleep(context: JobContext) -> None:
    if not context.job.scheduled_at:
        context.snooze({"milliseconds": 1})


async def run_late(context: JobContext) -> None:
    import anyio

    await anyio.sleep(30)


@pytest.mark.parametrize(
    ("function", "outcomes", "error"),
    [
        (fall, ["failed"], "Unprintable"),
        (give_up, ["aborted"], None),
        (skip, ["cancelled"], None),
        (sleep, ["snoozed", "succeeded"], None),
        (run_late, ["failed"], "JobTimeout"),
    ],
)
async def test_only_failures_are_errors_of_a_span(
    trace: Trace, spans: Spans, function: Any, outcomes: list[str], error: str | None
) -> None:
    app = trace()
    task = app.task(name="task", pass_context=True)(function)
    task.configure(timeout=0.05 if function is run_late else None).defer()
    await app.run_worker_async()
    while app.job_manager.list_jobs(status="scheduled"):  # the worker was faster than a millisecond
        await app.run_worker_async()
    found = spans.list("process default")
    assert [attributes(each)["inturn.outcome"] for each in found] == outcomes
    types = [str(attributes(each).get("error.type", "")) for each in found]
    assert [each.rpartition(".")[2] for each in types if each] == ([error] if error else [])
    is_error = [each.status.status_code is StatusCode.ERROR for each in found]
    assert is_error == [error is not None] * len(found)


async def test_a_job_that_goes_back_since_its_worker_ends_has_a_span_of_its_run(
    trace: Trace, spans: Spans
) -> None:
    app = trace()

    @app.task(name="endless", pass_context=True)
    async def endless(context: JobContext) -> None:
        import anyio

        stop_now.append(True)
        worker.abort("the test")
        await anyio.sleep(30)

    stop_now: list[bool] = []
    worker: Any = None

    async def meet(call_next: Callable[[], Any], context: JobContext, running: Any) -> Any:
        nonlocal worker
        worker = running
        return await call_next()

    endless.defer()
    await app.run_worker_async(worker_middleware=[meet])
    run = spans.one("process default")
    assert attributes(run)["inturn.outcome"] == "given_back"
    assert run.status.status_code is StatusCode.UNSET


# ---------------------------------------------------------------- deferring


async def test_each_job_of_a_call_has_a_span_within_that_of_the_call(
    trace: Trace, spans: Spans
) -> None:
    app = trace()

    @app.task(name="task")
    async def task(n: int) -> None: ...

    async with app.open_async():
        jobs = await task.batch_defer_async({"n": 1}, {"n": 2})
        await app.run_worker_async()
    call, created = spans.one("send default"), spans.list("create default")
    assert (call.kind, attributes(call)["messaging.batch.message_count"]) == (SpanKind.CLIENT, 2)
    assert [parent(each) for each in created] == [place(call)] * 2
    ids = [attributes(each)["messaging.message.id"] for each in created]
    assert ids == [str(int(job)) for job in jobs]
    assert all(each.kind is SpanKind.PRODUCER for each in created)
    runs = {
        attributes(each)["messaging.message.id"]: each for each in spans.list("process default")
    }
    assert [links(runs[id]) for id in ids] == [[place(each)] for each in created]


async def test_the_jobs_of_a_large_call_share_its_span(trace: Trace, spans: Spans) -> None:
    app = trace()

    @app.task(name="task")
    async def task(n: int) -> None: ...

    task.batch_defer(*({"n": n} for n in range(99)))
    assert len(spans.list("create default")) == 99
    task.batch_defer(*({"n": n} for n in range(100)))
    assert len(spans.list("create default")) == 99
    await app.run_worker_async()
    many = spans.list("send default")[1]
    assert [links(each) for each in spans.list("process default")].count([place(many)]) == 100


def test_a_call_for_several_queues_names_none(trace: Trace, spans: Spans) -> None:
    app = trace()
    jobs = [app.configure_task("t", queue=queue).make_new_job() for queue in ("a", "b")]
    app.job_manager.batch_defer_jobs(jobs)
    assert "messaging.destination.name" not in attributes(spans.one("send"))
    assert [each.name for each in spans.list()[1:]] == ["create a", "create b"]
    assert app.job_manager.batch_defer_jobs([]) == []
    assert len(spans.list()) == 3


def test_what_is_no_new_job_is_refused(trace: Trace, spans: Spans) -> None:
    jobs: list[Any] = [5]
    with pytest.raises(BadArgument, match="jobs has an int"):
        trace().job_manager.batch_defer_jobs(jobs)
    assert spans.list() == []


def test_a_call_on_your_connection_is_traced_and_commits_with_it(
    trace: Trace, spans: Spans, dsn: str, query: Query
) -> None:
    app = trace()
    with psycopg.connect(dsn) as connection:
        app.configure_task("t", connection=connection).defer()
        connection.rollback()
        assert query("SELECT FROM jobs") == []
        app.configure_task("t", connection=connection).defer()
    assert len(query("SELECT FROM jobs WHERE headers ? 'otel'")) == 1
    assert len(spans.list("send default")) == 2


def test_a_call_that_fails_has_a_span_that_says_so(trace: Trace, spans: Spans) -> None:
    app = trace()
    once = app.configure_task("t", queueing_lock="q")
    once.defer()
    with pytest.raises(AlreadyEnqueued):
        once.defer()
    failed = spans.list("send default")[1]
    assert failed.status.status_code is StatusCode.ERROR
    assert attributes(failed)["error.type"] == "inturn.errors.AlreadyEnqueued"


# ---------------------------------------------------------------- what is stored


@pytest.fixture
def caller() -> Iterator[SpanContext]:
    """A span of a caller, with baggage and a state that is too large to be stored."""
    state = TraceState([(f"vendor{n}", "v" * 200) for n in range(5)])
    context = SpanContext(0xAB, 0xCD, False, otel.TraceFlags(1), state)
    within = otel.set_span_in_context(NonRecordingSpan(context))
    token = attach(baggage.set_baggage("customer", "ann", within))
    yield context
    detach(token)


def test_the_context_is_stored_under_its_own_key_beside_your_headers(
    trace: Trace, spans: Spans, query: Query
) -> None:
    app = trace()
    app.configure_task("t", headers={"tenant": "acme"}).defer()
    [(headers,)] = query("SELECT headers FROM jobs")
    trace_id, span_id = place(spans.one("send default"))
    traceparent = headers.pop("otel")["traceparent"]
    assert traceparent.startswith(f"00-{trace_id:032x}-{span_id:016x}-")
    assert headers == {"tenant": "acme"}


async def test_tasks_and_middleware_see_your_headers_only(trace: Trace) -> None:
    app = trace()
    seen: list[object] = []

    @app.task(name="task", pass_context=True)
    async def task(context: JobContext) -> None:
        seen.append(context.headers)

    task.configure(headers={"tenant": "acme"}).defer()
    await app.run_worker_async()
    assert seen == [{"tenant": "acme"}]


def test_at_most_a_kibibyte_is_stored_and_the_parent_always_is(
    trace: Trace, query: Query, caller: SpanContext
) -> None:
    app = trace(baggage=True)
    app.configure_task("t").defer()
    [(stored,)] = query("SELECT headers -> 'otel' FROM jobs")
    assert stored.keys() == {"traceparent"}
    assert stored["traceparent"].startswith(f"00-{0xAB:032x}-")


async def test_baggage_stays_behind_unless_you_want_it(trace: Trace, spans: Spans) -> None:
    seen: list[object] = []
    app = trace()

    @app.task(name="task")
    async def task() -> None:
        seen.append(baggage.get_baggage("customer"))

    token = attach(baggage.set_baggage("customer", "ann"))
    try:
        task.defer()
        trace(baggage=True)
        task.defer()
    finally:
        detach(token)
    await app.run_worker_async(concurrency=1)
    assert seen == [None, "ann"]
    assert baggage.get_baggage("customer") is None


def test_an_app_whose_connector_is_replaced_goes_on_with_its_traces(
    trace: Trace, spans: Spans, app_dsn: str
) -> None:
    app = trace()
    with app.replace_connector(PsycopgConnector(app_dsn)), app.open():
        app.configure_task("t").defer()
    assert len(spans.list("send default")) == 1


async def test_without_an_sdk_nothing_is_stored_and_jobs_run(app: App, query: Query) -> None:
    app.tracing = Tracing()

    @app.task(name="task")
    async def task() -> None: ...

    task.defer()
    task.batch_defer({}, {})
    assert query("SELECT DISTINCT headers FROM jobs") == [(None,)]
    await app.run_worker_async()
    assert query("SELECT DISTINCT status::text FROM finished_jobs") == [("succeeded",)]


async def test_a_trace_that_is_not_sampled_is_passed_on_as_such(app: App, query: Query) -> None:
    from opentelemetry.sdk.trace import TracerProvider

    app.tracing = Tracing(tracer_provider=TracerProvider(sampler=ALWAYS_OFF))
    app.configure_task("t").defer()
    [(parent_text,)] = query("SELECT headers #>> '{otel,traceparent}' FROM jobs")
    assert not int(parent_text[-2:], 16) & otel.TraceFlags.SAMPLED


# ---------------------------------------------------------------- it does no harm


@pytest.mark.parametrize("moment", ["on_start", "on_end"])
async def test_a_processor_of_spans_that_fails_does_not_harm_a_job(
    trace: Trace, spans: Spans, query: Query, moment: str, caplog: pytest.LogCaptureFixture
) -> None:
    from opentelemetry.sdk.trace import SpanProcessor

    app = trace()
    ran: list[int] = []

    @app.task(name="task")
    async def task() -> None:
        ran.append(1)

    task.defer()

    def fail(*_: object) -> None:
        raise OSError("the collector is on fire")

    broken = SpanProcessor()
    setattr(broken, moment, fail)
    spans.provider.add_span_processor(broken)
    await app.run_worker_async()
    assert ran == [1]
    assert query("SELECT status::text FROM finished_jobs") == [("succeeded",)]
    [record] = [each for each in caplog.records if each.message.startswith("tracing.failed")]
    assert record.exc_info is not None


def test_a_relation_that_is_unknown_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'sibling' is not 'link' or 'child'"):
        Tracing("sibling")  # type: ignore[arg-type]
