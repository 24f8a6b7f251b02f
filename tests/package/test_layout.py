"""The shape of the tree: imports that must work, and ceilings that keep modules readable."""

import ast
import re
import subprocess
import sys
import sysconfig
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from statistics import median

import pytest

from tests.changed import read_imports

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "queue" / "inturn").rglob("*.py"))
FUNCTION_LINES, MODULE_LINES, MEDIAN_LINES = 50, 400, 180
# Django's classes are found by their folder. Its own names for some of them are prescribed.
MEMORY_OF_MIGRATIONS = {"schema_version", "applied_code"}  # read before the functions exist
WRITES_TABLES = {
    "django/management/commands/flush.py",  # empties them, as Django's own command does
    "testing/clock.py",  # moves a worker's heartbeats with the clock of a test
}
SHARED_NAMES = {
    "JobFilter",  # one is a public `logging.Filter`, the other the type `job_filter` of SQL
}


def test_queue_is_a_source_root_and_not_a_package() -> None:
    assert not (ROOT / "queue" / "__init__.py").exists()


def test_queue_holds_the_package_and_nothing_else() -> None:
    assert {entry.name for entry in (ROOT / "queue").iterdir()} - {"__pycache__"} == {"inturn"}


def test_importing_queue_in_the_checkout_gives_the_standard_library() -> None:
    show = "import queue; print(queue.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", show], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()) == Path(sysconfig.get_path("stdlib"), "queue.py")


def test_no_test_package_is_called_queue() -> None:
    assert not (ROOT / "tests" / "queue" / "__init__.py").exists()


def test_no_module_is_longer_than_its_ceiling() -> None:
    assert not {str(path): count for path in MODULES if (count := lines(path)) > MODULE_LINES}


def test_half_of_the_modules_are_short() -> None:
    assert median(count for path in MODULES if (count := lines(path)) > 0) <= MEDIAN_LINES


def test_no_function_is_longer_than_its_ceiling() -> None:
    long = {
        f"{path}:{node.lineno} {node.name}": count
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (count := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES
    }
    assert not long


def test_no_two_classes_share_a_name() -> None:
    names = Counter(
        node.name
        for path in MODULES
        if "django" not in path.parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, count in names.items() if count > 1} == SHARED_NAMES


def test_the_page_says_where_each_folder_is() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    chapter = page.partition("\n## Where things are\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", chapter, re.MULTILINE)
    told = {
        name.removeprefix("queue/inturn/"): contents
        for names, contents in rows
        for name in re.findall(r"`([^`]+)`", names)
    }
    rooms = {path.parent.relative_to(ROOT / "queue" / "inturn") for path in MODULES}
    for room in rooms - {Path()}:
        contents = told[room.parts[0]]
        assert len(room.parts) == 1 or f"`{room.parts[1]}`" in contents, room
    assert told.keys() >= {"sql/functions", "sql/views", "migrations"}


def test_statements_call_functions_and_read_views_and_no_tables() -> None:
    """psql and your own dashboard can then ask whatever ours shows."""
    written = (ROOT / "sql" / "tables.sql").read_text(encoding="utf-8")
    tables = set(re.findall(r"^CREATE TABLE inturn\.(\w+)", written, re.MULTILINE))
    assert tables > MEMORY_OF_MIGRATIONS
    read = {
        (str(path.relative_to(ROOT / "queue" / "inturn")), name)
        for path in MODULES
        for name in re.findall(r"\{schema\}\.(\w+)", path.read_text(encoding="utf-8"))
    }
    assert {
        (file, name)
        for file, name in read
        if name in tables - MEMORY_OF_MIGRATIONS and file not in WRITES_TABLES
    } == set()


def test_no_files_import_each_other_in_a_circle() -> None:
    """Also not inside functions, where a circle hides, and not for type checkers only."""
    package = {name: found for name, found in read_imports().items() if name.startswith("inturn")}
    assert len(package) == len(MODULES)
    TopologicalSorter(package).prepare()


def test_a_circle_is_seen() -> None:
    with pytest.raises(CycleError):
        TopologicalSorter({"one": {"two"}, "two": {"three"}, "three": {"one"}}).prepare()


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())
