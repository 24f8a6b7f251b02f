"""What can be told of batches and groups."""

from typing import Any

from tests.evidence.forged.story import Honest, Lies, Story

COUNTS = {"total": 2, "succeeded": 2, "failed": 0, "cancelled": 0, "aborted": 0}
TURNS = 40


def opened(fails: int = 0) -> Story:
    """A batch with two jobs, and with a callback that waits."""
    told = Story().defer(1, "callback", lane=None, ids=(9,), callback_of="b", fails=fails)
    told.defer(1.1, "one", lane=None, batch="b")
    return told.defer(1.2, "two", lane=None, ids=(2,), batch="b")


def close(told: Story, at: float = 2) -> Story:
    return told.tell(at, "p", "closed", batch="b")


def joins(told: Story, at: float, answer: str = "ok") -> Story:
    """A third job, which is cancelled before it runs if its call is answered with ok."""
    told.defer(at, "x", answer, lane=None, ids=(3,), batch="b")
    if answer == "ok":
        told.tell(at + 0.1, "p", "cancel", job=["x", 0]).final("x", None, "cancelled")
    return told


def works(told: Story, end: float = 6) -> Story:
    """Both jobs run, and the second one ends then."""
    told.run(3, 5, "one", 11, lane=None).final("one", 11)
    return told.run(4, end, "two", 12, who="b", lane=None).final("two", 12)


def reports(
    told: Story, at: float = 7, fence: int = 13, attempt: int = 1, how: str = "ok", **counts: int
) -> Story:
    """The callback runs for a second."""
    facts: dict[str, Any] = {"job": ["callback", 0], "fence": fence}
    told.tell(at + 0.1, "c", "counted", counts=COUNTS | counts, **facts)
    end = None if how == "dies" else at + 1
    return told.run(at, end, "callback", fence, who="c", attempt=attempt, lane=None, how=how)


def twice(fails: int = 0, **first: Any) -> Story:
    """The callback runs twice."""
    told = reports(works(close(opened(fails))), **first)
    return ends(reports(told, at=9, fence=14, attempt=2), fence=14)


def ends(told: Story, fence: int = 13, status: str = "succeeded") -> Story:
    return told.final("callback", fence, status)


def retried_member(total: int = 2) -> Story:
    """A job of the batch that failed runs once more after the end, because somebody wants that."""
    told = close(opened()).run(3, 5, "one", 11, lane=None, how="raised")
    told.run(4, 6, "two", 12, who="b", lane=None).final("two", 12)
    told = reports(told, total=total, succeeded=1, failed=1)
    told.tell(9, "conductor", "retried", job=["one", 0])
    return ends(told.run(10, 11, "one", 14, attempt=2, lane=None).final("one", 14))


def taken_over(*, end: float | None) -> Story:
    """The process of a job dies or is stopped, and another one runs the job again."""
    told = close(opened()).run(3, end, "one", 10, lane=None)
    told = told.kill(4) if end is None else told.stop(3.5, end - 0.1)
    told.run(9, 10, "one", 11, who="b", attempt=2, lane=None).final("one", 11)
    told.run(4, 6, "two", 12, who="b", lane=None).final("two", 12)
    return ends(reports(told, at=11))


def flood(
    before: int, own: str | None = "small", group: str | None = "large", lane: str | None = None,
    attempt: int = 1, at: float = 1.8, settings: dict[str, Any] | None = None,
    serves: list[str] | None = None, **spec: Any,
) -> Story:  # fmt: skip
    """A flood of one group, and a job of another that starts after so many of them."""
    count = before + TURNS + 5
    told = Story(**settings or {}).tell(0, "a", "serves", queues=serves)
    told.defer(1, "flood", lane=None, ids=tuple(range(count)), group=group)
    told.defer(at, "late", lane=lane, ids=(999,), group=own, **spec)
    for n in range(count):
        number = 100 + n + (n >= before)
        told.run(2 + n / 100, 2 + n / 100 + 0.005, "flood", number, index=n, lane=None)
        told.final("flood", number, index=n)
    start = 2 + before / 100 - 0.002
    told.run(start, start + 0.001, "late", 100 + before, who="b", lane=lane, attempt=attempt)
    return told.final("late", 100 + before)


