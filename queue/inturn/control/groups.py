"""`app.groups`: set how many jobs of a group start in each of its turns."""

from inturn.control.twins import Control, blocking, in_loop
from inturn.model import Group
from inturn.operations import Operation
from inturn.operations.changes import groups

# In the class, `list` is the method.
GroupList = list[Group]


class Groups(Control):
    """Sets the weights of groups and lists groups. A job names its group: `group="tenant:7"`.

    app.groups.set("tenant:7", weight=3)
    app.groups.set("tenant:*", weight=2)
    for group in app.groups.list():
        print(group.name, group.weight, group.waiting)
    app.groups.remove("tenant:7")

    A pattern that ends with `*` sets the weight of each group with that prefix. The weight of an
    exact name takes precedence over patterns, and a longer pattern over a shorter one. The default
    weight is 1. `by` is the name that `lane_audit` records for a change. It defaults to the
    database user.
    """

    @blocking
    def set(self, pattern: str, *, weight: int, by: str | None = None) -> Operation[None]:
        """Set how many jobs of a group start in each of its turns, from 1 to 1,000.

            app.groups.set("tenant:7", weight=3)

        It applies from the next claim.
        """
        return groups.set_group(pattern, weight, by)

    set_async = in_loop(set)

    @blocking
    def remove(self, pattern: str, *, by: str | None = None) -> Operation[bool]:
        """Remove the weight of a pattern. Return False if it has none."""
        return groups.remove_group(pattern, by)

    remove_async = in_loop(remove)

    @blocking
    def list(self, limit: int = 100) -> Operation[GroupList]:
        """Return the weights, and the groups with jobs to run, by name."""
        return groups.list_groups(limit)

    list_async = in_loop(list)
