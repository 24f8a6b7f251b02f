"""What is wrong with the address of a PostgreSQL, in words that do not repeat it: there may be a password in it."""

from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

FORM = "is not a PostgreSQL address. Write postgresql://user@host:5432/database"
SPECIAL = (
    "is not a PostgreSQL address: its host or its port cannot be right. "
    "If the password holds one of / @ : or %, write that as %2F %40 %3A or %25"
)


def problem(dsn: str) -> str | None:
    """What the driver would say repeats the part that it does not understand, so it is not asked."""
    try:
        said: dict[str, Any] = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return FORM
    ports = str(said.get("port") or "").split(",")
    hosts = str(said.get("host") or "").split(",")
    # A host that begins with @ is an abstract socket.
    if any(port and not port.isdigit() for port in ports) or any("@" in host[1:] for host in hosts):
        return SPECIAL
    return None
