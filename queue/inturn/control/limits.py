"""`app.limits`: set how many jobs of a key may run at once, and how often one may start."""

from inturn.control.twins import Control, blocking, in_loop
from inturn.model import Limit
from inturn.operations import Operation
from inturn.operations.changes import limits

# In the class, `list` is the method.
LimitList = list[Limit]


class Limits(Control):
    """Sets and lists limits. A job names the key of its limit: `limit="stripe"`.

    app.limits.set("stripe", concurrency=5, rate="100/min", burst=20)
    app.limits.set("customer:*", concurrency=1)
    for limit in app.limits.list():
        print(limit.pattern, limit.running, limit.limited)
    app.limits.remove("stripe")

    A pattern that ends with `*` sets a separate limit for each key with that prefix. The limit of
    an exact key takes precedence over patterns, and a longer pattern over a shorter one. `by` is
    the name that `lane_audit` records for a change. It defaults to the database user.
    """

    @blocking
    def set(
        self,
        pattern: str,
        *,
        concurrency: int | None = None,
        rate: str | None = None,
        burst: int | None = None,
        by: str | None = None,
        per_cell: bool = False,
    ) -> Operation[None]:
        """Set or replace the limit of a pattern.

            app.limits.set("mail", rate="10/s", burst=50)

        concurrency: how many jobs of a key may run at once, over all workers.
        rate: how many may start in a given time, such as "100/min". Units are s, min, h and day.
        burst: how many may start at once after a quiet time, by default 1. In any period, at most
        as many jobs start as the rate allows, plus the burst.
        per_cell: over cells, set it in each, so that 8 cells allow 8 times as much. See
        docs/cells.md.

        The limit applies immediately. A lower one ends no running jobs.
        """
        return limits.set_limit(pattern, concurrency, rate, burst, by)

    set_async = in_loop(set)

    @blocking
    def remove(self, pattern: str, *, by: str | None = None) -> Operation[bool]:
        """Remove the limit of a pattern. Return False if there is none."""
        return limits.remove_limit(pattern, by)

    remove_async = in_loop(remove)

    @blocking
    def list(self, limit: int = 1000) -> Operation[LimitList]:
        """Return the limits, by pattern."""
        return limits.list_limits(limit)

    list_async = in_loop(list)
