"""The judge is judged: it names the broken promise of each lie, and nothing in honest histories."""

import pytest

from tests.evidence.forged import batches, jobs, lanes, processes, waiting
from tests.evidence.forged.story import Story, sound
from tests.evidence.judge import describe
from tests.evidence.promises import PROMISES
from tests.evidence.spans import SECOND

BOOKS = {"lanes": lanes, "jobs": jobs, "waiting": waiting, "batches": batches,
         "processes": processes}  # fmt: skip
LIES = {f"{book}: {name}": lie for book, told in BOOKS.items() for name, lie in told.LIES.items()}
HONEST = {
    f"{book}: {name}": story for book, told in BOOKS.items() for name, story in told.HONEST.items()
}


@pytest.mark.parametrize(("story", "promises"), LIES.values(), ids=list(LIES))
def test_each_lie_breaks_exactly_the_promise_that_it_is_about(story: Story, promises: str) -> None:
    verdict = story.verdict()
    assert verdict.broken == set(promises.split(", ")), describe(verdict)
    assert verdict.word == "invalid"


@pytest.mark.parametrize("story", HONEST.values(), ids=list(HONEST))
def test_an_honest_history_breaks_no_promise(story: Story) -> None:
    verdict = story.verdict()
    assert verdict.word == "valid", describe(verdict)


def test_each_promise_is_broken_by_a_lie_about_nothing_else() -> None:
    assert {promises for _, promises in LIES.values()} >= PROMISES.keys()


def test_a_violation_comes_with_the_events_around_it() -> None:
    text = describe(lanes.LIES["two at once"][0].verdict())
    assert "lane L: two#0" in text
    assert text.index("['one', 0]") < text.index("['two', 0]")


def test_a_run_in_which_a_listed_event_never_occurred_does_not_pass() -> None:
    story = sound()
    story.events[0].facts["required"] = ["a worker was killed in the middle of a job"]
    verdict = story.verdict()
    assert (verdict.word, verdict.passes) == ("valid", False)
    assert verdict.missing == ["a worker was killed in the middle of a job"]


def test_so_does_a_run_with_a_fault_that_never_showed() -> None:
    told = sound().fault(0, 1, shows=["an odd row was ended"])
    assert told.verdict().missing == ["an odd row was ended"]


# A run in which a rare event never occurred shows it: before it happened, and after.
RARE = {
    "a job took the last slot of a limit": (
        waiting.limited("slots", (3, 5), (6, 7)), waiting.limited("slots", (3, 5), (4, 7))),
    "a callback ran": (batches.works(batches.opened()), batches.HONEST["after the last end"]),
    "a job joined a closed batch": (
        batches.HONEST["after the last end"], batches.HONEST["a job that joined after the close"]),
    "a job of a group passed many of another": (batches.works(batches.opened()), batches.flood(3)),
    "a job ran beside another in a shared lane": (
        lanes.HONEST["one after the other in the second lane"],
        lanes.HONEST["readers side by side"]),
    "a job with several lanes ran": (sound(), lanes.HONEST["readers side by side"]),
    "an acknowledged job was lost with its server": (
        sound(), jobs.HONEST["lost with a server that had acknowledged it"]),
    "an id was given again": (
        sound(), jobs.HONEST["an id is given again by a server that forgot"]),
    "a job waited for many of others": (
        batches.works(batches.opened()), batches.HONEST["behind its own group"]),
    "runs of an attempt that was taken over": (
        sound(), lanes.HONEST["stopped beyond the heartbeat"]),
}  # fmt: skip


@pytest.mark.parametrize(("name", "before", "after"), [(n, *pair) for n, pair in RARE.items()])
def test_rare_events_are_counted(name: str, before: Story, after: Story) -> None:
    assert not before.verdict().counts[name]
    assert after.verdict().counts[name]


def test_times_are_nanoseconds() -> None:
    assert sound().verdict().evidence.runs[0].begin == 3 * SECOND
