"""When an expression fires, also where clocks jump, and which expressions are refused."""

import doctest
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inturn.errors import BadArgument
from inturn.schedules import cron
from inturn.schedules.cron import FIELDS, NAMES, Cron

BERLIN = ZoneInfo("Europe/Berlin")
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
GAP = datetime(2026, 3, 29, 1, tzinfo=UTC)  # in Berlin 02:00 becomes 03:00
FOLD = datetime(2026, 10, 25, 1, tzinfo=UTC)  # in Berlin 03:00 becomes 02:00


def around(expression: str, jump: datetime, tz: str = "Europe/Berlin") -> list[str]:
    """Return the instants on the day of a jump, as a London clock in winter shows them."""
    return [
        f"{at:%H:%M}"
        for at in Cron(expression, tz).between(jump - 2 * HOUR - MINUTE, jump + 20 * HOUR)
    ]


# ---------------------------------------------------------------- what cannot be read

BAD = {
    "": "has 0 fields. Write five, `minute hour day month weekday`",
    "* * * *": "has 4 fields. Write five",
    "* * * * * * *": "has 7 fields",
    "@every 0s": "has 2 fields. .*@daily",
    "@dialy": "has 1 field.",
    "60 * * * *": "field 1, the minute, cannot be '60'. Use 0 to 59",
    "*/0 * * * *": "field 1, the minute, cannot be '\\*/0'",
    "* 24 * * *": "field 2, the hour, cannot be '24'. Use 0 to 23",
    "* * 0 * *": "field 3, the day of the month, cannot be '0'",
    "* * * 13 *": "field 4, the month, cannot be '13'",
    "* * * JANUARY *": "field 4, the month, cannot be 'JANUARY'. .*JAN to DEC",
    "* * * * 8": "field 5, the day of the week, cannot be '8'",
    "* * * * L": "field 5, the day of the week, cannot be 'L'. .*5L",
    "* * * * 5#6": "field 5, the day of the week, cannot be '5#6'",
    "* * * * * 60": "field 6, the second, cannot be '60'. Use 0 to 59",
    "1,,2 * * * *": "field 1, the minute, cannot be '1,,2'",
    "-1 * * * *": "field 1, the minute",
    "1.5 * * * *": "field 1, the minute",
    "٣ * * * *": "field 1, the minute",
    "5-² * * * *": "field 1, the minute, cannot be '5-²'",
    "\0 * * * *": "field 1, the minute",
    "x" * 10_000: "10,000 characters; the limit is 256",
}


@pytest.mark.parametrize(("expression", "message"), BAD.items(), ids=[text[:20] for text in BAD])
def test_an_invalid_expression_is_refused_with_the_place(expression: str, message: str) -> None:
    with pytest.raises(BadArgument, match=f"cron(:| has) .*{message}"):
        Cron(expression)


@pytest.mark.parametrize("expression", [None, 5, b"* * * * *", ["*"] * 5])
def test_an_expression_that_is_not_text_is_refused(expression: str) -> None:
    with pytest.raises(BadArgument, match=r"cron is .*. Pass text"):
        Cron(expression)


@pytest.mark.parametrize(
    "tz", ["Europe/Berln", "", "../../etc/passwd", "Europe", "a\0b", "x" * 5000, "+02:00"]
)
def test_an_unknown_zone_is_refused(tz: str) -> None:
    with pytest.raises(BadArgument, match="is not a known time zone"):
        Cron("* * * * *", tz)


def test_an_offset_is_no_zone() -> None:
    with pytest.raises(BadArgument, match=r"tz is a timezone. Pass the name of a zone"):
        Cron("* * * * *", UTC)  # type: ignore[arg-type]


@given(
    expression=st.text(max_size=40)
    | st.lists(st.text("*/-,#LW0123456789", min_size=1), max_size=6).map(" ".join)
)
def test_every_text_is_an_expression_or_refused(expression: str) -> None:
    try:
        cron = Cron(expression)
    except BadArgument:
        return
    assert cron.fires == (cron.next(GAP) is not None)


@pytest.mark.parametrize(
    "expression", ["0 0 30 2 *", "0 0 31 2 *", "0 0 31 4,6,9,11 *", "0 0 30 2 * 0", "0 0 31 feb *"]
)
def test_a_day_that_never_comes_is_no_mistake_but_never_fires(expression: str) -> None:
    cron = Cron(expression)
    assert not cron.fires
    assert cron.next(GAP) is None
    assert cron.newest(GAP, FOLD) is None


# ---------------------------------------------------------------- what is read

