"""The table of what keeps a job from starting names every function that changes a status."""

import re
from pathlib import Path

from inturn.sql import find_folder

ROOT = Path(__file__).parents[2]
FUNCTIONS = find_folder("sql") / "functions"
STATUSES = {"todo", "scheduled", "pending", "blocked", "limited", "paused", "doing"}
# What a SET gives the status: up to the next column, or the end of the SET.
GIVEN = re.compile(
    r"\bSET (?:[^;]*?, )?status = ((?:CASE .*? END|[^,;]+?))(?=,|\s+WHERE|\s+FROM|\s*;|\s*$)", re.S
)


def read_table() -> list[list[set[str]]]:
    """Return the rows of the table, and in each cell the names in backticks."""
    page = (ROOT / "docs" / "engine.md").read_text(encoding="utf-8")
    section = page.partition("## What keeps a job from starting")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| ")][1:]
    return [[set(re.findall(r"`(\w+)`", cell)) for cell in row] for row in rows]


def find_changes() -> dict[str, set[str]]:
    """Return the functions that give jobs a status, by status."""
    found: dict[str, set[str]] = {}
    for file in FUNCTIONS.rglob("*.sql"):
        text = re.sub(r"--.*", "", file.read_text(encoding="utf-8"))
        for update in re.split(r"(?=\bUPDATE )|;", text):
            if update.startswith("UPDATE jobs"):
                for value in GIVEN.findall(update):
                    for status in STATUSES & set(
                        re.findall(r"'(\w+)'", re.sub(r"WHEN.*?THEN", "THEN", value))
                    ):
                        found.setdefault(status, set()).add(file.stem)
    return found


def test_each_function_that_changes_a_status_stands_in_the_table() -> None:
    rows, changes = read_table(), find_changes()
    for status in STATUSES - {"todo"}:
        closers = [row[2] for row in rows if row[1] == {status}]
        assert set().union(*closers) == changes[status], status
    openers = set().union(*(row[3] for row in rows))
    assert openers == changes["todo"]


def test_the_table_names_functions_of_the_engine() -> None:
    known = {file.stem for file in FUNCTIONS.rglob("*.sql")}
    named = [name for row in read_table() for cell in row[2:] for name in cell]
    assert set(named) - known == set()
    explaining = {name for name in known if name.startswith("explain_")}
    others = {"explain_read_only", "explain_busy", "explain_workers"}
    assert explaining - set(named) == others  # about what concerns no single obstacle
