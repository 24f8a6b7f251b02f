"""Groups: how many jobs of a group start in each of its turns."""

from inturn.arguments import check_whole
from inturn.model import Group
from inturn.operations import Operation, Statement, ask, read
from inturn.operations.changes.limits import check_pattern

SET = "SELECT {schema}.set_group(%s, %s, %s)"
REMOVE = "SELECT {schema}.remove_group(%s, %s)"
LIST = "SELECT name, weight, waiting, running FROM {schema}.list_groups(%s)"

HEAVIEST = 1_000


def set_group(pattern: str, weight: int, by: str | None) -> Operation[None]:
    check_pattern(pattern)
    check_whole("weight", weight, 1, HEAVIEST)
    yield Statement(SET, [pattern, weight, by])


def remove_group(pattern: str, by: str | None) -> Operation[bool]:
    return ask(bool, REMOVE, check_pattern(pattern), by)


def list_groups(limit: int) -> Operation[list[Group]]:
    """Return the weights, and the groups with jobs, by name."""
    return read(Group, LIST, limit)
