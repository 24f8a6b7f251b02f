"""Do two processes ever hold a lock at once? A few seconds for each lock.

`make witness` runs it for longer.

INTURN_WITNESS_PROCESSES and INTURN_WITNESS_SECONDS set how many processes run, and for how long.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inturn.locks import install
from tests.locks.witness import CONTRACT, ENOUGH, LEASE, Run, Visit, judge, torment

PROCESSES = int(os.environ.get("INTURN_WITNESS_PROCESSES", "3"))
SECONDS = float(os.environ.get("INTURN_WITNESS_SECONDS", "2"))


@pytest.mark.parametrize("kind", CONTRACT)
def test_nobody_holds_it_beside_another(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    run = torment(kind, place_of(kind, request, tmp_path), tmp_path, PROCESSES, SECONDS)
    print(f"{kind}: {dict(run.seen)}")
    assert run.wrong == []
    assert run.seen["entered"] >= ENOUGH
    assert run.seen["killed"] + run.seen["stopped"] > 0


def place_of(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if kind in ("kernel", "openlock"):
        return str(tmp_path / "it.lock")
    if kind.startswith("pg"):
        dsn: str = request.getfixturevalue("empty_dsn")
        install(dsn)
        return dsn
    socket: str = request.getfixturevalue("socket")
    return socket


# ---------------------------------------------------------------- the judge judges

FIRST = Visit(1, 10.0, 1, left=10.5)
CASES: list[tuple[str, dict[str, Any], bool]] = [
    ("one after the other", {"visits": [FIRST, Visit(2, 10.6, 2, left=10.7)]}, True),
    ("beside each other", {"visits": [FIRST, Visit(2, 10.2, 2, left=10.7)]}, False),
    (
        "after a kill",
        {"visits": [Visit(1, 10.0, 1), Visit(2, 10.6, 2, left=10.7)], "kills": {1: 10.5}},
        True,
    ),
    (
        "before a kill",
        {"visits": [Visit(1, 10.0, 1), Visit(2, 10.2, 2, left=10.7)], "kills": {1: 10.5}},
        False,
    ),
    ("its file was there", {"visits": [FIRST, Visit(2, 10.6, 2, found=1, left=10.7)]}, False),
]
PAUSED = {"pauses": [(1, 10.1, 11.7)]}
LATE = Visit(1, 10.0, 1, wrote=10.0, left=11.8)
NEXT = Visit(2, 10.6, 2, wrote=10.6, left=10.7)
LEASE_CASES: list[tuple[str, dict[str, Any], bool]] = [
    ("a pause explains it", {"visits": [LATE, NEXT], **PAUSED}, True),
    ("it was not refused", {"visits": [replace(LATE, wrote_late=11.75), NEXT], **PAUSED}, False),
    (
        "it wrote before the pause",
        {"visits": [replace(LATE, wrote_late=10.05), NEXT], **PAUSED},
        True,
    ),
    ("another was stopped", {"visits": [LATE, NEXT], "pauses": [(2, 10.1, 11.7)]}, False),
]


@pytest.mark.parametrize(
    ("facts", "right"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_judge_of_mutexes(facts: dict[str, Any], right: bool) -> None:
    run = Run(**facts)
    judge("mutex", run)
    assert (not run.wrong) is right


@pytest.mark.parametrize(
    ("facts", "right"), [c[1:] for c in LEASE_CASES], ids=[c[0] for c in LEASE_CASES]
)
def test_the_judge_of_leases(facts: dict[str, Any], right: bool) -> None:
    run = Run(**facts)
    judge(LEASE, run)
    assert (not run.wrong) is right
