"""Faults of the server's clock: steps, and another speed."""

import time
from collections.abc import Callable

from tests.chaos.clock import RIGHT
from tests.chaos.play import Fault, Play

MOVED = "jobs ended while the server's clock was wrong"
ENDED = "SELECT count(*) FROM finished_jobs"
# Each process of the server has its own clock until it has read the new time.
FENCE = (
    "SELECT coalesce(min(fence), (SELECT last_value FROM fences)) FROM jobs WHERE status = 'doing'"
)
RAN = """
SELECT id FROM all_jobs WHERE fence >= %s
UNION ALL SELECT jobs.id FROM jobs JOIN batches ON callback_id = jobs.id WHERE ended_at IS NOT NULL
"""
# What is due in an hour because the clock was set back: `queue jobs retry`, as an operator would.
LATE = """
SELECT retry_job(id) FROM jobs
WHERE status = 'scheduled' AND scheduled_at > clock() + interval '1 minute'
"""


def move(*times: str) -> Callable[[Play], None]:
    """Return a fault that sets the clock so, one after the other, and then right again."""

    def inflict(play: Play) -> None:
        assert play.server.clock is not None
        start = play.history.write("moving the clock")
        [(fence,)] = play.query(FENCE)
        try:
            for setting in times:
                play.server.clock.set(setting)
                before = play.query(ENDED)
                play.hold(3)
                if play.query(ENDED) != before and is_wrong(play):
                    play.seen(MOVED)
        finally:
            play.server.clock.set(RIGHT)
            play.hold(2)
            play.query(LATE)
            play.ran_by_other_clocks += [id for (id,) in play.query(RAN, fence)]
            play.history.write("clock", start=start, end=play.history.write("clock is right"))

    return inflict


def is_wrong(play: Play) -> bool:
    [(now,)] = play.query("SELECT extract(epoch FROM clock_timestamp())::float8")
    return abs(float(now) - time.time()) > 1.0


FAULTS = [
    Fault("the server's clock goes back an hour", move("-3600"), 6, (MOVED,)),
    Fault("the server's clock goes ahead an hour", move("+3600"), 6, (MOVED,)),
    Fault("the server's clock jumps to and fro", move("+3600", "-3600", "+90"), 12, (MOVED,)),
    Fault("the server's clock is too fast, then too slow", move("+0 x1.5", "+0 x0.5"), 9, (MOVED,)),
]
