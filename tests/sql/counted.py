"""How much work calls of the engine do: rows and pages, which repeat on any machine.

auto_explain tells the plan of each statement in each function, with what every node has met.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, LiteralString

import psycopg
from psycopg.errors import Diagnostic

from inturn.testing import Databases

REPORT: LiteralString = """
LOAD 'auto_explain';
SET auto_explain.log_min_duration = 0;
SET auto_explain.log_analyze = on;
SET auto_explain.log_buffers = on;
SET auto_explain.log_timing = off;
SET auto_explain.log_nested_statements = on;
SET auto_explain.log_format = json;
SET auto_explain.log_level = notice;
SET client_min_messages = notice;
"""


@dataclass
class Work:
    """What the statements of one call have done, with those of the functions that it calls."""

    plans: list[dict[str, Any]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """All rows that a node of a plan has handed on or thrown away."""
        return round(sum(_rows(plan["Plan"]) for plan in self.plans))

    @property
    def pages(self) -> int:
        """The call is the last statement that ends, and its pages include those of the others."""
        top = self.plans[-1]["Plan"]
        return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])


def _rows(node: dict[str, Any]) -> float:
    met: float = node["Actual Rows"]
    met += sum(count for name, count in node.items() if name.startswith("Rows Removed by"))
    loops: int = node["Actual Loops"]
    return met * loops + sum(_rows(child) for child in node.get("Plans", ()))


class Counter:
    """Counts the work of calls on a connection of a superuser."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._plans: list[dict[str, Any]] = []
        connection.execute(REPORT)
        connection.execute("SET auto_explain.log_min_duration = -1")
        connection.add_notice_handler(self._keep)

    def _keep(self, notice: Diagnostic) -> None:
        _, report, plan = (notice.message_primary or "").partition(" plan:\n")
        if report:
            self._plans.append(json.loads(plan))

    @contextmanager
    def count(self) -> Iterator[Work]:
        """Count the work of the one statement that runs within."""
        self._plans.clear()
        work = Work()
        self._connection.execute("SET auto_explain.log_min_duration = 0")
        try:
            yield work
        finally:
            self._connection.execute("SET auto_explain.log_min_duration = -1")
            work.plans = list(self._plans)


@contextmanager
def open_clone(databases: Databases) -> Iterator[psycopg.Connection[Any]]:
    """Connect to a database of its own, which is dropped afterwards."""
    with (
        databases.clone() as dsn,
        psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection,
    ):
        yield connection
