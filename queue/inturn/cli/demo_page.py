"""One round of the demo: an app, four real workers, and 26 jobs."""

import random
import time
from dataclasses import dataclass, field
from functools import partial
from string import ascii_lowercase
from typing import LiteralString

import anyio

from inturn import App, JobContext
from inturn.operations import Operation, Statement

WORKERS = tuple(f"worker {number}" for number in range(1, 5))
SLEEP = (0.02, 0.26)  # seconds: 26 of them in a row take less than four
ROUND_SECONDS = 60

READY = "SELECT count(*) FROM {schema}.workers"
LEFT = "SELECT count(*) FROM {schema}.jobs"


@dataclass
class Page:
    """The letters that a round has written, and the letter that each worker holds."""

    lock: str | None
    letters: list[str] = field(default_factory=list)
    holding: dict[str, str] = field(default_factory=dict)
    began: float | None = None
    ended: float | None = None

    @property
    def seconds(self) -> float:
        return 0.0 if self.began is None else (self.ended or time.monotonic()) - self.began

    @property
    def misplaced(self) -> int:
        return sum(
            letter != place for letter, place in zip(self.letters, ascii_lowercase, strict=False)
        )

    @property
    def in_order(self) -> bool:
        return self.letters == list(ascii_lowercase)

    def write(self, letter: str) -> None:
        self.letters.append(letter)
        if len(self.letters) == len(ascii_lowercase):
            self.ended = time.monotonic()


async def fill(page: Page, dsn: str) -> None:
    """Run one round. Only the lock keeps the order."""
    app = App(dsn)

    @app.task(name="write", pass_context=True)
    async def write(context: JobContext, letter: str) -> None:
        page.holding[context.worker_name] = letter
        await anyio.sleep(random.uniform(*SLEEP))  # noqa: S311 (it protects nothing)
        page.write(letter)
        page.holding.pop(context.worker_name)

    with anyio.fail_after(ROUND_SECONDS):
        async with app.open_async(), anyio.create_task_group() as workers:
            for name in WORKERS:
                workers.start_soon(
                    partial(app.run_worker_async, name=name, install_signal_handlers=False)
                )
            await _until(app, READY, len(WORKERS))
            page.began = time.monotonic()
            await write.configure(lock=page.lock).batch_defer_async(
                *({"letter": letter} for letter in ascii_lowercase)
            )
            # Wait for the reports too, or stopping the workers would put a job back.
            await _until(app, LEFT, 0)
            workers.cancel_scope.cancel()


async def _until(app: App, question: LiteralString, answer: int) -> None:
    # The database has no event for this.
    while await app.connector.run_async(_count(question)) != answer:  # noqa: ASYNC110
        await anyio.sleep(0.02)


def _count(question: LiteralString) -> Operation[int]:
    ((count,),) = yield Statement(question)
    return int(count)