def weighted(before: int) -> Story:
    return flood(before, settings={"weights": {"large": 2}})


def behind_some_of_its_own(own: int) -> Story:
    """Many of another group, and some of its own, start before a job."""
    told = Story().defer(1, "many", lane=None, ids=tuple(range(TURNS + 5)), group="large")
    told.defer(1.1, "own", lane=None, ids=tuple(range(100, 100 + own)), group="small", later=True)
    told.defer(1.2, "late", lane=None, ids=(999,), group="small")
    fence = 10
    for op, count in (("many", TURNS + 5), ("own", own), ("late", 1)):
        for n in range(count):
            fence += 1
            told.run(fence, fence + 0.5, op, fence, index=n, lane=None).final(op, fence, index=n)
    return told


HONEST: Honest = {
    "after the last end": ends(reports(works(close(opened())))),
    "at the moment of the last end": ends(reports(works(close(opened()), end=7))),
    "closed when all have ended": ends(reports(works(close(opened(), at=6.5)))),
    "a job without an answer, which was there": ends(reports(
        works(joins(close(opened()), 2.5, "unknown")).run(3, 4, "x", 10, who="d", lane=None)
        .final("x", 10), total=3, succeeded=3)),
    "a job that was cancelled": ends(reports(
        close(opened()).tell(2, "p", "cancel", job=["two", 0]).final("two", None, "cancelled")
        .run(3, 5, "one", 11, lane=None).final("one", 11), succeeded=1, cancelled=1)),
    "a job that joined after the close": ends(reports(
        works(joins(close(opened()), 2.5)), total=3, cancelled=1)),
    "a job that was rolled back": ends(reports(works(joins(close(opened()), 2.5, "fail")))),
    "a job without an answer, which never was": ends(reports(
        works(joins(close(opened()), 2.5, "unknown")))),
    "a callback that raised and ran again": twice(1, how="raised"),
    "a callback whose process died": twice(how="dies").kill(7.5, "c"),
    "a callback whose process died before it could report": twice().kill(8.5, "c"),
    "a callback whose process was stopped": ends(reports(
        works(close(opened())).run(7, 30, "callback", 13, who="d", lane=None)
        .stop(7.1, 29, "d"), at=14, fence=14, attempt=2), fence=14),
    "a job whose process died": taken_over(end=None),
    "a job whose process was stopped": taken_over(end=16),
    "a job that was retried after the end": retried_member(),
    "given up": works(opened()).tell(2, "conductor", "given_up", batch="b")
        .final("callback", None, "cancelled"),
    "given up, and a job was cancelled after an attempt": opened()
        .run(3, 5, "one", 11, lane=None, how="raised").final("one", 11, "cancelled")
        .run(4, 6, "two", 12, who="b", lane=None).final("two", 12)
        .tell(2, "conductor", "given_up", batch="b").final("callback", None, "cancelled"),
    "a callback that somebody retried": ends(reports(
        works(close(opened(), at=8)).tell(6.5, "conductor", "retried", job=["callback", 0]))),
    "a turn in each claim": flood(TURNS),
    "behind its own group": flood(2 * TURNS, own="large"),
    "behind a group with a weight": weighted(2 * TURNS),
    "behind many, and some of its own": behind_some_of_its_own(5),
    "behind many that were claimed before": flood(TURNS + 1, fence=110),
    "in a lane": flood(TURNS + 1, lane="L"),
    "with a limit": flood(TURNS + 1, limit="slots"),
    "scheduled": flood(TURNS + 1, later=True),
    "after others": flood(TURNS + 1, after=[["flood", 0]]),
    "of a lower priority": flood(TURNS + 1, priority=-1),
    "in a queue that others do not serve": flood(TURNS + 1, serves=["x"], queue="y"),
    "that expires": flood(TURNS + 1, expires=99.0),
    "without an answer": flood(TURNS + 1, answer="unknown"),
    "behind many that had begun before": flood(TURNS + 5, at=2.3),
    "its first process died": flood(TURNS + 1, attempt=2),
    "a stopped process may have had its row": flood(TURNS + 1).stop(1.5, 2.1, "c"),
    "its first process never heard of it": flood(TURNS + 1).tell(
        2, "b", "log", what="job.found", text="job.found: 999 step was claimed by this worker"),
}  # fmt: skip

