"""The options of jobs. The type, check and default of each option are defined here, once.

These definitions determine what type checkers accept, what `help()` shows, the values that a job
carries, and the columns that `operations.enqueue` sends to the database. Keep them in SQL's order.
See CONTRIBUTING.md, "Add a job option", for the other places.
"""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    TypedDict,
    TypeVar,
    get_type_hints,
)
from uuid import UUID

from inturn.arguments import (
    check_choice,
    check_lock,
    check_moment,
    check_priority,
    check_queue,
    check_span,
    check_timeout,
)
from inturn.errors import BadArgument, UnknownOption
from inturn.model import OnConflict, OnFailure, OnParent, OnRetry
from inturn.tasks.headers import check_headers
from inturn.tasks.lanes import Lock, add_cell_key, check_cell_key, check_locks
from inturn.values import Decoders
from inturn.whole_numbers import HIGHEST_ID, is_whole

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])
OnRetryName = Literal["hold", "release"]
OnFailureName = Literal["continue", "halt"]
OnParentName = Literal["cancel", "go", "hold"]
OnConflictName = Literal["raise", "skip", "replace"]
MOST_PARENTS = 1_000


def check_parents(after: object) -> tuple[int, ...] | None:
    """Return the ids of a job's parents, or raise BadArgument."""
    ids = (after,) if isinstance(after, int) else after
    if isinstance(ids, str) or not isinstance(ids, Sequence):
        raise BadArgument("after", f"{after!r} is not the id of a job. Pass what `defer` returned")
    for id in ids:
        if not is_whole(id, 1, HIGHEST_ID):
            raise BadArgument("after", f"{id!r} is not the id of a job")
    if len(set(ids)) < len(ids):
        raise BadArgument("after", "names a job twice. Name each job once")
    if len(ids) > MOST_PARENTS:
        raise BadArgument(
            "after", f"names {len(ids):,} jobs; the limit is {MOST_PARENTS:,}. Add a job in between"
        )
    return tuple(map(int, ids)) or None


def check_key(kind: str, key: object) -> str | None:
    """Return the key of a limit or the name of a group as text, or raise BadArgument."""
    text = check_lock(key, kind)
    if text is not None and "*" in text:
        raise BadArgument(kind, f"{text!r} contains *, which only {kind} patterns may")
    return text


def check_batch(batch: object) -> int:
    if not is_whole(batch, 1, HIGHEST_ID):
        raise BadArgument("batch", f"{batch!r} is not a batch. Pass what `app.batch` returned")
    return int(batch)


class Stored(NamedTuple):
    """Marks an option that is stored with the job.

    `check` returns the value to store, or raises.
    """

    check: Callable[[Any], object]
    default: object = None


def _choose(name: str, default: StrEnum) -> Stored:
    return Stored(partial(check_choice, name, type(default)), default)


class PlaceOptions(TypedDict, total=False):
    """A job's place."""

    queue: Annotated[str | None, Stored(check_queue, "default")]
    lock: Annotated[Lock | None, Stored(check_locks)]
    priority: Annotated[int | None, Stored(check_priority, 0)]


class TimeOptions(TypedDict, total=False):
    """When a job may start."""

    schedule_at: Annotated[datetime | None, Stored(partial(check_moment, "schedule_at"))]
    schedule_in: Annotated[
        timedelta | Mapping[str, float] | None, Stored(partial(check_span, "schedule_in"))
    ]


class RunOptions(TypedDict, total=False):
    """What happens to a job and its lane."""

    on_retry: Annotated[OnRetryName | None, _choose("on_retry", OnRetry.HOLD)]
    on_failure: Annotated[OnFailureName | None, _choose("on_failure", OnFailure.CONTINUE)]
    queueing_lock: Annotated[
        str | int | UUID | None, Stored(partial(check_lock, name="queueing_lock"))
    ]
    on_conflict: Annotated[OnConflictName | None, _choose("on_conflict", OnConflict.RAISE)]
    timeout: Annotated[float | timedelta | None, Stored(check_timeout)]
    limit: Annotated[str | int | UUID | None, Stored(partial(check_key, "limit"))]
    group: Annotated[str | int | UUID | None, Stored(partial(check_key, "group"))]


class JobOptions(PlaceOptions, TimeOptions, RunOptions, total=False):
    """The options of a job, for your own wrappers.

    P = ParamSpec("P")
    R = TypeVar("R")

    def urgent(task: Task[P, R], **options: Unpack[JobOptions]) -> Deferrer[P, R]:
        options["priority"] = 100
        return task.configure(**options)

    urgent(write, lock="alphabet").defer("a")
    """

    expires_at: Annotated[datetime | None, Stored(partial(check_moment, "expires_at"))]
    expires_in: Annotated[
        timedelta | Mapping[str, float] | None, Stored(partial(check_span, "expires_in"))
    ]
    headers: Annotated[Mapping[str, Any] | None, Stored(check_headers)]
    after: Annotated[int | Sequence[int] | None, Stored(check_parents)]
    on_parent: Annotated[OnParentName | None, _choose("on_parent", OnParent.CANCEL)]
    batch: Annotated[int | None, Stored(check_batch)]
    cell: Annotated[str | UUID | None, Stored(check_cell_key)]
    connection: object


