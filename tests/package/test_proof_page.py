"""The table of docs/proof.md names tests that exist, and mutants break each of them."""

import re
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


def test_the_table_fits_one_screen() -> None:
    assert len(ROWS) <= 20
    assert all(len(row) == len(HEAD) for row in ROWS)


def test_the_table_names_the_models() -> None:
    assert {row[1] for row in ROWS if row[1]} == FAMILIES.keys()
    assert all(family.mutants for family in FAMILIES.values())


def test_mutants_break_the_stories_of_the_table() -> None:
    for row in ROWS:
        name = row[2].strip("`")
        if name.endswith(".py"):
            assert (ROOT / name).is_file()
        else:
            tests = vars(import_module(f"tests.race.test_{name}")).values()
            assert any(getattr(test, "mutations", ()) for test in tests), name


def test_the_table_names_the_walks() -> None:
    features = {focus[-1].split()[-1] for focus, *_ in WALK_MUTANTS.values()}
    assert {row[3] for row in ROWS if row[3]} == features


def test_the_table_names_rules_of_the_judge() -> None:
    assert {name for row in ROWS for name in re.findall(r"`([^`]+)`", row[4])} <= PROMISES.keys()


def test_the_table_names_commands_that_repeat_each_promise() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert {row[6] for row in ROWS} <= {f"`make {target}`" for target in targets}
