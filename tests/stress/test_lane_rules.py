"""The rules for several and shared lanes are tried with forged ledgers, and with sound ones."""

from collections import defaultdict
from typing import Any

import pytest

from tests.stress.ledger import Job, Ledger, Pause, Run, Span, lanes_seen, read, violations, write

A, B = 1, 2  # processes
SHARED = {"shared": ("b",)}


def ledger(*runs: Run, jobs: dict[int, dict[str, Any]], **changes: Any) -> Ledger:
    """Jobs that are deferred one after the other in the lane a of their own, and in b."""
    made = Ledger(runs=list(runs))
    for n, options in jobs.items():
        given = {"more": ("b",), **options}
        made.jobs[n] = Job(n, f"a{n}", 0, False, f"call {n}", 0, n, n + 0.5, **given)
    for run in sorted(runs, key=lambda run: run.fence):
        made.ends[run.job] = [(run.fence, "succeeded")]
    for name, value in changes.items():
        setattr(made, name, value)
    return made


FIRST, SECOND, THIRD = Run(1, 11, A, 10, 20), Run(2, 12, B, 21, 30), Run(3, 13, A, 31, 40)
AT_ONCE = Run(2, 12, B, 15, 30)
AGAIN = Run(1, 13, A, 31, 40, attempt=2)
WRITERS: dict[int, dict[str, Any]] = {1: {}, 2: {}}
READERS: dict[int, dict[str, Any]] = {1: SHARED, 2: SHARED}

FORGED = {
    "two at once in the second lane": (ledger(FIRST, AT_ONCE, jobs=WRITERS), "b: job 2 (process"),
    "a writer beside a reader": (ledger(FIRST, AT_ONCE, jobs={1: SHARED, 2: {}}), "b: job 2 (pro"),
    "a reader beside a writer": (ledger(FIRST, AT_ONCE, jobs={1: {}, 2: SHARED}), "b: job 2 (pro"),
    "both share another lane": (
        ledger(FIRST, AT_ONCE, jobs={n: {"more": ("b", "c"), "shared": ("c",)} for n in (1, 2)}),
        "b: job 2 (process"),
    "a writer beside a reader that began long before": (
        ledger(Run(1, 11, A, 10, 50), Run(2, 12, B, 12, 13), Run(3, 13, B, 20, 30),
               jobs=READERS | {3: {}}), "b: job 3 (process"),
    "out of order in the second lane": (
        ledger(Run(1, 13, A, 31, 40), SECOND, jobs=WRITERS), "b: job 1 was there before job 2"),
    "readers in another order": (
        ledger(SECOND, Run(1, 13, A, 31, 40), jobs=READERS), "b: job 1 was there before job 2"),
    "a writer whose first attempt never began, and a later one was first": (
        ledger(SECOND, Run(1, 13, A, 31, 40, attempt=2), jobs=WRITERS),
        "b: job 1 was there before job 2"),
    "a reader that overtakes a writer": (
        ledger(FIRST, Run(2, 14, B, 41, 42), THIRD, jobs={1: SHARED, 2: {}, 3: SHARED}),
        "b: job 2 was there before job 3"),
    "a writer between two attempts of a reader": (
        ledger(FIRST, SECOND, AGAIN, jobs={1: SHARED, 2: {}}), "between the attempts of job 1"),
    "a writer and a reader between the attempts of a reader": (
        ledger(FIRST, Run(3, 12, B, 21, 22), Run(2, 13, B, 23, 24), Run(1, 14, A, 31, 40, attempt=2),
               jobs={1: SHARED, 2: SHARED, 3: {}}), "between the attempts of job 1"),
    "in a pause of the second lane": (
        ledger(FIRST, SECOND, jobs=WRITERS, pauses={"b": [Pause(19, 25, 11)]}),
        "b: job 2 was claimed and started in a pause"),
}  # fmt: skip
SOUND = {
    "one after the other": ledger(FIRST, SECOND, jobs=WRITERS),
    "readers side by side": ledger(FIRST, AT_ONCE, jobs=READERS),
    "a writer after the readers": ledger(FIRST, AT_ONCE, THIRD, jobs=READERS | {3: {}}),
    "a reader between two attempts of a reader": ledger(FIRST, SECOND, AGAIN, jobs=READERS),
    "readers in another order, and the first attempt of one never began": ledger(
        SECOND, Run(1, 13, A, 31, 40, attempt=2), jobs=READERS),
    "other lanes": ledger(FIRST, AT_ONCE, jobs={1: {}, 2: {"more": ("c",)}}),
    "a writer, and a reader whose process had been stopped": ledger(
        Run(1, 10, A, 10, 40), Run(1, 11, B, 16, 17, attempt=2), Run(2, 12, B, 21, 30),
        jobs={1: SHARED, 2: {}}, stopped=defaultdict(list, {A: [Span(11, 39)]})),
}  # fmt: skip


@pytest.mark.parametrize(("forged", "message"), FORGED.values(), ids=list(FORGED))
def test_the_checker_finds_what_is_wrong_in_several_and_shared_lanes(
    forged: Ledger, message: str
) -> None:
    found = violations(forged)
    assert any(message in violation for violation in found), found


@pytest.mark.parametrize("sound", SOUND.values(), ids=list(SOUND))
def test_the_checker_accepts_what_several_and_shared_lanes_promise(sound: Ledger) -> None:
    assert violations(sound) == []


def test_a_run_in_which_no_lane_was_shared_shows_it() -> None:
    several, beside = "runs with several lanes", "runs beside another in a lane"
    assert lanes_seen(ledger(FIRST, SECOND, jobs=READERS)) == {several: 2, beside: 0}
    assert lanes_seen(ledger(FIRST, AT_ONCE, jobs=READERS)) == {several: 2, beside: 1}
    assert lanes_seen(ledger(FIRST, AT_ONCE, jobs={1: {"more": ()}})) == {several: 0, beside: 0}


def test_a_ledger_of_lanes_is_read_as_it_was_written(tmp_path: Any) -> None:
    log = tmp_path / "log"
    row = [1, "a", 0, False]
    write(log, "insert", call="c", called=1.0, jobs=[row], more=["b"], shared=["a"])
    with log.open() as lines:
        job = read(lines).jobs[1]
    assert (job.lanes, job.shared) == (("a", "b"), ("a",))
