"""Bad input is refused when it is deferred. The error names the argument and nothing is written."""

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from typing import Any

import psycopg
import pytest

from inturn import App
from inturn.errors import BadArgument, TaskDefinitionError, TaskNotFound

UTC = timezone.utc  # noqa: UP017 (as users write it)


def order(item: Any, amount: Any = 1) -> None: ...


@pytest.fixture
def app(app: App) -> App:
    app.task(name="order")(order)
    return app


def jobs(dsn: str) -> list[Any]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(
            "SELECT args, lock, queue, priority FROM inturn.jobs ORDER BY id"
        ).fetchall()


def assert_the_queue_moves(app: App, dsn: str) -> None:
    job = app.tasks["order"].defer(item="good")
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        claim = "SELECT id, args FROM claim(register_worker('test', 'here', 1, NULL, 1), NULL, 9)"
        assert connection.execute(claim).fetchall() == [(job, {"item": "good"})]


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
    "item: JSON cannot represent a bytes": b"raw",
    "item: JSON cannot represent a set": {1, 2},
    "item: JSON cannot represent a datetime": datetime(2026, 1, 1, tzinfo=UTC),
    "item: JSON cannot represent a Decimal": Decimal("1.10"),
    "item: JSON cannot represent a generator": (n for n in range(3)),
    "item: JSON cannot represent a object": object(),
    "'item': contains half of a surrogate pair": "\ud800",
    r"item\.parts\[1\]\.price: JSON has no -inf": {"parts": [{}, {"price": float("-inf")}]},
    r"item\.a\\0b: contains the character NUL": {"a\0b": 1},
    "item: the key 1 would come back as '1'": {1: "one"},
    "nested deeper than 64 levels": nested(70),
    r"nested deeper than 64 levels ?": recursive,
    "item is an integer with more than 4,200 digits": 10**4300,
    r"item\[0\]: JSON cannot represent a complex": [1j],
    "arguments has 2,000,0.. bytes of JSON; the limit is 1,048,576": "x" * 2_000_000,
}


@pytest.mark.parametrize(("message", "value"), BAD_ARGUMENTS.items(), ids=list(BAD_ARGUMENTS))
def test_an_argument_that_json_cannot_carry_is_refused(
    app: App, dsn: str, message: str, value: object
) -> None:
    with pytest.raises(BadArgument, match=message):
        app.tasks["order"].defer(item=value)
    assert jobs(dsn) == []
    assert_the_queue_moves(app, dsn)


BAD_OPTIONS: dict[str, dict[str, Any]] = {
    "lock is empty": {"lock": ""},
    "lock is a bytes, not text": {"lock": b"x"},
    "lock: contains the character NUL": {"lock": "a\0b"},
    "lock has 1,025 bytes; the limit is 1,024": {"lock": "x" * 1025},
    "lock has 1,026 bytes; the limit is 1,024": {"lock": "é" * 513},
    "lock is a float, not text": {"lock": 7.5},
    "lock is a bool, not text": {"lock": True},
    "'lock': contains half of a surrogate pair": {"lock": "\ud800"},
    "queueing_lock is empty. Omit it": {"queueing_lock": ""},
    "queueing_lock is a bool, not text. Write queueing_lock=str": {"queueing_lock": True},
    "queueing_lock: contains the character NUL": {"queueing_lock": "a\0b"},
    "'queueing_lock': contains half of a surrogate pair": {"queueing_lock": "\udfff"},
    "queueing_lock has 1,025 bytes; the limit is 1,024": {"queueing_lock": "x" * 1025},
    "on_conflict: 'ignore' is not one of 'raise', 'skip', 'replace'": {"on_conflict": "ignore"},
    "on_retry: 'wait' is not one of": {"on_retry": "wait"},
    "on_failure: None is not one of|on_failure: 7 is not one of": {"on_failure": 7},
    "arguments are a list. Give a mapping": {"task_kwargs": [1]},
    r"queue: '\*' is not a valid queue name": {"queue": "*"},
    r"queue: '\.\./etc' is not a valid queue name": {"queue": "../etc"},
    r"queue: 'a\\n' is not a valid queue name": {"queue": "a\n"},
    "queue: b'q' is not a valid queue name": {"queue": b"q"},
    "queue: '' is not a valid queue name": {"queue": ""},
    "queue: 'a,b' is not a valid queue name": {"queue": "a,b"},
    "queue: 'xxx": {"queue": "x" * 64},
    "priority: 2147483648 is not a whole number": {"priority": 2**31},
    "priority: 1.5 is not a whole number": {"priority": 1.5},
    "priority: 'high' is not a whole number": {"priority": "high"},
    "priority: -2147483649 is not a whole number": {"priority": -(2**31) - 1},
    "priority: nan is not a whole number": {"priority": float("nan")},
    "priority: True is not a whole number": {"priority": True},
    "schedule_at: .* has no zone": {"schedule_at": datetime(2026, 1, 1)},
    "schedule_at is a str": {"schedule_at": "tomorrow"},
    "schedule_at: .* after the year": {"schedule_at": datetime.max.replace(tzinfo=UTC)},
    "schedule_at: 9998.* after the year": {
        "schedule_at": datetime(9998, 12, 31, tzinfo=timezone(timedelta(hours=-12)))
    },
    "schedule_at: .* before the year": {"schedule_at": datetime(1, 1, 2, tzinfo=UTC)},
    "schedule_at is a date": {"schedule_at": date(2030, 1, 1)},
    "schedule_at was given together": {
        "schedule_at": datetime.now(UTC),
        "schedule_in": {"hours": 1},
    },
    "schedule_in: 999999999 days.* more than a thousand": {"schedule_in": timedelta.max},
    "schedule_in: 'hour' is not one of weeks, days, hours": {"schedule_in": {"hour": 1}},
    "schedule_in: .*nan": {"schedule_in": {"hours": float("nan")}},
    "schedule_in: .*inf": {"schedule_in": {"hours": float("inf")}},
    "schedule_in: .*'1'": {"schedule_in": {"hours": "1"}},
    "schedule_in is an int": {"schedule_in": 3600},
}


