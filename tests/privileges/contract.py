"""The contract for producers in other languages, as sql/contract records it and a database keeps it.

`python -m tests.privileges.contract 1.1` records the signatures of this checkout as version 1.1.
"""

import json
import sys
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import psycopg

from inturn import sql
from inturn.embedded import Server
from inturn.schema.migrate import migrate

FOLDER = sql.find_folder("sql") / "contract"
CALLS = FOLDER / "calls.json"
TWICE = "{} once more"

# What the role producer may call and read. Names of types are qualified unless they are PostgreSQL's.
FUNCTIONS = """
SELECT name,
    ARRAY(SELECT concat(proargnames[place], ' ', format_type(type, NULL),
              ' DEFAULT ' || pg_get_function_arg_default(pg_proc.oid, place::integer))
          FROM unnest(proargtypes::oid[]) WITH ORDINALITY AS argument (type, place)
          ORDER BY place),
    CASE WHEN proallargtypes IS NULL THEN to_jsonb(pg_get_function_result(pg_proc.oid))
         ELSE (SELECT jsonb_agg(concat(argument, ' ', format_type(type, NULL)) ORDER BY place)
               FROM unnest(proallargtypes, proargnames, proargmodes)
                   WITH ORDINALITY AS result (type, argument, mode, place)
               WHERE mode IN ('o', 't')) END
FROM inturn.surface
JOIN pg_proc ON proname = name AND pronamespace = 'inturn'::regnamespace
WHERE kind = 'function' AND 'producer' = ANY (roles)
ORDER BY name, pg_proc.oid
"""
COLUMNS = """
SELECT name, attname, format_type(atttypid, NULL)
FROM inturn.surface
JOIN pg_attribute ON attrelid = to_regclass('inturn.' || name) AND attnum > 0 AND NOT attisdropped
WHERE kind = 'table' AND 'producer' = ANY (roles)
  AND (columns IS NULL OR attname = ANY (string_to_array(columns, ', ')))
ORDER BY name, attnum
"""
LABELS = """
SELECT format_type(pg_type.oid, NULL), array_agg(enumlabel ORDER BY enumsortorder)
FROM pg_type JOIN pg_enum ON enumtypid = pg_type.oid
WHERE typnamespace = 'inturn'::regnamespace
GROUP BY pg_type.oid ORDER BY 1
"""


def read_signatures(connection: psycopg.Connection[Any]) -> dict[str, Any]:
    """Return the functions, columns and enumerated types that a producer can use."""
    functions: dict[str, Any] = {}
    for name, arguments, returns in connection.execute(FUNCTIONS.encode()).fetchall():
        # A second function of a name makes calls ambiguous, so it is shown and not overwritten.
        key = TWICE.format(name) if name in functions else name
        functions[key] = {"arguments": arguments, "returns": returns}
    columns: dict[str, dict[str, str]] = {}
    for table, column, kind in connection.execute(COLUMNS.encode()).fetchall():
        columns.setdefault(table, {})[column] = kind
    used = json.dumps([functions, columns])
    types = dict(connection.execute(LABELS.encode()).fetchall())
    return {
        "functions": functions,
        "columns": columns,
        "types": {name: labels for name, labels in types.items() if name in used},
    }


def read_recorded() -> dict[str, dict[str, Any]]:
    """Return each recorded version of the contract, the oldest first."""
    files = [file for file in FOLDER.glob("*.json") if file != CALLS]
    recorded = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}
    return dict(sorted(recorded.items(), key=lambda each: parse(each[0])))


def parse(version: str) -> tuple[int, int]:
    major, minor = version.split(".")
    return int(major), int(minor)


def find_breaks(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    """Yield each change with which a program that was written for the old signatures can fail."""
    for name, function in old["functions"].items():
        yield from _find_breaks_of_calls(name, function, new["functions"].get(name))
        if TWICE.format(name) in new["functions"]:
            yield f"{name}: two functions of this name"
    for table, columns in old["columns"].items():
        if not columns.items() <= new["columns"].get(table, {}).items():
            yield f"{table}: a column has gone or changed"
    for name, labels in old["types"].items():
        if not set(labels) <= set(new["types"].get(name, ())):
            yield f"{name}: a label has gone"


def _find_breaks_of_calls(
    name: str, old: dict[str, Any], new: dict[str, Any] | None
) -> Iterator[str]:
    if new is None:
        yield f"{name}: has gone"
        return
    count = len(old["arguments"])
    if new["arguments"][:count] != old["arguments"]:
        yield f"{name}: an argument has gone or changed"
    if new["returns"] != old["returns"]:
        yield f"{name}: returns something else"
    if any(" DEFAULT " not in each for each in new["arguments"][count:]):
        yield f"{name}: a new argument has no default"


def checksum(signatures: dict[str, Any]) -> str:
    parts = {part: signatures[part] for part in ("functions", "columns", "types")}
    return sha256(json.dumps(parts).encode()).hexdigest()[:12]


def main(version: str) -> None:
    with Server() as server:
        migrate(server.dsn())
        with psycopg.connect(server.dsn()) as connection:
            signatures = read_signatures(connection)
    recorded = {"version": version, "revision": sql.revision(), **signatures}
    (FOLDER / f"{version}.json").write_text(json.dumps(recorded, indent=2) + "\n", "utf-8")
    print(f"recorded version {version}, checksum {checksum(signatures)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
