"""Alembic's entry. `inturn.schema.migrate` passes the connection, never a configuration file."""

from typing import Any

from alembic import context

from inturn.schema.tables import metadata

attributes: dict[str, Any] = context.config.attributes


def ours(obj: Any, name: str | None, kind: str, *_: object) -> bool:
    """The daily partitions come and go by themselves; they belong to no revision."""
    return not (kind == "table" and str(name).startswith("finished_jobs_"))


context.configure(
    connection=attributes["connection"],
    target_metadata=metadata,
    version_table=attributes["version_table"],
    # No schema names: the search path leads to the one schema, whatever it is called.
    include_object=ours,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
