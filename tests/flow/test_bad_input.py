"""What a caller can get wrong is refused at defer, naming the argument; nothing is written, and the queue still moves."""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inturn import App
from inturn.arguments import encode
from inturn.errors import BadArgument, TaskDefinitionError, TaskNotFound

UTC = timezone.utc  # noqa: UP017 (as users write it)


def order(item: Any, amount: Any = 1) -> None: ...


@pytest.fixture
def app(dsn: str) -> Iterator[App]:
    app = App(dsn)
    app.task(name="order")(order)
    with app.open():
        yield app


def jobs(dsn: str) -> list[Any]:
    with psycopg.connect(dsn) as connection:
        return connection.execute("SELECT args, lock, queue, priority FROM inturn.jobs ORDER BY id").fetchall()


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


recursive: list[Any] = []
recursive.append(recursive)

BAD_ARGUMENTS = {
    "item: JSON has no nan": float("nan"),
    "item: JSON has no inf": float("inf"),
    "item: contains the character NUL": "a\0b",
    "item: JSON cannot carry a bytes": b"raw",
    "item: JSON cannot carry a set": {1, 2},
    "item: JSON cannot carry a datetime": datetime(2026, 1, 1, tzinfo=UTC),
    "item: JSON cannot carry a Decimal": Decimal("1.10"),
    "item: JSON cannot carry a generator": (n for n in range(3)),
    "item: JSON cannot carry a object": object(),
    "'item': contains half a surrogate pair": "\ud800",
    r"item\.parts\[1\]\.price: JSON has no -inf": {"parts": [{}, {"price": float("-inf")}]},
    r"item\.a\\0b: contains the character NUL": {"a\0b": 1},
    "item: the key 1 is no text": {1: "one"},
    "nested deeper than 64 levels": nested(70),
    r"nested deeper than 64 levels ?": recursive,
    "arguments: 2,000,0.. bytes of JSON, at most 1,048,576": "x" * 2_000_000,
}


@pytest.mark.parametrize(("message", "value"), BAD_ARGUMENTS.items(), ids=list(BAD_ARGUMENTS))
def test_an_argument_that_json_cannot_carry_is_refused(app: App, dsn: str, message: str, value: object) -> None:
    with pytest.raises(BadArgument, match=message):
        app.tasks["order"].defer(item=value)
    assert jobs(dsn) == []
    app.tasks["order"].defer(item="good")
    assert len(jobs(dsn)) == 1


BAD_OPTIONS: dict[str, dict[str, Any]] = {
    "lock: is empty": {"lock": ""},
    "lock: is a int, not text": {"lock": 7},
    "lock: is a bytes, not text": {"lock": b"x"},
    "lock: contains the character NUL": {"lock": "a\0b"},
    "lock: 1,025 bytes, at most 1,024": {"lock": "x" * 1025},
    "lock: 1,026 bytes, at most 1,024": {"lock": "é" * 513},
    "queue: '' is no queue name": {"queue": ""},
    "queue: 'a,b' is no queue name": {"queue": "a,b"},
    "queue: 'xxx": {"queue": "x" * 64},
    "priority: 2147483648 is no whole number": {"priority": 2**31},
    "priority: 1.5 is no whole number": {"priority": 1.5},
    "priority: 'high' is no whole number": {"priority": "high"},
    "priority: True is no whole number": {"priority": True},
    "schedule_at: .* has no zone": {"schedule_at": datetime(2026, 1, 1)},
    "schedule_at: is a str": {"schedule_at": "tomorrow"},
    "schedule_at: .* past the year": {"schedule_at": datetime.max.replace(tzinfo=UTC)},
    "schedule_at: give either": {"schedule_at": datetime.now(UTC), "schedule_in": {"hours": 1}},
    "schedule_in: .* not between": {"schedule_in": timedelta(seconds=-1)},
    "schedule_in: 999999999 days.* not between": {"schedule_in": timedelta.max},
    "schedule_in: .*'hour'": {"schedule_in": {"hour": 1}},
    "schedule_in: is a int": {"schedule_in": 3600},
}


