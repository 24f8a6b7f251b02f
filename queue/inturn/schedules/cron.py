"""When a cron expression fires in a time zone. The caller supplies the current time.

cronsim finds local (wall clock) times, and this module turns them into instants. Where the clock
jumps, an expression with fixed hours and minutes fires once: at the end of a gap, or the first time
in a repeated hour. An expression whose minute or hour starts with `*` follows the clock: it does
not fire in a gap, and fires both times in a repeated hour.
"""

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from inturn.errors import BadArgument, kind_of
from inturn.schedules.spelling import respell

MAX_LENGTH = 256
FIELDS = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day of the month": "1 to 31, L for the last, LW for the last from Monday to Friday",
    "month": "1 to 12, or JAN to DEC",
    "day of the week": "0 to 7 (0 and 7 are Sunday), or SUN to SAT, "
    "5#3 for the third Friday, 5L for the last",
    "second": "0 to 59",
}
NAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
SOME_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


class Cron:
    """`minute hour day month weekday`, a sixth field for the second, or a name like `@daily`.

    >>> Cron("30 8 * * MON-FRI", "Europe/Berlin").next(datetime(2026, 1, 3, tzinfo=UTC))
    datetime.datetime(2026, 1, 5, 7, 30, tzinfo=datetime.timezone.utc)
    """

    def __init__(self, expression: str, tz: str | ZoneInfo = "UTC") -> None:
        self.expression = _check_expression(expression)
        self.zone = _find_zone(tz)
        fields = respell(NAMES.get(self.expression.lower(), self.expression).split())
        self.fires = _can_fire(self.expression, fields)
        self._follows_hands = fields[0].startswith("*") or fields[1].startswith("*")
        self._spec = " ".join(fields[5:] + fields[:5])  # cronsim puts the second first

    @property
    def tz(self) -> str:
        return str(self.zone)

    def describe(self) -> str:
        """Return the expression in words, such as `At 08:30 on Monday through Friday`."""
        return CronSim(self._spec, SOME_MOMENT).explain() if self.fires else "Never"

    def __repr__(self) -> str:
        return f"Cron({self.expression!r}, {self.tz!r})"

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Yield all later instants, in UTC, endlessly.

        Yield none if the expression never fires.
        """
        if not self.fires:
            return
        last = moment
        # In a repeated hour, second times are kept here until the first times are over.
        repeated: deque[datetime] = deque()
        for wall in CronSim(self._spec, self._start(moment)):
            first, second = self._instants(wall)
            while repeated and first is not None and repeated[0] < first:
                if (instant := repeated.popleft()) > last:
                    yield (last := instant)
            if second is not None:
                repeated.append(second)
            if first is not None and first > last:
                yield (last := first)

    def next(self, moment: datetime) -> datetime | None:
        """Return the first later instant, or None if the expression never fires."""
        return next(self.after(moment), None)

    def between(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """Return the instants after `after`, up to and including `until`."""
        return takewhile(lambda instant: instant <= until, self.after(after))

    def newest(self, after: datetime, until: datetime) -> datetime | None:
        """Return the last instant that `between` would yield, or None.

        It looks back in growing steps, so its cost does not depend on the time between.
        """
        width = MINUTE
        while True:
            start = max(after, until - width)
            newest = deque(self.between(start, until), maxlen=1)
            if newest or start == after:
                return newest.pop() if newest else None
            width *= 4

    def _start(self, moment: datetime) -> datetime:
        """Return the local (wall clock) time at a moment.

        If the clock is soon turned back, return that much less, since these times repeat.
        """
        local = moment.astimezone(self.zone)
        turned_back = _offset(local) - _offset((moment + DAY).astimezone(self.zone))
        return local.replace(tzinfo=None) - max(turned_back, timedelta(0))

    def _instants(self, wall: datetime) -> tuple[datetime | None, datetime | None]:
        """Return when a local (wall clock) time occurs.

        That is once, twice if the clock is turned back, or never if it skips that time.
        """
        first, second = (wall.replace(tzinfo=self.zone, fold=fold) for fold in (0, 1))
        if _offset(first) == _offset(second):
            return first.astimezone(UTC), None
        if _offset(first) > _offset(second):
            return first.astimezone(UTC), second.astimezone(UTC) if self._follows_hands else None
        # A day that was skipped in the calendar has no hours either.
        whole_day = _offset(second) - _offset(first) >= DAY
        return None if self._follows_hands or whole_day else self._end_of_gap(wall), None

    def _end_of_gap(self, wall: datetime) -> datetime:
        at = wall.replace(tzinfo=self.zone, second=0)
        while _offset(at) != _offset(at.replace(fold=1)):
            at += MINUTE
        return at.astimezone(UTC)


def _offset(moment: datetime) -> timedelta:
    return moment.utcoffset() or timedelta(0)


def _check_expression(expression: object) -> str:
    if not isinstance(expression, str):
        raise BadArgument("cron", f"is {kind_of(expression)}. Pass text like '*/5 * * * *'")
    if len(expression) > MAX_LENGTH:
        raise BadArgument(
            "cron", f"has {len(expression):,} characters; the limit is {MAX_LENGTH}. Shorten it"
        )
    spelled = " ".join(expression.split())
    count = len(spelled.split())
    if spelled.lower() not in NAMES and count not in (5, 6):
        raise BadArgument(
            "cron",
            f"{expression!r} has {count} field{'' if count == 1 else 's'}. Write five, "
            "`minute hour day month weekday`, a sixth for the second, "
            f"or one of {', '.join(NAMES)}",
        )
    return spelled


def _can_fire(expression: str, fields: list[str]) -> bool:
    """Return True if the expression ever fires; one for the 30th of February never does.

    Raise BadArgument if a field cannot be read.
    """
    for place, (field, (name, values)) in enumerate(zip(fields, FIELDS.items(), strict=False)):
        alone = ["*"] * 5
        alone[0 if name == "second" else place] = field  # seconds are written like minutes
        if not _parses(" ".join(alone)):
            raise BadArgument(
                "cron",
                f"{expression!r}: field {place + 1}, the {name}, cannot be {field!r}. Use {values}",
            )
    minutely = " ".join(fields[:5])
    return _parses(minutely) and next(CronSim(minutely, SOME_MOMENT), None) is not None


def _parses(expression: str) -> bool:
    try:
        CronSim(expression, SOME_MOMENT)
    except CronSimError:
        return False
    return True


def _find_zone(tz: object) -> ZoneInfo | tzinfo:
    if isinstance(tz, ZoneInfo) and tz.key is not None:
        return tz
    if not isinstance(tz, str):
        raise BadArgument("tz", f"is {kind_of(tz)}. Pass the name of a zone like 'Europe/Berlin'")
    if tz == "UTC":
        return UTC  # works even if no time zones are installed
    try:
        return ZoneInfo(tz)
    except (KeyError, ValueError, OSError):
        raise BadArgument(
            "tz",
            f"{tz[:80]!r} is not a known time zone. Use, for example, 'Europe/Berlin'. If the "
            "system has no time zones: pip install tzdata",
        ) from None
