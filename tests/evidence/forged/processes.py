"""What can be told of processes and of the whole."""

from tests.evidence.forged.story import Honest, Lies, Story, sound, two


def idle(bound: float = 10, limit: str | None = None) -> Story:
    """A job without a lane waits for 16 seconds, and no worker takes it."""
    told = Story().defer(1, "one").defer(2, "free", lane=None, ids=(2,), limit=limit)
    told.run(3, 4, "one", 11).run(20, 21, "free", 12, lane=None).fault(5, 8, bound)
    return told.final("one", 11).final("free", 12)


def unended() -> Story:
    """The second job never ends in the notes of its worker, and yet it has succeeded."""
    told = two().run(3, 4, "one", 11).run(5, None, "two", 12)
    return told.final("one", 11).final("two", 12)


def woken(*starts: str) -> Story:
    """Another worker takes over two jobs of a process that is stopped, which then starts some."""
    told = Story().stop(3, 14)
    for place, op in enumerate(("one", "two")):
        told.defer(1, op, lane=None, ids=(place + 1,))
        told.run(10, 11, op, 13 + place, "b", attempt=2, lane=None).final(op, 13 + place)
        if op in starts:
            told.run(14.1, 14.2, op, 11 + place, lane=None)
    return told


HONEST: Honest = {
    "idle for no longer than the outage explains": idle(bound=17),
    "idle, and the job that waits has a limit": idle(limit="slots"),
    "a worker could not start in an outage": idle(bound=17).exit(7, 1, asked=False, who="c"),
    "stopped between its look at the clock and the task": woken("two"),
    "a worker ended when asked": sound().exit(50, 0, asked=True),
}  # fmt: skip

LIES: Lies = {
    "a worker ended by itself": (sound().exit(50, 1, asked=False), "a process ended"),
    "a worker ended by itself with status 0": (sound().exit(50, 0, asked=False), "a process ended"),
    "a worker could not start, and there was no outage": (
        idle(bound=17).exit(9, 1, asked=False, who="c"), "a process ended"),
    "a worker that had run jobs ended in an outage": (
        idle(bound=17).exit(7, 1, asked=False), "a process ended"),
    "a worker that had logged something ended in an outage": (
        idle(bound=17).tell(6, "c", "log", what="database.lost", text="it is away")
        .exit(7, 1, asked=False, who="c"), "a process ended"),
    "a worker ended badly when asked in an outage": (
        idle(bound=17).exit(7, 1, asked=True, who="c"), "a process ended"),
    "a worker ended badly when asked": (sound().exit(50, 1, asked=True), "a process ended"),
    "a run without an end": (unended(), "never ended, wrong end"),
    "a run without an end in a worker that ended when asked": (
        unended().exit(50, 0, asked=True), "never ended, wrong end"),
    "a run without an end of a job that was aborted": (
        Story().defer(1, "one").tell(2, "p", "cancel", job=["one", 0]).run(3, None, "one", 11)
        .final("one", 11, "aborted"), "never ended"),
    "a process that woke up started what others had taken over": (
        woken("one", "two"), "not its own"),
    "left": (two().run(3, 4, "one", 11).final("one", 11)
             .tell(99, "conductor", "left", job=["two", 0], state="doing"), "stuck"),
    "everybody idle beside a job that is ready": (idle(), "standstill"),
    "repaired by the net": (
        sound().tell(99, "conductor", "problem", rule="repaired", text="lane L slept"), "problem"),
}  # fmt: skip
