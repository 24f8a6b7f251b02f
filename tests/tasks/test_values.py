"""Arguments and results that JSON lacks, and the connector's own JSON functions."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, NewType, TypeVar
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from inturn import App, Blueprint, PsycopgConnector
from inturn.errors import BadArgument
from inturn.testing import Queue
from inturn.values import find_decoder, simplify

if TYPE_CHECKING:
    from inturn import JobContext as Unknown

R = TypeVar("R")
AT = datetime(2026, 1, 2, 3, 4, 5, 678901, timezone(timedelta(hours=2)))
OrderId = NewType("OrderId", UUID)


class Color(Enum):
    RED = "red"
    BLUE = ("b", 2)


class Size(StrEnum):
    SMALL = "s"


class Level(IntEnum):
    HIGH = 3


class Right(Flag):
    READ = 1
    WRITE = 2


@dataclass
class Part:
    number: int
    price: Decimal


@dataclass(frozen=True)
class Order:
    id: UUID
    parts: list[Part]
    by: Order | None = None
    names: Sequence[str] = field(default_factory=list)
    total: int = field(init=False, default=0)


class Line(BaseModel):
    at: datetime
    amount: Decimal = Field(alias="Amount")


NUMBER = UUID(int=7)
ORDER = Order(NUMBER, [Part(1, Decimal("1.10"))], Order(NUMBER, []))
LINE = Line(at=AT, Amount=Decimal("1.10"))
# annotation, value, and the JSON that is stored
VALUES: dict[str, tuple[Any, Any, Any]] = {
    "datetime": (datetime, AT, "2026-01-02T03:04:05.678901+02:00"),
    "naive datetime": (datetime, AT.replace(tzinfo=None), "2026-01-02T03:04:05.678901"),
    "date": (date, date(2026, 1, 2), "2026-01-02"),
    "time": (time, time(3, 4, tzinfo=UTC), "03:04:00+00:00"),
    "timedelta": (timedelta, timedelta(days=1, microseconds=7), "P1DT0.000007S"),
    "negative timedelta": (timedelta, timedelta(seconds=-1), "P-1DT86399S"),
    "longest timedelta": (timedelta, timedelta.max, "P999999999DT86399.999999S"),
    "UUID": (UUID, NUMBER, str(NUMBER)),
    "Decimal": (Decimal, Decimal("1.10"), "1.10"),
    "Enum": (Color, Color.RED, "red"),
    "Enum of a tuple": (Color, Color.BLUE, ["b", 2]),
    "StrEnum": (Size, Size.SMALL, "s"),
    "IntEnum": (Level, Level.HIGH, 3),
    "Flag": (Right, Right.READ | Right.WRITE, 3),
    "dataclass": (Part, Part(1, Decimal("2")), {"number": 1, "price": "2"}),
    "dataclass in a dataclass": (
        Order,
        ORDER,
        {
            "id": str(NUMBER),
            "parts": [{"number": 1, "price": "1.10"}],
            "by": {"id": str(NUMBER), "parts": [], "by": None, "names": []},
            "names": [],
        },
    ),
    "pydantic": (Line, LINE, {"at": AT.isoformat(), "Amount": "1.10"}),
    "list": (list[UUID], [NUMBER], [str(NUMBER)]),
    "sequence": (Sequence[Part], [Part(1, Decimal(2))], [{"number": 1, "price": "2"}]),
    "dict": (Mapping[str, date], {"a": date(2026, 1, 2)}, {"a": "2026-01-02"}),
    "tuple": (tuple[int, UUID], (1, NUMBER), [1, str(NUMBER)]),
    "tuple of any length": (tuple[date, ...], (date(2026, 1, 2),), ["2026-01-02"]),
    "optional": (UUID | None, NUMBER, str(NUMBER)),
    "optional and none": (UUID | None, None, None),
    "annotated": (Annotated[UUID, "an id", []], NUMBER, str(NUMBER)),
    "new type": (OrderId, OrderId(NUMBER), str(NUMBER)),
}


@pytest.fixture
def queue(app: App) -> Any:
    with Queue(app) as queue:
        yield queue


@pytest.mark.parametrize(("annotation", "value", "stored"), VALUES.values(), ids=VALUES)
def test_a_value_is_stored_as_json_and_comes_back_by_its_annotation(
    annotation: Any, value: Any, stored: Any
) -> None:
    text = json.dumps(simplify(value))
    assert json.loads(text) == stored
    decode = find_decoder(annotation)
    assert decode is not None
    assert decode(json.loads(text)) == value
    assert type(decode(json.loads(text))) is type(value)


@pytest.mark.parametrize(
    "annotation", [int, str, list[int], dict[str, Any], Literal["a"], Any, str | UUID, "x", R, [1]]
)
def test_what_json_has_and_what_nobody_knows_needs_no_decoder(annotation: Any) -> None:
    assert find_decoder(annotation) is None


def test_a_task_gets_the_values_that_it_was_deferred_with(app: App, queue: Queue) -> None:
    seen: list[Any] = []

    @app.task
    def record(at: datetime, order: Order, ids: list[UUID], *, size: Size, plain: int = 3) -> None:
        seen.append((at, order, ids, size, plain))

    record.defer(AT, ORDER, ids=[NUMBER], size=Size.SMALL)
    record.batch_defer({"at": AT, "order": ORDER, "ids": [], "size": "s", "plain": 4})
    queue.drain()
    assert seen == [(AT, ORDER, [NUMBER], Size.SMALL, 3), (AT, ORDER, [], Size.SMALL, 4)]
    assert isinstance(seen[0][3], Size)


def test_arguments_of_any_name_come_back_too(app: App, queue: Queue) -> None:
    seen: dict[str, Any] = {}

    @app.task(pass_context=True)
    def record(context: Unknown, /, first: int, **others: UUID) -> None:
        seen.update(others, first=first)

    record.defer(first=1, a=NUMBER)
    queue.drain()
    assert seen == {"first": 1, "a": NUMBER}


def test_a_result_comes_back_by_the_return_annotation(app: App, queue: Queue) -> None:
    @app.task
    def total(order: Order) -> Order:
        return order

    @app.task
    async def hint_less(order: Order):  # type: ignore[no-untyped-def]
        return {"at": AT}

    [typed], plain = total.batch_defer({"order": ORDER}), hint_less.defer(order=ORDER)
    [made] = app.job_manager.batch_defer_jobs([total.make_new_job(ORDER)])
    queue.drain()
    assert typed.result(timeout=5) == ORDER
    assert made.result(timeout=5) == ORDER
    assert plain.result(timeout=5) == {"at": AT.isoformat()}


def test_a_value_that_its_annotation_would_not_bring_back_is_refused(app: App) -> None:
    @app.task
    def take(loose, text: str, day: date, either: str | UUID, typo: Unknown) -> None:  # type: ignore[no-untyped-def]
        ...

    rest = {"loose": 1, "text": "", "day": "2026-01-02", "either": "", "typo": 1}
    for name in ("loose", "text", "either", "typo"):
        with pytest.raises(
            BadArgument, match=rf"{name}: JSON cannot represent a UUID without a type hint"
        ):
            take.configure(task_kwargs={**rest, name: NUMBER}).defer()
    with pytest.raises(
        BadArgument, match=r"day: a datetime does not match the task: .*Invalid iso"
    ):
        take.configure(task_kwargs={**rest, "day": AT}).defer()


def test_a_subclass_whose_fields_would_be_lost_is_refused(app: App) -> None:
    @dataclass
    class Spare(Part):
        shelf: str

    @app.task
    def take(part: Part) -> None: ...

    with pytest.raises(BadArgument, match="part: a Spare does not match the task"):
        take.defer(Spare(1, Decimal(1), "top"))


def test_a_model_that_would_lose_a_field_is_refused(app: App) -> None:
    class Longer(Line):
        note: str

    @app.task
    def take(line: Line) -> None: ...

    with pytest.raises(BadArgument, match="line: the Longer would come back changed"):
        take.defer(Longer(at=AT, Amount=Decimal(1), note="x"))


def test_a_list_that_contains_itself_is_refused(app: App) -> None:
    @app.task
    def take(item: list[Any]) -> None: ...

    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(BadArgument, match="is nested deeper"):
        take.defer(endless)


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        ('{"at": "tomorrow"}', r"the argument at is 'tomorrow', .* as .*datetime.*: ValueError"),
        ('{"at": 5}', r"the argument at is 5, .* as .*datetime.*: TypeError"),
        (
            '{"order": {"id": "x"}}',
            r"the argument order is .* as .*Order.*: ValueError: badly formed",
        ),
        ('{"order": {"colour": 1}}', r"the argument order .* unexpected keyword argument 'colour'"),
        ('{"order": [1]}', r"the argument order .* as .*Order.*: TypeError: this is a list"),
    ],
)
def test_arguments_that_an_annotation_cannot_read_fail_the_job_with_the_reason(
    app: App, queue: Queue, query: Any, stored: str, reason: str
) -> None:
    @app.task(name="record", retry=3)
    def record(at: datetime | None = None, order: Order | None = None) -> None:
        raise AssertionError

    query("SELECT inturn.defer('record', %s::text::jsonb)", stored)
    app.run_worker()
    [job] = queue.jobs()
    assert job.status == "failed"
    assert job.attempts == 1
    assert re.search(reason, str(job.errors))


def test_a_task_of_another_program_gets_what_its_own_annotation_says(
    app: App, queue: Queue
) -> None:
    app.configure_task("elsewhere").defer(at=AT, id=NUMBER)
    [job] = queue.jobs()
    assert job.args == {"at": AT.isoformat(), "id": str(NUMBER)}


def test_a_uuid_and_a_number_are_locks_as_text(app: App, queue: Queue, query: Any) -> None:
    @app.task
    def take() -> None: ...

    take.configure(lock=7, queueing_lock=NUMBER).defer()
    take.configure(lock="7").defer()
    assert [job.lock for job in queue.jobs()] == ["7", "7"]
    [(key,)] = query("SELECT queueing_lock FROM inturn.jobs WHERE queueing_lock IS NOT NULL")
    assert key == str(NUMBER)


# ------------------------------------------------------------------ json_dumps, json_loads


class Encoder(json.JSONEncoder):
    def default(self, value: Any) -> Any:
        if isinstance(value, complex):
            return {"__type__": "complex", "parts": [value.real, value.imag]}
        return super().default(value)


def read(found: dict[str, Any]) -> Any:
    return complex(*found["parts"]) if found.get("__type__") == "complex" else found


DUMPS = functools.partial(json.dumps, cls=Encoder)
LOADS = functools.partial(json.loads, object_hook=read)


def test_the_connectors_json_functions_carry_other_values(app_dsn: str, query: Any) -> None:
    app = App(connector=PsycopgConnector(app_dsn, json_dumps=DUMPS, json_loads=LOADS))
    seen: list[Any] = []

    @app.task
    def record(item, at: datetime | None = None) -> None:  # type: ignore[no-untyped-def]
        seen.append((item, at))

    with app.open():
        record.defer([1 + 2j])
        record.configure(task_kwargs={"item": 1, "at": AT.isoformat()}).defer()
        [stored] = query("SELECT args FROM inturn.jobs ORDER BY id LIMIT 1")
        assert stored == ({"item": [{"__type__": "complex", "parts": [1.0, 2.0]}]},)
        app.run_worker(wait=False, install_signal_handlers=False)
    assert seen == [([1 + 2j], None), (1, AT)]
    assert app.connector.at(app_dsn).json_dumps is DUMPS


def test_the_connectors_json_functions_are_used_in_tests_and_blueprints(
    app_dsn: str, dsn: str
) -> None:
    app = App(connector=PsycopgConnector("dbname=nowhere", json_dumps=DUMPS, json_loads=LOADS))
    seen: list[Any] = []
    blueprint = Blueprint()

    @blueprint.task
    def record(item: Any) -> None:
        seen.append(item)

    app.add_tasks_from(blueprint, namespace="b")
    with Queue(app, dsn) as queue:
        record.defer(1j)
        queue.drain()
    assert seen == [1j]


def test_what_json_dumps_returns_must_be_arguments(app_dsn: str) -> None:
    for text, reason in {
        None: "Python cannot read",
        b'{"a": "\xff"}': "half of a surrogate pair",
        "[1]": "not a JSON object",
        "{": "Python cannot read",
        '{"a": NaN}': "JSON has no nan",
    }.items():
        app = App(connector=PsycopgConnector(app_dsn, json_dumps=lambda _, text=text: text))  # type: ignore[misc]
        with pytest.raises(BadArgument, match=reason):
            app.configure_task("any").defer(a=1)


def test_a_failure_of_json_loads_fails_the_job_with_the_reason(app_dsn: str, query: Any) -> None:
    def refuse(text: str) -> Any:
        raise LookupError("no key")

    app = App(connector=PsycopgConnector(app_dsn, json_loads=refuse))
    app.task(name="record")(lambda item: None)
    with app.open():
        app.tasks["record"].defer(item=1)
        app.run_worker(wait=False, install_signal_handlers=False)
    [(errors,)] = query("SELECT errors::text FROM inturn.all_jobs")
    assert "json_loads cannot read the arguments: LookupError: no key" in errors