@pytest.mark.parametrize(("message", "options"), BAD_OPTIONS.items(), ids=list(BAD_OPTIONS))
def test_a_bad_option_is_refused_and_named(app: App, dsn: str, message: str, options: dict[str, Any]) -> None:
    with pytest.raises(BadArgument, match=message):
        app.tasks["order"].configure(**options).defer(item=1)
    with pytest.raises(BadArgument, match=message):
        app.configure_task("order", **options).defer(item=1)
    assert jobs(dsn) == []


BAD_CALLS: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    ((), {}, "missing a required argument: 'item'"),
    ((1, 2, 3), {}, "too many positional arguments"),
    ((1,), {"item": 1}, "multiple values for argument 'item'"),
    ((), {"item": 1, "colour": "red"}, "unexpected keyword argument 'colour'"),
]


@pytest.mark.parametrize(("args", "kwargs", "message"), BAD_CALLS)
def test_a_call_that_does_not_fit_the_function_is_refused(
    app: App, dsn: str, args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadArgument, match=f"task order: .*{message}.*it is order\\(item"):
        app.tasks["order"].defer(*args, **kwargs)
    assert jobs(dsn) == []


def test_positional_arguments_are_stored_by_name(app: App, dsn: str) -> None:
    app.tasks["order"].defer("book", amount=2)
    app.tasks["order"].configure(task_kwargs={"amount": 3}).defer("pen")
    assert [args for args, *_ in jobs(dsn)] == [{"item": "book", "amount": 2}, {"item": "pen", "amount": 3}]


def test_one_bad_job_refuses_the_whole_batch_and_is_named_by_its_place(app: App, dsn: str) -> None:
    with pytest.raises(BadArgument, match="job 1, item: JSON cannot carry a set"):
        app.tasks["order"].batch_defer({"item": 1}, {"item": {2}}, {"item": 3})
    assert jobs(dsn) == []


def test_an_unknown_task_is_refused_only_on_request(app: App, dsn: str) -> None:
    with pytest.raises(TaskNotFound, match="No task is named 'elsewhere'"):
        app.configure_task("elsewhere", allow_unknown=False)
    with pytest.raises(BadArgument, match="must be given by name"):
        app.configure_task("elsewhere").defer(1)
    app.configure_task("elsewhere").defer(item=1)
    assert len(jobs(dsn)) == 1


def test_a_function_whose_arguments_have_no_names_cannot_be_a_task() -> None:
    app = App("postgresql://")
    with pytest.raises(TaskDefinitionError, match=r"\*items: str, which has no name"):

        @app.task
        def pack(*items: str) -> None: ...

    with pytest.raises(TaskDefinitionError, match="takes no argument to receive the context"):
        app.task(pass_context=True)(lambda: None)  # type: ignore[arg-type, misc]
    with pytest.raises(TaskDefinitionError, match="Two tasks are named 'twin'"):
        app.task(name="twin", aliases=["twin"])(order)


def test_the_arguments_are_those_of_the_moment_of_the_call(app: App, dsn: str) -> None:
    basket = ["book"]
    app.tasks["order"].defer(item=basket)
    basket.append("pen")
    assert jobs(dsn)[0][0] == {"item": ["book"]}


def test_a_lock_is_stored_to_the_letter(app: App, dsn: str) -> None:
    odd = ["'; DROP TABLE jobs; --", "%s {} $1 \\", " trailing ", "é", "é", "x" * 1024, "\u202eright to left\n"]
    for lock in odd:
        app.tasks["order"].configure(lock=lock).defer(item=1)
    assert [lock for _, lock, *_ in jobs(dsn)] == odd


# Beyond 2**53 a float without a fraction comes back as an integer: JSON has one kind of number.
floats = st.floats(-(2.0**53), 2.0**53) | st.sampled_from([float("nan"), float("inf")])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
    max_leaves=20,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None)
@given(value=json_values)
def test_what_is_not_refused_comes_back_as_it_was(dsn: str, value: object) -> None:
    try:
        text = encode({"value": value})
    except BadArgument:
        return
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT %s::text::jsonb", [text]).fetchone()
    assert row is not None
    assert row[0] == {"value": value}
