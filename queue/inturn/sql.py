"""Finds the SQL that ships with inturn, and names the schema and its roles in it.

In a wheel `sql/` and `migrations/` lie beside this file, in a checkout two folders up.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import LiteralString

from psycopg.sql import SQL, Identifier, Literal

SCHEMA = "inturn"
OWNER = "owner"
KINDS = ("producer", "worker", "operator", "monitor")


@cache
def shipped(folder: str) -> Path:
    here = Path(__file__).resolve().parent
    for root in (here, here.parent.parent):
        if (root / folder).is_dir():
            return root / folder
    raise FileNotFoundError(f"inturn was installed without its folder {folder!r}; install it again")


def code() -> Iterator[str]:
    """The text of every function, of every view (which may call functions), and of what says who may use them."""
    for folder in ("functions", "views"):
        for file in sorted((shipped("sql") / folder).glob("*.sql")):
            yield file.read_text(encoding="utf-8")
    for name in ("surface", "grant_to", "close"):
        yield (shipped("sql") / "privileges" / f"{name}.sql").read_text(encoding="utf-8")


@cache
def checksum() -> str:
    return sha256("\0".join(code()).encode()).hexdigest()


@cache
def revision() -> str:
    """The newest revision of the tables: revisions are numbered, the highest number is the head."""
    return max(file.name[:4] for file in (shipped("migrations") / "versions").glob("[0-9]*.up.sql"))


@cache
def fill_schema(text: LiteralString, schema: str) -> bytes:
    """The statement with its `{schema}` filled in, quoted as an identifier. As bytes, and once: a driver composes anew in
    each call what it is given as a composition."""
    return SQL(text).format(schema=Identifier(schema)).as_bytes(None)


def grants(
    schema: str = SCHEMA,
    prefix: str | None = None,
    members: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """What gives each role its rights: `prefix` (the schema's name) + `_owner` and so on. `members` of OWNER and KINDS."""
    names = {kind: f"{prefix or schema}_{kind}" for kind in (OWNER, *KINDS)}
    pairs = [(names[kind], member) for kind, each in (members or {}).items() for member in each]
    text = (shipped("sql") / "grants.sql").read_text(encoding="utf-8")
    filled = SQL(text).format(
        schema=Literal(schema),
        owner=Literal(names[OWNER]),
        roles=Literal([names[kind] for kind in KINDS]),
        kinds=Literal(list(KINDS)),
        groups=Literal([group for group, _ in pairs]),
        members=Literal([member for _, member in pairs]),
    )
    return filled.as_string()


def script(schema: str = SCHEMA) -> str:
    """What creates everything in a database that has none of it."""
    revisions = sorted((shipped("migrations") / "versions").glob("[0-9]*.up.sql"))
    applied = SQL(
        "INSERT INTO schema_version VALUES ({});\nINSERT INTO applied_code VALUES ({}, now());"
    )
    name = Identifier(schema).as_string()
    return "\n".join(
        [
            f"CREATE SCHEMA IF NOT EXISTS {name};",
            f"SET search_path = {name}, pg_temp;",
            "SET check_function_bodies = off;  -- they call each other, and stand in no order",
            *(file.read_text(encoding="utf-8") for file in revisions),
            "CREATE TABLE schema_version (version_num varchar(32) CONSTRAINT schema_version_pkc PRIMARY KEY);",
            *code(),
            applied.format(revision(), checksum()).as_string(),
            "RESET search_path;",
            "RESET check_function_bodies;",
            "",
        ]
    )
