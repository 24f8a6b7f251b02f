"""The rules for batches and groups are tried with forged ledgers, and with well-formed ones."""

from collections import defaultdict
from typing import Any

import pytest

from tests.stress.batch_ledger import batch_violations, batches_seen
from tests.stress.group_ledger import TURNS, group_violations, groups_seen
from tests.stress.ledger import FOR_EVER, Job, Ledger, Run, Span, read, write

A, B = 1, 2  # processes
CALLBACK = 9
COUNTS = {"total": 2, "succeeded": 2, "failed": 0, "cancelled": 0, "aborted": 0}
FIRST, SECOND, LAST = Run(1, 11, A, 10, 20), Run(2, 12, B, 11, 21), Run(CALLBACK, 13, A, 25, 26)
SLEPT = defaultdict(list, {A: [Span(15, 40)]})


def batch(*runs: Run, told: dict[str, int] | None = None, **changes: Any) -> Ledger:
    """Jobs 1 and 2 of batch 7, which is closed at 5, and its callback."""
    jobs = {n: Job(n, None, 0, False, f"call {n}", 0, n, n + 0.5, batch=7) for n in (1, 2)}
    jobs[CALLBACK] = Job(CALLBACK, None, 0, False, "call", 0, 0, 0.5, callback_of=7)
    ends: dict[int, list[tuple[int | None, str]]] = {n: [(None, "cancelled")] for n in jobs}
    for run in sorted(runs, key=lambda run: run.fence):
        ends[run.job] = [(run.fence, "succeeded")]
    made = Ledger(jobs, list(runs), defaultdict(list, ends), closed={7: 5})
    made.counted = {run.fence: COUNTS | (told or {}) for run in runs if run.job == CALLBACK}
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def again(first: Run, fails: int = 0, **changes: Any) -> Ledger:
    """A callback that runs twice."""
    made = batch(FIRST, SECOND, first, Run(CALLBACK, 14, B, 30, 31, attempt=2), **changes)
    made.jobs[CALLBACK].fails = fails
    return made


def with_late_job(called: float, **changes: Any) -> Ledger:
    """A third job that is cancelled before it runs."""
    told = {"total": 3, "cancelled": 1}
    made = batch(FIRST, SECOND, LAST, told=told, **changes)
    made.jobs[3] = Job(3, None, 0, False, "call 3", 0, called, called + 0.5, batch=7)
    made.ends[3] = [(None, "cancelled")]
    return made


def rolled_back() -> Ledger:
    """A third job whose call was rolled back."""
    made = batch(FIRST, SECOND, LAST)
    made.jobs[3] = Job(3, None, 0, False, "call 3", 0, 6, FOR_EVER, batch=7)
    return made


FORGED = {
    "while a job runs": (batch(FIRST, Run(2, 12, B, 11, 26), LAST),
                         "its callback started before the end of job 2"),
    "before a job": (batch(FIRST, LAST, Run(2, 14, B, 30, 31)),
                     "its callback started before the end of job 2"),
    "between two attempts": (batch(FIRST, SECOND, LAST, Run(1, 14, B, 30, 31, attempt=2)),
                             "its callback started before the end of job 1"),
    "before the close": (batch(FIRST, SECOND, LAST, closed={7: 25.5}), "before it was closed"),
    "and it was never closed": (batch(FIRST, SECOND, LAST, closed={}), "before it was closed"),
    "a job joins later": (with_late_job(called=25.5), "job 3 joined after"),
    "twice": (again(LAST), "ran again in process 2"),
    "once more than it raised": (again(Run(CALLBACK, 13, A, 25, 26, attempt=2), fails=1),
                                 "ran again in process 2"),
    "too many": (batch(FIRST, SECOND, LAST, told={"total": 3, "failed": 1}), "was told of 3 jobs"),
    "too few": (with_late_job(called=4, counted={13: COUNTS}), "was told of 2 jobs"),
    "wrong ends": (batch(FIRST, SECOND, LAST, told={"succeeded": 1, "failed": 1}),
                   "was told {'succeeded': 1, 'failed': 1}"),
}  # fmt: skip
WELL = {
    "after the last end": batch(FIRST, SECOND, LAST),
    "at that moment": batch(FIRST, Run(2, 12, B, 11, 25), LAST),
    "a job was cancelled": batch(FIRST, LAST, told={"succeeded": 1, "cancelled": 1}),
    "a job joined after the close": with_late_job(called=6),
    "a call was rolled back": rolled_back(),
    "a job of it runs on in a process that was stopped": batch(
        Run(1, 10, A, 12, 41), Run(1, 11, B, 19, 20, attempt=2), SECOND,
        Run(CALLBACK, 13, B, 25, 26), stopped=SLEPT),
    "a process died": batch(
        Run(1, 11, A, 10), Run(1, 12, B, 18, 20, attempt=2), Run(2, 13, B, 11, 21),
        Run(CALLBACK, 14, B, 25, 26), killed={A: 15}),
    "it raised and ran again": again(LAST, fails=1),
    "its process died": again(Run(CALLBACK, 13, A, 25), killed={A: 26}),
    "its process died before it could report": again(LAST, killed={A: 26}),
    "its process was stopped": again(Run(CALLBACK, 13, A, 25, 45),
                                     stopped=defaultdict(list, {A: [Span(25.1, 44)]})),
    "a person retried it": batch(Run(CALLBACK, 10, A, 3, 4), FIRST, SECOND, retried={CALLBACK}),
    "a person retried a job of it": batch(FIRST, SECOND, LAST, Run(1, 14, B, 30, 31),
                                          retried={1}),
    "a person cancelled it": batch(FIRST, SECOND),
}  # fmt: skip


