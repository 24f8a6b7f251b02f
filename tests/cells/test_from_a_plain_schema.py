"""The way from a plain schema to cells, step by step as docs/cells-moving.md tells it."""

import json
from pathlib import Path
from typing import Any

import pytest

from inturn import App
from inturn.schema.migrate import migrate
from tests.cells.conftest import WORKER
from tests.cells.load import LANES, query
from tests.cli.calling import Ended, invoke

pytestmark = pytest.mark.landing
ORDER, FREE = LANES[:2]  # the jobs of the first lane must not overlap
Ran = list[tuple[str, str | int]]


def declare(app: App, ran: Ran, where: str) -> App:
    @app.task(name="ship")
    def ship(what: str | int) -> None:
        ran.append((where, what))

    @app.task(name="tidy")
    def tidy() -> None:
        ran.append((where, "tidy"))

    return app


def defer(app: App, lock: str, what: str | int) -> None:
    app.configure_task("ship", lock=lock).defer(what=what)


def work(app: App) -> None:
    for cell in range(2):
        app.cell(cell).run_worker()


def count(dsn: str) -> list[tuple[Any, ...]]:
    return query(dsn, "SELECT task, count(*) FROM inturn.live_jobs GROUP BY task")


def test_only_lanes_that_must_not_overlap_wait(empty: list[str], tmp_path: Path) -> None:
    dsn, file, ran = empty[0], tmp_path / "cells.toml", Ran()
    migrate(dsn)
    plain = declare(App(dsn, worker_defaults=WORKER), ran, "plain")

    def queue(*words: str) -> Ended:
        done = invoke(*words, env={"INTURN_CELLS": str(file)})
        assert done.returncode == 0, done.output
        return done

    with plain.open():
        for n in range(3):
            defer(plain, ORDER, n)
        defer(plain, FREE, "old")
        queue("cells", "create", "--file", str(file), "--dsn", dsn, "--count", "2")
    cells = declare(App(cells=file, worker_defaults=WORKER), ran, "cells")
    with plain.open(), cells.open():
        queue("tasks", "pause", "tidy", "--dsn", dsn)
        for app in (plain, cells):  # as the schedule does, in both
            app.configure_task("tidy").defer()
        defer(cells, FREE, "new")
        work(cells)
        assert sorted(ran) == [("cells", "new"), ("cells", "tidy")], "nothing waits"
        plain.run_worker()
        [counts] = json.loads(queue("queues", "list", "--dsn", dsn, "--json").stdout)
        assert count(dsn) == [("tidy", counts["blocked"])]
        queue("jobs", "cancel", "--task", "tidy", "--dsn", dsn, "--yes")
        assert count(dsn) == []
        defer(cells, ORDER, 3)
        work(cells)
    assert [what for _, what in ran if isinstance(what, int)] == [0, 1, 2, 3]
    assert [where for where, what in ran if what == "tidy"] == ["cells"]
