"""Find the SQL that ships with inturn, and fill in the names of the schema and its roles.

In a wheel, `sql/` and `migrations/` are beside this file. In a checkout they are two folders up.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from graphlib import TopologicalSorter
from hashlib import sha256
from pathlib import Path
from typing import LiteralString

from psycopg.sql import SQL, Identifier, Literal

SCHEMA = "inturn"
OWNER = "owner"
KINDS = ("producer", "worker", "operator", "monitor")


@cache
def find_folder(folder: str) -> Path:
    """Return the path of `sql` or `migrations`."""
    here = Path(__file__).resolve().parent
    for root in (here, here.parent.parent):
        if (root / folder).is_dir():
            return root / folder
    raise FileNotFoundError(f"inturn was installed without its folder {folder!r}. Reinstall it")


def source_file(name: str) -> Path:
    """Return the file of a function, public (`api`) or not (`internal`), or of a view."""
    for folder in ("functions", "views"):
        for file in (find_folder("sql") / folder).rglob(f"{name}.sql"):
            return file
    raise FileNotFoundError(f"no SQL function or view is named {name!r}")


def code() -> Iterator[str]:
    """Yield the text of each function and view, then of the scripts that set plans and access.

    What a view calls or reads comes before it, and it comes before functions that return its rows.
    """
    root = find_folder("sql")
    folders = (root / "functions", root / "views")
    texts = {file.stem: _read(file) for each in folders for file in sorted(each.rglob("*.sql"))}
    needs = {name: sorted(_find_needs(texts[name]) & texts.keys() - {name}) for name in texts}
    yield from map(texts.__getitem__, TopologicalSorter(needs).static_order())
    for name in ("planner", "privileges/surface", "privileges/grant_to", "privileges/close"):
        yield _read(root / f"{name}.sql")


def _find_needs(text: str) -> set[str]:
    """Return words that may name what must exist first: functions find the rest when they run."""
    code = re.sub("--.*", "", text).partition("COMMENT ON")[0]
    is_view = code.lstrip().startswith("CREATE OR REPLACE VIEW")
    return set(re.findall(r"\w+" if is_view else r"SETOF (\w+)", code))


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


# A block of comment lines, and what is created below it.
_DESCRIBED = re.compile(
    r"((?:^--.*\n)+)CREATE (?:OR REPLACE )?(FUNCTION|TABLE) (\w+)", re.MULTILINE
)
_NAMES_ITSELF = re.compile(r"^[a-z_]+: ")
_SENTENCE = re.compile(r".*?[.](?= (?:[A-Z]|p_)|$)|.*")
# Functions by their arguments: you may have one with the same name as ours.
DESCRIBE = """
DO $describe$
DECLARE
    v_statement text;
BEGIN
    FOR v_statement IN
        SELECT format('COMMENT ON TABLE %s IS %L', pg_class.oid::regclass, told.sentence)
        FROM unnest({}::text[], {}::text[]) AS told(name, sentence)
        JOIN pg_class ON relname = told.name
        WHERE relnamespace = quote_ident(current_schema())::regnamespace
        UNION ALL
        SELECT format('COMMENT ON FUNCTION %s IS %L', pg_proc.oid::regprocedure, told.sentence)
        FROM unnest({}::text[], {}::text[]) AS told(name, sentence)
        JOIN pg_proc ON proname = told.name AND pg_has_role(proowner, 'USAGE')
        WHERE pronamespace = quote_ident(current_schema())::regnamespace
    LOOP
        EXECUTE v_statement;
    END LOOP;