LIES: Lies = {
    "while a job runs": (ends(reports(works(close(opened()), end=7.5))), "hasty"),
    "before a job": (ends(reports(works(close(opened())), at=2.5, fence=10), 10), "hasty"),
    "before the close": (ends(reports(works(close(opened(), at=7.5)))), "hasty"),
    "and nobody has closed it": (ends(reports(works(opened()))), "hasty"),
    "between two attempts": (
        ends(reports(close(opened()).run(3, 5, "one", 11, lane=None, how="raised")
                     .run(4, 6, "two", 12, who="b", lane=None).final("two", 12)
                     .run(9, 10, "one", 14, attempt=2, lane=None).final("one", 14))), "hasty"),
    "a job joins later": (
        ends(reports(joins(works(close(opened())), 7.5), total=3, cancelled=1)), "hasty"),
    "while a zombie had been stopped for a moment": (
        ends(reports(works(close(opened()), end=7.5).stop(4.5, 5.5, "b"))), "hasty"),
    "twice": (twice(), "repeated"),
    "once more than it raised": (
        ends(reports(reports(reports(works(close(opened(1))), how="raised"), at=9, fence=14,
                             attempt=2), at=11, fence=15, attempt=3), 15), "repeated"),
    "two ends": (ends(ends(reports(works(close(opened()))))), "ended twice"),
    "never": (works(close(opened())), "lost"),
    "cancelled unasked": (
        works(close(opened())).final("callback", None, "cancelled"), "cancelled unasked"),
    "a job was lost, and counted": (
        ends(reports(works(close(opened()).defer(1.5, "x", lane=None, ids=(3,), batch="b")),
                     total=3)), "lost"),
    "a job was rolled back and ran, and was not counted": (
        ends(reports(works(joins(close(opened()), 2.5, "fail"))
                     .run(3, 4, "x", 10, who="d", lane=None).final("x", 10))), "ghost"),
    "one too many": (ends(reports(works(close(opened())), total=3)), "miscounted"),
    "one too few": (ends(reports(works(joins(close(opened()), 2.5)))), "miscounted"),
    "an end that was none": (
        ends(reports(works(close(opened())), succeeded=1, failed=1)), "miscounted"),
    "one too many, and one was retried": (retried_member(total=3), "miscounted"),
    "behind a flood": (flood(TURNS + 1), "starved"),
    "behind a flood that was claimed after it, for sure": (flood(TURNS + 1, fence=99), "starved"),
    "without a group, behind a flood": (flood(TURNS + 1, own=None), "starved"),
    "behind all without a group": (flood(TURNS + 1, group=None), "starved"),
    "behind too many of a group with a weight": (weighted(2 * TURNS + 1), "starved"),
    "of a group with a weight, behind all without a group": (
        flood(TURNS + 1, own="large", group=None, settings={"weights": {"large": 2}}), "starved"),
    "behind many, and a few of its own": (behind_some_of_its_own(4), "starved"),
    "in a queue that others serve": (flood(TURNS + 1, serves=["x"], queue="x"), "starved"),
    "in a queue that others serve, as all queues": (flood(TURNS + 1, queue="x"), "starved"),
    "and its process never heard of another job": (flood(TURNS + 1).tell(
        2, "b", "log", what="job.found", text="job.found: 0 step was claimed"), "starved"),
    "behind too many that had begun later": (flood(TURNS + 40, at=2.3), "starved"),
    "of a higher priority": (flood(TURNS + 1, priority=1), "starved"),
    "after a process had been stopped": (flood(TURNS + 1).stop(1.1, 1.7, "c"), "starved"),
}  # fmt: skip
