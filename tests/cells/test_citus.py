"""A database with Citus can be migrated, and a schema that it has distributed is refused.

Citus itself is not here: its row in pg_extension and its catalogs are.
"""

import psycopg
import pytest

from inturn.cli.database import Database
from inturn.doctor.checks import examine
from inturn.errors import ConfigurationError
from inturn.schema.migrate import migrate
from inturn.sql import revision
from tests.cli.calling import invoke

CITUS = """
SET allow_system_table_mods = on;
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass);
CREATE TABLE pg_catalog.pg_dist_object (
    classid oid, objid oid, distribution_argument_index int, colocationid int);
CREATE TABLE pg_catalog.citus_schemas (schema_name regnamespace);
INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
SELECT 99999, 'citus', 10, 'pg_catalog'::regnamespace, false, '13.2';
CREATE FUNCTION propagate() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('citus.enable_ddl_propagation', true) IS DISTINCT FROM 'off' THEN
        RAISE EXCEPTION 'Citus cannot propagate %', tg_tag;
    END IF;
END $$;
CREATE EVENT TRIGGER propagate ON ddl_command_start EXECUTE FUNCTION propagate();
"""

# Functions in all nodes have rows too, without the last two.
DELEGATE = """
SET allow_system_table_mods = on;
INSERT INTO pg_catalog.pg_dist_object
SELECT 'pg_proc'::regclass, oid, CASE proname WHEN 'defer' THEN 1 END, NULL
FROM pg_proc WHERE proname IN ('defer', 'claim') AND pronamespace = 'inturn'::regnamespace
"""


@pytest.fixture
def citus_dsn(empty_dsn: str) -> str:
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(CITUS.encode())
    return empty_dsn


def test_a_database_with_citus_is_migrated_as_ordinary_tables(citus_dsn: str) -> None:
    assert migrate(citus_dsn).scripts
    assert not migrate(citus_dsn).scripts
    assert invoke("migrate", "--dsn", citus_dsn).returncode == 0
    with psycopg.connect(citus_dsn) as connection:
        assert connection.execute("SELECT inturn.defer('t')").fetchone() == (1,)


@pytest.mark.parametrize(
    "distribute",
    [
        "INSERT INTO pg_catalog.citus_schemas VALUES ('inturn'::regnamespace)",
        "INSERT INTO pg_catalog.pg_dist_partition VALUES ('inturn.jobs'::regclass)",
    ],
)
def test_a_distributed_schema_is_refused(citus_dsn: str, distribute: str) -> None:
    migrate(citus_dsn)
    with psycopg.connect(citus_dsn, autocommit=True) as connection:
        connection.execute("SET allow_system_table_mods = on")
        connection.execute(distribute.encode())
        [found] = examine(Database(connection, "inturn"))
    with pytest.raises(
        ConfigurationError, match=r"Citus has distributed the schema 'inturn', where it cannot run"
    ):
        migrate(citus_dsn)
    assert (found.check, found.state) == ("schema", "fail")
    assert found.advice == "SELECT citus_schema_undistribute('inturn');"


def test_the_doctor_names_functions_that_are_delegated(citus_dsn: str) -> None:
    migrate(citus_dsn)
    assert "Citus delegates" not in invoke("doctor", "--dsn", citus_dsn).stdout
    with psycopg.connect(citus_dsn, autocommit=True) as connection:
        connection.execute(DELEGATE.encode())
    done = invoke("doctor", "--dsn", citus_dsn, env={"COLUMNS": "400"})
    assert done.returncode == 10
    assert "Citus delegates defer, and loses jobs within a transaction" in done.stdout
    assert f" --to {revision()}, and then queue migrate " in done.stdout
    invoke("schema", "downgrade", "--to", revision(), "--yes", "--dsn", citus_dsn)
    migrate(citus_dsn)
    assert "Citus delegates" not in invoke("doctor", "--dsn", citus_dsn).stdout
