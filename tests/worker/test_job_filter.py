"""Each line that a task logs says which job it is of."""

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import pytest

from inturn import App, JobFilter, RetryStrategy, shared

shop = logging.getLogger("shop")


class Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[dict[str, Any]] = []
        self.addFilter(JobFilter())

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append({**vars(record), "said": record.getMessage()})


@pytest.fixture
def said() -> Iterator[list[dict[str, Any]]]:
    handler = Records()
    shop.addHandler(handler)
    shop.setLevel(logging.INFO)
    yield handler.records
    shop.removeHandler(handler)


def test_each_of_many_jobs_that_run_at_once_logs_its_own_id(
    app: App, said: list[dict[str, Any]]
) -> None:
    @app.task
    async def ask(number: int) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            shop.info("%d", number)
            await asyncio.create_task(answer(number))

    async def answer(number: int) -> None:
        shop.info("%d", number)

    @app.task
    def call(number: int) -> None:
        with ThreadPoolExecutor() as pool:
            pool.submit(copy_context().run, shop.info, "%d", number).result()
        shop.info("%d", number)

    asked = ask.batch_defer(*({"number": number} for number in range(20)))
    called = call.batch_defer(*({"number": number} for number in range(20, 40)))
    app.run_worker(concurrency=10)
    assert len(said) == 20 * 6 + 20 * 2
    assert {(each["job_id"], int(each["said"])) for each in said} == {
        (int(job), number) for number, job in enumerate([*asked, *called])
    }


def test_the_fields_are_those_of_the_attempt(app: App, said: list[dict[str, Any]]) -> None:
    @app.task(name="shop.pay", queue="money", retry=RetryStrategy(max_attempts=1))
    def pay() -> None:
        shop.info("pays", extra={"queue": "its own"})
        raise ValueError

    job = pay.configure(lock=["b", shared("a")]).defer()
    app.run_worker()
    fields = ("job_id", "task", "queue", "lock", "locks", "attempt")
    assert [tuple(each[name] for name in fields) for each in said] == [
        (int(job), "shop.pay", "its own", "a", ["a", "b"], attempt) for attempt in (1, 2)
    ]
    assert said[0]["fence"] < said[1]["fence"]


def test_a_line_outside_of_a_job_has_no_fields(app: App, said: list[dict[str, Any]]) -> None:
    @app.task
    async def work() -> None:
        shop.info("in a job")

    async def main() -> None:
        async with app.open_async():
            await work.defer_async()
            await app.run_worker_async(wait=False)
            shop.info("outside")

    asyncio.run(main())
    assert ["job_id" in each for each in said] == [True, False]
