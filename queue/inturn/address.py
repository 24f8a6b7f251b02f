"""The address of the database, from wherever it is said."""

import os
from collections.abc import Iterable, Mapping

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from inturn import conninfo
from inturn.errors import ConfigurationError

NAMING = ("host", "database", "service", "user")
# A peer that vanishes without a word is noticed after about ten seconds, also by a connection that only listens.
KEEPALIVE = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 10_000}
SHORTEST_CONNECT = 2  # seconds; psycopg knows no shorter limit


def find_dsn(given: str | None = None, environment: Mapping[str, str] = os.environ, options: Iterable[str] = ()) -> str:
    """The given one, else INTURN_DSN, else DATABASE_URL, else what options and PG variables say to libpq."""
    sources = [("the DSN", given), *((name, environment.get(name)) for name in ("INTURN_DSN", "DATABASE_URL"))]
    for source, dsn in sources:
        if dsn:
            return _checked(source, dsn)
    said = {name for name in NAMING if environment.get(f"PG{name.upper()}")}
    if said or not {"dbname", *NAMING}.isdisjoint(options):
        return ""
    raise ConfigurationError("No database is named. Pass a DSN, or set INTURN_DSN=postgresql://user@host/database")


def with_deadlines(dsn: str, timeout: float, environment: Mapping[str, str] = os.environ) -> str:
    """The address with limits for connecting and for silence below TCP. What the address says itself wins."""
    said = conninfo_to_dict(dsn)
    if "service" in said or environment.get("PGSERVICE"):
        return dsn  # its file may say these, and what stands in the address would win over it
    limits = {"connect_timeout": max(SHORTEST_CONNECT, round(timeout)), **KEEPALIVE}
    if environment.get("PGCONNECT_TIMEOUT"):
        del limits["connect_timeout"]
    return make_conninfo(dsn, **{name: value for name, value in limits.items() if name not in said})


def _checked(source: str, dsn: str) -> str:
    # SQLAlchemy's spelling of the same address.
    plain = dsn.replace("postgresql+psycopg://", "postgresql://", 1)
    wrong = conninfo.problem(plain)
    if wrong is not None:
        raise ConfigurationError(f"{source} {wrong}")
    return plain
