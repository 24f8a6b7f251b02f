"""Alembic's entry. `inturn.schema.migrate` passes the connection, never a configuration file."""

from typing import Any

from alembic import context
from sqlalchemy.dialects.postgresql import DOMAIN

from inturn.schema.tables import metadata

attributes: dict[str, Any] = context.config.attributes


def ours(obj: Any, name: str | None, kind: str, *_: object) -> bool:
    """The daily partitions come and go by themselves; they belong to no revision."""
    return not (kind == "table" and str(name).startswith("finished_jobs_"))


def types_differ(_context: object, column: Any, *_: object) -> None:
    """Compare the base type of a domain, which is what clients see and `tables.py` describes.

    The result None leaves the comparison to Alembic.
    """
    if isinstance(column.type, DOMAIN):
        column.type = column.type.data_type


context.configure(
    connection=attributes["connection"],
    target_metadata=metadata,
    version_table=attributes["version_table"],
    # No schema names: the search path leads to the one schema, whatever it is called.
    include_object=ours,
    compare_type=types_differ,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
