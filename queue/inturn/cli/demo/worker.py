"""One of the demo's worker processes. The demo kills one of them.

It prints a line when it starts a letter. It writes the letter in the transaction that ends the
job, so each letter is written exactly once, whenever the worker is killed.
"""

import random
import sys

import anyio

from inturn import App, JobContext

SLEEP = (0.01, 0.17)  # seconds
INSERT = "INSERT INTO letters (page, row, letter) VALUES (%s, %s, %s)"
HEARTBEAT, STALLED = 0.25, 1.0  # seconds, so viewers need not wait for 30


def main(dsn: str, name: str) -> None:
    app = App(dsn)

    @app.task(name="write", pass_context=True)
    async def write(context: JobContext, page: int, row: int, letter: str) -> None:
        print(row, letter, flush=True)
        await anyio.sleep(random.uniform(*SLEEP))  # noqa: S311 (it protects nothing)
        async with context.transaction() as connection:
            await connection.execute(INSERT, [page, row, letter])

    app.run_worker(
        name=name,
        concurrency=2,
        update_heartbeat_interval=HEARTBEAT,
        stalled_worker_timeout=STALLED,
        fetch_job_polling_interval=0.5,
        db_grace=1.0,  # if the demo is killed, its server ends, and then its workers do
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
