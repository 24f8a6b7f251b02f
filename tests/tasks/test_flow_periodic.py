"""Schedules whose jobs have limits, expire, or are to come after others."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inturn import App
from inturn.errors import BadArgument
from tests.conftest import Query

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
DEFER = """
SELECT defer_periodic('', %s, '{task}', ARRAY['{}'::jsonb], '{default}', '{null}', '{0}', '{null}',
    '{null}', p_limit_keys => '{stripe}', p_expires_in => '{1 hour}')
"""


def declare(app: App, **options: Any) -> Any:
    @app.periodic(cron="@hourly", **options)
    @app.task(name="report")
    def report(timestamp: int) -> None: ...

    [schedule] = app.schedules()
    return schedule


def test_the_jobs_of_a_schedule_can_have_a_limit_and_an_expiry(app: App) -> None:
    options = declare(app, limit="stripe", expires_in={"hours": 1}).job(NOON).options
    assert (options.limit, options.expires_in) == ("stripe", timedelta(hours=1))


def test_each_instant_has_an_expiry_and_a_slot_of_its_own(query: Query) -> None:
    query("SELECT set_limit('stripe', 1, 1, interval '1 min')::text")
    query("SELECT register_schedules('{task}', '{\"\"}', '{@hourly}', '{UTC}')::text")
    [(worker,)] = query("SELECT register_worker('w', 'h', 1, NULL, 10)")
    instants = [datetime.now(UTC) - timedelta(minutes=minutes) for minutes in (2, 1)]
    for instant in instants:
        query(DEFER, instant)
    assert (
        query("SELECT limit_key::text, expires_at - created_at FROM jobs")
        == [("stripe", timedelta(hours=1))] * 2
    )
    assert len(query("SELECT id FROM claim(%s, NULL, 10)", worker)) == 1
    assert query("SELECT status::text FROM jobs ORDER BY id") == [("doing",), ("limited",)]


def test_a_schedule_that_is_to_come_after_other_jobs_is_refused(app: App) -> None:
    with pytest.raises(BadArgument) as refused:
        declare(app, after=[1])
    assert refused.value.argument == "after"


def test_what_a_failed_parent_means_is_nothing_for_the_jobs_of_a_schedule(
    app: App, query: Query
) -> None:
    job = declare(app, on_parent="hold").job(NOON)
    [id] = app.job_manager.batch_defer_jobs([job])
    assert query("SELECT status::text, has_parents FROM jobs WHERE id = %s", id) == [("todo", None)]
