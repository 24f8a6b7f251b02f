"""The address of the database, from wherever it is said."""

import os
from collections.abc import Iterable, Mapping

from inturn.database import conninfo
from inturn.errors import ConfigurationError

NAMING = ("host", "database", "service", "user")


def find_dsn(
    given: str | None = None,
    environment: Mapping[str, str] = os.environ,
    options: Iterable[str] = (),
) -> str:
    """The given one, else INTURN_DSN, else DATABASE_URL, else what options and PG variables say to libpq."""
    sources = [
        ("the DSN", given),
        *((name, environment.get(name)) for name in ("INTURN_DSN", "DATABASE_URL")),
    ]
    for source, dsn in sources:
        if dsn:
            return _checked(source, dsn)
    said = {name for name in NAMING if environment.get(f"PG{name.upper()}")}
    if said or not {"dbname", *NAMING}.isdisjoint(options):
        return ""
    raise ConfigurationError(
        "No database is named. Pass a DSN, or set INTURN_DSN=postgresql://user@host/database"
    )


def _checked(source: str, dsn: str) -> str:
    # SQLAlchemy's spelling of the same address.
    plain = dsn.replace("postgresql+psycopg://", "postgresql://", 1)
    wrong = conninfo.problem(plain)
    if wrong is not None:
        raise ConfigurationError(f"{source} {wrong}")
    return plain
