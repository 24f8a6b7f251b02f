"""A shop with real worker processes, to which things happen as they happen at night."""

import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg

from inturn.cli.output.exit_status import SCHEMA, UNHEALTHY
from tests.cli.calling import SCRIPT, clean, type_in
from tests.cli.engine import Engine
from tests.waiting import wait_until

PATIENCE = 120.0  # seconds: only keeps a failing test from hanging
LANE, OTHER = "order:4711", "stock:12"
# So that workers take over soon. Else they do what they do anywhere.
HASTE = {"INTURN_WORKER_HEARTBEAT": "0.2", "INTURN_WORKER_STALLED_AFTER": "2"}
APP = """
import asyncio
import time
from pathlib import Path

from inturn import App, RetryStrategy

app = App({dsn!r})
HERE = Path({folder!r})


def is_first(name: str) -> bool:
    if (HERE / name).exists():
        return False
    (HERE / name).touch()
    return True


@app.task(name="send")
def send() -> None: ...


@app.task(name="charge")
def charge() -> None:
    if not (HERE / "provider is back").exists():
        raise TimeoutError("the card provider did not answer")


@app.task(name="ask", retry=RetryStrategy(wait=3600))
def ask() -> None:
    charge.func()


@app.task(name="load")
async def load() -> None:
    while not (HERE / "loaded").exists():
        (HERE / "loading").touch()
        await asyncio.sleep(0.02)


@app.task(name="hang")
def hang() -> None:
    if is_first("hanging"):
        time.sleep(3600)


@app.task(name="block")
async def block() -> None:
    if is_first("blocking"):
        time.sleep(3600)
"""
# The new release, in which somebody has lost the task `send`.
LOST = """
from inturn import App

app = App({dsn!r})


@app.task(name="greet")
def greet() -> None: ...
"""
# Its worker looks at the clock each second, and not only each minute.
REPORT = """
from datetime import timedelta

from inturn import App
from inturn.worker import scheduler

scheduler.LONGEST_SLEEP = timedelta(seconds=1)
app = App({dsn!r})


@app.periodic(cron="* * * * * *")
@app.task(name="report")
def report(timestamp: int) -> None: ...
"""


class Scene:
    """The shop's code, database and processes."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self.dsn = dsn
        self.folder = folder
        self.engine = Engine(dsn)
        self.processes: list[subprocess.Popen[str]] = []
        self.sessions: list[psycopg.Connection] = []
        for name, text in (("own", APP), ("lost", LOST), ("report", REPORT)):
            code = text.format(dsn=dsn, folder=str(folder))
            (folder / f"{name}.py").write_text(code, encoding="utf-8")

    def close(self) -> None:
        for session in self.sessions:
            session.close()
        for process in self.processes:
            with suppress(psutil.NoSuchProcess):
                for child in psutil.Process(process.pid).children(recursive=True):
                    child.kill()
            process.kill()
            process.wait()
        self.engine.close()

    # ------------------------------------------------------------------ what people do

    def environment(self) -> dict[str, str]:
        path = f"{SCRIPT.parent}{os.pathsep}{os.environ['PATH']}"
        return clean({"INTURN_DSN": self.dsn, "INTURN_APP": "own:app", "PATH": path, **HASTE})

    def type(self, command: str) -> str:
        """Type a command into a shell, and return what it prints."""
        if "|" not in command:
            ended = type_in(command, self.folder, **self.environment())
            assert ended.returncode in FINE, (command, ended.stderr)
            return ended.output
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode in FINE, (command, done.stderr)
        return done.stdout + done.stderr

    def start(self, command: str) -> "subprocess.Popen[str]":
        """Start a command that stays, such as a worker."""
        with (self.folder / "log").open("a") as log:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.folder,
                env=self.environment(),
                stdout=log,
                stderr=log,
                text=True,
            )
        self.processes.append(process)
        return process

    def work(self, options: str = "", app: str = "own:app") -> "subprocess.Popen[str]":
        """Start a worker, and wait until it has registered."""
        before = self.engine.query("SELECT count(*) FROM workers")
        process = self.start(f"queue -a {app} worker {options}")
        self.until(lambda: self.engine.query("SELECT count(*) FROM workers") != before)
        return process

    # ------------------------------------------------------------------ what is there

    def defer(self, task: str, **options: object) -> int:
        """Defer a job with options of the SQL function `defer`."""
        given = {"lock": LANE} | options
        names = ", ".join(f"{name} => %s" for name in given)
        ((job,),) = self.engine.query(f"SELECT defer(%s, {names})", task, *given.values())
        return int(job)

    def status(self, job: int) -> str:
        return str(self.engine.query("SELECT status::text FROM all_jobs WHERE id = %s", job)[0][0])

    def until(self, condition: Callable[[], object]) -> None:
        wait_until(condition, PATIENCE, (self.folder / "log").read_text)

    def until_status(self, job: int, status: str) -> None:
        self.until(lambda: self.status(job) == status)

    def until_there(self, name: str) -> None:
        self.until(lambda: (self.folder / name).exists())

    def create(self, name: str) -> None:
        (self.folder / name).touch()

    def make_due(self) -> None:
        """Let half a minute pass for what a worker has put back because it lacks the task."""
        self.engine.query("UPDATE jobs SET scheduled_at = now() WHERE scheduled_at > now()")

    def age(self, time: str = "2 hours") -> None:
        """Let time pass for all that waits and runs, but not for workers."""
        for table, columns in AGING.items():
            changes = ", ".join(f"{column} = {column} - %(time)s::interval" for column in columns)
            self.engine._connection.execute(
                f"UPDATE {table} SET {changes}".encode(), {"time": time}
            )


FINE = (0, UNHEALTHY, SCHEMA)  # the last two: it has found something
AGING = {
    "jobs": ("created_at", "started_at"),
    "finished_jobs": ("created_at", "started_at", "finished_at"),
    "lanes": ("since", "stopped_at"),
    "pauses": ("paused_at",),
    "batches": ("opened_at",),
    "batch_events": ("at",),
}
