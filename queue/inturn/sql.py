"""Finds the SQL that ships with inturn, and names the schema in statements.

In a wheel `sql/` and `migrations/` lie beside this file, in a checkout two folders up.
"""

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import LiteralString

from psycopg.sql import SQL, Identifier

SCHEMA = "inturn"


@cache
def shipped(folder: str) -> Path:
    here = Path(__file__).resolve().parent
    for root in (here, here.parent.parent):
        if (root / folder).is_dir():
            return root / folder
    raise FileNotFoundError(f"inturn was installed without its folder {folder!r}; install it again")


def code() -> Iterator[str]:
    """The text of every function, then of every view (which may call functions)."""
    for folder in ("functions", "views"):
        for file in sorted((shipped("sql") / folder).glob("*.sql")):
            yield file.read_text(encoding="utf-8")


@cache
def checksum() -> str:
    return sha256("\0".join(code()).encode()).hexdigest()


@cache
def revision() -> str:
    """The newest revision of the tables: revisions are numbered, the highest number is the head."""
    return max(file.name[:4] for file in (shipped("migrations") / "versions").glob("[0-9]*.up.sql"))


@cache
def named(text: LiteralString, schema: str) -> bytes:
    """The statement with its `{schema}` filled in, quoted as an identifier. As bytes, and once: a driver composes anew in
    each call what it is given as a composition."""
    return SQL(text).format(schema=Identifier(schema)).as_bytes(None)


def script(schema: str = SCHEMA) -> str:
    """What creates everything in a database that has none of it."""
    revisions = sorted((shipped("migrations") / "versions").glob("[0-9]*.up.sql"))
    applied = SQL("INSERT INTO schema_version VALUES ({});\nINSERT INTO applied_code VALUES ({}, now());")
    name = Identifier(schema).as_string()
    return "\n".join(
        [
            f"CREATE SCHEMA IF NOT EXISTS {name};",
            f"SET search_path = {name}, pg_temp;",
            "SET check_function_bodies = off;  -- they call each other, and stand in no order",
            *(file.read_text(encoding="utf-8") for file in revisions),
            *code(),
            "CREATE TABLE schema_version (version_num varchar(32) CONSTRAINT schema_version_pkc PRIMARY KEY);",
            applied.format(revision(), checksum()).as_string(),
            "RESET search_path;",
            "RESET check_function_bodies;",
            "",
        ]
    )
