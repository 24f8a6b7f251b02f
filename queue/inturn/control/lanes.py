"""`app.lanes`: inspect and change lanes.

Each change adds a row to `lane_audit`, under the name given as `by` or the database user's.
"""

from datetime import datetime

from inturn.arguments import check_lock, check_moment
from inturn.control.bulk import LaneBulks
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

    def list(self, limit: int = 50) -> LaneList:
        """Return the lanes that are held, stopped or waiting: halted ones first, then paused."""
        return self._connector.run(lanes.list_lanes(limit))

    async def list_async(self, limit: int = 50) -> LaneList:
        """Like `list`, in an event loop."""
        return await self._connector.run_async(lanes.list_lanes(limit))

    def show(self, lock: str) -> Lane | None:
        """Return a lane, or None if no job holds it and nothing stops it."""
        return self._connector.run(lanes.get_lane(lock))

    async def show_async(self, lock: str) -> Lane | None:
        """Like `show`, in an event loop."""
        return await self._connector.run_async(lanes.get_lane(lock))

    def pause(
        self,
        lock: str,
        *,
        reason: str | None = None,
        until: datetime | None = None,
        by: str | None = None,
    ) -> bool:
        """Start no more jobs of a lane until `until`, or until it is resumed.

        A running job continues.

            soon = datetime.now(UTC) + timedelta(hours=2)
            app.lanes.pause("customer:ann", until=soon, reason="supplier is down")

        A pause replaces an earlier one. Return False if the lane is halted.
        """
        return self._connector.run(_pause(lock, reason, until, by))

    async def pause_async(
        self,
        lock: str,
        *,
        reason: str | None = None,
        until: datetime | None = None,
        by: str | None = None,
    ) -> bool:
        """Like `pause`, in an event loop."""
        return await self._connector.run_async(_pause(lock, reason, until, by))

    def resume(self, lock: str, *, by: str | None = None) -> bool:
        """Let a paused or halted lane continue. Return False if it was not stopped."""
        return self._connector.run(lanes.resume_lane(lock, by))

    async def resume_async(self, lock: str, *, by: str | None = None) -> bool:
        """Like `resume`, in an event loop."""
        return await self._connector.run_async(lanes.resume_lane(lock, by))

    def skip_head(self, lock: str, *, by: str | None = None) -> int | None:
        """Cancel the next job of a lane, or continue without the job that halted it.

        Return the id of the job, or None if nothing is waiting.
        """
        return self._connector.run(lanes.skip_head(lock, by))

    async def skip_head_async(self, lock: str, *, by: str | None = None) -> int | None:
        """Like `skip_head`, in an event loop."""
        return await self._connector.run_async(lanes.skip_head(lock, by))

    def retry_head(self, lock: str, *, by: str | None = None) -> int | None:
        """Immediately retry the job that a lane is waiting for, or that halted it.

        Return the id of the job, or None if the lane is not waiting for one.
        """
        return self._connector.run(lanes.retry_head(lock, by))

    async def retry_head_async(self, lock: str, *, by: str | None = None) -> int | None:
        """Like `retry_head`, in an event loop."""
        return await self._connector.run_async(lanes.retry_head(lock, by))

    def cancel_waiting(self, lock: str, *, by: str | None = None) -> int:
        """Cancel all waiting jobs of a lane and return their number. A running job continues.

        write.configure(lock="alphabet").batch_defer({"letter": "a"}, {"letter": "b"})
        assert app.lanes.cancel_waiting("alphabet") == 2
        """
        return self._connector.run(lanes.cancel_waiting(lock, by))

    async def cancel_waiting_async(self, lock: str, *, by: str | None = None) -> int:
        """Like `cancel_waiting`, in an event loop."""
        return await self._connector.run_async(lanes.cancel_waiting(lock, by))


def _pause(
    lock: str, reason: str | None, until: datetime | None, by: str | None
) -> Operation[bool]:
    lock = check_lock(lock) or lock
    check_moment("until", until)
    return lanes.pause_lane(lock, reason, until, by)
