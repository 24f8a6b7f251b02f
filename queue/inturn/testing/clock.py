"""Control of the engine's clock for a test.

The whole engine reads the time from one SQL function. To freeze a database's clock, we replace this
function, which affects every connection at once, even open ones. A session that has set
`inturn.clock` keeps its own time. Live workers stay alive, because their heartbeats move with the
clock.
"""

from contextlib import closing
from datetime import datetime, timedelta

from psycopg.sql import SQL, Composed, Identifier

from inturn.arguments import check_moment
from inturn.database import drive
from inturn.database.connector import Connector
from inturn.operations.engine.maintenance import get_now
from inturn.sql import source_file

FROZEN = """
CREATE OR REPLACE FUNCTION {schema}.clock() RETURNS timestamptz LANGUAGE sql STABLE AS {body}
"""
BODY = (
    "SELECT coalesce(nullif(current_setting('inturn.clock', true), '')::timestamptz, "
    "{at}::timestamptz)"
)
MOVE_HEARTBEATS = """
UPDATE {schema}.workers SET heartbeat_at = heartbeat_at + %s, loop_turned_at = loop_turned_at + %s
"""
BLOCK_HEARTBEATS = "LOCK TABLE {schema}.workers IN EXCLUSIVE MODE"


class Clock:
    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self.frozen = False

    def now(self) -> datetime:
        with closing(self._connector.connect("clock")) as connection:
            return self._connector.run(get_now(), connection)

    def set(self, at: datetime) -> None:
        check_moment("at", at)
        body = SQL(BODY).format(at=at.isoformat()).as_string()
        self._replace(SQL(FROZEN).format(schema=Identifier(self._connector.schema), body=body))
        self.frozen = True

    def thaw(self) -> None:
        """Go back to the server's clock."""
        if self.frozen:
            self._replace(source_file("clock").read_bytes())
            self.frozen = False

    def _replace(self, function: Composed | bytes) -> None:
        schema = Identifier(self._connector.schema)
        with (
            drive.translate_errors(),
            closing(self._connector.connect("clock")) as connection,
            connection.transaction(),
        ):
            connection.execute(SQL("SET LOCAL search_path = {}, pg_temp").format(schema))
            connection.execute(SQL(BLOCK_HEARTBEATS).format(schema=schema))
            before = self._connector.run(get_now(), connection)
            connection.execute(function)
            moved: timedelta = self._connector.run(get_now(), connection) - before
            connection.execute(SQL(MOVE_HEARTBEATS).format(schema=schema), [moved, moved])
