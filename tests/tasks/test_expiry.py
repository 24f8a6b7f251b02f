"""The options expires_at and expires_in: where they can be given, and what is refused."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inturn import App
from inturn.errors import BadArgument
from tests.conftest import Query

NOON = datetime(2030, 1, 31, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def left(query: Query) -> list[timedelta | None]:
    return [span for (span,) in query("SELECT expires_at - created_at FROM jobs ORDER BY id")]


def test_a_job_can_say_how_long_it_is_wanted(app: App, query: Query) -> None:
    @app.task(expires_in={"hours": 3})
    def remind(order: int) -> None: ...

    remind.defer(1)
    remind.configure(expires_in=HOUR).defer(2)
    remind.configure(expires_in={"hours": 2}).batch_defer({"order": 3}, {"order": 4})
    remind.configure(expires_in=HOUR, queueing_lock="k").defer(5)
    assert left(query) == [3 * HOUR, HOUR, 2 * HOUR, 2 * HOUR, HOUR]
    job = remind.configure(expires_at=NOON).defer(6)  # instead of what the task declares
    assert app.job_manager.list_jobs(id=job)[0].expires_at == NOON


@pytest.mark.anyio
async def test_a_job_can_be_deferred_with_an_expiry_in_a_loop(app: App, query: Query) -> None:
    @app.task
    def remind(order: int) -> None: ...

    async with app.open_async():
        await remind.configure(expires_in=HOUR).defer_async(1)
        await remind.configure(expires_at=NOON).batch_defer_async({"order": 2}, {"order": 3})
    [first, *others] = query("SELECT expires_at FROM jobs ORDER BY id")
    assert (first != (NOON,), others) == (True, [(NOON,), (NOON,)])


def test_replacing_a_waiting_job_replaces_its_expiry(app: App, query: Query) -> None:
    @app.task
    def remind(order: int) -> None: ...

    later = remind.configure(queueing_lock="k", on_conflict="replace", schedule_in=HOUR)
    remind.configure(queueing_lock="k", expires_in=3 * HOUR, schedule_in=HOUR).defer(1)
    remind.configure(
        queueing_lock="k", on_conflict="replace", schedule_in=HOUR, expires_in=2 * HOUR
    ).defer(2)
    [span] = left(query)
    assert span is not None
    assert 2 * HOUR <= span < 3 * HOUR
    later.defer(3)
    assert left(query) == [None]


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"expires_at": NOON, "expires_in": HOUR}, "expires_at"),
        ({"expires_at": NOON.replace(tzinfo=None)}, "expires_at"),
        ({"expires_at": "tomorrow"}, "expires_at"),
        ({"expires_at": datetime.max.replace(tzinfo=UTC)}, "expires_at"),
        ({"expires_in": {"fortnights": 1}}, "expires_in"),
        ({"expires_in": 60}, "expires_in"),
        ({"expires_in": HOUR, "schedule_in": HOUR}, "expires_in"),
        ({"expires_at": NOON, "schedule_at": NOON}, "expires_at"),
        ({"schedule_in": {"hours": 4}}, "expires_in"),  # the task expires after three
    ],
)
def test_an_expiry_that_makes_no_sense_is_refused_by_name(
    app: App, options: dict[str, Any], argument: str
) -> None:
    @app.task(expires_in={"hours": 3})
    def remind() -> None: ...

    with pytest.raises(BadArgument) as refused:
        remind.configure(**options)
    assert refused.value.argument == argument