@pytest.mark.parametrize(("message", "options"), BAD_OPTIONS.items(), ids=list(BAD_OPTIONS))
def test_a_bad_option_is_refused_and_named(
    app: App, dsn: str, message: str, options: dict[str, Any]
) -> None:
    with pytest.raises(BadArgument, match=message):
        app.tasks["order"].configure(**options).defer(item=1)
    with pytest.raises(BadArgument, match=message):
        app.configure_task("order", **options).defer(item=1)
    assert jobs(dsn) == []
    assert_the_queue_moves(app, dsn)


BAD_NAMES = {
    "": "''",
    "x" * 513: "'xxx",
    "é" * 257: "'éé",
    "a\0b": "task name: contains",
    "\ud800": "half of a surrogate",
}


@pytest.mark.parametrize(
    ("name", "message"),
    [*BAD_NAMES.items(), (7, "'7' is not a valid"), (None, "'None' is not a valid")],
    ids=ascii,
)
def test_a_bad_task_name_is_refused(app: App, dsn: str, name: Any, message: str) -> None:
    with pytest.raises(BadArgument, match=message):
        app.configure_task(name)
    assert_the_queue_moves(app, dsn)


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
    with pytest.raises(BadArgument, match=f"task order: .*{message}.*Call it as order\\(item"):
        app.tasks["order"].defer(*args, **kwargs)
    assert jobs(dsn) == []


def test_positional_arguments_are_stored_by_name(app: App, dsn: str) -> None:
    app.tasks["order"].defer("book", amount=2)
    app.tasks["order"].configure(task_kwargs={"amount": 3}).defer("pen")
    assert [args for args, *_ in jobs(dsn)] == [
        {"item": "book", "amount": 2},
        {"item": "pen", "amount": 3},
    ]


def test_one_bad_job_refuses_the_whole_batch_and_is_named_by_its_place(app: App, dsn: str) -> None:
    order, many = app.tasks["order"], [{"item": n} for n in range(5000)]
    for bad, message in [
        ({"item": {2}}, "job 5000, item: JSON cannot represent a set"),
        ({"thing": 1}, "job 5000, task order: .*'item'"),
        ({1: 1}, "job 5000, task order: .*keywords must be strings"),
        (7, "job 5000, arguments are an int"),
        (many, r"job 5000, arguments are a list. Unpack it: batch_defer\(\*jobs\)"),
        ((each for each in many), "job 5000, arguments are a generator. Unpack it"),
    ]:
        with pytest.raises(BadArgument, match=message):
            order.batch_defer(*many, bad, {"item": 3})  # type: ignore[arg-type]
        assert jobs(dsn) == []
    with pytest.raises(BadArgument, match="job 0, argument name: 1 is an int"):
        app.configure_task("elsewhere").batch_defer({1: 1})  # type: ignore[dict-item]
    assert order.batch_defer() == []
    assert_the_queue_moves(app, dsn)


def test_an_unknown_task_is_refused_only_on_request(app: App, dsn: str) -> None:
    with pytest.raises(TaskNotFound, match="No task is named 'elsewhere'"):
        app.configure_task("elsewhere", allow_unknown=False)
    with pytest.raises(BadArgument, match="Pass them by name"):
        app.configure_task("elsewhere").defer(1)
    app.configure_task("elsewhere").defer(item=1)
    assert len(jobs(dsn)) == 1


def test_a_function_whose_arguments_have_no_names_cannot_be_a_task() -> None:
    app = App("postgresql://")
    with pytest.raises(TaskDefinitionError, match=r"\*items: str, which has no name"):

        @app.task
        def pack(*items: str) -> None: ...

    with pytest.raises(TaskDefinitionError, match="is a generator"):

        @app.task
        async def each() -> Any:
            yield 1

    with pytest.raises(TaskDefinitionError, match="takes no argument"):
        app.task(pass_context=True)(lambda: None)  # type: ignore[arg-type, misc]
    with pytest.raises(TaskDefinitionError, match="'twin' has its own name as an alias"):
        app.task(name="twin", aliases=["twin"])(order)
    for nameless in ("twin", partial(order, 1)):
        with pytest.raises(TaskDefinitionError, match=r"is not a function with a name.*name="):
            app.task(nameless)  # type: ignore[arg-type]


def test_the_arguments_are_those_of_the_moment_of_the_call(app: App, dsn: str) -> None:
    basket = ["book"]
    app.tasks["order"].defer(item=basket)
    basket.append("pen")
    assert jobs(dsn)[0][0] == {"item": ["book"]}
