"""`python -m bench.parts`: show how the time of one job is spent, in µs.

A sampling profiler counts the CPU time of the worker's process. In the server, pg_stat_statements
counts the time of the statements.
"""

from __future__ import annotations

import argparse
import signal
import time
from collections import Counter
from types import FrameType
from typing import Any

import psycopg
from rich.console import Console
from rich.table import Table

from bench.peers.adapter import SLOTS
from bench.server import Bed, bed

DATABASE = "parts"
TICK = 0.0005  # seconds of CPU time between samples
# Each entry is a part, the end of a file's path, and functions of that file (empty: all of them).
# The innermost frame that matches an entry decides.
PARTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("the task itself", "bench/parts.py", ("work",)),
    ("decode rows and arguments", "inturn/arguments.py", ("decode", "decode_all")),
    ("decode rows and arguments", "json/__init__.py", ()),
    ("decode rows and arguments", "json/decoder.py", ()),
    ("decode rows and arguments", "psycopg/types/json.py", ()),
    ("decode rows and arguments", "psycopg/cursor_async.py", ("fetchall",)),
    (
        "decode rows and arguments",
        "inturn/operations/engine/claim.py",
        ("to_jobs", "claim", "claim_further"),
    ),
    ("encode and send calls", "psycopg/_cursor_base.py", ()),
    ("encode and send calls", "psycopg/types/array.py", ()),
    ("encode and send calls", "psycopg/_queries.py", ()),
    ("encode and send calls", "inturn/operations/engine/claim.py", ()),
    ("encode and send calls", "inturn/operations/engine/finish.py", ()),
    (
        "prepare an attempt",
        "inturn/worker/running_jobs.py",
        ("start_all", "_prepare", "_make_attempt"),
    ),
    ("prepare an attempt", "inturn/worker/attempt.py", ("__init__",)),
    ("run an attempt", "inturn/worker/attempt.py", ()),
    ("run an attempt", "inturn/worker/middleware_chain.py", ()),
    (
        "report ended jobs",
        "inturn/worker/running_jobs.py",
        ("add", "hold", "requeue", "take", "take_ended", "release_resources"),
    ),
    ("run an attempt", "inturn/worker/running_jobs.py", ()),
    ("slots", "inturn/worker/slots.py", ()),
    ("report ended jobs", "inturn/worker/reporting.py", ()),
    ("claim", "inturn/worker/claiming/", ()),
    ("log ended jobs", "inturn/worker/joblog.py", ()),
    ("the worker's loop", "inturn/worker/", ()),
)
OTHER = "event loop and the rest"
SERVER = """
SELECT substring(query FROM '\\.(\\w+)\\(') AS function, sum(total_exec_time) * 1000, sum(calls)
FROM pg_stat_statements AS s JOIN pg_roles AS r ON r.oid = s.userid
WHERE r.rolname = 'postgres' AND query LIKE '%"inturn".%'
GROUP BY 1 HAVING sum(calls) > 3 ORDER BY 2 DESC
"""


def part_of(frame: FrameType | None) -> str:
    while frame is not None:
        file, function = frame.f_code.co_filename, frame.f_code.co_name
        for part, ending, functions in PARTS:
            if (file.endswith(ending) or (ending.endswith("/") and ending in file)) and (
                not functions or function in functions
            ):
                return part
        frame = frame.f_back
    return OTHER


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.parts", description=__doc__)
    parser.add_argument("--jobs", type=int, default=40_000, help="jobs in each of the two runs")
    parser.add_argument(
        "--lanes", type=int, default=1_000, help="lanes of the second run; the first has free jobs"
    )
    given = parser.parse_args()
    with bed() as server:
        for lanes in (0, given.lanes):
            _measure(server, given.jobs, lanes)


def _measure(server: Bed, count: int, lanes: int) -> None:
    from inturn import App
    from inturn.schema.migrate import migrate

    server.create(DATABASE)
    migrate(server.dsn(DATABASE))
    app = App(server.dsn(DATABASE))

    @app.task
    async def work(number: int, lane: str | None, ms: float) -> None:
        pass

    with app.open():
        _defer(app, work, count, lanes)
    with server.observe(DATABASE) as observer:
        observer.execute("CREATE EXTENSION pg_stat_statements")
        observer.execute("SELECT pg_stat_statements_reset()")
        samples, cpu, seconds = _sample(app)
        _show(
            f"{count:,} jobs, {lanes or 'no'} lanes",
            samples,
            cpu / count * 1e6,
            seconds,
            count,
            observer,
        )
    server.drop(DATABASE)


def _defer(app: Any, task: Any, count: int, lanes: int) -> None:
    if not lanes:
        task.batch_defer(*({"number": n, "lane": None, "ms": 0.0} for n in range(count)))
        return
    for lane in range(lanes):
        jobs = ({"number": n, "lane": str(lane), "ms": 0.0} for n in range(lane, count, lanes))
        task.configure(lock=str(lane)).batch_defer(*jobs)


def _sample(app: Any) -> tuple[Counter[str], float, float]:
    samples: Counter[str] = Counter()
    signal.signal(signal.SIGPROF, lambda _, frame: samples.update([part_of(frame)]))
    cpu, start = time.process_time(), time.monotonic()
    signal.setitimer(signal.ITIMER_PROF, TICK, TICK)
    app.run_worker(concurrency=SLOTS, wait=False, install_signal_handlers=False)
    signal.setitimer(signal.ITIMER_PROF, 0)
    return samples, time.process_time() - cpu, time.monotonic() - start


def _show(
    title: str,
    samples: Counter[str],
    cpu: float,
    seconds: float,
    count: int,
    observer: psycopg.Connection[Any],
) -> None:
    table = Table(
        title=title,
        caption=f"µs per job; {count / seconds:,.0f} jobs/s with the profiler on",
        title_justify="left",
    )
    for name in ("where", "part", "µs", "calls"):
        table.add_column(name, justify="right" if name in ("µs", "calls") else "left")
    total = sum(samples.values())
    for part, ticks in samples.most_common():
        table.add_row("worker", part, f"{cpu * ticks / total:.1f}", "")
    table.add_row("worker", "together", f"{cpu:.1f}", "", end_section=True)
    rows = observer.execute(SERVER).fetchall()
    for function, microseconds, calls in rows:
        table.add_row("server", function, f"{microseconds / count:.1f}", f"{calls:,}")
    table.add_row("server", "together", f"{sum(row[1] for row in rows) / count:.1f}", "")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
