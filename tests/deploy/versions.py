"""Two versions of inturn side by side: this one, and a later one that is made from it.

The later one has a column more in the busiest table, another text of the busiest functions, and so
a higher revision and another checksum.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import psycopg

from inturn import App, sql
from inturn.errors import SchemaMismatch
from tests.cli.calling import clean
from tests.deploy.dockerfile import ROOT

LANES = 4
PAUSE = 0.03  # seconds between two jobs, so that they are run as fast as they are deferred
TASKS = """
import os
from pathlib import Path

import psycopg

import inturn

app = inturn.App()
VERSION = "later" if "later" in Path(inturn.__file__).parts else "this"


@app.task(name="note", pass_context=True)
def note(context, number):
    with psycopg.connect(os.environ["INTURN_DSN"]) as connection:
        connection.execute(
            "INSERT INTO runs (job_id, lane, number, version) VALUES (%s, %s, %s, %s)",
            [context.job.id, context.job.lock, number, VERSION],
        )
"""
RUNS = """
CREATE TABLE runs (
    place bigint GENERATED ALWAYS AS IDENTITY, job_id bigint, lane text, number int, version text)
"""
REVISION = '''"""Colours."""

from alembic import op

from inturn.schema.migrate import apply_script

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    apply_script(op.get_bind(), revision, "up")


def downgrade() -> None:
    apply_script(op.get_bind(), revision, "down")
'''
CHANGED = ("claim", "finish", "defer_jobs")


def make_later_version(folder: Path, *, serves_this: bool = True) -> Path:
    """Return the folder from which Python imports the later version."""
    root = folder / "later"
    for name in ("queue", "sql", "migrations"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    versions = root / "migrations" / "versions"
    (versions / "0002_colours.py").write_text(REVISION)
    (versions / "0002.up.sql").write_text("ALTER TABLE jobs ADD COLUMN colour text;\n")
    (versions / "0002.down.sql").write_text("ALTER TABLE jobs DROP COLUMN colour;\n")
    for name in CHANGED:
        file = root / "sql" / "functions" / "api" / f"{name}.sql"
        text = file.read_text(encoding="utf-8")
        assert text.count("AS $$\n") == 1, name
        file.write_text(text.replace("AS $$\n", "AS $$\n-- This is the later version.\n"))
    if serves_this:
        with (root / "sql" / "serves.txt").open("a") as serves:
            serves.write(f"0.1.0 {sql.checksum()}\n")
    return root / "queue"


@dataclass
class Version:
    """The command line of one version, in a folder that has the tasks."""

    folder: Path
    dsn: str
    source: Path | None = None  # None: this version

    def _words(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "inturn", *words]

    def _environment(self) -> dict[str, str]:
        variables = {"INTURN_DSN": self.dsn, "INTURN_APP": "upgrade_tasks:app"}
        if self.source is not None:
            variables["PYTHONPATH"] = str(self.source)
        return clean(variables)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._words(*words),
            cwd=self.folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    @contextmanager
    def worker(self, name: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start a worker that runs two jobs at once. Its log is a file of its name."""
        with (self.folder / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                self._words("worker", "--name", name, "-c", "2"),
                cwd=self.folder,
                env=self._environment(),
                stdout=log,
                stderr=log,
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


class Producer:
    """Defers numbered jobs, and remembers those that were acknowledged.

    Every second one is in a lane. The others are for whichever worker is idle, since one that has a
    lane keeps it while jobs wait there.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._stop = Event()
        self._thread = Thread(target=self._produce)
        self.acknowledged: dict[int, tuple[str | None, int]] = {}
        self.refused = 0

    def __enter__(self) -> "Producer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _produce(self) -> None:
        number = 0
        with App(self._dsn).open() as app:
            while not self._stop.wait(PAUSE):
                lane = f"lane {number // 2 % LANES}" if number % 2 else None
                try:
                    job = app.configure_task("note", lock=lane).defer(number=number)
                except SchemaMismatch:
                    self.refused += 1
                else:
                    self.acknowledged[job] = (lane, number)
                    number += 1


class Record:
    """What the tasks have noted."""

    def __init__(self, dsn: str) -> None:
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._connection.execute(RUNS)

    def close(self) -> None:
        self._connection.close()

    def count(self, version: str) -> int:
        row = self._connection.execute(
            "SELECT count(*) FROM runs WHERE version = %s", [version]
        ).fetchone()
        assert row is not None
        return int(row[0])

    def succeeded(self) -> int:
        row = self._connection.execute(
            "SELECT count(*) FROM inturn.all_jobs WHERE status = 'succeeded'"
        ).fetchone()
        assert row is not None
        return int(row[0])

    def rows(self) -> list[tuple[int, str | None, int]]:
        """Return the job, the lane and the number of each run, in the order of their ends."""
        rows = self._connection.execute("SELECT job_id, lane, number FROM runs ORDER BY place")
        return [(int(job), lane, int(number)) for job, lane, number in rows]


@contextmanager
def recording(dsn: str) -> Iterator[Record]:
    with closing(Record(dsn)) as record:
        yield record


def more(count: Callable[[], int], by: int) -> Callable[[], bool]:
    """Return a condition: the count has risen by so many since now."""
    before = count()
    return lambda: count() >= before + by
