"""The app of the workers in tests/field: tasks that misbehave, and log each step."""

import asyncio
import logging
import os
import time
from pathlib import Path

from inturn import App, JobContext

app = App()


def note(word: str) -> None:
    with Path(os.environ["FIELD_LOG"]).open("a") as log:
        log.write(f"{word}\n")


@app.task
def say(word: str) -> None:
    note(word)


@app.task
def stay(seconds: float) -> None:
    """Run in a thread that cannot be stopped."""
    note("stay")
    time.sleep(seconds)


@app.task
async def block(seconds: float) -> None:
    note("block")
    time.sleep(seconds)  # noqa: ASYNC251 (that is the point)


@app.task
async def block_until_released(after: str = "") -> None:
    """Block the loop from the moment at which another job has noted a word."""
    while after not in Path(os.environ["FIELD_LOG"]).read_text():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.001)
    note("block")
    while not Path("released").exists():  # noqa: ASYNC240
        time.sleep(0.01)  # noqa: ASYNC251


@app.task(pass_context=True)
def obey(context: JobContext) -> None:
    note("obey")
    while not context.should_abort():
        time.sleep(0.01)
    note("obeyed")


@app.task
def defy(seconds: float) -> None:
    time.sleep(seconds)


@app.task
async def close_files() -> None:
    """Act like a library that turns a process into a daemon. The log stays open."""
    note("close")
    os.closerange(3, 1000)


@app.task
async def cancel_all() -> None:
    note("cancel")
    for task in asyncio.all_tasks():
        task.cancel()


@app.task
async def fork(awaits: bool) -> None:
    """Return in the child as well."""
    child = os.fork()
    if awaits:
        await asyncio.sleep(0)
    note("parent" if child else "child")


@app.task
def fork_in_thread() -> None:
    os.fork()
    note("forked")


class Broken(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        raise ZeroDivisionError("a filter of the log is broken")


@app.task
def break_the_log(name: str = "inturn.jobs") -> None:
    logging.getLogger(name).addFilter(Broken())
