"""The app of the kill test.

Its task kills its own process once, at the point that the job names.
"""

import os
import signal

from inturn import App, JobContext

app = App()


@app.task(name="write", pass_context=True, lock="lane")
async def write(context: JobContext, point: str) -> None:
    async with context.transaction() as connection:
        die_at("before the write", point, context)
        await connection.execute("INSERT INTO effects VALUES (%s)", [context.job.id])
        die_at("after the write", point, context)
    die_at("after the commit", point, context)


@app.task(name="write_sync", pass_context=True, lock="lane")
def write_sync(context: JobContext, point: str) -> None:
    with context.transaction() as connection:
        die_at("before the write", point, context)
        connection.execute("INSERT INTO effects VALUES (%s)", [context.job.id])
        die_at("after the write", point, context)
    die_at("after the commit", point, context)


def die_at(here: str, point: str, context: JobContext) -> None:
    if here == point and context.job.attempts == 0:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    app.run_worker(
        update_heartbeat_interval=0.1, stalled_worker_timeout=0.5, fetch_job_polling_interval=600
    )
