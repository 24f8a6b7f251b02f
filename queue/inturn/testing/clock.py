"""The engine's clock, in the hands of a test.

All of the engine asks one SQL function what time it is. To freeze the clock of a database is to put another function in
its place, so it holds for every connection at once, those that were open before included. A session that has set
`inturn.clock` keeps its own. Live workers do not die of it: their heartbeats are moved along.
"""

from contextlib import closing
from datetime import datetime, timedelta

from psycopg.sql import SQL, Composed, Identifier

from inturn.arguments import check_moment
from inturn.database import drive
from inturn.database.connector import Connector
from inturn.operations.views import now
from inturn.sql import shipped

FROZEN = """
CREATE OR REPLACE FUNCTION {schema}.clock() RETURNS timestamptz LANGUAGE sql STABLE AS {body}
"""
BODY = "SELECT coalesce(nullif(current_setting('inturn.clock', true), '')::timestamptz, {at}::timestamptz)"
TAKE_ALONG = "UPDATE {schema}.workers SET heartbeat_at = heartbeat_at + %s, loop_turned_at = loop_turned_at + %s"
NOBODY_BEATS = "LOCK TABLE {schema}.workers IN EXCLUSIVE MODE"


class Clock:
    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self.frozen = False

    def now(self) -> datetime:
        with closing(self._connector.connect("clock")) as connection:
            return drive.run(now(), connection, self._connector.schema)

    def set(self, at: datetime) -> None:
        check_moment("at", at)
        body = SQL(BODY).format(at=at.isoformat()).as_string()
        self._replace(SQL(FROZEN).format(schema=Identifier(self._connector.schema), body=body))
        self.frozen = True

    def thaw(self) -> None:
        """The server's clock again."""
        if self.frozen:
            self._replace((shipped("sql") / "functions" / "clock.sql").read_bytes())
            self.frozen = False

    def _replace(self, function: Composed | bytes) -> None:
        schema = Identifier(self._connector.schema)
        with (
            drive.translate_errors(),
            closing(self._connector.connect("clock")) as connection,
            connection.transaction(),
        ):
            connection.execute(SQL("SET LOCAL search_path = {}, pg_temp").format(schema))
            connection.execute(SQL(NOBODY_BEATS).format(schema=schema))
            before = drive.run(now(), connection, self._connector.schema)
            connection.execute(function)
            moved: timedelta = drive.run(now(), connection, self._connector.schema) - before
            connection.execute(SQL(TAKE_ALONG).format(schema=schema), [moved, moved])
