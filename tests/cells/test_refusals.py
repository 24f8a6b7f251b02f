"""What cannot work is refused at once, with the names and a remedy."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from inturn import App
from inturn.cells.connector import Cells
from inturn.database.connectors import PsycopgConnector
from inturn.errors import BadArgument, ConfigurationError, ConnectorException, WrongCell
from inturn.tasks.lanes import cell_of
from tests.cells.conftest import COUNT, make_home

Homes = list[PsycopgConnector]
MAP = f"""
map = "{uuid4()}"
of = 3
[[servers]]
dsn = "dbname=one"
cells = [0, 2]
[[servers]]
dsn = "dbname=two"
schema = "jobs"
cells = [1]
"""


def in_cell(cell: int, name: str = "lane") -> str:
    """Return a lock in this cell."""
    return next(lock for n in range(1000) if cell_of(lock := f"{name}:{n}", COUNT) == cell)


def test_a_map_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cells.toml"
    file.write_text(MAP)
    monkeypatch.setenv("INTURN_CELLS", str(file))
    homes = App().connector.homes
    assert [(home.schema, home.dsn) for home in homes] == [
        ("inturn_00", "dbname=one"), ("jobs_01", "dbname=two"), ("inturn_02", "dbname=one"),
    ]  # fmt: skip
    assert App("postgresql://plain/shop").connector.homes[0].schema == "inturn"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("cells = [1]", "cells = []", "of = 3, but no server has cell 1. Add the numbers"),
        ("cells = [1]", "cells = [1, 2]", "cell 2 has two homes, server 1 and server 2. Remove it"),
        ("cells = [1]", "cells = [1, 3]", "of = 3, so the cells are 0 to 2. Remove cell 3"),
        ("of = 3", "", "is not a map of cells: KeyError 'of'. It needs map, of, and"),
        ("of = 3", "of = ", "cannot be read: Invalid value"),
        ('map = "', 'map = "x', "is not a map of cells: ValueError badly formed"),
        ("cells = [0, 2]", "cells = 0", "is not a map of cells: TypeError"),
    ],
)
def test_a_bad_map_is_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    file = tmp_path / "cells.toml"
    assert old in MAP
    file.write_text(MAP.replace(old, new))
    with pytest.raises(ConfigurationError, match=words):
        App(cells=str(file))


def test_an_app_has_one_kind_of_address(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="two of a DSN, a connector and cells"):
        App("postgresql://one/shop", cells=["postgresql://one/shop"])
    with pytest.raises(ConfigurationError, match=r"does not exist. Name it in INTURN_CELLS or"):
        App(cells=tmp_path / "none.toml")
    with pytest.raises(ConfigurationError, match="The map has 0 cells"):
        App(cells=[])
    same = PsycopgConnector("postgresql://one/shop")
    with pytest.raises(ConfigurationError, match=r"Cells 0 and 1 have the same home, the schema"):
        App(cells=[same, same])
    with pytest.raises(ConfigurationError, match=r"Cell 0 is an int. Give a DSN or"):
        App(cells=[1])  # type: ignore[list-item]


def refuses(homes: Homes, cell: int, words: str) -> None:
    """Check that a pool, a connection and a worker are refused."""
    app = App(cells=homes).cell(cell)
    with app.open(), pytest.raises(WrongCell, match=words):
        app.job_manager.list_queues()
    with pytest.raises(WrongCell, match=words):
        app.connector.connect()
    with pytest.raises(WrongCell, match=words):
        app.run_worker(wait=False, install_signal_handlers=False)


def test_another_number_of_cells_is_refused(homes: Homes) -> None:
    refuses(homes[:-1], 0, r"schema inturn_00\) is one of 8 cells, but the map has 7. The number")


def test_cells_in_another_order_are_refused(homes: Homes) -> None:
    refuses([*homes[:6], homes[7], homes[6]], 6, r"cell 6 \(.* is cell 7. Put the cells into")


def test_what_is_no_cell_is_refused(homes: Homes, empty_dsn: str, dsn: str) -> None:
    for other in (PsycopgConnector(empty_dsn), PsycopgConnector(dsn)):
        refuses([other, *homes[1:]], 0, "is not a cell yet. Make it one: queue cells create")


def test_a_cell_of_another_map_is_refused(homes: Homes) -> None:
    with psycopg.connect(homes[1].dsn, autocommit=True) as connection:
        connection.execute("UPDATE inturn_01.cell SET map = gen_random_uuid()")
    app = App(cells=homes)
    app.cell(0).connector.connect().close()
    with pytest.raises(WrongCell, match=r"cell 1 .* belongs to another map"):
        app.cell(1).connector.connect()


def test_a_second_home_of_a_cell_is_refused(homes: Homes) -> None:
    with psycopg.connect(homes[2].dsn, autocommit=True) as connection:
        connection.execute("UPDATE inturn_02.cell SET home = 'another server'")
    refuses(homes, 2, "is a copy: the cell was created in another .*queue cells adopt --cell 2")


def test_work_in_several_cells_is_refused(app: App) -> None:
    @app.task
    def write() -> None: ...

    one, two = in_cell(1, "a"), in_cell(2, "b")
    with pytest.raises(
        BadArgument, match=f"lock '{one}' is in cell 1, lock '{two}' is in cell 2. Put what belongs"
    ):
        write.configure(lock=[one, two]).defer()
    first = write.configure(lock=one).defer()
    with pytest.raises(BadArgument, match=f"after job {first} is in cell 1. Put"):
        write.configure(lock=two, after=first).defer()
    batch = app.cell(1).batches.open("all")
    with pytest.raises(BadArgument, match=f"lock '{two}' is in cell 2, batch {batch} is in cell 1"):
        write.configure(lock=two, batch=batch).defer()
    for manager in (app.job_manager, app.cell(1).job_manager):
        with pytest.raises(BadArgument, match=f"'{two}' is in cell 2, but the job is in cell 1"):
            manager.retry_job_by_id(first, lock=two)
    with pytest.raises(BadArgument, match=f"'{two}' is in cell 2, but the job is in cell 1"):
        app.cell(1).batches.open("all", callback=write.configure(lock=two))
    with pytest.raises(BadArgument, match="would hold in each of the 8 cells alone"):
        app.limits.set("stripe", concurrency=4)
    with pytest.raises(BadArgument, match="before_id: names a page of one cell"):
        app.job_manager.list_jobs(before_id=5)
    keyed = [write.configure(cell="tenant:7", lock=lock).defer() for lock in (one, two, None)]
    assert {id % 1024 for id in keyed} == {cell_of("tenant:7", COUNT)}


def test_what_is_no_new_job_is_refused(app: App) -> None:
    jobs: list[Any] = [5]
    with pytest.raises(BadArgument, match="jobs has an int"):
        app.job_manager.batch_defer_jobs(jobs)


def test_a_connection_elsewhere_is_refused(app: App, homes: Homes, empty_dsn: str) -> None:
    @app.task
    def write() -> None: ...

    with psycopg.connect(homes[0].dsn) as here, psycopg.connect(empty_dsn) as nowhere:
        words = "connection is to a database with cells 0, 1, 2, 3, 4, but 'lane:.*' is for cell 6"
        with pytest.raises(BadArgument, match=words):
            write.configure(lock=in_cell(6), connection=here).defer()
        new = [write.configure(lock=in_cell(cell)).make_new_job() for cell in (0, 6)]
        with pytest.raises(BadArgument, match=words):
            app.job_manager.batch_defer_jobs(new, here)
        with pytest.raises(
            BadArgument, match=r"with no cell of this map, but 'lane:.*' is for cell 0"
        ):
            write.configure(lock=in_cell(0), connection=nowhere).defer()
        with pytest.raises(BadArgument, match="no cell of this map, so no job can join"):
            write.configure(connection=nowhere).defer()
        with pytest.raises(BadArgument, match="with cells 0, 1, 2, 3, 4, but this is for cell 5"):
            app.cell(5).job_manager.get_job_status(5, connection=here)
        assert here.execute("SELECT 1").fetchone() == (1,), "the transaction is intact"


def test_what_needs_one_database_names_the_remedy(app: App) -> None:
    for call in (app.run_worker, app.connector.connect, lambda: app.connector.dsn):
        with pytest.raises(ConfigurationError, match=r"has 8 cells. Name one: app.cell\(3\), or"):
            call()
    with pytest.raises(BadArgument, match="cell: 8 is not one of 0 to 7"):
        app.cell(8)
    with pytest.raises(BadArgument, match="number: '7' is text"):
        app.cell("7")  # type: ignore[arg-type]
    with pytest.raises(BadArgument, match="cell: 7 is the number of a cell"):
        app.cell(key=7)  # type: ignore[arg-type]
    for given in ({}, {"number": 3, "key": "a"}):
        with pytest.raises(BadArgument, match="number is needed, or a key, and not both"):
            app.cell(**given)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"cannot use yours. Omit the pool"):
        app.open(object())  # type: ignore[arg-type]


def test_a_schema_with_jobs_cannot_become_a_cell(dsn: str, app_dsn: str) -> None:
    from inturn.cells.creating import create_cells

    plain = App(app_dsn)

    @plain.task
    def write() -> None: ...

    with plain.open():
        write.defer()
    with pytest.raises(ConnectorException, match=r"has jobs, whose ids name no cell. Use a new"):
        list(create_cells(Cells([PsycopgConnector(dsn)])))


def test_creating_cells_again_changes_nothing(homes: Homes) -> None:
    from inturn.cells.creating import create_cells

    assert not any(is_new for _, is_new in create_cells(Cells(homes)))
    with pytest.raises(WrongCell, match="is one of 8 cells, but the map has 1"):
        list(create_cells(Cells([make_home(homes[0].dsn, 0)])))
