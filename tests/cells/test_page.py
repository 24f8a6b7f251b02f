"""What docs/cells.md says and shows is true."""

import re
from pathlib import Path
from textwrap import dedent

from inturn import App
from inturn.cells.map import read_file
from inturn.tasks.lanes import cell_of
from tests.cells.conftest import COUNT

PAGE = (Path(__file__).parents[2] / "docs" / "cells.md").read_text(encoding="utf-8")


def find_blocks(language: str) -> list[str]:
    found = re.findall(rf"^( *```{language}\n.*?)^ *```", PAGE, re.MULTILINE | re.DOTALL)
    return [dedent(block.partition("\n")[2]) for block in found]


def test_the_examples_run_in_their_cells(app: App) -> None:
    @app.task(name="ship")
    def ship(order: int) -> None: ...

    keyed, limited = find_blocks("python")
    exec(keyed, {"app": app, "ship": ship})  # noqa: S102 (our own page)
    [job] = app.job_manager.list_jobs()
    assert job.locks == ["{tenant:7}order:9", "{tenant:7}stock:4"]
    assert job.id % 1024 == cell_of("tenant:7", COUNT)
    exec(limited, {"app": app, "ship": ship})  # noqa: S102 (our own page)
    [limit] = app.cell(key="stripe").limits.list()
    assert (limit.concurrency, limit.pattern) == (64, "stripe")
    jobs = app.job_manager.list_jobs(limit=2)
    assert {job.id % 1024 for job in jobs} == {cell_of("stripe", COUNT)}


def test_the_map_can_be_read(tmp_path: Path) -> None:
    [text] = find_blocks("toml")
    file = tmp_path / "inturn_cells.toml"
    file.write_text(text)
    assert [home.schema for home in read_file(file).homes] == [f"inturn_{n:02}" for n in range(8)]


def test_it_is_short() -> None:
    assert sum(bool(re.search(r"\w", word)) for word in PAGE.split()) <= 1200
