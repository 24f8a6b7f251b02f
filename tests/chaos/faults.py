"""Every fault by its name. Each fault ends what it began, and `Play` asserts that."""

from tests.chaos import clock, clock_faults, process_faults, server_faults, user_faults, wire_faults
from tests.chaos.play import Fault

ALL: list[Fault] = [
    *process_faults.FAULTS,
    *server_faults.FAULTS,
    *wire_faults.FAULTS,
    *user_faults.FAULTS,
    *(clock_faults.FAULTS if clock.LIBRARY else ()),
]
BY_KIND = {fault.kind: fault for fault in ALL}
QUICK = [  # one of each family
    "a worker is killed",
    "the reply to a COMMIT is lost",
    "the server restarts, immediate",
    "a replace is left open",
]
SHORT = [  # one for each past defect, too
    "a worker is killed",
    "an odd row: digits",
    "the reply to a claim is lost",
    "the reply to a finish is lost",
    "the reply to a COMMIT is lost",
    "the server restarts, immediate",
    "sessions are read-only",
    "a replace is left open",
    "a worker is stopped beyond its heartbeat",
]


def chosen(kinds: list[str]) -> list[Fault]:
    return [BY_KIND[kind] for kind in kinds]


def needs_clock(faults: list[Fault]) -> bool:
    """Return True if one of them moves the server's clock, which costs every look at it a little."""
    return any(fault in clock_faults.FAULTS for fault in faults)
