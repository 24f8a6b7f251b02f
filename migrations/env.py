"""Alembic's entry. `inturn.schema.migrate` passes the connection, never a configuration file."""

from typing import Any

from alembic import context

attributes: dict[str, Any] = context.config.attributes

context.configure(
    connection=attributes["connection"],
    version_table=attributes["version_table"],
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
