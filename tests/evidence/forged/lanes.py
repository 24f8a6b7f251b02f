"""What can be told of lanes."""

from typing import Any

from tests.evidence.forged.story import Honest, Lies, Story, sound, two
from tests.evidence.spans import SECOND

SHELF: dict[str, Any] = {"also": ["shelf"]}
READER: dict[str, Any] = {"also": ["shelf"], "shared": ["shelf"]}
ELSEWHERE: dict[str, Any] = {"also": ["shelf", "rack"], "shared": ["rack"]}


def ended(told: Story, one: int = 11, second: int = 12) -> Story:
    return told.final("one", one).final("two", second)


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


def never_began(spec: dict[str, Any]) -> Story:
    """The first attempt of a job died with its process before it began, and left no trace."""
    told = jobs(spec, READER).run(3, 4, "job 1", 12, who="w1", lane="own 1").final("job 1", 12)
    told.run(5, 6, "job 0", 13, who="w0", lane="own 0", attempt=2)
    return told.final("job 0", 13)


def paused(*, lane: str, since: float, until: float | None, fence: int = 11) -> Story:
    end = None if until is None else int(until * SECOND)
    told = runs(jobs(SHELF, SHELF), (0, 3, 4), (1, 5, 6))
    facts = {"lane": lane, "called": int(since * SECOND), "until": end, "fence": fence}
    return told.tell(since, "conductor", "paused", **facts)


def zombie(first: float, end: float, *stops: tuple[float, float]) -> Story:
    """The first attempt at a job begins so late that others have run it, and the next one."""
    told = two().run(first, end, "one", 11)
    told.run(17, 18, "one", 12, "b", attempt=2).run(19, 20, "two", 13, "b")
    for stop in stops:
        told.stop(*stop)
    return ended(told, 12, 13)


def again(since: float | None = None, at: float = 35, fence: int = 5) -> Story:
    """Two jobs run and end, and both run again, one of them perhaps as the same attempt."""
    told = two().run(10, 20, "one", 5, attempt=None).run(20, 30, "two", 6, "b", attempt=None)
    told.run(40, 50, "one", fence, attempt=None).run(50, 60, "two", 8, attempt=None)
    if since is not None:
        told.forget(since, at)
    return ended(told, max(5, fence), 8)


def prior(lane: str = "L", **call: Any) -> Story:
    """A job of a higher priority, which is deferred later and started first."""
    told = two().defer(2.5, "urgent", ids=(3,), priority=1).run(3, 4, "urgent", 10)
    return told.final("urgent", 10)


def in_a_call(first: int, second: int) -> Story:
    told = Story().tell(1, "p", "call", op="x", lane="L", jobs=[{}, {}, {"priority": 1}])
    told.tell(1.1, "p", "ok", op="x").run(2, 3, "x", 10, index=2).final("x", 10, index=2)
    told.run(3, 4, "x", 11, index=first).run(5, 6, "x", 12, index=second)
    return told.final("x", 11, index=first).final("x", 12, index=second)


def unclear(**facts: bool) -> Story:
    """A call without an answer takes effect, and the next job starts before it."""
    told = Story().defer(1, "one", "unknown").tell(1.5, "p", "unclear", op="one", **facts)
    told.defer(2, "two", ids=(2,)).run(3, 4, "two", 11).run(5, 6, "one", 12)
    return ended(told, 12, 11)


STOPPED_LONG = two().run(3, 30, "one", 11).stop(3.5, 6.5).stop(7.5, 9.9)

