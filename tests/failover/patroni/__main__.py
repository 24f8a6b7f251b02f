"""`make patroni`: three nodes under Patroni, and a leader that goes away.

Each event happens once with an asynchronous and once with a synchronous standby.
Workers and producers connect in three ways: with a multi-host DSN, through HAProxy, and through
PgBouncer and HAProxy.
"""

import itertools
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.evidence.events import Event
from tests.evidence.judge import Verdict, judge
from tests.evidence.rules.jobs import lost_keys, repeats
from tests.failover.cluster import wait_until
from tests.failover.load import Load
from tests.failover.patroni.stack import Missing, Stack

COLUMNS = [
    "standby",
    "event",
    "gap",
    "acknowledged",
    "lost",
    "run twice",
    "out of order",
    "overlaps",
    "workers alive",
]


class Window(NamedTuple):
    event: str
    begin: int
    end: int
    alive: int


def switch_over(stack: Stack, load: Load) -> None:
    old = stack.switch_over()
    wait_until(lambda: stack.leader() not in (None, old), "a new leader")


def kill(stack: Stack, load: Load) -> None:
    old = stack.kill()
    wait_until(lambda: stack.leader() not in (None, old), "a new leader")
    load.goes_on()
    stack.start(old)


def pause(stack: Stack, load: Load) -> None:
    """The old leader wakes up long after another took over, and Patroni demotes it."""
    old = stack.pause()
    wait_until(lambda: stack.leader() not in (None, old), "a new leader")
    load.goes_on()
    stack.resume(old)


EVENTS: dict[str, Callable[[Stack, Load], None]] = {
    "switch-over": switch_over,
    "kill -9 of the leader": kill,
    "leader paused, comes back": pause,
}


def try_all(*, synchronous: bool) -> list[list[str]]:
    with Stack(synchronous=synchronous) as stack, tempfile.TemporaryDirectory() as folder:
        pooled = {
            "INTURN_DSN": stack.through_pgbouncer,
            "INTURN_LISTEN_DSN": stack.through_haproxy,
            "FAILOVER_POOLER": "yes",
        }
        with Load(
            Path(folder), stack.multi_host, stack.through_haproxy, pooled, pause=0.03
        ) as load:
            load.goes_on()
            windows = [go_through(stack, load, event) for event in EVENTS]
            load.finish()
            return [row(load.events(), window, synchronous=synchronous) for window in windows]


def go_through(stack: Stack, load: Load, event: str) -> Window:
    print(f"  {event} …", flush=True)
    begin = time.monotonic_ns()
    EVENTS[event](stack, load)
    load.goes_on()
    wait_until(stack.is_whole, "three nodes again")
    load.goes_on()
    return Window(
        event, begin, time.monotonic_ns(), sum(worker.poll() is None for worker in load.workers)
    )


def row(events: list[Event], window: Window, *, synchronous: bool) -> list[str]:
    """Return the row of the report about the jobs acknowledged and started in the window."""
    inside = [event for event in events if window.begin <= event.at < window.end]
    acks = {event.facts["op"] for event in inside if event.name == "ok"}
    begun = {tuple(event.facts["job"]) for event in inside if event.name == "begin"}
    ends = sorted(event.at for event in inside if event.name == "end")
    gap, last = max((after - before, before) for before, after in itertools.pairwise(ends))
    forgotten = Event("test", 0, last + 1, "forgotten", {"since": window.begin})
    verdict = judge(events if synchronous else [*events, forgotten])
    return [
        "synchronous" if synchronous else "asynchronous",
        window.event,
        f"{gap / 1e9:.1f} s",
        str(len(acks)),
        str(sum(op in acks for op, _ in lost_keys(verdict.evidence))),
        str(len({run.key for _, run in repeats(verdict.evidence)} & begun)),
        str(count(verdict, window, "order", "overtaken")),
        str(count(verdict, window, "overlap")),
        str(window.alive),
    ]


def count(verdict: Verdict, window: Window, *promises: str) -> int:
    return sum(
        window.begin <= violation.found.end < window.end
        for violation in verdict.violations
        if violation.promise in promises
    )


def main() -> None:
    rows = []
    try:
        for synchronous in (False, True):
            print(f"three nodes, {'' if synchronous else 'a'}synchronous", flush=True)
            rows += try_all(synchronous=synchronous)
    except Missing as missing:
        sys.exit(str(missing))
    for cells in (COLUMNS, ["---"] * len(COLUMNS), *rows):
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
