"""The judge of several and shared lanes is judged itself, with sound and forged histories."""

from typing import Any

import pytest

from tests.chaos.checker import describe
from tests.chaos.rare import counted
from tests.chaos.test_checker import Story

SHELF: dict[str, Any] = {"also": ["shelf"]}
READER: dict[str, Any] = {"also": ["shelf"], "shared": ["shelf"]}


def jobs(*specs: dict[str, Any]) -> Story:
    """Jobs that are deferred one after the other in lanes of their own, and in a common one."""
    told = Story()
    for n, spec in enumerate(specs):
        told.defer(1 + n / 10, f"job {n}", lane=f"own {n}", ids=(n,), **spec)
    return told


def runs(told: Story, *times: tuple[int, float, float]) -> Story:
    """Run the jobs, each in a worker of its own. Fences rise from run to run."""
    for place, (n, start, end) in enumerate(times):
        again = any(n == before for before, _, _ in times[:place])
        more = any(n == after for after, _, _ in times[place + 1 :])
        facts: dict[str, Any] = {"how": "raised" if more else "ok", "attempt": 2 if again else 1}
        told.run(start, end, f"job {n}", 11 + place, who=f"w{n}", lane=f"own {n}", **facts)
        if not more:
            told.final(f"job {n}", 11 + place)
    return told


SOUND: dict[str, Story] = {
    "one after the other": runs(jobs(SHELF, SHELF), (0, 3, 4), (1, 5, 6)),
    "readers side by side": runs(jobs(READER, READER), (0, 3, 6), (1, 4, 5)),
    "readers that begin in another order than they were claimed": runs(
        jobs(READER, READER), (0, 4, 5), (1, 3, 6)),
    "a writer after the readers": runs(jobs(READER, READER, SHELF), (0, 3, 6), (1, 4, 5), (2, 7, 8)),
    "a reader between the attempts of a reader": runs(
        jobs(READER | {"fails": 1}, READER), (0, 3, 4), (1, 5, 6), (0, 7, 8)),
    "a reader whose process had been stopped": runs(jobs(READER, SHELF), (0, 3, 20), (1, 15, 16))
        .stop(3.5, 19.5, "w0"),
}  # fmt: skip
FORGED: dict[str, tuple[Story, str]] = {
    "two at once in the second lane": (runs(jobs(SHELF, SHELF), (0, 3, 5), (1, 4, 6)), "overlap"),
    "a writer beside a reader": (runs(jobs(READER, SHELF), (0, 3, 5), (1, 4, 6)), "overlap"),
    "a reader beside a writer": (runs(jobs(SHELF, READER), (0, 3, 5), (1, 4, 6)), "overlap"),
    "a writer beside a reader that began long before": (
        runs(jobs(READER, READER, SHELF), (0, 3, 9), (1, 4, 5), (2, 6, 7)), "overlap"),
    "out of order in the second lane": (runs(jobs(SHELF, SHELF), (1, 3, 4), (0, 5, 6)), "order"),
    "a reader that overtakes a writer": (
        runs(jobs(READER, SHELF, READER), (0, 3, 4), (2, 5, 6), (1, 7, 8)), "order"),
    "a writer between the attempts of a reader": (
        runs(jobs(READER | {"fails": 1}, SHELF), (0, 3, 4), (1, 5, 6), (0, 7, 8)), "overtaken"),
    "a writer and a reader between them": (
        runs(jobs(READER | {"fails": 1}, SHELF, READER), (0, 3, 4), (1, 5, 5.5), (2, 6, 6.5),
             (0, 7, 8)), "overtaken"),
    "a fence that falls in the second lane": (
        runs(jobs(SHELF, SHELF), (0, 5, 6), (1, 3, 4)), "fence"),
}  # fmt: skip


# The first attempt of a reader died with its process before it began, and left no trace.
SOUND["readers in another order, and one begins with its second attempt"] = (
    jobs(READER, READER)
    .run(3, 4, "job 1", 12, who="w1", lane="own 1").final("job 1", 12)
    .run(5, 6, "job 0", 13, who="w0", lane="own 0", attempt=2).final("job 0", 13)
)  # fmt: skip
SOUND["readers in another order, and one was claimed before in vain"] = (
    runs(jobs(READER, READER), (1, 3, 4), (0, 5, 6))
    .tell(4.5, "w0", "log", what="job.found", text="job.found: 0 step was claimed by this worker")
)  # fmt: skip
FORGED["readers in another order"] = runs(jobs(READER, READER), (1, 3, 4), (0, 5, 6)), "order"


@pytest.mark.parametrize("told", SOUND.values(), ids=list(SOUND))
def test_a_sound_history_is_valid(told: Story) -> None:
    verdict = told.verdict()
    assert verdict.word == "valid", describe(verdict)


@pytest.mark.parametrize(("told", "rule"), FORGED.values(), ids=list(FORGED))
def test_a_forged_history_is_invalid_by_its_rule(told: Story, rule: str) -> None:
    verdict = told.verdict()
    assert rule in {found.rule for found in verdict.violations}, describe(verdict)


def test_a_run_in_which_no_lane_was_shared_shows_it() -> None:
    names = ("a job with several lanes ran", "a job ran beside another in a shared lane")
    found = [
        [counted(SOUND[story].verdict().evidence)[name] for name in names]
        for story in ("one after the other", "readers side by side")
    ]
    assert found == [[2, 0], [2, 1]]