HONEST: Honest = {
    "in turn": sound(),
    "one begins when the other ends": ended(two().run(3, 5, "one", 11).run(5, 6, "two", 12, "b")),
    "stopped beyond the heartbeat": Story().defer(1, "one").run(3, 14, "one", 11)
        .stop(3.5, 13.5).run(10, 11, "one", 12, "b", attempt=2).final("one", 12),
    "cut off beyond the heartbeat": Story().defer(1, "one").run(3, 14, "one", 11)
        .stop(3.5, 13.5, how="cut").run(10, 11, "one", 12, "b", attempt=2).final("one", 12),
    "stopped, and again before it could learn": ended(
        STOPPED_LONG.run(10, 11, "one", 12, "b", attempt=2).run(12, 13, "two", 13, "b"), 12, 13),
    "began after it was stopped, and was refused": ended(
        two().run(10, 11, "one", 12, "b", attempt=2).run(12, 16, "two", 13, "b").stop(3, 14)
        .run(14.1, 14.2, "one", 11), 12, 13),
    "began after it was stopped, and again at once": zombie(30, 40, (10, 25), (25.1, 29)),
    "calls that overlap, either way round": ended(
        Story().tell(1, "p", "call", op="one", lane="L", jobs=[{}])
        .tell(1.5, "p", "call", op="two", lane="L", jobs=[{}]).tell(2, "p", "ok", op="one")
        .tell(2, "p", "ok", op="two").run(3, 4, "two", 11).run(5, 6, "one", 12), 12, 11),
    "no answer, and it came later": unclear(),
    "a scheduled job has no place": ended(
        two().defer(2.5, "x", later=True, ids=(3,)).defer(2.8, "y", ids=(4,)).run(3, 4, "one", 11)
        .run(5, 6, "two", 12).run(7, 8, "y", 13).run(9, 10, "x", 14).final("x", 14).final("y", 13)),
    "the callback of a batch has no place": ended(
        two(callback_of="b").tell(2.5, "p", "closed", batch="b").run(3, 4, "two", 11)
        .run(5, 6, "one", 12), 12, 11),
    "a higher priority first": ended(prior().run(5, 6, "one", 11).run(7, 8, "two", 12)),
    "a higher priority of the same call first": in_a_call(0, 1),
    "others between the attempts of a job that releases its lane": ended(
        two(releases=True, fails=1).run(3, 4, "one", 11, how="raised").run(5, 6, "two", 12)
        .run(7, 8, "one", 13, attempt=2), 13, 12),
    "one after the other in the second lane": runs(jobs(SHELF, SHELF), (0, 3, 4), (1, 5, 6)),
    "at once in other lanes": runs(jobs(SHELF, {"also": ["rack"]}), (0, 3, 5), (1, 4, 6)),
    "readers side by side": runs(jobs(READER, READER), (0, 3, 6), (1, 4, 5)),
    "readers that begin in another order than they were claimed": runs(
        jobs(READER, READER), (0, 4, 5), (1, 3, 6)),
    "a writer after the readers": runs(
        jobs(READER, READER, SHELF), (0, 3, 6), (1, 4, 5), (2, 7, 8)),
    "a reader between the attempts of a reader": runs(
        jobs(READER | {"fails": 1}, READER), (0, 3, 4), (1, 5, 6), (0, 7, 8)),
    "a reader whose process had been stopped": runs(
        jobs(READER, SHELF), (0, 3, 20), (1, 15, 16)).stop(3.5, 19.5, "w0"),
    "readers in another order, and one begins with its second attempt": never_began(READER),
    "readers in another order, and one was claimed before in vain": runs(
        jobs(READER, READER), (1, 3, 4), (0, 5, 6)).tell(
        4.5, "w0", "log", what="job.found", text="job.found: 0 step was claimed by this worker"),
    "claimed before the pause": paused(lane="shelf", since=4.5, until=9, fence=12),
    "started after the pause": paused(lane="shelf", since=4.5, until=4.9),
    "a pause of another lane": paused(lane="rack", since=4.5, until=None),
    "started when the lane was resumed": paused(lane="shelf", since=4.5, until=None).tell(
        4.9, "conductor", "resumed", lane="shelf", called=int(4.8 * SECOND)),
    "what a server had forgotten runs again": again(since=15),
    "what a server had forgotten runs again, and others had run in between": again(since=15, fence=7),
    "nobody counts the attempts": jobs(READER).run(3, 4, "job 0", 11, attempt=None, lane="own 0")
        .final("job 0", 11),
}  # fmt: skip

