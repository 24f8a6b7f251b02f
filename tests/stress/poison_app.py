"""A worker of the poison test: one task kills it, and the other writes down that it ran."""

import asyncio
import os
import signal

from inturn import App

app = App()


@app.task(name="poison")
async def poison() -> None:
    """End the process as an operating system without memory would."""
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="tell")
async def tell(name: str) -> None:
    """Write one line. Lines of several processes do not mix, and they are in order."""
    file = os.open(os.environ["POISON_LOG"], os.O_WRONLY | os.O_APPEND)
    os.write(file, f"{name}\n".encode())
    os.close(file)


if __name__ == "__main__":
    asyncio.run(
        app.run_worker_async(
            concurrency=1,
            max_lost_attempts=2,
            update_heartbeat_interval=0.2,
            stalled_worker_timeout=1.0,
        )
    )
