"""Programs that call the SQL functions as other languages do: psql, Node, a trigger, and psycopg.

Each takes the name of a function and its arguments as JSON has them, and returns the rows that it
got, or the error.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import Jsonb

from inturn.embedded.binaries import find_binaries
from tests.privileges.contract import read_recorded

ROOT = Path(__file__).parents[2]
VARIABLES = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE"}
NULL = "\\N"


@dataclass(frozen=True)
class Refusal:
    sqlstate: str
    message: str


Rows = list[list[Any]]
Caller = Callable[[str, Mapping[str, Any]], Rows | Refusal]


def columns_of(function: str) -> list[str]:
    """Return the arguments of a function as the contract has them: name, type and default."""
    arguments: list[str] = list(read_recorded().values())[-1]["functions"][function]["arguments"]
    return arguments


def types_of(function: str) -> dict[str, str]:
    pairs = (each.partition(" DEFAULT ")[0].split(" ", 1) for each in columns_of(function))
    return dict(pairs)


def connect_by_environment(dsn: str) -> dict[str, str]:
    """Return the environment with which libpq's programs and `pg` reach the database."""
    found = conninfo_to_dict(dsn)
    given = {variable: str(found[key]) for key, variable in VARIABLES.items() if key in found}
    return os.environ | given


@contextmanager
def psycopg_caller(dsn: str) -> Iterator[Caller]:
    with psycopg.connect(dsn, autocommit=True) as connection:

        def call(function: str, arguments: Mapping[str, Any]) -> Rows | Refusal:
            types = types_of(function)
            given = ", ".join(f"{name} => %s::{types[name]}" for name in arguments)
            values = [_adapt(value, types[name]) for name, value in arguments.items()]
            return _ask(connection, f"SELECT * FROM inturn.{function}({given})", values)

        yield call


def _adapt(value: Any, kind: str) -> Any:
    if kind == "jsonb[]" and value is not None:
        return [_adapt(each, "jsonb") for each in value]
    return Jsonb(value) if kind == "jsonb" and value is not None else value


def _ask(connection: psycopg.Connection[Any], statement: str, values: list[Any]) -> Rows | Refusal:
    try:
        return [list(row) for row in connection.execute(statement.encode(), values).fetchall()]
    except psycopg.Error as error:
        return Refusal(error.sqlstate or "", error.diag.message_primary or "")


@contextmanager
def trigger_caller(dsn: str) -> Iterator[Caller]:
    """Insert a row whose columns are the arguments, with their defaults. Its trigger calls."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TEMPORARY TABLE heard (result json)")

        def call(function: str, arguments: Mapping[str, Any]) -> Rows | Refusal:
            _create_trigger(connection, function)
            types = types_of(function)
            names, places = ", ".join(arguments), ", ".join(f"%s::{types[n]}" for n in arguments)
            row = f"({names}) VALUES ({places})" if arguments else "DEFAULT VALUES"
            values = [_adapt(value, types[name]) for name, value in arguments.items()]
            refusal = _ask(connection, f"INSERT INTO calls_{function} {row} RETURNING 1", values)
            heard = connection.execute("DELETE FROM heard RETURNING result").fetchall()
            rows = [list(each.values() if isinstance(each, dict) else [each]) for (each,) in heard]
            return refusal if isinstance(refusal, Refusal) else rows

        yield call


def _create_trigger(connection: psycopg.Connection[Any], function: str) -> None:
    columns = columns_of(function) or ["nothing text"]
    passed = ", ".join(f"{name} => NEW.{name}" for name in types_of(function))
    connection.execute(
        f"""
        CREATE TEMPORARY TABLE IF NOT EXISTS calls_{function} ({", ".join(columns)});
        CREATE OR REPLACE FUNCTION pg_temp.call_{function}() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO heard SELECT to_json(answer) FROM inturn.{function}({passed}) AS answer;
            RETURN NULL;
        END $$;
        CREATE OR REPLACE TRIGGER call AFTER INSERT ON calls_{function}
            FOR EACH ROW EXECUTE FUNCTION pg_temp.call_{function}();
        """.encode()
    )


@contextmanager
def psql_caller(dsn: str) -> Iterator[Caller]:
    program = [
        str(find_binaries() / "psql"),
        "-XqAt",
        "-v",
        "VERBOSITY=verbose",
        "-P",
        f"null={NULL}",
    ]

    def call(function: str, arguments: Mapping[str, Any]) -> Rows | Refusal:
        types = types_of(function)
        variables = [
            f"--set={name}={_as_text(value, types[name])}"
            for name, value in arguments.items()
            if value is not None
        ]
        places = {name: "NULL" if arguments[name] is None else f":'{name}'" for name in arguments}
        given = ", ".join(f"{name} => {places[name]}::{types[name]}" for name in arguments)
        done = subprocess.run(
            [*program, *variables],
            input=f"SELECT * FROM inturn.{function}({given});",
            env=connect_by_environment(dsn),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.stderr:
            _, sqlstate, message = done.stderr.splitlines()[0].split(": ", 2)
            return Refusal(sqlstate.strip(), message)
        return [[_read(text) for text in line.split("|")] for line in done.stdout.splitlines()]

    yield call


def _as_text(value: Any, kind: str) -> str:
    """Return a value as PostgreSQL reads it."""
    if kind.endswith("[]"):
        texts = ("NULL" if each is None else _as_text(each, kind[:-2]) for each in value)
        return "{" + ",".join(each if each == "NULL" else json.dumps(each) for each in texts) + "}"
    return json.dumps(value) if kind == "jsonb" or isinstance(value, bool) else str(value)


def _read(text: str) -> Any:
    known = {NULL: None, "t": True, "f": False}
    return known[text] if text in known else int(text) if text.isdecimal() else text


@contextmanager
def node_caller(dsn: str, folder: Path) -> Iterator[Caller]:
    """Keep a process of Node that reads calls and writes results, a line for each."""
    with subprocess.Popen(
        ["node", shutil.copy(Path(__file__).with_name("caller.mjs"), folder)],
        env=connect_by_environment(dsn),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def call(function: str, arguments: Mapping[str, Any]) -> Rows | Refusal:
            given = [[name, types_of(function)[name], value] for name, value in arguments.items()]
            stdin.write(json.dumps([function, given]) + "\n")
            stdin.flush()
            answer = json.loads(stdout.readline())
            if "rows" not in answer:
                return Refusal(answer["code"], answer["message"])
            # `pg` returns a bigint as text.
            return [
                [int(each) if str(each).isdecimal() else each for each in row]
                for row in answer["rows"]
            ]

        yield call
        stdin.close()
        assert process.wait(60) == 0


def run_node(dsn: str, folder: Path, script: str) -> str:
    return subprocess.run(
        ["node", script],
        cwd=folder,
        env=connect_by_environment(dsn),
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout


def install_pg(folder: Path) -> Path:
    """Install `pg` in the version of the benchmark, and return the folder."""
    program = shutil.which("npm")
    if program is None:
        pytest.fail("Node is not installed. On Debian: apt-get install nodejs npm")
    pinned = json.loads((ROOT / "bench" / "package.json").read_text(encoding="utf-8"))
    package = f"pg@{pinned['dependencies']['pg']}"
    subprocess.run(
        [program, "install", "--no-audit", "--no-fund", "--ignore-scripts", package],
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=300,
    )
    return folder
