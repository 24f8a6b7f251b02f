"""`app.schema_manager`: the queue's tables and functions in the database."""

from __future__ import annotations

import anyio.to_thread

from inturn import sql
from inturn.database.connector import Connector


class SchemaManager:
    """What `queue migrate` does, from Python.

    app.schema_manager.apply_schema()
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def apply_schema(self) -> None:
        """Create or update the tables and functions; where nothing is missing nothing changes."""
        from inturn.schema.migrate import (
            migrate,
        )  # here, so that an app that only defers does not load Alembic

        migrate(self._connector.dsn, self._connector.schema)

    async def apply_schema_async(self) -> None:
        """Create or update the tables and functions; where nothing is missing nothing changes."""
        await anyio.to_thread.run_sync(self.apply_schema)

    def get_schema(self) -> str:
        """All of it as one script of SQL, for an empty schema: `psql -1 -f`. It leaves what `apply_schema` would leave."""
        return sql.script(self._connector.schema)

    @staticmethod
    def get_migrations_path() -> str:
        """The folder of the Alembic revisions and their SQL."""
        return str(sql.shipped("migrations") / "versions")
