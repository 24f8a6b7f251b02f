"""`app.schema_manager`: the queue's tables and functions in the database."""

import anyio.to_thread

from inturn import sql
from inturn.control.twins import Control


class SchemaManager(Control):
    """Creates and updates the queue's tables and functions, as `queue migrate` does.

    app.schema_manager.apply_schema()
    """

    def apply_schema(self) -> None:
        """Create or update the tables and functions. If they are up to date, nothing changes."""
        # Imported here, so that an app that only defers does not load Alembic.
        from inturn.schema.migrate import migrate, prepare_history

        for home in self._connector.homes:
            home.check_cell()
            migrate(home.dsn, home.schema)
            prepare_history(home.dsn, home.schema)

    async def apply_schema_async(self) -> None:
        """Like `apply_schema`, in an event loop."""
        await anyio.to_thread.run_sync(self.apply_schema)

    def get_schema(self) -> str:
        """Return the schema as one SQL script for an empty database. Run it with `psql -1 -f`.

        The script creates the same as `apply_schema`, except for the partitions of the next days,
        which the first worker creates.
        """
        return sql.script(self._connector.schema)

    @staticmethod
    def get_migrations_path() -> str:
        """Return the folder of the Alembic revisions and their SQL."""
        return str(sql.find_folder("migrations") / "versions")
