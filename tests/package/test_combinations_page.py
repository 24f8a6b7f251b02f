"""Every combination of an event and a feature has a test, and is told in words to users.

tests/race/combinations.md is the table of tests, docs/flow-combinations.md the page in words.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "tests/race/combinations.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs/flow-combinations.md").read_text(encoding="utf-8")
COLUMNS = ["limit", "rate", "after", "`on_parent`", "expires", "group", "batch", "callback",
           "several locks", "shared"]  # fmt: skip
# The rows by the words of the page.
ROWS = {
    "retry": "retry", "rescue": "rescue", "halt": "halt", "pause": "pause", "cancel": "cancel",
    "abort": "abort", "delete": "delete", "snooze": "snooze", "skip-head": "skip-head",
    "release": '`on_retry="release"`', "move": "a retry in another lane", "put back": "put back",
    "failover": "failover", "replace": "`queueing_lock`, replace", "periodic": "periodic",
}  # fmt: skip
# The columns that a section of the page is about.
SECTIONS = {
    "A limit": {"limit"}, "A rate": {"rate"}, "Parents": {"after", "`on_parent`"},
    "An expiry": {"expires"}, "A group": {"group"}, "A batch": {"batch"},
    "The callback of a batch": {"callback"},
    "Several locks and shared ones": {"several locks", "shared"},
}  # fmt: skip
CELLS = ["tests/race/test_flow_cells.py", "tests/race/test_group_and_batch_cells.py",
         "tests/race/test_lane_cells.py"]  # fmt: skip


def listed() -> dict[str, str]:
    """Return each number with its test, `file::name`."""
    tests, file = {}, ""
    for line in TABLE.partition("## The tests")[2].splitlines():
        if heading := re.fullmatch(r"`(tests/\S+)`:", line):
            file = heading[1]
        elif row := re.fullmatch(r"\| (\d+) \| `(test_\w+)` \|", line):
            tests[row[1]] = f"{file}::{row[2]}"
    return tests


def lines() -> list[list[str]]:
    """Return the cells of each line of a table above the list of tests."""
    above = TABLE.partition("## The tests")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in above.splitlines()
        if line.startswith("| ") and line != "| | tests |"
    ]


TESTS = listed()


def test_the_table_has_each_combination() -> None:
    head, *rows = lines()
    assert head[1:] == COLUMNS
    assert [row[0] for row in rows[: len(ROWS)]] == [*ROWS.values()]
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


def points(section: str) -> list[tuple[list[str], str]]:
    """Return the points of a section of the page: what each is about, and its text."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\* (\*\*.+?\*\*): (.+(?:\n  .+)*)", text, re.MULTILINE)
    return [(heads.replace("*", "").split(", "), text) for heads, text in found]


def is_refused(cells: list[str]) -> bool:
    return any("refused" in cell for cell in cells)


@pytest.mark.parametrize("section", ["The events", *SECTIONS])
def test_the_page_tells_of_each_event_once(section: str) -> None:
    told = [event for events, _ in points(section) for event in events]
    assert sorted(told) == sorted(ROWS)


def test_the_sections_of_the_page_are_the_columns_of_the_table() -> None:
    assert sorted(column for columns in SECTIONS.values() for column in columns) == sorted(COLUMNS)


@pytest.mark.parametrize("section", SECTIONS)
def test_the_page_and_the_table_call_the_same_combinations_refused(section: str) -> None:
    head, *rows = lines()
    cells = {name: dict(zip(head[1:], row, strict=False)) for name, *row in rows}
    for events, text in points(section):
        for event in events:
            own = [cells[ROWS[event]][column] for column in SECTIONS[section]]
            assert is_refused(own) == ("refused" in text), (section, event)


def test_the_page_tells_of_each_pair_of_features_that_the_table_has() -> None:
    pairs = {name: cells for name, *cells in lines()[len(ROWS) + 1 :]}
    told = {", ".join(pair): text for pair, text in points("Two features on one job")}
    assert told.keys() == pairs.keys()
    assert {pair for pair, text in told.items() if "refused" in text} == {
        pair for pair, cells in pairs.items() if is_refused(cells)
    }


def functions(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
