"""What type checkers know of a worker's options, and of jobs that are enqueued together."""

from datetime import timedelta
from typing import Any, Unpack, reveal_type

from inturn import App, NewJob
from inturn.contrib.lifespan import lifespan
from inturn.worker import WorkerOptions

app = App("postgresql://")


@app.task
def count(letter: str) -> int:
    return len(letter)


@app.task
async def spell(letter: str) -> str:
    return letter


# ---- a worker

app.run_worker()
app.run_worker(queues=["default"], concurrency=4, wait=False, delete_jobs="always")
app.run_worker(keep_history=timedelta(days=1), max_jobs=None, name="web-1", bind="::1")
app.run_worker(concurency=4)  # error
app.run_worker(concurrency="4")  # error
app.run_worker(delete_jobs="sometimes")  # error
app.run_worker(["default"])  # error
lifespan(app, worker=True, concurrency=4)
lifespan(app, worker=True, concurrency="4")  # error
settings: dict[str, Any] = {"concurrency": 4}
app.run_worker(**settings)


async def work(**options: Unpack[WorkerOptions]) -> None:
    reveal_type(await app.run_worker_async(**options))  # reveals: str | None
    await app.run_worker_async(queue="default")  # error


# ---- jobs that are enqueued together

# reveals: list[DeferredJob[int]]
reveal_type(app.enqueue([count.make_new_job("a"), count.make_new_job("b")]))
reveal_type(app.enqueue([count.make_new_job("a")])[0].result())  # reveals: int
reveal_type(app.enqueue([spell.make_new_job("a")])[0].result())  # reveals: str
unknown: list[NewJob] = [count.make_new_job("a"), spell.make_new_job("b")]
reveal_type(app.enqueue(unknown))  # reveals: list[DeferredJob[Any]]
ids = app.job_manager.batch_defer_jobs([app.configure_task("mail").make_new_job(to="ann")])
reveal_type(ids)  # reveals: list[DeferredJob[Any]]
app.enqueue(["a"])  # error
