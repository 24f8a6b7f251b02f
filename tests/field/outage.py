"""A database that is away for a while: its sessions are ended and it takes no new ones."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import SQL, Identifier

END_SESSIONS = (
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s "
    "AND pid <> pg_backend_pid()"
)


@contextmanager
def outage(dsn: str) -> Iterator[None]:
    """Also for superusers. `dsn` names the database. The server goes on."""
    name = str(conninfo_to_dict(dsn)["dbname"])
    with psycopg.connect(make_conninfo(dsn, dbname="postgres"), autocommit=True) as connection:
        connection.execute(
            SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(Identifier(name))
        )
        try:
            connection.execute(END_SESSIONS, [name])
            yield
        finally:
            connection.execute(
                SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(Identifier(name))
            )
