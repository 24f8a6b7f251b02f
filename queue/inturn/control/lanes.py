"""`app.lanes`: inspect and change lanes.

Each change adds a row to `lane_audit`, under the name given as `by` or the database user's.
"""

from datetime import datetime

from inturn.arguments import check_lock, check_moment
from inturn.control.bulk import LaneBulks
from inturn.control.twins import blocking, in_loop
from inturn.errors import BadArgument
from inturn.model import Lane
from inturn.operations import Operation
from inturn.operations.changes import lanes

# In the class, `list` is the method.
LaneList = list[Lane]


class Lanes(LaneBulks):
    """Inspects and changes lanes. A lane is named by its lock.

    app.lanes.pause("customer:ann", reason="supplier is down", by="eve")
    for lane in app.lanes.list():
        print(lane.lock, lane.state, lane.waiting, lane.stop_reason)
    app.lanes.resume("customer:ann")

    `by` is the name that `lane_audit` records for a change. It defaults to the database user.
    """

    @blocking
    def list(self, limit: int = 50) -> Operation[LaneList]:
        """Return the lanes that are held, stopped or waiting: halted ones first, then paused."""
        return lanes.list_lanes(limit)

    list_async = in_loop(list)

    @blocking
    def show(self, lock: str) -> Operation[Lane | None]:
        """Return a lane, or None if no job holds it and nothing stops it."""
        return lanes.get_lane(_check(lock))

    show_async = in_loop(show)

    @blocking
    def pause(
        self,
        lock: str,
        *,
        reason: str | None = None,
        until: datetime | None = None,
        by: str | None = None,
    ) -> Operation[bool]:
        """Start no more jobs of a lane until `until`, or until it is resumed.

        A running job continues.

            soon = datetime.now(UTC) + timedelta(hours=2)
            app.lanes.pause("customer:ann", until=soon, reason="supplier is down")

        A pause replaces an earlier one. Return False if the lane is halted.
        """
        check_moment("until", until)
        return lanes.pause_lane(_check(lock), reason, until, by)

    pause_async = in_loop(pause)

    @blocking
    def resume(self, lock: str, *, by: str | None = None) -> Operation[bool]:
        """Let a paused or halted lane continue. Return False if it was not stopped."""
        return lanes.resume_lane(_check(lock), by)

    resume_async = in_loop(resume)

    @blocking
    def skip_head(self, lock: str, *, by: str | None = None) -> Operation[int | None]:
        """Cancel the next job of a lane, or continue without the job that halted it.

        Return the id of the job, or None if nothing is waiting.
        """
        return lanes.skip_head(_check(lock), by)

    skip_head_async = in_loop(skip_head)

    @blocking
    def retry_head(self, lock: str, *, by: str | None = None) -> Operation[int | None]:
        """Immediately retry the job that a lane is waiting for, or that halted it.

        Return the id of the job, or None if the lane is not waiting for one.
        """
        return lanes.retry_head(_check(lock), by)

    retry_head_async = in_loop(retry_head)

    @blocking
    def cancel_waiting(self, lock: str, *, by: str | None = None) -> Operation[int]:
        """Cancel all waiting jobs of a lane and return their number. A running job continues.

        write.configure(lock="alphabet").batch_defer({"letter": "a"}, {"letter": "b"})
        assert app.lanes.cancel_waiting("alphabet") == 2
        """
        return lanes.cancel_waiting(_check(lock), by)

    cancel_waiting_async = in_loop(cancel_waiting)


def _check(lock: str) -> str:
    checked = check_lock(lock)
    if checked is None:
        raise BadArgument("lock", "is missing. Name the lane by its lock")
    return checked
