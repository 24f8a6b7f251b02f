"""A database with Citus can be migrated, and a schema that it has distributed is refused.

Citus itself is not here: its row in pg_extension and its catalogs are.
"""

import psycopg
import pytest

from inturn.cli.database import Database
from inturn.doctor.checks import examine
from inturn.errors import ConfigurationError
from inturn.schema.migrate import migrate
from tests.cli.calling import invoke

CITUS = """
SET allow_system_table_mods = on;
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass);
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
