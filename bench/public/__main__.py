"""Run the public benchmark from a checkout, without Docker: `make bench-public`.

Its harness stays as it is. This replaces what it does with Docker: the server is an embedded one
with the settings of its postgres.conf, and the adapters are processes of this machine, with the
newest versions that bench/ pins. It adds inturn, Awa's Python package, and the scenario
`ordered_keys`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import psycopg
from psycopg.sql import SQL

from bench.public import order
from inturn.embedded import Server

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MODULES = HERE.parent / "node_modules"
RESULTS = HERE.parent / "results" / "public"
OURS = {"inturn": "inturn", "awa": "awa-pg"}
THEIRS = {"procrastinate": "procrastinate", "pgboss": "pg-boss"}
ORDERED = "ordered_keys"
ORDERED_PHASES = [
    "warmup=warmup:10s",
    "clean_1=clean:30s",
    "kills=repeated-kill(instance=1,period=15s):90s",
    "backends=pg-backend-kill(rate=0.2):30s",
    "restart=postgres-restart:30s",
    "recovery=recovery:60s",
]
ORDERED_LOAD = {"KEYS": "40", "JOB_WORK_MS": "20"}  # keys of each replica


class Postgres:
    """The server, as the harness starts, stops and forgets it."""

    def __init__(self, folder: Path, port: int, password: str, settings: dict[str, str]) -> None:
        self._data = folder / "data"
        self._password = password
        self._server = Server(self._data, port=port, password=password, settings=settings)

    def start(self, *_: object) -> None:
        self._server.start()
        with psycopg.connect(self._server.dsn(), autocommit=True) as connection:
            if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'bench'").fetchone():
                create = SQL("CREATE ROLE bench SUPERUSER LOGIN PASSWORD {}")
                connection.execute(create.format(self._password))

    def stop(self, *_: object) -> None:
        self._server.stop()

    def forget(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self._data, ignore_errors=True)


@contextmanager
def postgres(checkout: Path, port: int, password: str) -> Iterator[Postgres]:
    folder = Path(tempfile.mkdtemp(prefix="inturn-bench-"))
    folder.chmod(0o755)  # root runs the server as another account
    server = Postgres(folder, port, password, read_settings(checkout / "postgres.conf"))
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def read_settings(path: Path) -> dict[str, str]:
    pairs = [line.split("#")[0].partition("=") for line in path.read_text().splitlines()]
    return {name.strip(): value.strip().strip("'") for name, is_, value in pairs if is_}


def installed_version(package: str) -> dict[str, str]:
    if package == "pg-boss":
        version = json.loads((MODULES / package / "package.json").read_text())["version"]
    else:
        version = metadata.version(package)
    return {"library": package, "pinned_version": version}


def launcher(adapters: Any, command: list[str], cwd: Path, extra: dict[str, str]) -> Any:
    def launch(manifest: Any, overrides: dict[str, str]) -> Any:
        env = {**adapters._base_env(manifest, overrides), **extra}
        return adapters.LaunchSpec(argv=command, env=env, cwd=str(cwd))

    return launch


def register(adapters: Any, checkout: Path, log: Callable[[str], Path] | None) -> None:
    """Put what runs here into the harness's list of systems. With a log, jobs have keys."""
    python = [sys.executable, "-m", "bench.public.adapter"]
    own = {
        "procrastinate": [sys.executable, "main.py"],
        "pgboss": ["node", "main.js"],
    }
    adapters.ADAPTERS.clear()
    for system in [*OURS, *THEIRS]:
        folder = HERE / system if system in OURS else checkout / f"{system}-bench"
        command, cwd, extra = [*python, system], ROOT, {}
        if log:
            extra |= {"ORDER_LOG": str(log(system)), **ORDERED_LOAD}
            if system == "pgboss":
                command = ["node", str(HERE / "pgboss.mjs")]
        elif system in own:
            command, cwd, extra = own[system], folder, {"NODE_PATH": str(MODULES)}
        launch = launcher(adapters, command, cwd, extra)
        adapters.ADAPTERS[system] = adapters.AdapterEntry(folder, lambda skip: None, launch)


def run(checkout: Path, arguments: list[str]) -> None:
    sys.path.insert(0, str(checkout))
    # The harness would write a phase's load to a pipe that adapters do not read. In this mode they
    # read the file instead, which says also when a phase demands more.
    os.environ.setdefault("PRODUCER_PACING", "adapter")
    os.environ.setdefault("PRODUCER_BATCH_MAX", "128")  # otherwise each adapter has its own
    from bench_harness import adapters, orchestrator, phases  # type: ignore[import-not-found]

    ordered = ORDERED in arguments
    logs = RESULTS / time.strftime("order-%Y%m%d-%H%M%S")
    if ordered:
        logs.mkdir(parents=True)
    register(adapters, checkout, (lambda system: logs / system) if ordered else None)
    phases.SCENARIOS[ORDERED] = ORDERED_PHASES
    orchestrator.RESULTS_ROOT = RESULTS
    orchestrator.capture_adapter_revision = lambda system: installed_version(
        (OURS | THEIRS)[system]
    )
    with postgres(checkout, adapters.PG_PORT, adapters.PG_PASS) as server:
        orchestrator.start_postgres = orchestrator._compose_start_postgres = server.start
        orchestrator._compose_stop_postgres = server.stop
        orchestrator.stop_postgres = server.forget
        try:
            orchestrator.main(arguments)
        finally:
            for log in sorted(logs.glob("*")):
                print(f"{log}: {order.report(order.read(log))}")


if __name__ == "__main__":
    run(Path(sys.argv[1]).absolute(), sys.argv[2:])
