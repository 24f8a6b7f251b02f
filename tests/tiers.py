"""Run the quick tests, or everything with `--proof`, or with `--changed` what a change can break.

The quick tests are all tests without a mark of MARKS. They start next to no processes.
If you name files or marks, you get what you name.
The last line says what was left out. `--weigh` compares what the run has cost with the record.
"""

import gc
import os
from collections import Counter
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import pytest

from tests import changed, weight

MARKS = ("mutant", "proof", "landing")
NAMES = {
    "mutant": "mutants of the SQL",
    "proof": "long proofs",
    "landing": "longer walks, and tests with processes or outages",
    None: "tests that the change cannot break",
}
LEFT_OUT = pytest.StashKey[dict[str, int]]()
HEAVIER = pytest.StashKey[str]()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many processes run the tests, most of which wait for servers."""
    return 2 * (os.cpu_count() or 1)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--proof", action="store_true", help="run everything")
    group.addoption("--changed", metavar="COMMIT", help="run what a change since then can break")
    group.addoption("--weigh", choices=["compare", "write"], help="count what the tests cost")


def pytest_configure() -> None:
    weight.count_processes()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[LEFT_OUT] = {}
    if base := config.getoption("--changed"):
        files = changed.find_changed(base)
        reasons, mutated = changed.choose(files), changed.mutated(files)
        _keep(config, items, lambda item: _reason(item, reasons, mutated) is not None)
    elif not (config.getoption("--proof") or config.getoption("-m") or _names_files(config)):
        _keep(config, items, lambda item: _mark(item) is None)


def pytest_report_header(config: pytest.Config) -> list[str]:
    base = config.getoption("--changed")
    if not base:
        return []
    files = changed.find_changed(base)
    chosen = changed.choose(files) | changed.mutated(files)
    return [
        f"{len(files)} files differ from {base}",
        *(f"  {test}: {reason}" for test, reason in chosen.items()),
    ]


def pytest_collection_finish() -> None:
    """Keep the collector from walking over thousands of tests that stay to the end."""
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a process of xdist has counted. All of them leave out the same."""
    output = getattr(node, "workeroutput", {})
    node.config.stash[LEFT_OUT] = output.get("left_out", {})
    weight.spent.update(output.get("spent", {}))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    weigh = config.getoption("--weigh")
    if hasattr(config, "workeroutput"):
        config.workeroutput |= {
            "left_out": config.stash.get(LEFT_OUT, {}),
            "spent": dict(weight.spent),
        }
    elif weigh == "write":
        weight.write_record()
    elif weigh == "compare" and (more := weight.compare(weight.spent, weight.read_record())):
        config.stash[HEAVIER] = more
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    left_out = config.stash.get(LEFT_OUT, {})
    if left_out and not hasattr(config, "workerinput"):
        parts = [f"{count} {kind}" for kind, count in sorted(left_out.items())]
        print(f"left out: {', '.join(parts)}. `make proof` runs everything")
    if more := config.stash.get(HEAVIER, None):
        print(f"FAILED, since the quick tests have become heavier: {more}. See tests/weight.py")


def _keep(
    config: pytest.Config, items: list[pytest.Item], wanted: Callable[[pytest.Item], bool]
) -> None:
    others = [item for item in items if not wanted(item)]
    config.stash[LEFT_OUT] = dict(Counter(NAMES[_mark(item)] for item in others))
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if wanted(item)]


def _mark(item: pytest.Item) -> str | None:
    return next((mark for mark in MARKS if item.get_closest_marker(mark)), None)


def _names_files(config: pytest.Config) -> bool:
    return config.args_source == pytest.Config.ArgsSource.ARGS


def _reason(item: pytest.Item, reasons: dict[str, str], mutated: dict[str, str]) -> str | None:
    if not isinstance(item, pytest.Function):
        return None
    if _mark(item) == "mutant":
        mutation: Any = item.callspec.params["mutation"]
        return mutated.get(mutation.file)
    reason = changed.reason_for(PurePath(item.nodeid.split("::")[0]), reasons)
    if reason is not None:
        return reason if _mark(item) in (None, "landing") or reason == changed.ITSELF else None
    files = [each.file for each in getattr(item.function, "mutations", ())]
    return next((mutated[file] for file in files if file in mutated), None)
