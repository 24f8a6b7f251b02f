"""What happens to a schedule's missed instants.

An instant is missed if no worker ran at the time, or if the database could not be reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Literal

from inturn.arguments import check_choice
from inturn.errors import BadArgument

Span = timedelta | float | Mapping[str, float]
CatchUpName = Literal["last", "all"]


class CatchUp(StrEnum):
    """Which missed instants are deferred later."""

    LAST = "last"  # the newest one only
    ALL = "all"  # each of them, the oldest first


@dataclass(frozen=True, slots=True)
class MisfirePolicy:
    """How late an instant may still be deferred, and which of several missed ones are."""

    max_delay: timedelta = timedelta(minutes=10)
    catch_up: CatchUp = CatchUp.LAST

    def change(
        self, *, max_delay: Span | None = None, catch_up: CatchUpName | None = None
    ) -> MisfirePolicy:
        return MisfirePolicy(
            self.max_delay if max_delay is None else _check_delay(max_delay),
            self.catch_up if catch_up is None else check_choice("catch_up", CatchUp, catch_up),
        )


def make_default_policy(given: Mapping[str, Any]) -> MisfirePolicy:
    """Return the policy of an app, or raise BadArgument."""
    for name in given:
        if name not in ("max_delay", "catch_up"):
            raise BadArgument("periodic_defaults", f"{name!r} is not one of max_delay and catch_up")
    return MisfirePolicy().change(**given)


def _check_delay(span: Span) -> timedelta:
    """Return the delay, given as seconds, a timedelta or, for example, {"hours": 1}."""
    try:
        if isinstance(span, Mapping):
            delay = timedelta(**span)
        else:
            delay = span if isinstance(span, timedelta) else timedelta(seconds=span)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadArgument(
            "max_delay",
            f"{span!r}: {error}. Pass seconds, a timedelta or, for example, {{'hours': 1}}",
        ) from None
    if isinstance(span, bool) or not timedelta(seconds=1) <= delay <= timedelta(days=366):
        raise BadArgument("max_delay", f"{span!r} is not between a second and a year")
    return delay
