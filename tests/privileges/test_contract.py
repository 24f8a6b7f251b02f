"""Producers in other languages can rely on the contract of docs/sql.md, whichever way they call."""

import copy
import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest

from inturn import App, sql
from tests.privileges import callers
from tests.privileges.callers import Caller, Refusal
from tests.privileges.conftest import Log, Session
from tests.privileges.contract import (
    CALLS,
    checksum,
    find_breaks,
    parse,
    read_recorded,
    read_signatures,
)
from tests.roles import LOGINS, as_login

PAGE = (Path(__file__).parents[2] / "docs" / "sql.md").read_text(encoding="utf-8")
CASES = json.loads(CALLS.read_text(encoding="utf-8"))["cases"]
# Never change the line of a released version. Record another one.
RECORDED = {"1.0": "a469a3f67b90"}
STORED = """
SELECT coalesce(to_jsonb(jobs), '{}') || to_jsonb(all_jobs)
FROM inturn.all_jobs LEFT JOIN inturn.jobs USING (id) ORDER BY id
"""
REMEDY = (
    "the signatures are not those of the newest version in sql/contract. Record them as the next "
    "version: `python -m tests.privileges.contract X.Y`, in a new revision of the tables"
)


@pytest.fixture(scope="session")
def node_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return callers.install_pg(tmp_path_factory.mktemp("node"))


@pytest.fixture(
    params=[
        "psycopg",
        "trigger",
        pytest.param("psql", marks=pytest.mark.landing),
        pytest.param("node", marks=pytest.mark.landing),
    ]
)
def caller(request: pytest.FixtureRequest, granted: str) -> Iterator[Caller]:
    """A program that logs in as a producer."""
    dsn = as_login(granted, LOGINS["producer"])
    ways: dict[str, Callable[[], AbstractContextManager[Caller]]] = {
        "psycopg": lambda: callers.psycopg_caller(dsn),
        "trigger": lambda: callers.trigger_caller(dsn),
        "psql": lambda: callers.psql_caller(dsn),
        "node": lambda: callers.node_caller(dsn, request.getfixturevalue("node_folder")),
    }
    with ways[request.param]() as caller:
        yield caller


