"""`app.groups`: set how many jobs of a group start in each of its turns."""

from inturn.database.connector import Connector
from inturn.model import Group
from inturn.operations.changes import groups

# In the class, `list` is the method.
GroupList = list[Group]


class Groups:
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

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def set(self, pattern: str, *, weight: int, by: str | None = None) -> None:
        """Set how many jobs of a group start in each of its turns, from 1 to 1,000.

            app.groups.set("tenant:7", weight=3)

        It applies from the next claim.
        """
        self._connector.run(groups.set_group(pattern, weight, by))

    async def set_async(self, pattern: str, *, weight: int, by: str | None = None) -> None:
        """Like `set`, in an event loop."""
        await self._connector.run_async(groups.set_group(pattern, weight, by))

    def remove(self, pattern: str, *, by: str | None = None) -> bool:
        """Remove the weight of a pattern. Return False if it has none."""
        return self._connector.run(groups.remove_group(pattern, by))

    async def remove_async(self, pattern: str, *, by: str | None = None) -> bool:
        """Like `remove`, in an event loop."""
        return await self._connector.run_async(groups.remove_group(pattern, by))

    def list(self, limit: int = 100) -> GroupList:
        """Return the weights, and the groups with jobs to run, by name."""
        return self._connector.run(groups.list_groups(limit))

    async def list_async(self, limit: int = 100) -> GroupList:
        """Like `list`, in an event loop."""
        return await self._connector.run_async(groups.list_groups(limit))
