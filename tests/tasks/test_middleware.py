"""The order of middleware, the tasks it runs around, and its results and errors."""

import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from inturn import App, JobContext, RetryStrategy
from inturn.errors import MiddlewareKindMismatch, TaskDefinitionError
from inturn.tasks.middleware import RunningWorker
from tests.conftest import Query

pytestmark = pytest.mark.anyio
SyncNext = Callable[[], Any]
AsyncNext = Callable[[], Awaitable[Any]]


class Notes:
    """Middleware that notes when it is entered and left, and in which thread."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.threads: set[int] = set()

    def sync(self, name: str) -> Callable[[SyncNext, JobContext, RunningWorker], Any]:
        def layer(call_next: SyncNext, context: JobContext, worker: RunningWorker) -> Any:
            self.seen.append(f"{name}(")
            self.threads.add(threading.get_ident())
            value = call_next()
            self.seen.append(f"){name}={value}")
            return f"{name}:{value}"

        return layer

    def loop(self, name: str) -> Callable[[AsyncNext, JobContext, RunningWorker], Awaitable[Any]]:
        async def layer(call_next: AsyncNext, context: JobContext, worker: RunningWorker) -> Any:
            self.seen.append(f"{name}(")
            value = await call_next()
            self.seen.append(f"){name}={value}")
            return f"{name}:{value}"

        return layer


@pytest.fixture
def notes() -> Notes:
    return Notes()


async def test_middleware_of_the_worker_stands_around_that_of_the_task_the_first_outermost(
    app: App, notes: Notes
) -> None:
    @app.task(task_middleware=[notes.loop("c"), notes.loop("d")])
    async def task(word: str) -> str:
        notes.seen.append(word)
        return word

    task.defer("hello")
    await app.run_worker_async(
        task_middleware=[notes.sync("never"), notes.loop("b")], worker_middleware=[notes.loop("a")]
    )
    around = [
        "a(",
        "b(",
        "c(",
        "d(",
        "hello",
        ")d=hello",
        ")c=d:hello",
        ")b=c:d:hello",
        ")a=b:c:d:hello",
    ]
    assert notes.seen == around


async def test_sync_tasks_have_sync_middleware_in_their_thread(app: App, notes: Notes) -> None:
    @app.task(task_middleware=[notes.sync("c")])
    def task(word: str) -> str:
        notes.threads.add(threading.get_ident())
        return word

    task.defer("hello")
    await app.run_worker_async(
        task_middleware=[notes.loop("never"), notes.sync("b")], worker_middleware=[notes.loop("a")]
    )
    assert notes.seen == ["a(", "b(", "c(", ")c=hello", ")b=c:hello", ")a=b:c:hello"]
    assert len(notes.threads) == 1
    assert notes.threads != {threading.get_ident()}


async def test_a_task_is_passed_its_context_whether_or_not_middleware_sees_it_too(app: App) -> None:
    seen: list[object] = []

    async def look(call_next: AsyncNext, context: JobContext, worker: RunningWorker) -> Any:
        seen.append(context)
        return await call_next()

    @app.task(pass_context=True, task_middleware=[look])
    async def asks(context: JobContext, word: str) -> None:
        seen.extend([context, word])

    @app.task(task_middleware=[look])
    async def does_not(word: str) -> None:
        seen.append(word)

    asks.defer("a")
    does_not.defer("b")
    await app.run_worker_async(additional_context={"key": "value"})
    assert seen[0] is seen[1]
    context = seen[3]
    assert isinstance(context, JobContext)
    assert (seen[2], context.job.task_name, context.task, seen[4]) == (
        "a",
        does_not.name,
        does_not,
        "b",
    )
    assert context.additional_context == {"key": "value"}


async def test_an_error_of_middleware_fails_the_attempt_and_the_job_is_retried(
    app: App, query: Query
) -> None:
    async def refuse_first(call_next: AsyncNext, context: JobContext, worker: RunningWorker) -> Any:
        if context.job.attempts == 0:
            raise RuntimeError("not yet")
        return await call_next()

    @app.task(retry=RetryStrategy(max_attempts=1))
    def task() -> None: ...

    task.defer()
    await app.run_worker_async(worker_middleware=[refuse_first])
    assert query(
        "SELECT status::text, attempts, errors -> 0 ->> 'error' ~ 'not yet' FROM all_jobs"
    ) == [("succeeded", 2, True)]


async def test_middleware_may_keep_a_task_from_running(app: App, query: Query) -> None:
    async def skip(call_next: AsyncNext, context: JobContext, worker: RunningWorker) -> None: ...

    @app.task
    async def task() -> None:
        raise AssertionError("it ran")

    task.defer()
    await app.run_worker_async(worker_middleware=[skip])
    assert query("SELECT status::text FROM all_jobs") == [("succeeded",)]


async def test_middleware_may_stop_its_worker_from_a_thread_too(app: App, query: Query) -> None:
    def stop(call_next: SyncNext, context: JobContext, worker: RunningWorker) -> Any:
        worker.stop("enough")
        return call_next()

    @app.task(task_middleware=[stop])
    def task() -> None: ...

    task.batch_defer({}, {}, {})
    with anyio.fail_after(120):
        await app.run_worker_async(wait=True, shutdown_graceful_timeout=60)  # would go on for ever
    ((status, count),) = query("SELECT status::text, count(*) FROM finished_jobs GROUP BY status")
    assert status == "succeeded"
    assert count < 3


def test_middleware_of_the_wrong_kind_is_refused_where_it_is_given(app: App, notes: Notes) -> None:
    with pytest.raises(
        MiddlewareKindMismatch, match=r"cannot wrap task t, which is `def`\. Make it `def` too"
    ):
        app.task(name="t", task_middleware=[notes.loop("a")])(lambda: None)

    async def task() -> None: ...

    with pytest.raises(MiddlewareKindMismatch, match="which is `async def`"):
        app.task(name="t", task_middleware=[notes.sync("a")])(task)
    with pytest.raises(MiddlewareKindMismatch, match="runs in the event loop"):
        app.run_worker(worker_middleware=[notes.sync("a")])
    for where in ("task_middleware", "worker_middleware"):
        with pytest.raises(TaskDefinitionError, match=f"{where}: 7 is not callable"):
            app.run_worker(**{where: [7]})  # type: ignore[arg-type]
    with pytest.raises(TaskDefinitionError, match="task_middleware of task t: 7 is not callable"):
        app.task(name="t", task_middleware=iter([7]))(task)  # type: ignore[call-overload]
    assert not [name for name in app.tasks if not name.startswith("builtin:")]


def test_the_middleware_and_resources_of_a_task_may_be_iterators(app: App, notes: Notes) -> None:
    layers, addresses = [notes.sync("a")], ["file:///tmp#t"]
    task = app.task(  # type: ignore[call-overload]
        name="t", task_middleware=iter(layers), resources=iter(addresses)
    )(lambda: None)
    assert task.task_middleware == tuple(layers)
    assert task.resources.wanted == tuple(addresses)


async def test_partials_and_objects_are_of_the_kind_of_what_they_call(
    app: App, notes: Notes
) -> None:
    class Layer:
        async def __call__(
            self, call_next: AsyncNext, context: JobContext, worker: RunningWorker
        ) -> Any:
            notes.seen.append("object")
            return await call_next()

    async def layer(
        word: str, call_next: AsyncNext, context: JobContext, worker: RunningWorker
    ) -> Any:
        notes.seen.append(word)
        return await call_next()

    @app.task(task_middleware=[Layer(), partial(layer, "partial")])
    async def task() -> None: ...

    task.defer()
    await app.run_worker_async()
    assert notes.seen == ["object", "partial"]
