"""A forked process follows its cells without its parent's locks and connections."""

import asyncio
from pathlib import Path

from inturn import App
from inturn.cells.connector import Cells
from tests.cells.load import query
from tests.forking import forked

CONNECTED = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'inturn pool'
"""
BY = "SELECT args ->> 'by' FROM inturn_01.jobs ORDER BY 1"


def test_a_process_that_is_forked_while_a_thread_reads_the_map_reads_it_too(cells: Cells) -> None:
    with cells._reading, forked(lambda by: cells.reread()):
        pass


def test_a_forked_process_leaves_the_old_home_to_its_parent(cells: Cells, empty: list[str]) -> None:
    map_file = cells.file
    assert map_file is not None
    app = App(cells=map_file)

    async def defer(by: int) -> None:
        await app.cell(1).configure_task("unknown").defer_async(by=by)

    def defer_in_child(by: int) -> None:
        asyncio.run(defer(by))
        assert cells_of(app).homes[1]._closing is None, "its parent does that"

    async def move() -> None:
        async with app.open_async():
            await defer(0)
            connected = query(empty[0], CONNECTED)
            name_again(map_file, empty[0])
            cells_of(app).reread()
            with forked(defer_in_child):
                pass
            assert query(empty[0], CONNECTED) == connected

    asyncio.run(move())
    assert query(empty[0], BY) == [("0",), ("1",), ("2",)]


def cells_of(app: App) -> Cells:
    assert isinstance(app.connector, Cells)
    return app.connector


def name_again(map_file: Path, dsn: str) -> None:
    """Write the address of the server in another way."""
    map_file.write_text(map_file.read_text().replace(dsn, f"{dsn} application_name='inturn new'"))
