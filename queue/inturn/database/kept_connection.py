"""A connection for repeated looks at the database."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg

from inturn.database import drive
from inturn.database.connector import Connector
from inturn.database.session import Session

# A look that takes longer is abandoned, so that it never burdens a server in trouble.
BRIEFLY = "SET LOCAL statement_timeout = '5s'; SET TRANSACTION READ ONLY"


@dataclass(eq=False)
class KeptConnection:
    """Opens when it is first needed, and again after it was closed or lost."""

    _connector: Connector
    _role: str
    _session: Session | None = None

    @property
    def is_open(self) -> bool:
        return self._session is not None and not self._session.closed

    def get(self) -> Session:
        if self._session is None or self._session.closed:
            self._session = self._connector.connect(self._role)
        return self._session

    @contextlib.contextmanager
    def look(self) -> Iterator[Session]:
        """Open a transaction that only reads, each statement for some seconds at most."""
        connection = self.get()
        with drive.translate_errors(), connection.transaction():
            connection.execute(BRIEFLY)
            yield connection

    def close(self) -> None:
        """Close it if it is open, even if the server is gone."""
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(psycopg.Error):
                session.close()
