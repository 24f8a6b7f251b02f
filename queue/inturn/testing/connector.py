"""How an app under test reaches its database."""

from threading import Lock
from typing import TypeVar

from inturn.database import drive
from inturn.database.connector import Connector
from inturn.database.connectors import PsycopgConnector
from inturn.database.kept_connection import KeptConnection
from inturn.operations import Operation

T = TypeVar("T")


class OpenConnector(Connector):
    """A connector without `open` and not bound to an event loop, since each test has its own."""

    _role = "test"

    def __init__(self, dsn: str, like: Connector) -> None:
        super().__init__(
            dsn, schema=like.schema, json_dumps=like.json_dumps, json_loads=like.json_loads
        )
        self._using = Lock()
        self._kept = KeptConnection(self, self._role)

    def at(self, dsn: str | None = None, *, schema: str | None = None) -> PsycopgConnector:
        return PsycopgConnector(**self._settings_at(dsn, schema))

    def run(self, operation: Operation[T], connection: object = None) -> T:
        if connection is not None:
            return super().run(operation, connection)
        with self._using:
            return drive.run(operation, self._kept.get(), self.schema)

    def close_kept(self) -> None:
        with self._using:
            self._kept.close()