@pytest.mark.parametrize(("forged", "message"), FORGED.values(), ids=list(FORGED))
def test_the_checker_finds_a_callback_that_runs_twice_too_early_or_with_wrong_counts(
    forged: Ledger, message: str
) -> None:
    found = list(batch_violations(forged))
    assert any(message in violation for violation in found), found


@pytest.mark.parametrize("well", WELL.values(), ids=list(WELL))
def test_the_checker_accepts_what_batches_promise(well: Ledger) -> None:
    assert list(batch_violations(well)) == []


def test_a_run_without_callbacks_shows_it() -> None:
    assert batches_seen(batch(FIRST, SECOND))["callbacks run"] == 0
    assert batches_seen(with_late_job(called=6)) == {
        "callbacks run": 1,
        "jobs of their batches": 3,
        "joined after the close": 1,
        "batches given up": 0,
    }


# ---------------------------------------------------------------- groups


def queue_of(*groups: str | None, job: str | None = "small", **changes: Any) -> Ledger:
    """A job of a group starts after jobs of these groups, all of which were there before it."""
    jobs = {n: Job(n, None, 0, False, "call", n, 0, 1, group=group)
            for n, group in enumerate(groups)}  # fmt: skip
    own = len(groups)
    runs = [Run(n, 11 + n, A, 10 + n, 11 + n) for n in range(own + 1)]
    jobs[own] = Job(own, None, 0, False, "late", 0, 2, 3, group=job, fence=10)
    made = Ledger(jobs, runs)
    for name, value in changes.items():
        setattr(made.jobs[own], name, value)
    return made


def with_runs(made: Ledger, **changes: Any) -> Ledger:
    for run in made.runs:
        for name, value in changes.items():
            setattr(run, name, value)
    return made


MANY = [None] * (TURNS + 1)
STARVED = {
    "behind all of a group": queue_of(*["large"] * (2 * TURNS + 1)),
    "behind jobs without a group": queue_of(*MANY),
    "without a group": queue_of(*["small"] * (TURNS + 1), job=None),
    "behind many, and a few of its own": queue_of(*MANY, "small", None),
    "of a group with a weight": queue_of(*MANY, "large", job="large"),
}
SERVED = {
    "in turn": queue_of(*[None, "small"] * (TURNS + 5)),
    "behind its own": queue_of(*["small"] * (2 * TURNS)),
    "behind a group with a weight": queue_of(*["large"] * (2 * TURNS)),
    "one turn in each claim": queue_of(*[None] * TURNS),
    "behind many that were claimed before": queue_of(*MANY, fence=20),
    "in a lane": queue_of(*MANY, lane="equal0"),
    "with a limit": queue_of(*MANY, limit="slots"),
    "after others": queue_of(*MANY, after=(1,)),
    "scheduled": queue_of(*MANY, scheduled=True),
    "the process that had claimed it died": with_runs(queue_of(*MANY), attempt=2),
    "of a lower priority": queue_of(*MANY, priority=-1),
    "in a queue that others do not serve": with_runs(queue_of(*MANY, queue="y"), pid=B),
}
SERVED["in a queue that others do not serve"].serving = {B: ["x"]}


@pytest.mark.parametrize("starved", STARVED.values(), ids=list(STARVED))
def test_the_checker_finds_a_group_that_starves(starved: Ledger) -> None:
    last = len(starved.jobs) - 1
    [found] = group_violations(starved)
    assert found.startswith(f"job {last} of group {starved.jobs[last].group or 'none'} waited")
    assert groups_seen(starved)["starts judged by groups"] == 1


@pytest.mark.parametrize("served", SERVED.values(), ids=list(SERVED))
def test_the_checker_accepts_what_groups_promise(served: Ledger) -> None:
    assert list(group_violations(served)) == []


def test_a_ledger_of_batches_and_groups_is_read_as_it_was_written(tmp_path: Any) -> None:
    log = tmp_path / "log"
    write(log, "serve", queues=["x"])
    write(log, "insert", call="c", called=1.0, jobs=[[9, None, 0, False]], callback_of=7, fails=1)
    row = [1, "equal0", 0, False]
    write(log, "insert", call="c", called=1.0, jobs=[row], batch=7, queue="y", group="small")
    write(log, "commit", jobs=[9, 1], fence=5)
    write(log, "close", batch=7)
    write(log, "close", batch=7)
    write(log, "counted", batch=7, fence=13, **COUNTS)
    write(log, "give_up", batch=8)
    with log.open() as lines:
        found = read(lines)
    callback, job = found.jobs[9], found.jobs[1]
    assert (callback.callback_of, callback.fails, callback.has_place) == (7, 1, False)
    assert (job.batch, job.queue, job.group, job.fence) == (7, "y", "small", 5)
    assert found.closed[7] < found.closed[8]
    assert (found.given_up, list(found.serving.values())) == ({8}, [["x"]])
    assert found.counted[13] == COUNTS | {"batch": 7}
