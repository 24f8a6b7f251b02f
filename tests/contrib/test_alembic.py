"""A project's own autogenerate, in a database that also has the queue."""

from pathlib import Path

import psycopg
import pytest
from alembic import command
from alembic.config import Config

from inturn.contrib.alembic import ignoring

pytestmark = pytest.mark.fresh_database

ENV = """
import psycopg
from alembic import context
from inturn.contrib.alembic import include_name, include_object
from sqlalchemy import BigInteger, Column, MetaData, Table, create_engine
from sqlalchemy.pool import NullPool

metadata = MetaData()
Table("orders", metadata, Column("id", BigInteger, primary_key=True))
dsn = context.config.attributes["dsn"]
engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), poolclass=NullPool)
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=metadata, include_schemas=True, {options})
    with context.begin_transaction():
        context.run_migrations()
"""

SCRIPT = """
from alembic import op
import sqlalchemy as sa
${imports or ""}
revision = ${repr(up_revision)}
down_revision = None

def upgrade():
    ${upgrades}
"""


@pytest.fixture(autouse=True)
def _left_behind(dsn: str) -> None:
    """A table that the project dropped: its removal shows that Alembic looked at the database."""
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE given_up (id int)")


def generated(folder: Path, dsn: str, options: str) -> str:
    (folder / "versions").mkdir()
    (folder / "env.py").write_text(ENV.format(options=options), encoding="utf-8")
    (folder / "script.py.mako").write_text(SCRIPT, encoding="utf-8")
    config = Config(attributes={"dsn": dsn})
    config.set_main_option("script_location", str(folder))
    command.revision(config, "a change", autogenerate=True)
    [file] = (folder / "versions").glob("*.py")
    text = file.read_text(encoding="utf-8")
    assert "op.create_table('orders'" in text
    assert "op.drop_table('given_up'" in text
    return text


@pytest.mark.parametrize("options", ["include_name=include_name", "include_object=include_object"])
def test_the_queue_is_left_alone(tmp_path: Path, dsn: str, options: str) -> None:
    assert "inturn" not in generated(tmp_path, dsn, options)


def test_without_it_the_queue_would_be_dropped(tmp_path: Path, dsn: str) -> None:
    assert "op.drop_table('jobs', schema='inturn')" in generated(tmp_path, dsn, "")


def test_a_queue_in_another_schema() -> None:
    include_name, _ = ignoring("jobs")
    assert not include_name("jobs", "schema", {})
    assert include_name("inturn", "schema", {})
    assert include_name("jobs", "table", {})
