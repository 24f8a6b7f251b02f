"""What type checkers know of a task: each line that is a mistake says so, each reveal says what it shows."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import ParamSpec, TypeVar, Unpack, reveal_type

from inturn import App, Blueprint, Deferrer, JobContext, JobOptions, NewJob, Task, TaskOptions
from inturn.testing import Queue

P = ParamSpec("P")
R = TypeVar("R")
app = App("postgresql://")
blueprint = Blueprint()
kwargs: dict[str, object] = {"letter": "a"}


@app.task
def plain(letter: str, copies: int = 1) -> int:
    return copies * len(letter)


@app.task(queue="letters", retry=3, aliases=["old"], lock="alphabet", on_retry="release")
async def asynchronous(letter: str, *, copies: int) -> str:
    return letter * copies


@app.task(pass_context=True)
def knowing(context: JobContext, letter: str) -> bool:
    return context.should_abort() or bool(letter)


@blueprint.task(pass_context=True, priority=2)
async def knowing_too(context: JobContext, /, **counts: int) -> None: ...


# ---- the task itself

# mypy reveals: Task[[letter: str, copies: int =], int]
# basedpyright reveals: Task[(letter: str, copies: int = 1), int]
reveal_type(plain)
# mypy reveals: Task[[letter: str, *, copies: int], Coroutine[Any, Any, str]]
# basedpyright reveals: Task[(letter: str, *, copies: int), CoroutineType[Any, Any, str]]
reveal_type(asynchronous)
# mypy reveals: Task[[letter: str], bool]
# basedpyright reveals: Task[(letter: str), bool]
reveal_type(knowing)
# mypy reveals: Task[[**counts: int], Coroutine[Any, Any, None]]
# basedpyright reveals: Task[(**counts: int), CoroutineType[Any, Any, None]]
reveal_type(knowing_too)

# ---- called, it runs here and now

reveal_type(plain("a"))  # reveals: int
plain(1)  # error
plain("a", 2, 3)  # error
knowing("a")  # at run time it lacks the context: as in the library that people come from

# ---- deferred

reveal_type(plain.defer("a", copies=2))  # reveals: DeferredJob[int]
plain.defer(letter="a")
plain.defer()  # error
plain.defer(1)  # error
plain.defer("a", "b")  # error
plain.defer("a", 2, 3)  # error
plain.defer("a", colour="red")  # error
plain.make_new_job("a", copies=2)
plain.make_new_job("a", colour="red")  # error
asynchronous.defer("a", copies=1)
asynchronous.defer("a", 1)  # error
asynchronous.defer("a")  # error
knowing.defer("a")
knowing.defer(None, "a")  # error
knowing_too.defer(apples=1)
knowing_too.defer(apples="one")  # error


async def in_async_code() -> None:
    reveal_type(await plain.defer_async("a"))  # reveals: DeferredJob[int]
    await plain.defer_async(2)  # error
    reveal_type(await asynchronous("a", copies=1))  # reveals: str
    reveal_type(await plain.configure(lock="a").defer_async("a"))  # reveals: DeferredJob[int]
    await plain.configure(lock="a").defer_async("a", copies="b")  # error
    reveal_type(await plain.batch_defer_async({"letter": "a"}))  # reveals: list[DeferredJob[int]]
    await plain.batch_defer_async("a")  # error


# ---- with options

# mypy reveals: Deferrer[[letter: str, copies: int =], int]
# basedpyright reveals: Deferrer[(letter: str, copies: int = 1), int]
reveal_type(plain.configure(lock="a"))
# reveals: DeferredJob[int]
reveal_type(plain.configure(lock="a", priority=1, schedule_at=datetime.now(UTC)).defer("a"))
plain.configure(schedule_in={"minutes": 5}, queue="q", on_failure="halt").defer("a")
plain.configure(lock="a").defer(1)  # error
plain.configure(lock="a").defer()  # error
plain.configure(lok="a")  # error
plain.configure(lock=1.5)  # error
plain.configure(lock=1)
plain.configure(priority="high")  # error
plain.configure(on_retry="forget")  # error
plain.configure(schedule_at="tomorrow")  # error
reveal_type(plain.configure(task_kwargs=kwargs))  # reveals: Deferrer[..., int]
plain.configure(task_kwargs=kwargs).defer()
plain.configure(task_kwargs=kwargs, lock="a").defer(copies=2)
plain.configure(task_kwargs=kwargs, lok="a")  # error

# ---- the result

reveal_type(plain.defer("a").result())  # reveals: int
reveal_type(plain.configure(lock="a").defer("a").result(timeout=60))  # reveals: int
reveal_type(asynchronous.defer("a", copies=1).result())  # reveals: str
reveal_type(plain.batch_defer({"letter": "a"})[0].result())  # reveals: int
reveal_type(app.configure_task("elsewhere").defer().result())  # reveals: Any
wrong: str = plain.defer("a").result()  # error


async def results_in_async_code() -> None:
    job = await asynchronous.defer_async("a", copies=1)
    reveal_type(await job.result_async())  # reveals: str
    reveal_type(await (await plain.defer_async("a")).result_async(timeout=60))  # reveals: int


# ---- in a test


def in_a_test(queue: Queue) -> None:
    reveal_type(queue.perform(plain, "a"))  # reveals: int
    reveal_type(queue.perform(asynchronous, "a", copies=1))  # reveals: str
    reveal_type(queue.perform(asynchronous.configure(lock="a"), "a", copies=1))  # reveals: str


# ---- many at once

reveal_type(plain.batch_defer({"letter": "a"}, {"letter": "b"}))  # reveals: list[DeferredJob[int]]
plain.batch_defer("a")  # error
plain.batch_defer({1: "a"})  # error
plain.batch_defer([{"letter": "a"}])  # error

# ---- by name

reveal_type(app.configure_task("elsewhere", lock="a"))  # reveals: Deferrer[..., Any]
app.configure_task("elsewhere").defer(anything="goes")
app.configure_task("elsewhere", lok="a")  # error

# ---- in wrappers of one's own


def urgent(task: Task[P, R], **options: Unpack[JobOptions]) -> Deferrer[P, R]:
    options["priority"] = 100  # beside **options, an option that it can have is a mistake
    return task.configure(**options)


def nightly(**options: Unpack[TaskOptions]) -> Callable[[Callable[P, R]], Task[P, R]]:
    options["queue"] = "night"
    return app.task(**options)


@nightly(retry=3)
def tidy_up(room: int) -> str:
    return f"{room} is tidy"


# mypy reveals: Task[[room: int], str]
# basedpyright reveals: Task[(room: int), str]
reveal_type(tidy_up)
nightly(retri=3)  # error


# mypy reveals: Deferrer[[letter: str, copies: int =], int]
# basedpyright reveals: Deferrer[(letter: str, copies: int = 1), int]
reveal_type(urgent(plain, lock="a"))
urgent(plain, lok="a")  # error
urgent(plain).defer(1)  # error


# ---- many at once

made = [plain.configure(lock=letter).make_new_job(letter) for letter in "abc"]
app.enqueue(made)
plain.make_new_job(leter="a")  # error
app.enqueue([plain])  # error


def list_texts(jobs: Sequence[NewJob]) -> list[str]:
    return [job.args for job in jobs]


list_texts(made)


# ---- in a batch

with app.batch("import", callback=plain.configure(task_kwargs={"letter": "a"})) as batch:
    reveal_type(batch)  # reveals: int
    reveal_type(plain.configure(batch=batch).defer("a").result())  # reveals: int
app.batch("import", callback="plain")  # error
plain.configure(batch="import")  # error