END $describe$;
"""
# Alembic creates it.
_OTHER_TABLES = {"schema_version": "The revision of the tables."}


@cache
def find_comments(kind: str) -> Mapping[str, str]:
    """Return the description of each TABLE, or of each FUNCTION of the api.

    It is the first sentence above it in our own files, so it is written only once. Each table must
    have one: the move of a cell copies the tables that are listed here.
    """
    if kind == "TABLE":
        files = sorted((find_folder("migrations") / "versions").glob("[0-9]*.up.sql"))
    else:
        files = sorted((find_folder("sql") / "functions" / "api").glob("*.sql"))
    found = dict(_OTHER_TABLES) if kind == "TABLE" else {}
    for file in files:
        for block, what, name in _DESCRIBED.findall(file.read_text(encoding="utf-8")):
            if what == kind:
                found[name] = _first_sentence(block)
    return found


def _first_sentence(block: str) -> str:
    paragraph = block.replace("\r", "").split("\n--\n")[0]
    text = " ".join(line.removeprefix("--").strip() for line in paragraph.splitlines())
    sentence = _SENTENCE.match(_NAMES_ITSELF.sub("", text))
    assert sentence is not None
    return sentence[0][:1].upper() + sentence[0][1:]


def comments() -> str:
    """Return the SQL that stores these descriptions as comments, for psql and other clients."""
    told = [find_comments(kind) for kind in ("TABLE", "FUNCTION")]
    columns = [Literal(column) for each in told for column in (list(each), list(each.values()))]
    return SQL(DESCRIBE).format(*columns).as_string()


@cache
def checksum() -> str:
    """Return the checksum of all scripts of `code`."""
    digest = sha256()
    for script in read_scripts():
        digest.update(script + b"\0")
    return digest.hexdigest()


def read_scripts() -> Iterator[bytes]:
    """Yield the scripts of `code`, sorted by their paths.

    Each worker reads all of them before its first job, so this makes as few calls as possible.
    """
    root = str(find_folder("sql"))
    files = [f"{root}/planner.sql"]
    for part in ("functions", "privileges", "views"):
        for folder, _, names in os.walk(f"{root}/{part}"):
            files += [f"{folder}/{name}" for name in names if name.endswith(".sql")]
    for file in sorted(files):
        with open(file, "rb", buffering=0) as script:
            yield script.read().replace(b"\r\n", b"\n")


@cache
def served() -> tuple[str, ...]:
    """Return the checksums of this version and of the earlier ones that its functions serve."""
    lines = (find_folder("sql") / "serves.txt").read_text(encoding="utf-8").splitlines()
    return (checksum(), *(line.split()[1] for line in lines if line and not line.startswith("#")))


@cache
def revision() -> str:
    """Return the newest revision of the tables, which is the highest number."""
    folder = find_folder("migrations") / "versions"
    return max(name[:4] for name in os.listdir(folder) if name.endswith(".up.sql"))


@cache
def fill_schema(text: LiteralString, schema: str) -> bytes:
    """Return a statement with its `{schema}` filled in and quoted.

    The result is cached bytes: a driver would render a `Composed` again in each call.
    """
    return SQL(text).format(schema=Identifier(schema)).as_bytes(None)


def grants(
    schema: str = SCHEMA,
    prefix: str | None = None,
    members: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Return the SQL that creates the roles and grants their privileges.

    A role's name is `prefix` with `_owner`, `_worker` and so on, by default as in the last run, or
    the schema's name. `members` maps OWNER and the KINDS to logins that become members of the role.
    """
    pairs = [(kind, member) for kind, each in (members or {}).items() for member in each]
    text = (find_folder("sql") / "grants.sql").read_text(encoding="utf-8")
    filled = SQL(text).format(
        schema=Literal(schema),
        prefix=Literal(prefix),
        kinds=Literal(list(KINDS)),
        groups=Literal([group for group, _ in pairs]),
        members=Literal([member for _, member in pairs]),
    )
    return filled.as_string()


def script(schema: str = SCHEMA) -> str:
    """Return the SQL that creates everything in a database without a queue."""
    revisions = sorted((find_folder("migrations") / "versions").glob("[0-9]*.up.sql"))
    applied = SQL(
        "INSERT INTO schema_version VALUES ({});\n"
        "INSERT INTO applied_code SELECT unnest({}::text[]), now();"
    )
    name = Identifier(schema).as_string()
    return "\n".join(
        [
            f"CREATE SCHEMA IF NOT EXISTS {name};",
            f"SET search_path = {name}, pg_temp;",
            "SET check_function_bodies = off;  -- functions call each other and have no order",
            *(file.read_text(encoding="utf-8") for file in revisions),
            "CREATE TABLE schema_version "
            "(version_num varchar(32) CONSTRAINT schema_version_pkc PRIMARY KEY);",
            *code(),
            comments(),
            applied.format(revision(), list(served())).as_string(),
            "RESET search_path;",
            "RESET check_function_bodies;",
            "",
        ]
    )
