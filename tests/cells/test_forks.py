"""A forked process follows its cells without its parent's locks and connections."""

import asyncio

from inturn import App
from inturn.cells.connector import Cells
from tests.cells.load import CONNECTED, cells_of, name_again, query
from tests.forking import forked

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

    async def defer_and_close(by: int) -> None:
        await defer(by)
        assert cells_of(app).homes[1]._closing is None, "its parent does that"
        await app.close_async()

    async def move() -> None:
        async with app.open_async():
            await defer(0)
            connected = query(empty[0], CONNECTED)
            name_again(map_file, empty[0])
            cells_of(app).reread()
            with forked(lambda by: asyncio.run(defer_and_close(by))):
                pass
            assert query(empty[0], CONNECTED) == connected

    asyncio.run(move())
    assert query(empty[0], BY) == [("0",), ("1",), ("2",)]
