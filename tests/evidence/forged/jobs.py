"""What can be told of a job: whether it was there, how often it ran, and how it ended."""

from tests.evidence.forged.story import Honest, Lies, Story, second_attempt, sound, two


def one(fails: int = 0) -> Story:
    return Story().defer(1, "one", fails=fails)


def failed(*, lost: int, stopped: bool = False) -> Story:
    """A job that may lose two processes, and fails with its last one."""
    told = Story(max_lost=2).defer(1, "one")
    for n in range(lost):
        who, at = f"w{n}", 3 + 10 * n
        told.run(at, at + 9 if stopped else None, "one", 11 + n, who, attempt=n + 1)
        told = told.stop(at + 1, at + 8, who) if stopped else told.kill(at + 1, who)
    return told.final("one", 10 + lost, "failed")


def named(op: str) -> Story:
    """Two jobs with one id: a server took over in between, or not."""
    told = Story().defer(1, "one").run(3, 4, "one", 11, id=7).final("one", 11)
    return told.defer(6, op, lane="M").run(7, 8, op, 12, id=7, lane="M").final(op, 12)


def counted(attempt: int) -> Story:
    """A worker that sees each claim, and a rescuer that does not say what it takes back."""
    told = Story(every_start=True).defer(1, "one").tell(2, "a", "begin", job=1, fence=11, attempt=1)
    told.tell(4, "rescuer", "end", job=1, how="rescued")
    told.tell(5, "b", "begin", job=1, fence=12, attempt=attempt)
    return told.tell(6, "b", "end", job=1, fence=12, how="ok").final("one", 12)


def cancelled(at: float, retried: float | None = None) -> Story:
    told = sound().tell(at, "conductor", "cancelled", job=["two", 0])
    return told if retried is None else told.tell(retried, "conductor", "retried", job=["two", 0])


def stored(*, zombie: bool, first: bool = True) -> Story:
    """Two jobs have effects in a store, and perhaps a zombie that it should have refused."""
    told = two().run(3, 4, "one", 11, accepted=first).run(5, 6, "two", 12, accepted=True)
    told.tell(7, "a", "effect", lane="L", fence=11, accepted=zombie, place=9999)
    return told.final("one", 11).final("two", 12)


KILLED = one().run(3, None, "one", 11).kill(4).run(9, 10, "one", 12, "b", attempt=2)

HONEST: Honest = {
    "a store that refuses a stale fence": stored(zombie=False),
    "a retry": second_attempt("raised"),
    "a job that was put back": second_attempt("put back"),
    "killed in a job": KILLED.final("one", 12),
    "killed before it could report": second_attempt().kill(4.5),
    "killed long after others had taken its job": one().run(3, 14, "one", 11)
        .stop(3.5, 13.5).kill(60).run(70, 71, "one", 12, "b", attempt=2).final("one", 12),
    "rolled back": sound().defer(7, "three", "fail", ids=(3,)),
    "no answer, and it took effect": sound().defer(2.5, "x", "unknown", ids=(3,))
        .run(7, 8, "x", 13).final("x", 13),
    "no answer, and it did not": sound().defer(7, "x", "unknown"),
    "an odd row failed and the lane went on": Story().defer(1, "odd", odd=True)
        .defer(2, "two", ids=(2,)).run(5, 6, "two", 12).final("odd", 11, "failed").final("two", 12),
    "it failed on request": one(9).run(3, 4, "one", 11, how="raised").final("one", 11, "failed"),
    "it failed when its processes had died": failed(lost=2),
    "it failed when its processes had been silenced": failed(lost=2, stopped=True),
    "it failed after a process that died, and one that never began": one(1)
        .run(3, None, "one", 11).kill(4).final("one", 12, "failed"),
    "it failed with its last process, which it never told of": one(1)
        .run(3, 4, "one", 11, how="raised").final("one", 12, "failed"),
    "cancelled as asked": one().tell(2, "p", "cancel", job=["one", 0])
        .final("one", None, "cancelled"),
    "cancelled and retried": cancelled(4.5, retried=4.7),
    "cancelled after its start": cancelled(5.5),
    "named by its id": two().tell(3, "a", "begin", job=1, fence=11).tell(
        4, "a", "end", fence=11, how="ok").run(5, 6, "two", 12).final("two", 12)
        .tell(99, "conductor", "final", job=1, fence=11, status="succeeded"),
    "taken back by a rescuer": counted(attempt=2),
    "an id is given again by a server that forgot": named("x").forget(3.5, 5),
    "lost with a server that had acknowledged it": two().run(3, 4, "one", 11).final("one", 11)
        .forget(1.5, 5),
}  # fmt: skip

