"""System: the schema, the server, the findings of `queue doctor` and the audit."""

from importlib.metadata import version
from typing import Any

from inturn import sql
from inturn.doctor.checks import examine, judge_history
from inturn.doctor.finding import LONG, Finding
from inturn.operations.engine import maintenance
from inturn.operations.reading import history, system
from inturn.web import verdict
from inturn.web.page import View
from inturn.whole_numbers import HIGHEST_ID

TABLES = 50
TRANSACTIONS = 5
RECENT = 10  # changes
ORDER = ("fail", "warn", "ok")
OTHERS = ("queue", "limit", "group", "task")  # targets of operations other than lanes


def read(view: View) -> dict[str, Any]:
    stored = view.read(history.measure_size())
    # Only the checks that need no more statements.
    found = [] if view.header.value is None else list(verdict.examine(view.header.value))
    if stored.value is not None:
        found.append(judge_history(stored.value))
    return {
        "version": version("inturn"),
        "expected": sql.revision(),
        "facts": view.read(system.get_server_facts()),
        "stored": stored,
        "findings": sort_findings(found),
        "tables": view.read(system.list_tables(view.reader.schema, TABLES)),
        "transactions": view.read(maintenance.list_transactions(TRANSACTIONS)),
        "long": LONG,
        "changes": view.read(system.list_changes(HIGHEST_ID, RECENT)),
        "describe_target": describe_target,
    }


def read_checks(view: View) -> dict[str, Any]:
    """Run all checks of `queue doctor`.

    They need some thirty statements, so a separate page runs them, without live updates.
    """
    found = view.panel(lambda reader: list(examine(reader)))
    return {"found": found, "findings": sort_findings(found.value or [])}


def read_changes(view: View) -> dict[str, Any]:
    return {
        **view.read_newest("changes", system.list_changes),
        "describe_target": describe_target,
    }


def describe_target(operation: str) -> str:
    """Return the kind of target of an audited operation."""
    kind = operation.rpartition("-")[2]
    return kind if kind in OTHERS else "lane"


def sort_findings(found: list[Finding]) -> list[Finding]:
    return sorted(found, key=lambda each: ORDER.index(each.state))
