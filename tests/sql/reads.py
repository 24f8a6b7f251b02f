"""Everything that reads the queue for people and for monitoring, so that one gate holds all of it.

Whatever is added later is found here by itself: a view, a file of sql/monitoring, a metric, a check
of the doctor, a part of `queue top`, and a command that lists.

`python -m tests.sql.reads` does at full size what the gate does at the size of a test:
`make bench-reads`.
"""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import GeneratorType
from typing import TypeVar, cast
from unittest.mock import patch

import psycopg
from psycopg.conninfo import make_conninfo

from inturn.cli.database import Database
from inturn.cli.live.look import Meter, read
from inturn.database import drive
from inturn.database.session import Session
from inturn.doctor.checks import examine
from inturn.metrics.database import MetricsReader
from inturn.operations import Operation
from inturn.sql import find_folder
from inturn.states import STATUSES
from inturn.testing import Databases
from tests.cli.calling import invoke
from tests.cli.test_help import words_of_all
from tests.sql.test_growth import GROW, Bench

T = TypeVar("T")
SQL = find_folder("sql")
# These views have a row for each job, batch or lane. People read a row of them by its key, and ask
# commands for lists.
KEYS = {
    "all_jobs": "id = 7",
    "live_jobs": "id = 7",
    "gated_jobs": "gate = 'limit:7'",
    "claimed_jobs": "id = 7",
    "batch_status": "id = 7",
    "lane_status": "lock = 'lane 7'",
}
# A filter that matches nothing searches as much as it ever does.
RARE = [
    ["--task", "none"],
    ["--lock", "busy", "--task", "none"],
    ["--lock-prefix", "lane 1", "--task", "none"],
    ["--batch", "1", "--task", "none"],
    *(["--status", status, "--task", "none"] for status in ("todo", "blocked", "failed")),
]
FILTERED = [
    *(["jobs", "list", *words] for words in RARE),
    *(["jobs", "list", "--status", status] for status in STATUSES),
    ["jobs", "list", "--before-id", "7"],
    *(["jobs", "count", *words] for words in RARE[:3]),
    *(["lanes", "list", "--limit", "1", "--state", state] for state in ("held", "delayed")),
]
EXPLAINED = (["jobs", "explain", "7"], ["lanes", "explain", "busy"])  # if there are such rows
NOT_OF_JOBS = (["locks", "list"], ["cells", "list"])  # they ask another store, and a file


class Gauge:
    """Runs what reads, and counts the pages that each statement touches."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.pages: dict[str, int] = {}
        self.rows: dict[str, int] = {}
        self._reader = ""
        # Commands find the tables by the name of their schema.
        self._address = make_conninfo(bench.connection.info.dsn, options="")

    def run(self, operation: Operation[T]) -> T:
        """Run an operation as the client does."""
        assert isinstance(operation, GeneratorType)
        with self._count(f"{self._reader}: {operation.__name__}"):
            found: T = drive.run(operation, cast(Session, self._bench.connection), "inturn")
        return found

    @contextmanager
    def _count(self, name: str) -> Iterator[None]:
        with self._bench.counter.count() as work:
            yield
        pages = work.pages if work.plans else 0
        self.pages[name] = max(pages, self.pages.get(name, 0))
        self.rows[name] = max(work.rows, self.rows.get(name, 0))

    def read_all(self) -> dict[str, int]:
        """Return the pages of each statement of each reader."""
        self._read_files("view", SQL / "views")
        self._read_files("monitoring", SQL / "monitoring")
        self._reader = "metrics"
        reader = MetricsReader(cast(Session, self._bench.connection), "inturn")
        with patch.object(reader, "_run", self.run):
            for name in sorted(each for each in dir(MetricsReader) if each.startswith("read_")):
                list(getattr(reader, name)())
        database = Database(self._bench.connection, "inturn")
        with patch.object(Database, "run", lambda _, operation: self.run(operation)):
            self._reader = "doctor"
            list(examine(database))
            for words in (*find_lists(), *FILTERED, *EXPLAINED):
                self._reader = " ".join(words)
                done = invoke(*words, "--dsn", self._address)
                assert done.returncode == 0 or words in EXPLAINED, (words, done.output)
        self._reader = "top"
        with self._bench.connection.transaction():
            read(self.run, "inturn", 20, Meter())
        return self.pages

    def _read_files(self, kind: str, folder: Path) -> None:
        for file in sorted(folder.glob("*.sql")):
            if kind == "view":
                text = f"SELECT * FROM {file.stem} WHERE {KEYS.get(file.stem, 'true')}"
            else:
                text = file.read_text(encoding="utf-8")
            with self._count(f"{kind} {file.stem}"):
                self._bench.connection.execute(text.encode())


def find_lists() -> list[list[str]]:
    """Return the commands that list something of the queue."""
    found = [words for words in words_of_all() if words[-1:] == ["list"]]
    return [words for words in found if words not in NOT_OF_JOBS]


# ------------------------------------------------------------------ at full size


FINISHED, WAITING = 10_000_000, 1_000_000
# A day of history has a third of the finished jobs, and the newest lie in the last hour, too.
HISTORY = """
INSERT INTO finished_jobs (id, created_at, started_at, finished_at, status, on_retry, on_failure,
    priority, attempts, queue, task, lock, args, errors)
SELECT -n, at - interval '2 s', at - interval '1 s', at, 'succeeded', 'hold', 'continue', 0, 1,
    'default', 't', 'lane ' || n %% 1000, '{}', '[]'
FROM (SELECT n, now() - n * interval '25 ms' AS at FROM numbers) AS job
"""
MIXED = ("free jobs", "jobs of a busy lane", "distinct lanes", "paused lanes", "retrying lanes",
         "scheduled jobs", "jobs of a batch")  # fmt: skip


def fill(bench: Bench, finished: int, waiting: int, done: tuple[int, int]) -> None:
    """Let there be so many jobs; `done` says how many there are."""
    if finished > done[0]:
        bench.grow([HISTORY], done[0] + 1, finished)
    share, first = waiting // len(MIXED), done[1] // len(MIXED)
    for place, kind in enumerate(MIXED):
        offset = place * WAITING
        bench.grow(GROW[kind], offset + first + 1, offset + share)


def main() -> None:
    parts = (1000, 100) if "--quick" in sys.argv else (100, 10, 1)
    sizes = [(FINISHED // part, WAITING // part) for part in parts]
    columns: list[dict[str, int]] = []
    with Databases() as databases, databases.clone() as dsn:
        options = "-c search_path=inturn"
        with closing(psycopg.connect(dsn, autocommit=True, options=options)) as connection:
            connection.execute("SELECT prepare_history(5)")
            bench, done = Bench(connection), (0, 0)
            for size in sizes:
                fill(bench, *size, done)
                done = size
                Gauge(bench).read_all()  # the first calls after a VACUUM read the catalogue
                columns.append(Gauge(bench).read_all())
                print(f"{size[0]:,} finished, {size[1]:,} waiting: done", file=sys.stderr)
            version = connection.info.server_version // 10_000
    print(f"# Pages that a look touches\n\nPostgreSQL {version}. `make bench-reads` measures it.\n")
    heads = [f"{finished:,} finished, {waiting:,} waiting" for finished, waiting in sizes]
    print(f"| what reads | {' | '.join(heads)} |\n|---|{'---:|' * len(heads)}")
    for name in columns[-1]:
        print(f"| {name} | {' | '.join(f'{column.get(name, 0):,}' for column in columns)} |")


if __name__ == "__main__":
    main()