LIES: Lies = {
    "two at once": (ended(two().run(3, 6, "one", 11).run(5, 7, "two", 12)), "overlap"),
    "beside a process that was stopped briefly": (
        ended(two().run(3, 8, "one", 11).stop(3.5, 5.5).run(7, 9, "two", 12, "b")), "overlap"),
    "beside a process that was stopped later": (
        ended(two().run(3, 20, "one", 11).stop(9, 19).run(7, 8, "two", 12, "b")), "overlap"),
    "long after a process was woken": (
        ended(two().stop(1, 9).run(20, 25, "one", 11).run(22, 23, "two", 12, "b")), "overlap"),
    "and the other one was stopped": (
        ended(two().run(3, 20, "one", 11).stop(5, 15, "b").run(7, 8, "two", 12, "b")), "overlap"),
    "beside a process that died later": (
        ended(two().run(3, None, "one", 11).kill(9).run(7, 8, "two", 12, "b")
              .run(14, 15, "one", 13, "b", attempt=2), 13), "overlap, overtaken"),
    "in a process that has just died": (
        ended(two().run(3, None, "one", 11).kill(4).run(5, 6, "two", 12, "b")
              .run(9, 10, "one", 13, "b", attempt=2), 13), "overlap, overtaken"),
    "again before its process died": (
        ended(two().run(10, None, "one", 11).kill(15).run(14, 16, "one", 12, "b", attempt=2)
              .run(20, 21, "two", 13), 12, 13), "overlap, repeated"),
    "beside one of long before": (
        ended(two().run(3, 40, "one", 11).stop(3.5, 39).run(50, 60, "one", 12, attempt=2)
              .run(21, 30, "two", 13, "b"), 12, 13), "fence"),
    "beside one that never ended": (
        ended(two().run(3, None, "one", 11).run(5, 6, "one", 12, "b", attempt=2)
              .run(7, 8, "two", 13), 12, 13), "overlap, never ended, repeated"),
    "a zombie begins long after it was woken, and stopped again": (
        zombie(30, 40, (10, 15), (25, 29)), "fence, repeated"),
    "in the wrong order": (ended(two().run(3, 4, "two", 11).run(5, 6, "one", 12), 12, 11), "order"),
    "in the wrong order of a call": (in_a_call(1, 0), "order"),
    "a higher priority later": (
        ended(two(priority=0).defer(2.5, "x", ids=(3,)).defer(1.5, "urgent", ids=(4,), priority=1)
              .run(3, 4, "one", 11).run(5, 6, "two", 12).run(6, 7, "x", 13)
              .run(8, 9, "urgent", 14).final("x", 13).final("urgent", 14)), "order"),
    "without an answer, though the call was over": (unclear(settled=True), "order"),
    "overtaken in a retry": (
        ended(two(fails=1).run(3, 4, "one", 11, how="raised").run(5, 6, "two", 12)
              .run(7, 8, "one", 13, attempt=2), 13), "overtaken"),
    "overtaken after a crash": (
        ended(two().run(3, None, "one", 11).kill(4).run(9, 10, "two", 12, "b")
              .run(10, 11, "one", 13, "b", attempt=2), 13), "overtaken"),
    "a fence twice": (
        two().run(3, 4, "one", 11).run(5, 6, "two", 11).final("one", 11).final("two", 11),
        "fence given twice"),
    "a fence twice, and no lane": (
        ended(Story().defer(1, "one", lane=None).defer(2, "two", lane=None, ids=(2,))
              .run(3, 4, "one", 11, lane=None).run(5, 6, "two", 11, "b", lane=None), 11, 11),
        "fence given twice"),
    "a fence that falls": (
        ended(Story().tell(1, "p", "call", op="one", lane="L", jobs=[{}])
              .tell(1, "p", "call", op="two", lane="L", jobs=[{}]).tell(2, "p", "ok", op="one")
              .tell(2, "p", "ok", op="two").run(3, 4, "one", 12).run(5, 6, "two", 11), 12, 11),
        "fence"),
    "an attempt runs again for no reason": (again(), "fence, fence given twice, repeated"),
    "an attempt runs again long after a server took over": (
        again(since=15, at=65), "fence, fence given twice, repeated"),
    "a server that took over gives a lower fence": (again(since=15, fence=4), "fence, repeated"),
    "two at once in the second lane": (runs(jobs(SHELF, SHELF), (0, 3, 5), (1, 4, 6)), "overlap"),
    "a writer beside a reader": (runs(jobs(READER, SHELF), (0, 3, 5), (1, 4, 6)), "overlap"),
    "a reader beside a writer": (runs(jobs(SHELF, READER), (0, 3, 5), (1, 4, 6)), "overlap"),
    "both share another lane": (runs(jobs(ELSEWHERE, ELSEWHERE), (0, 3, 5), (1, 4, 6)), "overlap"),
    "a writer beside a reader that began long before": (
        runs(jobs(READER, READER, SHELF), (0, 3, 9), (1, 4, 5), (2, 6, 7)), "overlap"),
    "out of order in the second lane": (runs(jobs(SHELF, SHELF), (1, 3, 4), (0, 5, 6)), "order"),
    "readers in another order": (
        runs(jobs(READER, READER), (1, 3, 4), (0, 5, 6))
        .tell(4.5, "w0", "log", what="job.lost", text="job.lost: 0 is another worker's"), "order"),
    "a writer whose first attempt never began, and a later one was first": (
        never_began(SHELF), "order"),
    "a reader that overtakes a writer": (
        runs(jobs(READER, SHELF, READER), (0, 3, 4), (2, 5, 6), (1, 7, 8)), "order"),
    "a writer between the attempts of a reader": (
        runs(jobs(READER | {"fails": 1}, SHELF), (0, 3, 4), (1, 5, 6), (0, 7, 8)), "overtaken"),
    "a writer and a reader between them": (
        runs(jobs(READER | {"fails": 1}, SHELF, READER), (0, 3, 4), (1, 5, 5.5), (2, 6, 6.5),
             (0, 7, 8)), "overtaken"),
    "a fence that falls in the second lane": (
        runs(jobs(SHELF, SHELF), (0, 5, 6), (1, 3, 4)), "fence"),
    "started in a pause": (paused(lane="shelf", since=4.5, until=9), "paused"),
    "started in a pause without an end": (paused(lane="own 1", since=4.5, until=None), "paused"),
    "started in a pause that was resumed too late": (
        paused(lane="shelf", since=4.5, until=None).tell(
            6.5, "conductor", "resumed", lane="shelf", called=6 * SECOND), "paused"),
}  # fmt: skip
