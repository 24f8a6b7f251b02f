"""Find the address of the database, and explain what is wrong with one."""

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from inturn.errors import ConfigurationError
from inturn.sql import SCHEMA

# Each of these names a database, as an option (`host=…`) or as a variable (PGHOST).
NAMING = ("host", "database", "service", "user")

FORM = "is not a PostgreSQL address. Write postgresql://user@host:5432/database"
SPECIAL = (
    "is not a PostgreSQL address: its host or port is invalid. If the password contains / @ : or "
    "%, write these as %2F %40 %3A or %25"
)


def find_dsn(
    given: str | None = None,
    environment: Mapping[str, str] = os.environ,
    options: Iterable[str] = (),
) -> str:
    """Return the given DSN, else INTURN_DSN, else DATABASE_URL.

    Return an empty DSN if the options or PG variables tell libpq where the database is.
    """
    sources = [
        ("the DSN", given),
        *((name, environment.get(name)) for name in ("INTURN_DSN", "DATABASE_URL")),
    ]
    for source, dsn in sources:
        if dsn:
            # SQLAlchemy's URLs also name its driver, and programs share DATABASE_URL with it.
            plain = re.sub(r"^(postgres(?:ql)?)\+\w+://", r"\1://", dsn)
            if (wrong := find_problem(plain)) is not None:
                raise ConfigurationError(f"{source} {wrong}")
            return plain
    variables = {name for name in NAMING if environment.get(f"PG{name.upper()}")}
    if variables or not {"dbname", *NAMING}.isdisjoint(options):
        return ""
    raise ConfigurationError(
        "No database is configured. Pass a DSN, or set INTURN_DSN=postgresql://user@host/database. "
        "To try inturn without your own database, run `queue dev` and export the line that it "
        "prints."
    )


def find_problem(dsn: str) -> str | None:
    """Return what is wrong with the address, without repeating it: it may contain a password.

    libpq's own message repeats the part that it does not understand, so it is not shown.
    """
    try:
        parts: dict[str, Any] = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return FORM
    ports = str(parts.get("port") or "").split(",")
    hosts = str(parts.get("host") or "").split(",")
    # A host that begins with @ is an abstract socket.
    if any(port and not port.isdigit() for port in ports) or any("@" in host[1:] for host in hosts):
        return SPECIAL
    return None


def refuse_search_path(dsn: str, schema: str) -> None:
    """Raise if the address sets a search_path, which does not select the queue's schema.

    Tenants separated this way would share one queue.
    """
    if schema == SCHEMA and "search_path" in str(conninfo_to_dict(dsn).get("options") or ""):
        raise ConfigurationError(
            "The address sets search_path, which inturn does not use to find its tables. Give the "
            "connector schema='…' instead, or remove it"
        )
