"""Which tests a change can break, and why: `make test CHANGED=main`.

A changed module can break the tests of its room and those that import it, however indirectly.
A changed SQL file can break `tests/sql`, `tests/privileges` and the stories that mutate it.
Fixtures do not count as imports, or every test would depend on everything.
"""

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path, PurePath

ROOT = Path(__file__).parent.parent
SOURCES = (ROOT / "queue", ROOT)  # where the names of modules begin
ENGINE = ("tests/sql", "tests/privileges")
PAPERS = ("tests/package", "tests/deploy")

ITSELF = "it changed itself"

Reasons = dict[str, str]  # a test file or folder, and why it runs


def find_changed(base: str) -> list[str]:
    """Return the files that differ from a commit, and those that git does not know yet."""
    names: set[str] = set()
    for command in (["diff", "--name-only", base], ["ls-files", "--others", "--exclude-standard"]):
        answer = subprocess.run(
            ["git", *command], cwd=ROOT, check=True, capture_output=True, text=True
        )
        names.update(answer.stdout.split("\n"))
    return sorted(names - {""})


def choose(changed: Iterable[str]) -> Reasons:
    """Return the tests that the changed files can break."""
    reasons: Reasons = {}
    for name in changed:
        for test, reason in _affected(PurePath(name)):
            reasons.setdefault(test, reason)
    return reasons


def mutated(changed: Iterable[str]) -> dict[str, str]:
    """Return the names of changed SQL files, as stories name them, with the reason."""
    return {
        PurePath(name).name: f"mutates {name}"
        for name in changed
        if name.startswith("sql/") and name.endswith(".sql")
    }


def reason_for(test: PurePath, reasons: Mapping[str, str]) -> str | None:
    """Return why a test file runs, or None if it does not."""
    places = (test, *test.parents)
    return next((reasons[str(place)] for place in places if str(place) in reasons), None)


def _affected(file: PurePath) -> Iterator[tuple[str, str]]:
    top = file.parts[0]
    if file.suffix == ".py" and top in ("queue", "tests"):
        yield from _affected_by_module(file)
    elif top in ("sql", "migrations"):
        yield from ((room, f"{file} changed") for room in ENGINE)
        if "views" in file.parts:
            yield from _naming(file.stem, file)
    else:
        yield from ((room, f"{file} changed") for room in PAPERS)
        yield from _naming(file.name, file)


def _affected_by_module(file: PurePath) -> Iterator[tuple[str, str]]:
    if file.name == "conftest.py":
        yield str(file.parent), f"{file} changed"
    elif file.name.startswith("test_"):
        yield str(file), ITSELF
    elif file.parts[0] == "queue" and (ROOT / "tests" / file.parts[2]).is_dir():
        yield f"tests/{file.parts[2]}", f"{file} changed"
    name = _name_module(ROOT / file)
    for test in _importers(name):
        yield test, f"imports {name}"


def _naming(word: str, file: PurePath) -> Iterator[tuple[str, str]]:
    pattern = re.compile(rf"\b{re.escape(word)}\b")
    for test in ROOT.glob("tests/**/test_*.py"):
        if pattern.search(test.read_text(encoding="utf-8")):
            yield str(test.relative_to(ROOT)), f"names {file}"


def _importers(changed: str) -> list[str]:
    """Return the test files that import a module, or import one that does."""
    above: dict[str, set[str]] = defaultdict(set)
    for module, imported in read_imports().items():
        for name in imported:
            above[name].add(module)
    found, waiting = {changed}, [changed]
    while waiting:
        for module in above[waiting.pop()] - found:
            found.add(module)
            waiting.append(module)
    files = (f"{name.replace('.', '/')}.py" for name in found if name.startswith("tests."))
    return sorted(name for name in files if PurePath(name).name.startswith("test_"))


@cache
def read_imports() -> dict[str, set[str]]:
    """Return what each module imports, also inside its functions."""
    files = [*ROOT.glob("queue/inturn/**/*.py"), *ROOT.glob("tests/**/*.py")]
    modules = {_name_module(file): file for file in files if file.name != "conftest.py"}
    return {name: set(_find_imports(file, modules)) for name, file in modules.items()}


def _find_imports(file: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else _home(node.module, alias.name)


@cache
def _home(package: str, name: str) -> str:
    """Return the module that a name of a package comes from, if the package loads it lazily."""
    stub = ROOT.joinpath("queue", *package.split("."), "__init__.pyi")
    if stub.exists():
        for node in ast.parse(stub.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
                return f"{node.module}"
    return package


def _name_module(file: Path) -> str:
    root = next(root for root in SOURCES if file.is_relative_to(root))
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