class DefaultOptions(PlaceOptions, RunOptions, total=False):
    """The options that a task can set for all its jobs."""

    expires_in: timedelta | Mapping[str, float] | None
    on_parent: OnParentName | None


class ScheduleOptions(JobOptions, total=False):
    """The options of a periodic task's jobs."""

    task_kwargs: Mapping[str, Any] | None


def _make_tuple_class(stored: Mapping[str, Stored]) -> Any:
    # A plain namedtuple: the types of its fields are in `JobOptions`.
    defaults = [option.default for option in stored.values()]
    return namedtuple("_Values", stored, defaults=defaults)


_STORED: dict[str, Stored] = {
    name: marker
    for name, hint in get_type_hints(JobOptions, include_extras=True).items()
    for marker in getattr(hint, "__metadata__", ())
    if isinstance(marker, Stored)
}
_EXPIRY: dict[str, object] = dict.fromkeys(("expires_at", "expires_in"))
_Values: Any = _make_tuple_class(_STORED)


class CheckedOptions(_Values):  # type: ignore[misc]  # a class that is made at run time
    """The options of one job, checked and ready to store.

    It is immutable, so jobs share it.
    """

    __slots__ = ()

    def change(self, given: Mapping[str, Any]) -> CheckedOptions:
        """Return a copy with these options. An option that is None stays unchanged."""
        if given.get("schedule_at") is not None and given.get("schedule_in") is not None:
            raise BadArgument("schedule_at", "was given together with schedule_in. Pass only one")
        changes: dict[str, object] = {}
        for name, value in given.items():
            if name not in _STORED:
                raise UnknownOption(name, "a job", JobOptions.__annotations__)
            if value is not None:
                changes[name] = _STORED[name].check(value)
        if not changes:
            return self
        if not changes.keys().isdisjoint(_EXPIRY):  # it replaces the one that the task declares
            changes = _EXPIRY | changes
        changed: CheckedOptions = self._replace(**changes)
        if changed.cell is not None:
            before = None if "lock" in changes else self.cell
            lock = add_cell_key(changed.cell, changed.lock, before)
            changed = changed._replace(lock=lock)
        if changed.expires_at is not None or changed.expires_in is not None:
            _check_expiry(changed._asdict())
        return changed


def _check_expiry(options: Mapping[str, Any]) -> None:
    """Raise BadArgument if a job with these options could never start."""
    if None not in (options["expires_at"], options["expires_in"]):
        raise BadArgument("expires_at", "was given together with expires_in. Pass only one")
    for kind in ("at", "in"):
        due, expires = options[f"schedule_{kind}"], options[f"expires_{kind}"]
        if None not in (due, expires) and expires <= due:
            raise BadArgument(
                f"expires_{kind}",
                f"{expires} is not after schedule_{kind}, {due}, so the job could never start",
            )


if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    # What a call of the task returns. Any, if a checker does not know the task.
    R = DefaultTypeVar("R", default=Any)
    R_co = DefaultTypeVar("R_co", covariant=True, default=Any)
else:
    R, R_co = TypeVar("R"), TypeVar("R_co", covariant=True)


class NewJob(NamedTuple, Generic[R_co]):
    """A job about to be deferred. Its arguments are already checked and encoded as JSON.

    job = write.configure(lock="alphabet").make_new_job("a")
    assert job.options.lock == "alphabet" and job.args == '{"letter":"a"}'
    """

    task_name: str
    args: str
    options: CheckedOptions
    decoders: Decoders | None = None  # of its task, if known here


def show_options(
    options: type, defaults: Mapping[str, object]
) -> Callable[[AnyFunction], AnyFunction]:
    """Make `help()` and the API reference list each option that a function takes as `**options`."""

    def decorate(function: AnyFunction) -> AnyFunction:
        bare = inspect.signature(function)
        own = [each for each in bare.parameters.values() if each.kind is not each.VAR_KEYWORD]
        shown = []
        for name in options.__annotations__:
            default = defaults.get(name)
            text = default.value if isinstance(default, StrEnum) else default
            shown.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=text))
        setattr(function, "__signature__", bare.replace(parameters=[*own, *shown]))  # noqa: B010 (functions declare none)
        return function

    return decorate
