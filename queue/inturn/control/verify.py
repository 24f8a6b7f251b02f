"""`app.verify`: whether the queue has kept its promises."""

from datetime import datetime, timedelta

from inturn.control.twins import Control, blocking, in_loop
from inturn.operations import Operation
from inturn.operations.reading import verify
from inturn.operations.reading.verify import Verification


class Verifier(Control):
    """Reads what has happened, and judges it."""

    @blocking
    def verify(
        self, since: timedelta | datetime | None = None, *, lock: str | None = None
    ) -> Operation[Verification]:
        """Judge the jobs that ended since then, and the living ones."""
        return verify.verify(since, lock)

    verify_async = in_loop(verify)
