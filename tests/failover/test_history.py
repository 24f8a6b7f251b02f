"""The checker of the failover tests, on forged histories: it finds faults and accepts the rest."""

from dataclasses import asdict
from typing import Any

import pytest

from tests.failover.history import Event, Report, report

A, B = 1, 2  # processes


def ack(number: int, at: int = 0) -> Event:
    return Event("ack", "lane", number, 9, at, 0, 0)


def run(
    number: int, start: int, end: int | None, fence: int, pid: int = A, id: int | None = None
) -> list[Event]:
    attempt = (fence, number if id is None else id)
    ended = [] if end is None else [Event("end", "lane", number, pid, end, *attempt)]
    return [Event("start", "lane", number, pid, start, *attempt), *ended]


ACKS = [ack(0), ack(1), ack(2)]
GOOD = [*ACKS, *run(0, 10, 20, 5), *run(1, 20, 30, 6, B), *run(2, 40, 50, 7)]
FAILOVER = 35
# Job 0 was reported, and job 1 was started and reported. The standby knows neither.
REPEATED = [*GOOD[:7], *run(0, 40, 50, 5), *run(1, 50, 60, 8), *run(2, 60, 70, 9)]


def faults(found: Report) -> set[str]:
    """Return the fields that are not empty. Figures and answers are not faults."""
    return {
        name
        for name, value in asdict(found).items()
        if value and name not in ("acknowledged", "unsure", "gap")
    }


FORGED: dict[str, tuple[list[Event], set[str]]] = {
    "lost": ([*GOOD, ack(3)], {"lost"}),
    "begun and never ended": ([*GOOD, ack(3), *run(3, 50, None, 8)], {"lost", "unended"}),
    "twice": ([*GOOD[:5], *run(0, 20, 21, 6), *run(1, 22, 30, 7), *run(2, 40, 50, 8)], {"twice"}),
    "from nowhere": ([*GOOD, *run(3, 50, 60, 8)], {"from_nowhere"}),
    "overlap": (
        [*ACKS, *run(0, 10, 20, 5), *run(1, 19, 30, 6, B), *run(2, 40, 50, 7)],
        {"overlaps"},
    ),
    "overlap with one that began earlier": (
        [*ACKS, *run(0, 10, 60, 5), *run(1, 20, 30, 6, B), *run(2, 40, 50, 7)],
        {"overlaps"},
    ),
    "overlap with one that never ended": (
        [
            *ACKS,
            *run(0, 10, None, 5),
            *run(0, 20, 30, 6, B),
            *run(1, 30, 40, 7),
            *run(2, 40, 50, 8),
        ],
        {"overlaps", "unended", "twice"},
    ),
    "overtaken": (
        [*ACKS, *run(1, 10, 20, 5), *run(0, 20, 30, 6), *run(2, 40, 50, 7)],
        {"overtaken"},
    ),
    "lower fence": (
        [*ACKS, *run(0, 10, 20, 5), *run(1, 20, 30, 4), *run(2, 40, 50, 7)],
        {"fallen"},
    ),
    "equal fence": (
        [*ACKS, *run(0, 10, 20, 5), *run(1, 20, 30, 5), *run(2, 40, 50, 7)],
        {"fallen"},
    ),
    "an attempt that runs again for no reason": (
        [*GOOD[:5], *run(0, 20, 21, 5), *run(1, 22, 30, 7), *run(2, 40, 50, 8)],
        {"fallen", "twice"},
    ),
    "one id for two jobs": (
        [*ACKS, *run(0, 10, 20, 5), *run(1, 20, 30, 6, B, 0), *run(2, 40, 50, 7)],
        {"shared_ids"},
    ),
}


@pytest.mark.parametrize(("events", "wrong"), FORGED.values(), ids=list(FORGED))
def test_the_checker_finds_the_faults_of_a_forged_history(
    events: list[Event], wrong: set[str]
) -> None:
    assert faults(report(events)) == wrong


def test_the_checker_accepts_what_was_promised() -> None:
    unsure = [Event("unsure", "lane", number, 9, 50, 0, 0) for number in (3, 4)]
    found = report([*GOOD, *unsure, *run(4, 60, 70, 8)])
    assert faults(found) == set()
    assert found.unsure == {("lane", 3), ("lane", 4)}
    assert found.gap == pytest.approx(20e-9)


@pytest.mark.parametrize(("forgotten_at", "wrong"), [
    ([FAILOVER], {"twice", "resumed"}),
    ([], {"twice", "fallen", "overtaken"}),
    ([65], {"twice", "fallen", "overtaken"}),
])  # fmt: skip
def test_jobs_may_run_again_only_after_a_failover(forgotten_at: Any, wrong: set[str]) -> None:
    assert faults(report(REPEATED, forgotten_at)) == wrong