LIES: Lies = {
    "lost": (two().run(3, 4, "one", 11).final("one", 11), "lost"),
    "lost, and a server took over that knew it": (
        two().run(3, 4, "one", 11).final("one", 11).forget(2.5, 5), "lost"),
    "lost after it had begun": (
        two().run(3, 4, "one", 11).final("one", 11).run(5, None, "two", 12), "lost, never ended"),
    "made up": (sound().run(7, 8, "three", 13).final("three", 13), "ghost"),
    "rolled back and ran": (
        sound().defer(7, "x", "fail", ids=(3,)).run(8, 9, "x", 13).final("x", 13), "ghost"),
    "rolled back and ended": (
        sound().defer(7, "x", "fail", fails=1, ids=(3,)).run(8, 9, "x", 13, how="raised")
        .final("x", 13, "failed"), "ghost"),
    "rolled back and left": (
        sound().defer(7, "x", "fail", ids=(3,))
        .tell(99, "conductor", "left", job=["x", 0], state="todo"), "ghost, stuck"),
    "half a call": (
        sound().defer(7, "x", "unknown", ids=(3, 4)).run(8, 9, "x", 13).final("x", 13),
        "half a call"),
    "half a call, and the other half was cancelled": (
        sound().defer(7, "x", "unknown", ids=(3, 4)).tell(8, "p", "cancel", job=["x", 0])
        .final("x", None, "cancelled"), "half a call"),
    "half a call, and the other half is left": (
        sound().defer(7, "x", "unknown", ids=(3, 4))
        .tell(99, "conductor", "left", job=["x", 0], state="todo"), "half a call, stuck"),
    "two jobs with one id": (named("x"), "one id"),
    "two jobs with one id, and a server took over later": (named("x").forget(8, 9), "one id"),
    "attempts that do not rise": (
        one(1).run(3, 4, "one", 11, how="raised").run(6, 7, "one", 12, "b").final("one", 12),
        "attempts"),
    "an attempt that was not counted": (counted(attempt=3), "attempts"),
    "repeated": (second_attempt(), "repeated"),
    "repeated after a brief stop": (second_attempt().stop(3.1, 3.9), "repeated"),
    "repeated before its process was killed": (second_attempt().kill(8), "repeated"),
    "repeated long after its end, and its process was killed later": (
        one().run(3, 4, "one", 11).kill(40).run(46, 47, "one", 12, "b", attempt=2)
        .final("one", 12), "repeated"),
    "ended twice": (sound().final("one", 11), "ended twice"),
    "an attempt that ends twice": (
        sound().tell(7, "a", "end", job=["two", 0], fence=12, how="ok"), "ended twice"),
    "ended by one that was taken back": (
        counted(2).tell(7, "a", "end", job=1, how="ok"), "ended twice"),
    "ended and never ran": (
        two(lane="M").run(5, 6, "two", 12).final("one", 11).final("two", 12), "wrong end"),
    "the end of a stale attempt": (
        one(1).run(3, 4, "one", 11, how="raised").run(6, 7, "one", 12, "b", attempt=2)
        .final("one", 11), "stale end"),
    "the end of a zombie": (
        Story().defer(1, "one").run(3, 14, "one", 11).stop(3.5, 13.5)
        .run(10, 11, "one", 12, "b", attempt=2).final("one", 11), "stale end"),
    "failed by a stale attempt": (
        one(9).run(3, 4, "one", 11, how="raised").run(6, 7, "one", 12, "b", "raised", attempt=2)
        .final("one", 11, "failed"), "stale end"),
    "succeeded by an attempt that never ran": (
        two(lane="M").run(3, 4, "one", 11, lane="M").run(5, 6, "two", 12, lane=None)
        .final("one", 99).final("two", 12), "stale end"),
    "succeeded by an attempt that raised": (
        one(1).run(3, 4, "one", 11, how="raised").final("one", 11), "wrong end"),
    "succeeded by an attempt that died": (
        Story().defer(1, "one").run(3, None, "one", 11).kill(4).final("one", 11), "wrong end"),
    "failed by an attempt that died": (
        one(9).run(3, None, "one", 11).kill(4).final("one", 11, "failed"), "wrong end"),
    "failed, and could have lost one more process": (failed(lost=1), "wrong end"),
    "failed, and could have lost one more that was silenced": (
        failed(lost=1, stopped=True), "wrong end"),
    "failed though nothing was wrong": (
        one().run(3, 4, "one", 11).final("one", 11, "failed"), "wrong end"),
    "cancelled and nobody asked": (one().final("one", None, "cancelled"), "cancelled unasked"),
    "aborted and nobody asked": (
        one().run(3, 4, "one", 11, how="was ended").final("one", 11, "aborted"),
        "cancelled unasked"),
    "cancelled and started": (cancelled(4.5), "cancelled and started"),
    "cancelled, and retried too late": (cancelled(4.5, retried=5.5), "cancelled and started"),
    "an odd row succeeded": (
        Story().defer(1, "odd", odd=True).run(3, 4, "odd", 11).final("odd", 11), "wrong end"),
    "an effect of a stale fence": (
        stored(zombie=True), "effect"),
    "an effect that was refused": (
        stored(zombie=False, first=False), "no effect"),
}  # fmt: skip
