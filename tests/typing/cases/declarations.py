"""What type checkers know of the declaration of a task."""

from collections.abc import Awaitable, Callable
from typing import Any

from inturn import App, JobContext, PsycopgConnector, RetryStrategy
from inturn.tasks.middleware import RunningWorker

app = App(connector=PsycopgConnector("postgresql://"))


async def around(
    call_next: Callable[[], Awaitable[Any]], context: JobContext, worker: RunningWorker
) -> Any:
    return await call_next()


def too_few(call_next: Callable[[], Any]) -> Any:
    return call_next()


@app.task(retry=RetryStrategy(max_attempts=3), name="a", aliases=None, task_middleware=[around])
async def good() -> None: ...


@app.task(retry="always")  # error
def bad_retry() -> None: ...


@app.task(priority="high")  # error
def bad_priority() -> None: ...


@app.task(on_failure="stop")  # error
def bad_policy() -> None: ...


@app.task(colour="red")  # error
def bad_option() -> None: ...


@app.task(task_middleware=[too_few])  # error
def bad_middleware() -> None: ...


@app.task(pass_context=True)  # error
def without_a_context() -> None: ...


@app.task(pass_context=True)  # error
def another_first_parameter(letter: str) -> None: ...


app.task(3)  # error
App(connector="postgresql://")  # error
