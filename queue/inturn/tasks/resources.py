"""The locks that a worker takes before it runs a task, and what it does if one is busy.

    @app.task(resources=["redis://cache/0#printer:{printer}"], on_busy="snooze")
    def print_page(printer: str, page: int) -> None: ...

This module holds what a task declares; `inturn.worker.resources` is the worker's side. Jobs that
must exclude each other, in order, share a `lock`, which needs only the database. Resources are for
things that jobs share with other programs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from inspect import Parameter, Signature
from string import Formatter
from typing import Any, Literal
from urllib.parse import quote

from inturn.arguments import check_choice
from inturn.errors import BadArgument, TaskDefinitionError

# An address, or a function that takes the task's arguments by name and returns an async lock.
Resource = str | Callable[..., Any]
OnBusyName = Literal["snooze", "wait", "skip", "fail", "proceed"]


class OnBusy(StrEnum):
    """What happens to a job while one of its resources is held elsewhere."""

    SNOOZE = "snooze"  # it goes back, keeps its place, and runs later; the attempt does not count
    WAIT = "wait"  # it waits in its slot, and fails after the given time
    SKIP = "skip"  # it ends as cancelled without having run
    FAIL = "fail"  # the attempt fails, and the retry strategy decides
    PROCEED = "proceed"  # it runs without any of them


SECONDS = {OnBusy.SNOOZE: 5.0, OnBusy.WAIT: 60.0}


@dataclass(frozen=True, slots=True)
class Resources:
    wanted: tuple[Resource, ...]
    on_busy: OnBusy
    seconds: float  # the pause of a snooze, or the longest wait
    defaults: Mapping[str, Any]  # of the task's arguments

    def fill(self, task_kwargs: Mapping[str, Any]) -> list[str | Any]:
        """Return the addresses, and the locks from the functions, for one job's arguments."""
        given = {**self.defaults, **task_kwargs}
        return [_fill(one, given) if isinstance(one, str) else one(**given) for one in self.wanted]


def declare_resources(
    task: str,
    signature: Signature,
    wanted: Sequence[Resource],
    on_busy: str,
    busy_seconds: float | None,
) -> Resources | None:
    choice = check_choice("on_busy", OnBusy, on_busy)
    if busy_seconds is not None and (choice not in SECONDS or not busy_seconds > 0):
        raise BadArgument(
            "busy_seconds",
            f"{busy_seconds} cannot be used. It must be more than 0, and needs on_busy='snooze' "
            "or 'wait'",
        )
    if isinstance(wanted, str) or callable(wanted):
        raise BadArgument(
            "resources", f"{wanted!r} is not a list. Pass a list of addresses or functions"
        )
    wanted = tuple(wanted)
    if not wanted:
        return None
    for one in wanted:
        _check(task, signature, one)
    defaults = {
        name: p.default
        for name, p in signature.parameters.items()
        if p.default is not Parameter.empty
    }
    return Resources(
        wanted,
        choice,
        SECONDS.get(choice, 0.0) if busy_seconds is None else busy_seconds,
        defaults,
    )


def _check(task: str, signature: Signature, one: Resource) -> None:
    if callable(one):
        return
    if not isinstance(one, str):
        raise BadArgument(
            "resources",
            f"{one!r} is not a resource. Pass an address (redis://…#name), or a function that "
            "returns an async lock",
        )
    address, hash_, name = one.partition("#")
    if "{" in address or (not hash_ and not address.startswith("file:")):
        raise BadArgument(
            "resources",
            f"{one!r} does not name a lock. Add the name, which may contain arguments, after the "
            "address: redis://host/0#printer-{id}, or file:///folder#printer-{id}.lock",
        )
    try:
        fields = [field for _, field, _, _ in Formatter().parse(name) if field is not None]
    except ValueError as error:
        raise BadArgument("resources", f"{one!r}: {error}") from None
    takes_any = any(p.kind is Parameter.VAR_KEYWORD for p in signature.parameters.values())
    for field in fields:
        argument = field.replace("[", ".").partition(".")[0]
        if not argument or (argument not in signature.parameters and not takes_any):
            raise TaskDefinitionError(
                f"Task {task} has no argument {argument!r}, which its resource {one!r} uses. "
                "Declare it, or change the resource."
            )


class _Quoting(Formatter):
    """Quotes each argument, so that it cannot break out of the lock's name."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return quote(str(super().format_field(value, format_spec)), safe="")


def _fill(template: str, given: Mapping[str, Any]) -> str:
    address, hash_, name = template.partition("#")
    return address + hash_ + _Quoting().vformat(name, (), given)
