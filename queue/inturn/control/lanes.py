"""`app.lanes`: what a person does with a lane. Every change leaves a row in `lane_audit`, under `by` or the database user."""

from datetime import datetime

from inturn.arguments import check_lock, check_moment
from inturn.database.connector import Connector
from inturn.model import Lane
from inturn.operations import Operation, lanes

# `list` is also the name of a method below.
Listed = list[Lane]


class Lanes:
    """Lanes by their locks. `by` is who it was, for `lane_audit`; unless given, the database user.

    app.lanes.pause("customer:ann", reason="supplier is down", by="eve")
    for lane in app.lanes.list():
        print(lane.lock, lane.state, lane.waiting, lane.stop_reason)
    app.lanes.resume("customer:ann")
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def list(self, limit: int = 50) -> Listed:
        """Lanes that something keeps others out of: stopped ones first, then the oldest."""
        return self._connector.run(lanes.listed(limit))

    async def list_async(self, limit: int = 50) -> Listed:
        """Lanes that something keeps others out of: stopped ones first, then the oldest."""
        return await self._connector.run_async(lanes.listed(limit))

    def show(self, lock: str) -> Lane | None:
        """None: nobody holds it, and nothing keeps it from going on."""
        return self._connector.run(lanes.shown(lock))

    async def show_async(self, lock: str) -> Lane | None:
        """None: nobody holds it, and nothing keeps it from going on."""
        return await self._connector.run_async(lanes.shown(lock))

    def pause(
        self,
        lock: str,
        *,
        reason: str | None = None,
        until: datetime | None = None,
        by: str | None = None,
    ) -> bool:
        """No job of it starts until then, or until it is resumed; one that runs may end. False: it was stopped already.

        app.lanes.pause("customer:ann", until=datetime.now(UTC) + timedelta(hours=2), reason="supplier is down")
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
        """No job of it starts until then, or until it is resumed; one that runs may end. False: it was stopped already."""
        return await self._connector.run_async(_pause(lock, reason, until, by))

    def resume(self, lock: str, *, by: str | None = None) -> bool:
        """A paused or halted lane goes on. False: it was not stopped."""
        return self._connector.run(lanes.resume(lock, by))

    async def resume_async(self, lock: str, *, by: str | None = None) -> bool:
        """A paused or halted lane goes on. False: it was not stopped."""
        return await self._connector.run_async(lanes.resume(lock, by))

    def skip_head(self, lock: str, *, by: str | None = None) -> int | None:
        """Cancel the job that goes next, or leave the one behind that halted the lane. Its id; None: nothing waits."""
        return self._connector.run(lanes.skip_head(lock, by))

    async def skip_head_async(self, lock: str, *, by: str | None = None) -> int | None:
        """Cancel the job that goes next, or leave the one behind that halted the lane. Its id; None: nothing waits."""
        return await self._connector.run_async(lanes.skip_head(lock, by))

    def retry_head(self, lock: str, *, by: str | None = None) -> int | None:
        """Try the job that the lane waits for, or that halted it, at once. Its id; None: the lane waits for no job."""
        return self._connector.run(lanes.retry_head(lock, by))

    async def retry_head_async(self, lock: str, *, by: str | None = None) -> int | None:
        """Try the job that the lane waits for, or that halted it, at once. Its id; None: the lane waits for no job."""
        return await self._connector.run_async(lanes.retry_head(lock, by))

    def cancel_waiting(self, lock: str, *, by: str | None = None) -> int:
        """Cancel all that waits in the lane; the job that runs goes on. How many.

        write.configure(lock="alphabet").batch_defer({"letter": "a"}, {"letter": "b"})
        assert app.lanes.cancel_waiting("alphabet") == 2
        """
        return self._connector.run(lanes.cancel_waiting(lock, by))

    async def cancel_waiting_async(self, lock: str, *, by: str | None = None) -> int:
        """Cancel all that waits in the lane; the job that runs goes on. How many."""
        return await self._connector.run_async(lanes.cancel_waiting(lock, by))


def _pause(
    lock: str, reason: str | None, until: datetime | None, by: str | None
) -> Operation[bool]:
    check_lock(lock)
    check_moment("until", until)
    return lanes.pause(lock, reason, until, by)