MEANS = {
    "*/15 9 * * *": ["02 09:00:00", "02 09:15:00"],
    "* * * * * */20": ["01 00:00:20", "01 00:00:40"],  # the second is the last field
    "5 0 * * * 7": ["01 00:05:07", "02 00:05:07"],
    "0 0 29 2 *": ["29 00:00:00", "29 00:00:00"],
    "0 12 L * *": ["31 12:00:00", "28 12:00:00"],
    "0 12 LW * *": ["30 12:00:00", "27 12:00:00"],
    "0 0 * jan Mon": ["05 00:00:00", "12 00:00:00"],
    "0 0 * * 7": ["04 00:00:00", "11 00:00:00"],
    "0 0 * * 5#3": ["16 00:00:00", "20 00:00:00"],
    "@daily": ["02 00:00:00", "03 00:00:00"],
    "@WEEKLY": ["04 00:00:00", "11 00:00:00"],
    "  0   0 1-3 * * ": ["02 00:00:00", "03 00:00:00"],
}


@pytest.mark.parametrize(("expression", "instants"), MEANS.items())
def test_the_meaning_of_expressions(expression: str, instants: list[str]) -> None:
    start = (
        datetime(2026, 1, 1, tzinfo=UTC)
        if expression[:2] != "*/"
        else datetime(2026, 1, 1, 10, tzinfo=UTC)
    )
    assert [f"{at:%d %H:%M:%S}" for at in islice(Cron(expression).after(start), 2)] == instants


@pytest.mark.parametrize("name", NAMES)
def test_every_name_can_be_used(name: str) -> None:
    assert Cron(name).next(GAP) is not None


def test_its_own_example_is_true() -> None:
    assert doctest.testmod(cron) == (0, 1)


def test_there_are_as_many_fields_as_are_explained() -> None:
    assert len(FIELDS) == 6


# ---------------------------------------------------------------- where the hands of the clock jump


@pytest.mark.parametrize(
    ("expression", "instants"),
    [
        ("30 2 * * *", ["01:00"]),  # 02:30 does not come: at the end of the gap
        ("0 2 * * *", ["01:00"]),
        ("0 3 * * *", ["01:00"]),
        ("0,30 2,3 * * *", ["01:00", "01:30"]),
        ("30 2 * * * 15", ["01:00"]),
        ("*/30 2 * * *", []),  # follows the hands
        ("0 */2 * * *", ["23:00", "02:00", "04:00", "06:00", "08:00", "10:00", "12:00", "14:00",
        "16:00", "18:00", "20:00"]),
    ],
)  # fmt: skip
def test_in_a_gap_fixed_hours_fire_once(expression: str, instants: list[str]) -> None:
    assert around(expression, GAP) == instants


@pytest.mark.parametrize(
    ("expression", "instants"),
    [
        ("30 2 * * *", ["00:30"]),  # the first of the two
        ("30 1 * * *", ["23:30"]),
        ("0,30 2,3 * * *", ["00:00", "00:30", "02:00", "02:30"]),
        ("30 2 * * * 15", ["00:30"]),
        ("*/30 2 * * *", ["00:00", "00:30", "01:00", "01:30"]),  # follows the hands
        ("* 2 * * *", [f"{h:02}:{m:02}" for h in (0, 1) for m in range(60)]),
    ],
)
def test_an_hour_that_comes_twice_fires_once_for_fixed_hours(
    expression: str, instants: list[str]
) -> None:
    assert around(expression, FOLD) == instants


@pytest.mark.parametrize("jump", [GAP, FOLD])
def test_every_five_minutes_is_every_five_minutes(jump: datetime) -> None:
    instants = list(islice(Cron("*/5 * * * *", "Europe/Berlin").after(jump - 3 * HOUR), 12 * 8))
    assert {later - earlier for earlier, later in pairwise(instants)} == {5 * MINUTE}


def test_midnight_may_be_in_a_gap() -> None:
    jump = datetime(2026, 9, 6, 4, tzinfo=UTC)  # in Santiago 00:00 becomes 01:00
    assert around("0 0 * * *", jump, "America/Santiago") == ["04:00"]
    assert around("*/30 1 * * *", jump, "America/Santiago") == ["04:00", "04:30"]


# ---------------------------------------------------------------- against a clock that is watched
# minute by minute

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/Santiago",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "Asia/Beirut",
    "Pacific/Apia",
]


def jumps(zone: ZoneInfo) -> list[datetime]:
    """Return when the clocks of a zone were changed since 2010, to the hour."""
    days = [datetime(2010, 1, 1, tzinfo=UTC) + n * DAY for n in range(17 * 365)]
    return [hour for day in _changed(days, zone) for hour in _changed(_hours_to(day), zone)]


