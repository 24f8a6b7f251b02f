"""The roles of docs/security.md on the server of the tests: the groups, and a login for each."""

from typing import LiteralString

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

from inturn.schema.migrate import grant
from inturn.sql import KINDS, OWNER, SCHEMA

PREFIX = "inturn_test"  # the server may be one that has an inturn of its own
LOGINS = {kind: f"{PREFIX}_{kind}_login" for kind in (OWNER, *KINDS)}
APP = f"{PREFIX}_app_login"  # an app that defers, works and is operated by one login


def grant_roles(dsn: str, schema: str = SCHEMA) -> None:
    """As `queue schema grants --apply`, with the logins as members."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for login in (APP, *LOGINS.values()):
            create_role(connection, login, "LOGIN")
    members = {kind: [login] for kind, login in LOGINS.items()}
    for kind in ("producer", "worker", "operator"):
        members[kind].append(APP)
    grant(dsn, schema, PREFIX, members)


def create_role(connection: psycopg.Connection, name: str, options: LiteralString) -> None:
    """Create a role unless it exists. Roles belong to the server and outlive a database."""
    roles = connection.execute(
        "SELECT count(*) FROM pg_roles WHERE rolname = %s", [name]
    ).fetchone()
    if roles == (0,):
        connection.execute(SQL("CREATE ROLE {} {}").format(Identifier(name), SQL(options)))


def as_login(dsn: str, login: str) -> str:
    return make_conninfo(dsn, user=login)
