"""Odd but valid input arrives unchanged.

Random input arrives or is refused, and the queue moves on.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inturn import App
from inturn.arguments import encode
from inturn.errors import BadArgument

Connection = psycopg.Connection[Any]


def order(item: Any, amount: Any = 1) -> None: ...


@pytest.fixture
def app(app: App) -> App:
    app.task(name="order")(order)
    return app


@pytest.fixture
def connection(dsn: str) -> Iterator[Connection]:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        connection.execute("SELECT register_worker('test', 'here', 1, NULL, 1)")
        yield connection


def claimed(connection: Connection) -> list[Any]:
    """The jobs that a worker gets, in order."""
    return connection.execute("""
        SELECT lock, queueing_lock, queue, priority, task, args
        FROM workers, claim(workers.id, NULL, 50) AS job ORDER BY job.id
    """).fetchall()


ODD_TEXTS = [
    "'; DROP TABLE jobs; --",
    "%s {} $1 \\",
    " trailing ",
    "é",
    "e\u0301",
    "x" * 1024,
    "\u202eright to left\n",
    "\u007f🐘",
]


def test_locks_and_keys_are_stored_to_the_letter(app: App, connection: Connection) -> None:
    for text in ODD_TEXTS:
        app.tasks["order"].configure(lock=text, queueing_lock=text).defer(item=text)
        app.configure_task(text[:128], queueing_lock=f"{text[:900]}2").defer(**{text: 1})
    rows = claimed(connection)
    assert [(lock, key, args) for lock, key, *_, args in rows[::2]] == [
        (t, t, {"item": t}) for t in ODD_TEXTS
    ]
    assert [(task, args) for *_, task, args in rows[1::2]] == [
        (text[:128], {text: 1}) for text in ODD_TEXTS
    ]


class Size(IntEnum):
    LARGE = 3


def test_large_numbers_and_numbers_of_other_kinds_arrive(app: App, connection: Connection) -> None:
    values = [2**70, -(10**4000), 1e15, 5e-324, True, Size.LARGE, 0.1]
    app.tasks["order"].batch_defer(*({"item": value} for value in values))
    assert [args["item"] for *_, args in claimed(connection)] == values


def test_values_at_the_limits_are_allowed(app: App, connection: Connection) -> None:
    order = app.tasks["order"]
    for zone in (timezone(timedelta(hours=-12)), UTC, timezone(timedelta(hours=14))):
        order.configure(schedule_at=datetime(3, 1, 1, tzinfo=zone)).defer(item="first")
        order.configure(schedule_at=datetime(9997, 12, 31, 23, 59, tzinfo=zone)).defer(item="last")
    order.configure(priority=2**31 - 1, queue="Q" * 63, schedule_in=timedelta(0)).defer(
        item="x" * (2**20 - 50)
    )
    order.configure(priority=-(2**31), schedule_in=timedelta(days=365 * 1000)).defer(item=1)
    for zone_name in ("Pacific/Kiritimati", "Etc/GMT+12"):
        connection.execute("SELECT set_config('TimeZone', %s, false)", [zone_name])
        assert (
            len(connection.execute("SELECT scheduled_at FROM jobs").fetchall()) == 8
        )  # every reader can read them
    assert len(claimed(connection)) == 4


@pytest.mark.landing
def test_more_jobs_than_a_statement_has_parameters_are_one_batch(
    app: App, connection: Connection
) -> None:
    jobs = app.tasks["order"].configure(lock="l").batch_defer(*[{"item": None}] * 66_000)
    assert jobs == sorted(jobs)
    assert connection.execute(
        "SELECT count(*), count(*) FILTER (WHERE status = 'todo') FROM jobs"
    ).fetchone() == (
        66_000,
        1,
    )


# Beyond 2**53 a float without a fraction comes back as an integer: JSON has one kind of number.
floats = st.floats(-(2.0**53), 2.0**53) | st.sampled_from([float("nan"), float("inf")])
texts = st.text(st.characters())
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=20,
)
fuzzed = settings(
    # However busy the machine is.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=100,
)


@fuzzed
@given(value=json_values)
def test_accepted_values_come_back_unchanged(connection: Connection, value: object) -> None:
    try:
        text = encode({"value": value})
    except BadArgument:
        return
    assert connection.execute("SELECT %s::text::jsonb", [text]).fetchall() == [({"value": value},)]


anything = st.none() | st.booleans() | st.integers() | st.floats() | st.binary(max_size=3) | texts
moments = st.datetimes(timezones=st.none() | st.timezones())
options = st.fixed_dictionaries(
    {},
    optional={
        "lock": anything,
        "queueing_lock": anything,
        "queue": anything | st.from_regex(r"[A-Za-z0-9_.:-]{1,63}", fullmatch=True),
        "priority": anything | st.integers(-(2**31), 2**31 - 1),
        "schedule_at": moments | anything,
        "schedule_in": st.timedeltas()
        | st.dictionaries(texts | st.just("hours"), anything, max_size=2)
        | anything,
        "on_conflict": texts | st.sampled_from(["raise", "skip", "replace"]),
        "task_kwargs": st.dictionaries(texts, json_values, max_size=2) | anything,
    },
)


@fuzzed
@given(given=options, is_declared=st.booleans())
def test_options_are_refused_or_arrive(
    app: App, connection: Connection, given: dict[str, Any], is_declared: bool
) -> None:
    try:
        app.configure_task("order" if is_declared else "elsewhere", **given).defer(item=1)
    except BadArgument:
        assert connection.execute("SELECT FROM jobs").fetchall() == []
    else:
        ((lock, key, queue, priority),) = connection.execute(
            "SELECT lock, queueing_lock, queue, priority FROM jobs"
        ).fetchall()
        stored = {"lock": lock, "queueing_lock": key, "queue": queue, "priority": priority}
        # A whole number may be a lock, and is stored as text.
        assert stored == stored | {
            name: str(given[name]) if name in ("lock", "queueing_lock") else given[name]
            for name in stored.keys() & given
            if given[name] is not None
        }
        connection.execute("DELETE FROM jobs")
    app.configure_task("order").defer(item="good")
    assert [args for *_, args in claimed(connection)] == [{"item": "good"}]
    connection.execute("DELETE FROM jobs")
