"""docs/flow-combinations.md is whole: no cell is empty, and each test that it names exists."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "flow-combinations.md").read_text(encoding="utf-8")
COLUMNS = ["limit", "rate", "after", "`on_parent`", "expires", "group", "batch", "callback",
           "several locks", "shared"]  # fmt: skip
ROWS = [
    "retry", "rescue", "halt", "pause", "cancel", "abort", "delete", "snooze", "skip-head",
    '`on_retry="release"`', "a retry in another lane", "put back", "failover",
    "`queueing_lock`, replace", "periodic",
]  # fmt: skip
CELLS = ["tests/race/test_flow_cells.py", "tests/race/test_group_and_batch_cells.py",
         "tests/race/test_lane_cells.py"]  # fmt: skip


def listed() -> dict[str, str]:
    """Return each number with its test, `file::name`."""
    tests, file = {}, ""
    for line in PAGE.partition("## The tests")[2].splitlines():
        if heading := re.fullmatch(r"`(tests/\S+)`:", line):
            file = heading[1]
        elif row := re.fullmatch(r"\| (\d+) \| `(test_\w+)` \|", line):
            tests[row[1]] = f"{file}::{row[2]}"
    return tests


def lines() -> list[list[str]]:
    """Return the cells of each line of a table above the list of tests."""
    above = PAGE.partition("## The tests")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in above.splitlines()
        if line.startswith("| ") and line != "| | tests |"
    ]


TESTS = listed()


def test_the_table_has_each_combination() -> None:
    head, *rows = lines()
    assert head[1:] == COLUMNS
    assert [row[0] for row in rows[: len(ROWS)]] == ROWS
    assert all(len(row) == len(COLUMNS) + 1 for row in rows[: len(ROWS)])


def test_each_cell_names_a_test_that_is_listed() -> None:
    for name, *cells in lines()[1:]:
        for cell in cells:
            numbers = re.findall(r"\d+", cell)
            assert numbers, f"{name}: {cell!r}"
            assert set(numbers) <= TESTS.keys(), f"{name}: {cell!r}"


def test_each_listed_test_exists_and_is_named_in_a_cell() -> None:
    named = {number for _, *cells in lines()[1:] for cell in cells
             for number in re.findall(r"\d+", cell)}  # fmt: skip
    assert named == TESTS.keys()
    for test in TESTS.values():
        file, _, name = test.partition("::")
        assert name in functions(file), test


def test_each_story_that_was_written_for_the_table_is_in_it() -> None:
    stories = {f"{file}::{name}" for file in CELLS for name in functions(file)
               if name.startswith("test_")}  # fmt: skip
    assert stories <= set(TESTS.values())


def functions(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