class Names:
    """What the texts with a `$` stand for."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def fill(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.fill(each) for each in value]
        return self.values[value] if self._is_name(value) else value

    def fit(self, expected: Any, got: Any) -> bool:
        """Return True if a value is the expected one. A name without a value takes it."""
        if isinstance(expected, list) and isinstance(got, list):
            return len(expected) == len(got) and all(map(self.fit, expected, got))
        if self._is_name(expected):
            return got is not None and self.values.setdefault(expected, got) == got
        return bool(expected == got)

    @staticmethod
    def _is_name(value: object) -> bool:
        return isinstance(value, str) and value.startswith("$")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_call_does_what_the_contract_says(
    case: dict[str, Any], caller: Caller, admin: Session
) -> None:
    names = Names()
    for call in case["calls"]:
        given = {name: names.fill(value) for name, value in call["arguments"].items()}
        got = caller(call["function"], given)
        if "error" in call:
            assert isinstance(got, Refusal), call
            assert got.sqlstate == call["error"], (call, got)
            assert call["says"] in got.message
        else:
            expected = call["returns"]
            rows = expected if isinstance(expected, list) else [[expected]]
            assert names.fit(rows, got), (call, got, names.values)
    admin.execute("SET timezone = 'UTC'")
    stored = [job for (job,) in admin.execute(STORED)]
    assert len(stored) == len(case["jobs"])
    for expected, job in zip(case["jobs"], stored, strict=True):
        wrong = {key: job[key] for key in expected if not names.fit(expected[key], job[key])}
        assert wrong == {}


@pytest.mark.landing
@pytest.mark.fresh_database
def test_the_program_for_node_defers_what_a_worker_then_runs(dsn: str, node_folder: Path) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE orders (id serial, state text)")
    [program] = re.findall(r"^```javascript\n(// orders\.mjs\n.*?)^```", PAGE, re.M | re.S)
    (node_folder / "orders.mjs").write_text(program, encoding="utf-8")
    assert callers.run_node(dsn, node_folder, "orders.mjs") == "order 1 is job 1\n"
    printed: list[int] = []
    with App(dsn).open() as app:
        app.task(name="shop.print_order")(lambda order_id: printed.append(order_id))
        app.run_worker(wait=False, install_signal_handlers=False)
    assert printed == [1]


def test_every_argument_of_every_function_is_called() -> None:
    called: dict[str, set[str]] = {}
    for case in CASES:
        for call in case["calls"]:
            called.setdefault(call["function"], set()).update(call["arguments"])
    newest = list(read_recorded().values())[-1]
    missing = {
        name: set(callers.types_of(name)) - called.get(name, set()) for name in newest["functions"]
    }
    assert {name: arguments for name, arguments in missing.items() if arguments} == {}


def signatures_of(connection: psycopg.Connection[Any]) -> str:
    return checksum(read_signatures(connection))


def test_the_database_keeps_the_newest_version_of_the_contract(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        assert signatures_of(connection) == list(RECORDED.values())[-1], REMEDY


def test_a_recorded_version_stays_as_it_is() -> None:
    assert {name: checksum(each) for name, each in read_recorded().items()} == RECORDED


def test_each_version_has_a_revision_of_its_own_and_says_whether_it_breaks() -> None:
    recorded = list(read_recorded().items())
    for (before, old), (after, new) in pairwise(recorded):
        is_breaking = parse(after)[0] > parse(before)[0]
        assert is_breaking == bool(list(find_breaks(old, new))), after
        assert new["revision"] > old["revision"], after
    assert recorded[-1][1]["revision"] <= sql.revision()


def test_a_producer_reads_the_version_as_the_page_says(log_in: Log) -> None:
    rows = re.findall(r"^\| (\d+\.\d+) \| `(\d{4})` \|", PAGE, re.MULTILINE)
    assert rows == [(name, each["revision"]) for name, each in read_recorded().items()]
    [statement] = re.findall(r"`(SELECT version_num .*?);?`", PAGE)
    assert log_in("producer").execute(statement.encode()).fetchall() == [(sql.revision(),)]


CHANGES = [
    "CREATE OR REPLACE FUNCTION close_batch(p_id bigint, p_by text DEFAULT 'ann') RETURNS boolean "
    "LANGUAGE sql AS 'SELECT true'",
    "CREATE FUNCTION close_batch(p_id text) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
    "ALTER FUNCTION open_batch RENAME TO start_batch",
    "ALTER TYPE parent_policy RENAME VALUE 'go' TO 'run'",
    "ALTER VIEW batch_status RENAME COLUMN failed TO broken",
]


@pytest.mark.fresh_database
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_a_signature_needs_a_version(dsn: str, change: str) -> None:
    with psycopg.connect(dsn, options="-c search_path=inturn") as connection:
        connection.execute("SET check_function_bodies = off")
        before = read_signatures(connection)
        connection.execute(change.encode())
        after = read_signatures(connection)
        assert checksum(after) not in RECORDED.values()
        assert list(find_breaks(before, after))
        connection.rollback()


def test_an_optional_argument_at_the_end_breaks_nobody_but_needs_a_version() -> None:
    old = list(read_recorded().values())[-1]
    new = copy.deepcopy(old)
    new["functions"]["defer"]["arguments"].append("colour text DEFAULT NULL::text")
    new["columns"]["batch_status"]["colour"] = "text"
    new["types"]["inturn.job_status"].append("asleep")
    assert list(find_breaks(old, new)) == []
    assert checksum(new) != checksum(old)
    new["functions"]["defer"]["arguments"].append("shape text")
    assert list(find_breaks(old, new)) == ["defer: a new argument has no default"]
