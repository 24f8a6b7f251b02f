"""A worker of the fairness test. Each job logs its group when it starts."""

import asyncio
import os

from inturn import App

app = App()


@app.task(name="tell")
async def tell(group: str) -> None:
    """Write one line. Lines of several processes do not mix, and they are in order."""
    file = os.open(os.environ["FAIR_LOG"], os.O_WRONLY | os.O_APPEND)
    os.write(file, f"{group}\n".encode())
    os.close(file)


if __name__ == "__main__":
    asyncio.run(app.run_worker_async(concurrency=5))
