"""A cell moves to another server while it works, with all that it has."""

import pytest
from psycopg.conninfo import make_conninfo

from inturn import App
from inturn.cells.connector import Cells
from inturn.cells.move_servers import ask
from inturn.cells.move_tables import NOT_COPIED, list_tables
from inturn.cells.moving import STEPS
from inturn.schema.migrate import migrate
from tests.cells.load import CELL, LANES, Load, query
from tests.cells.moves import LEFT, OLD_DAYS, SCHEMA, call, finish, make_move, serves, writes

PARTITIONS = f"""
SELECT pg_class.relname, pg_get_expr(relpartbound, pg_class.oid) FROM pg_class
WHERE relispartition AND relkind = 'r' AND relnamespace = '{SCHEMA}'::regnamespace ORDER BY 1
"""
SLEEPER = f"""
INSERT INTO {SCHEMA}.workers
    (id, name, hostname, pid, concurrency, started_at, heartbeat_at, loop_turned_at)
SELECT gen_random_uuid(), 'sleeper', 'host', 1, 1, at, at, at - interval '5 s'
FROM (SELECT now() - interval '29 s' AS at) AS late
"""
AWAKE = f"""
SELECT heartbeat_at > now() - interval '20 s', heartbeat_at - loop_turned_at = interval '5 s'
FROM {SCHEMA}.workers WHERE name = 'sleeper'
"""
ANALYZED = f"""
SELECT count(*) FROM pg_stat_user_tables
WHERE schemaname = '{SCHEMA}' AND relname IN ('jobs', 'lanes', 'ends') AND last_analyze IS NULL
"""
ROLE = """
DO $$ BEGIN CREATE ROLE clerk_of_cells; EXCEPTION WHEN duplicate_object THEN NULL; END $$
"""
OWNER = """
DO $$ BEGIN
    CREATE ROLE owner_of_cells;
    CREATE ROLE app_of_cells LOGIN IN ROLE owner_of_cells;
EXCEPTION WHEN duplicate_object THEN NULL; END $$
"""
OWNERS = f"""
SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class
WHERE relnamespace = '{SCHEMA}'::regnamespace
UNION SELECT pg_get_userbyid(proowner) FROM pg_proc
WHERE pronamespace = '{SCHEMA}'::regnamespace
"""
MAY_DEFER = """
SELECT bool_or(has_function_privilege('clerk_of_cells', pg_proc.oid, 'EXECUTE')) FROM pg_proc
WHERE proname = 'defer' AND pronamespace = 'jobs_01'::regnamespace
"""


def test_a_cell_moves_with_all_it_has(cells: Cells, empty: list[str]) -> None:
    old, new = empty
    assert cells.file is not None
    app = App(cells=cells.file)

    @app.task
    def pay() -> None: ...

    with app.open():
        here = app.cell(CELL)
        first = pay.configure(lock=LANES[0]).defer()
        here.limits.set("stripe", concurrency=4)
        here.queues.pause("mail")
        here.run_worker(wait=False, install_signal_handlers=False)
        assert query(old, OLD_DAYS) == [(3,)]
        query(old, SLEEPER)
        done = call(cells, "cells", "move", str(CELL), "--to", new)
        assert done.stdout.splitlines()[-1].startswith(f"cell {CELL} is at "), done.output
        days = query(new, PARTITIONS)
        assert days == query(old, PARTITIONS.replace(SCHEMA, f"{SCHEMA}_moved"))
        assert days[0][0] == "finished_jobs_20261101"
        assert query(new, AWAKE) == [(True, True)], "it has the usual time to find the new home"
        assert query(new, ANALYZED) == [(0,)]
        assert app.job_manager.get_job_status(first) == "succeeded"
        second = pay.configure(lock=LANES[0]).defer()
        assert (second > first, second % 1024) == (True, CELL)
        here.run_worker(wait=False, install_signal_handlers=False)
        assert app.job_manager.get_job_status(second) == "succeeded"
        assert [limit.pattern for limit in here.limits.list()] == ["stripe"]
        assert [paused.queue for paused in here.queues.list_paused()] == ["mail"]
        assert app.verify().is_kept
    fences = query(new, f"SELECT fence >> 56 FROM {SCHEMA}.finished_jobs ORDER BY id")
    assert fences == [(0,), (0,)], "there are only 127 more generations"


def test_the_old_home_is_shut_and_clean(cells: Cells, empty: list[str]) -> None:
    old, new = empty
    assert cells.file is not None
    finish(cells, new)
    assert (serves(old), serves(new)) == (False, True)
    assert not writes(old, f"{SCHEMA}_moved")
    assert query(old, LEFT) == query(new, LEFT) == [(0,)]
    text = cells.file.read_text()
    assert text.startswith("# Two cells. Ask ops before you change this.\n")
    assert "cells = [0]\n" in text
    assert "# the shop" in text