def _changed(times: list[datetime], zone: ZoneInfo) -> list[datetime]:
    offsets = [at.astimezone(zone).utcoffset() for at in times]
    pairs = zip(times[1:], pairwise(offsets), strict=True)
    return [at for at, (before, after) in pairs if before != after]


def _hours_to(day: datetime) -> list[datetime]:
    return [day - n * HOUR for n in range(24, -1, -1)]


JUMPS = {name: jumps(ZoneInfo(name)) or [GAP] for name in ZONES}
moments = st.sampled_from(ZONES).flatmap(
    lambda name: st.tuples(st.just(name), st.sampled_from(JUMPS[name]), st.integers(0, 40 * 60))
)
minutes = st.sampled_from([5, 15, 30])
hours = st.integers(0, 4)


@given(moment=moments, every=minutes, hour=hours)
def test_expressions_that_follow_the_clock_fire_whenever_it_shows_them(
    moment: tuple[str, datetime, int], every: int, hour: int
) -> None:
    name, jump, before = moment
    zone, start, end = ZoneInfo(name), jump - before * MINUTE, jump + DAY
    watched = (start + n * MINUTE for n in range(1, int((end - start) / MINUTE) + 1))
    times = [
        at
        for at in watched
        if (hands := at.astimezone(zone)).hour == hour and hands.minute % every == 0
    ]
    assert list(Cron(f"*/{every} {hour} * * *", name).between(start, end)) == times


@given(moment=moments, minute=st.integers(0, 59), hour=hours)
def test_fixed_hours_fire_once_a_day(
    moment: tuple[str, datetime, int], minute: int, hour: int
) -> None:
    name, jump, before = moment
    zone, start = ZoneInfo(name), jump - before * MINUTE
    instants = list(Cron(f"{minute} {hour} * * *", name).between(start - 2 * DAY, start + 4 * DAY))
    days = [at.astimezone(zone).date() for at in instants]
    assert len(days) == len(set(days))
    if name != "Pacific/Apia":  # where a whole day did not come
        assert len(days) in (5, 6, 7)
    for at in instants:
        hands = at.astimezone(zone)
        before_jump = (at - MINUTE).astimezone(zone)
        assert (hands.hour, hands.minute) == (
            hour,
            minute,
        ) or before_jump.utcoffset() != hands.utcoffset()


@given(
    moment=moments,
    expression=st.sampled_from(
        ["30 2 * * *", "*/20 1-3 * * *", "0,30 0-4 * * *", "15 */2 * * * 30"]
    ),
)
def test_where_one_begins_to_ask_does_not_matter(
    moment: tuple[str, datetime, int], expression: str
) -> None:
    name, jump, before = moment
    cron, end = Cron(expression, name), jump + DAY
    asked_early = [at for at in cron.between(jump - 3 * DAY, end) if at > jump - before * MINUTE]
    assert list(cron.between(jump - before * MINUTE, end)) == asked_early
    assert cron.newest(jump - before * MINUTE, end) == (asked_early[-1] if asked_early else None)


def test_the_newest_is_found_in_a_few_steps() -> None:
    class Counting(Cron):
        steps = 0

        def after(self, moment: datetime) -> Iterator[datetime]:
            for instant in super().after(moment):
                self.steps += 1
                yield instant

    for expression, newest in (
        ("* * * * * *", GAP),
        ("0 0 29 2 *", datetime(2024, 2, 29, tzinfo=UTC)),
    ):
        cron = Counting(expression)
        assert cron.newest(GAP - 3000 * DAY, GAP) == newest
        assert cron.steps < 100


def test_nothing_is_newer_than_later() -> None:
    assert Cron("* * * * * *").newest(GAP, GAP) is None
    assert Cron("* * * * * *").newest(GAP, GAP - HOUR) is None


@pytest.mark.parametrize(
    ("spelled", "means"),
    [
        ("0 0 * * MON-SUN", "0 0 * * *"),
        ("0 0 * * FRI-MON", "0 0 * * 5,6,0,1"),
        ("0 0 * * 6-1", "0 0 * * 6,0,1"),
        ("0 20-4 * * *", "0 20,21,22,23,0,1,2,3,4 * * *"),
        ("50-10 * * * *", "50-59,0-10 * * * *"),
        ("0 0 1 NOV-FEB *", "0 0 1 11,12,1,2 *"),
        ("0 0 ? * MON", "0 0 * * MON"),
        ("0 0 1 * ?", "0 0 1 * *"),
        ("0 0 * * L5", "0 0 * * 5L"),
    ],
)
def test_spellings_of_other_programs_are_understood(spelled: str, means: str) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    fire = [list(islice(Cron(each).after(start), 50)) for each in (spelled, means)]
    assert fire[0] == fire[1]
    assert len(fire[0]) == 50
