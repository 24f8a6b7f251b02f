"""The table of docs/proof.md has the numbers of the tests that it names."""

import re
from collections import Counter
from importlib import import_module
from pathlib import Path

from tests.evidence.promises import PROMISES
from tests.race.explore import FAMILIES
from tests.race.test_walk import MUTANTS as WALK_MUTANTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/proof.md").read_text(encoding="utf-8")
HEAD, _, *ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.partition("## ")[0].splitlines()
    if line.startswith("|")
]


def count_stories(name: str) -> tuple[int, int]:
    """Return how many stories a file tells, and how many mutants break them."""
    tests = vars(import_module(f"tests.race.test_{name}")).values()
    mutations = [test.mutations for test in tests if hasattr(test, "mutations")]
    return len(mutations), sum(map(len, mutations))


def test_the_table_fits_one_screen() -> None:
    assert len(ROWS) <= 20
    assert all(len(row) == len(HEAD) for row in ROWS)


def test_the_table_counts_the_mutants_of_the_models() -> None:
    told = {row[1] for row in ROWS if row[1]}
    assert told == {f"{name}: {len(family.mutants)}" for name, family in FAMILIES.items()}


def test_the_table_counts_the_stories_and_their_mutants() -> None:
    for row in ROWS:
        if story := re.fullmatch(r"`(\w+)`: (\d+), (\d+)", row[2]):
            assert count_stories(story[1]) == (int(story[2]), int(story[3])), story[1]
        else:
            assert (ROOT / row[2].strip("`")).is_file()


def test_the_table_counts_the_mutants_of_the_walks() -> None:
    features = [focus[-1].split()[-1] for focus, *_ in WALK_MUTANTS.values()]
    told = {row[3] for row in ROWS if row[3]}
    assert told == {f"{name}: {count}" for name, count in Counter(features).items()}


def test_the_table_names_rules_of_the_judge() -> None:
    assert {name for row in ROWS for name in re.findall(r"`([^`]+)`", row[4])} <= PROMISES.keys()


def test_the_table_names_commands_that_repeat_each_promise() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert {row[6] for row in ROWS} <= {f"`make {target}`" for target in targets}
