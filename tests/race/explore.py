"""Explores the models, and writes down what it finds: `python -m tests.race.explore`.

A complete search takes minutes, and finds the same as long as the model is the same. So
`explored.json` keeps the verdict of each search with a checksum of all that it depends on: the
model's files, the files that they import, the search, and the scope. The command repeats the
searches whose checksum has changed, or all with `--all`. The tests marked `proof` repeat all.
"""

import ast
import json
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from tests.race.floor_model import Floor
from tests.race.flow_model import batches, dependencies, state, task_pauses
from tests.race.flow_model.batches import Batch
from tests.race.flow_model.dependents import Graph
from tests.race.flow_model.model import Flow
from tests.race.flow_model.task_pauses import TaskPause
from tests.race.lane_model import OneLane
from tests.race.scopes import batches as batch_scopes
from tests.race.scopes import floor as floor_scopes
from tests.race.scopes import flow as flow_scopes
from tests.race.scopes import graph as graph_scopes
from tests.race.scopes import lane as lane_scopes
from tests.race.scopes import pauses as pause_scopes
from tests.race.search import Model, Verdict, explore

ROOT = Path(__file__).resolve().parents[2]
RECORD = Path(__file__).with_name("explored.json")
COMMAND = "python -m tests.race.explore"


class Family(NamedTuple):
    """A model with its scopes, its mutants, and the steps that must not go untried."""

    make: Callable[[Any], Model[Any]]
    mutants: dict[str, str]
    scopes: dict[str, Any]
    refutations: dict[str, tuple[str, Any]]
    rare: tuple[str, ...]


def family(make: Callable[[Any], Model[Any]], mutants: dict[str, str], tables: Any) -> Family:
    return Family(make, mutants, tables.SCOPES, tables.REFUTATIONS, tables.RARE)


FAMILIES = {
    "lane": family(OneLane, lane_scopes.MUTANTS, lane_scopes),
    "floor": family(Floor, floor_scopes.MUTANTS, floor_scopes),
    "flow": family(Flow, state.MUTANTS, flow_scopes),
    "after": family(Graph, dependencies.MUTANTS, graph_scopes),
    "batch": family(Batch, batches.MUTANTS, batch_scopes),
    "pause": family(TaskPause, task_pauses.MUTANTS, pause_scopes),
}


class Exploration(NamedTuple):
    family: str
    scope: Any
    promise: str  # that a mutant must break, empty for the design

    def run(self, *, reduced: bool = True) -> Verdict:
        return explore(FAMILIES[self.family].make(self.scope), reduced=reduced)

    def checksum(self) -> str:
        _, _, _, _, rare = FAMILIES[self.family]
        return sha256(f"{model_checksum(self.family)} {self.scope} {rare}".encode()).hexdigest()[
            :16
        ]


class Entry(NamedTuple):
    """What a search has found."""

    broken: str
    states: int
    rare: list[str]  # the rare steps that it has tried, for a search that went to the end
    checksum: str


def all_explorations() -> Iterator[tuple[str, Exploration]]:
    for name, (_, mutants, scopes, refutations, _) in FAMILIES.items():
        for title, scope in scopes.items():
            yield f"{name}: {title}", Exploration(name, scope, "")
        for mutant in mutants:
            promise, scope = refutations[mutant]
            mutated = scope._replace(mutant=mutant)
            yield f"{name}, mutant: {mutant}", Exploration(name, mutated, promise)


EXPLORATIONS = dict(all_explorations())


def find(key: str) -> tuple[Entry, tuple[str, ...]]:
    """Explore, and return what was found, and the story of a violation."""
    exploration = EXPLORATIONS[key]
    verdict = exploration.run()
    rare = [
        step
        for step in FAMILIES[exploration.family].rare
        if any(step in name for name in verdict.tried)
    ]
    entry = Entry(
        verdict.broken, verdict.states, [] if verdict.broken else rare, exploration.checksum()
    )
    return entry, verdict.story


# ---------------------------------------------------------------- checksums


@cache
def model_checksum(name: str) -> str:
    module = Path(sys.modules[FAMILIES[name].make.__module__].__file__ or "")
    search = Path(sys.modules[explore.__module__].__file__ or "")
    files = sorted({module, search} | imports(module) | imports(search))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def imports(file: Path) -> set[Path]:
    """Return the files of the tests that a file imports, and those that they import."""
    found: set[Path] = set()
    left = [file]
    while left:
        for node in ast.walk(ast.parse(left.pop().read_bytes())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
                place = ROOT.joinpath(*str(node.module).split("."))
                named = [place / f"{alias.name}.py" for alias in node.names]
                for each in {place.with_suffix(".py"), *named} - found:
                    if each.exists():
                        found.add(each)
                        left.append(each)
    return found


# ---------------------------------------------------------------- the record


def read_record() -> dict[str, Entry]:
    if not RECORD.exists():
        return {}
    return {key: Entry(*entry) for key, entry in json.loads(RECORD.read_text("utf-8")).items()}


def write_record(record: dict[str, Entry]) -> None:
    lines = [
        f"{json.dumps(key)}: {json.dumps(record[key])}" for key in EXPLORATIONS if key in record
    ]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def outdated(record: dict[str, Entry]) -> list[str]:
    """Return the searches that the record does not have as they are now."""
    return [
        key
        for key, exploration in EXPLORATIONS.items()
        if key not in record or record[key].checksum != exploration.checksum()
    ]


def main() -> int:
    parser = ArgumentParser(prog=COMMAND, description="Explore the models that have changed.")
    parser.add_argument("--all", action="store_true", help="explore the others too")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    record = read_record()
    keys = list(EXPLORATIONS) if options.all else outdated(record)
    keys.sort(key=lambda key: -record[key].states if key in record else 0)  # the longest first
    failed = 0
    began = perf_counter()
    with ProcessPoolExecutor(options.processes) as pool:
        for each in as_completed({pool.submit(timed, key): key for key in keys}):
            key, (entry, story), seconds = each.result()
            record[key] = entry
            write_record(record)
            print(f"{entry.states:>9,} states {seconds:>6.1f} s  {key}", flush=True)
            if entry.broken != EXPLORATIONS[key].promise:
                failed += 1
                print("\n".join((f"broken: {entry.broken or 'nothing'}", *story)), flush=True)
    write_record(record)
    total = sum(record[key].states for key in keys)
    print(f"{total:,} states in {len(keys)} searches, {perf_counter() - began:.0f} s")
    return failed > 0


def timed(key: str) -> tuple[str, tuple[Entry, tuple[str, ...]], float]:
    began = perf_counter()
    return key, find(key), perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