@pytest.mark.landing
def test_each_step_is_told_and_the_copy_is_measured(cells: Cells, empty: list[str]) -> None:
    told: list[str] = []
    seen: list[tuple[int, int | None]] = []
    make_move(cells, empty[1]).run(told.append, lambda *copied: seen.append(copied))
    assert told == [*STEPS]
    size = seen[-1][1] or 0
    assert size > 0
    assert {total for _, total in seen} == {size}
    assert seen[-1] == (size, size)


def test_an_old_map_makes_no_second_home(cells: Cells, empty: list[str]) -> None:
    old, new = empty
    assert cells.file is not None
    before = cells.file.read_text()
    finish(cells, new)
    cells.file.write_text(before)
    refused = call(cells, "cells", "adopt", "--cell", str(CELL), "--yes")
    assert "and may have worked there. Name that home in the map" in refused.stderr
    for told in (" was moved to ", " is not a cell yet"):
        migrated = call(cells, "migrate")
        assert "schema inturn_00: revision 0001, up to date" in migrated.stdout
        assert f"error: cell {CELL}: " in migrated.stderr
        assert told in migrated.stderr
        query(old, f"DROP SCHEMA IF EXISTS {SCHEMA}_moved CASCADE")
    assert call(cells, "cells", "create").returncode != 0, "it asks first"
    assert query(old, f"SELECT to_regnamespace('{SCHEMA}')") == [(None,)]
    assert serves(new)


@pytest.mark.landing
def test_it_moves_while_a_producer_and_a_worker_run(cells: Cells, empty: list[str]) -> None:
    assert cells.file is not None
    load = Load(cells.file)
    with load.running():
        finish(cells, empty[1])
        after = len(load.runs)
        query(empty[0], f"DROP SCHEMA {SCHEMA}_moved CASCADE")
        finish(cells, empty[0])
    load.judge()
    assert len(load.runs) > after
    assert load.refused == []
    assert (serves(empty[0]), serves(empty[1])) == (True, False)


@pytest.mark.landing
def test_a_schema_gets_its_new_name_and_its_functions_know_it(
    cells: Cells, empty: list[str]
) -> None:
    assert cells.file is not None
    words = ("--to", empty[1], "--schema", "jobs")
    for dsn in empty:
        query(dsn, ROLE)
    query(empty[0], f"SET search_path = {SCHEMA}; SELECT grant_to('clerk_of_cells', 'producer')")
    done = call(cells, "cells", "move", str(CELL), *words)
    assert done.returncode == 0, done.output
    assert "schema jobs_01" in done.stdout
    app = App(cells=cells.file)

    @app.task
    def pay() -> None: ...

    with app.open():
        job = pay.configure(lock=LANES[0]).defer()
        app.cell(CELL).run_worker(wait=False, install_signal_handlers=False)
        assert app.job_manager.get_job_status(job) == "succeeded"
    assert query(empty[1], "SELECT count(*) FROM jobs_01.finished_jobs") == [(1,)]
    assert query(empty[1], MAY_DEFER) == [(True,)]
    migrate(empty[1], "jobs_01")
    again = call(cells, "cells", "move", str(CELL), *words)
    assert (again.returncode, again.stdout.count("\n")) == (0, 1)


def test_all_tables_are_copied_but_those_that_describe_the_schema(
    cells: Cells, empty: list[str]
) -> None:
    tables = f"""
        SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition
        AND relnamespace = '{SCHEMA}'::regnamespace
    """
    found = {name for (name,) in query(empty[0], tables)}
    assert found - set(list_tables()) == set(NOT_COPIED)
    assert not query(empty[0], f"{tables} AND relpersistence <> 'p'"), "it would not be replicated"


@pytest.mark.landing
def test_the_map_gets_another_login_than_the_one_that_moves(cells: Cells, empty: list[str]) -> None:
    old, new = empty
    for dsn in empty:
        query(dsn, OWNER)
    query(old, f"ALTER SCHEMA {SCHEMA} OWNER TO owner_of_cells")
    query(new, "REVOKE owner_of_cells FROM app_of_cells")
    to = make_conninfo(new, user="app_of_cells")
    words = ("cells", "move", str(CELL), "--to", to, "--admin")
    refused = call(cells, *words, old)
    assert "--admin leads to another database than " in refused.stderr
    asked = make_move(cells, to).to
    with asked.connect() as pooled:
        [(limit,)] = ask(pooled, "SELECT current_setting('idle_in_transaction_session_timeout')")
    assert limit == "0", "a pooler would give our settings to others"
    refused = call(cells, *words, new)
    assert "The login of --to may not use the cell: it is none of owner_of_cells." in refused.stderr
    query(new, "GRANT owner_of_cells TO app_of_cells")
    done = call(cells, *words, new)
    assert done.returncode == 0, done.output
    assert query(new, OWNERS) == [("owner_of_cells",)]
    with App(cells=cells.file).open() as app:
        assert app.connector.homes[CELL].dsn == to
        assert app.configure_task("pay", lock=LANES[0]).defer() % 1024 == CELL
