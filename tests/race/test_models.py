"""The models of the design: they hold, and nothing in them can be left out.

`explored.json` says what complete searches have found. A change of a model, of the search or of a
scope makes it stale. The tests marked `proof` repeat each search, which takes some minutes.
"""

import re
from pathlib import Path

import pytest

from tests.race import lane_model
from tests.race.explore import (
    COMMAND,
    EXPLORATIONS,
    FAMILIES,
    ROOT,
    Exploration,
    find,
    outdated,
    read_record,
)
from tests.race.flow_model.batches import Faults as BatchFaults
from tests.race.flow_model.batches import Scope as Batch
from tests.race.flow_model.state import Faults, Kind
from tests.race.flow_model.state import Scope as Flow
from tests.race.scopes.lane import Faults as LaneFaults
from tests.race.scopes.lane import Scope as Lane

RECORD = read_record()
SMALL = [key for key, entry in RECORD.items() if entry.states < 2_000 and key in EXPLORATIONS]
BOTH, B = Kind((0, 1)), Kind((1,))
READER, LIMITED = Kind((0,), shared=(0,)), Kind(limited=True)
EQUALS = {
    "workers that serve the same": Exploration("lane", Lane((0, 0), faults=LaneFaults(1)), ""),
    "claims of two lanes": Exploration("flow", Flow((BOTH, B), Faults(crashes=1)), ""),
    "claims, one of them stale": Exploration("flow", Flow((BOTH, B), Faults(expiries=1)), ""),
    "readers": Exploration("flow", Flow((READER, READER), Faults(failures=1), late=()), ""),
    "three sessions": Exploration("flow", Flow((LIMITED,) * 2, slots=1, sessions=3), ""),
    "jobs of a batch": Exploration("batch", Batch(2, BatchFaults(1, 1)), ""),
}
NAMES = re.compile(r"worker \d|\b[A-C]\b")


def test_the_record_is_of_the_models_as_they_are() -> None:
    assert outdated(RECORD) == [], f"run {COMMAND}"
    assert RECORD.keys() <= EXPLORATIONS.keys(), f"run {COMMAND}"


def test_the_designs_keep_their_promises_and_each_mutant_breaks_the_one_that_is_named() -> None:
    wrong = {
        key: RECORD[key].broken
        for key, exploration in EXPLORATIONS.items()
        if RECORD[key].broken != exploration.promise
    }
    assert wrong == {}


@pytest.mark.parametrize("name", FAMILIES)
def test_every_protection_has_a_mutant_and_every_rare_step_is_tried(name: str) -> None:
    family = FAMILIES[name]
    assert family.refutations.keys() == family.mutants.keys()
    tried = {step for title in family.scopes for step in RECORD[f"{name}: {title}"].rare}
    assert set(family.rare) - tried == set()


def test_the_model_of_one_lane_is_short_and_names_files_of_sql() -> None:
    source = Path(lane_model.__file__).read_text("utf-8")
    statements = re.findall(
        r"def (\w+)\(self(?:, state: State)?\) -> Steps:(?!  # only a mutant)", source
    )
    files = {file.stem for file in (ROOT / "sql/functions").rglob("*.sql")}
    assert set(statements) - files == {"commit", "steps"}
    assert len(source.splitlines()) <= 340


def test_small_searches_are_of_each_model_and_of_each_kind() -> None:
    kinds = {key.split(":")[0] for key in SMALL}
    assert kinds >= {f"{name}, mutant" for name in FAMILIES}


@pytest.mark.parametrize("key", SMALL)
def test_a_small_search_finds_what_is_written_down(key: str) -> None:
    compare(key)


@pytest.mark.proof
@pytest.mark.parametrize("key", [key for key in EXPLORATIONS if key not in SMALL])
def test_a_search_finds_what_is_written_down(key: str) -> None:
    compare(key)


def compare(key: str) -> None:
    entry, story = find(key)
    assert entry == RECORD[key], "\n".join(("", *story))


@pytest.mark.parametrize("exploration", EQUALS.values(), ids=EQUALS.keys())
def test_states_that_differ_in_names_can_be_explored_once(exploration: Exploration) -> None:
    whole, reduced = exploration.run(reduced=False), exploration.run()
    assert reduced.broken == whole.broken == ""
    assert {NAMES.sub("", step) for step in reduced.tried} == {
        NAMES.sub("", step) for step in whole.tried
    }
    assert reduced.states < 0.7 * whole.states


@pytest.mark.parametrize("key", [key for key in SMALL if ", mutant" in key])
def test_a_mutant_breaks_its_promise_without_the_reduction_too(key: str) -> None:
    assert EXPLORATIONS[key].run(reduced=False).broken == EXPLORATIONS[key].promise
