"""`assert_never_more_than`: no more jobs of a limit at a time than a test expects."""

from textwrap import dedent
from typing import Any

import psycopg
import pytest

from inturn import App
from inturn.errors import BadArgument
from inturn.testing import Queue


@pytest.fixture(autouse=True)
def _task(app: App) -> None:
    app.task(name="charge", limit="stripe")(lambda customer: None)


def charge(app: App, *customers: str, **options: Any) -> None:
    task = app.tasks["charge"].configure(**options)
    task.batch_defer(*({"customer": customer} for customer in customers))


def message(caught: pytest.ExceptionInfo[AssertionError]) -> str:
    return str(caught.value)


def text(expected: str) -> str:
    return dedent(expected).strip()


def test_a_limit_holds_while_a_test_runs_many_jobs_at_once(app: App, queue: Queue) -> None:
    app.limits.set("stripe", concurrency=2)
    charge(app, *"abcdefghijklmnopqrstuvwxyz")
    queue.drain(concurrency=5)
    queue.assert_never_more_than(2, limit="stripe")


@pytest.mark.anyio
async def test_it_is_the_same_in_an_async_test(app: App, queue: Queue) -> None:
    charge(app, "ann")
    await queue.drain_async()
    queue.assert_never_more_than(1, limit="stripe")


def test_runs_of_this_process_that_overlap_are_named(app: App, queue: Queue) -> None:
    charge(app, "ann", "bob", "eve")
    queue.freeze()  # the times in the database are all the same
    queue.drain()
    queue.assert_never_more_than(1, limit="stripe")
    first, second, third = queue.runs
    queue.runs[1] = second._replace(started=first.ended - 1)
    queue.assert_never_more_than(2, limit="stripe")
    with pytest.raises(AssertionError) as caught:
        queue.assert_never_more_than(1, limit="stripe")
    assert message(caught) == text("""
        With the limit "stripe", 2 jobs ran at the same time, not at most 1:
          job 1 charge(customer='ann'), succeeded
          job 2 charge(customer='bob'), succeeded
    """)
    queue.runs[1:] = [
        second._replace(started=first.started + 1, ended=first.ended),
        third._replace(started=first.ended - 1),
    ]
    with pytest.raises(AssertionError, match=r"3 jobs ran(.|\n)*'ann'(.|\n)*'bob'(.|\n)*'eve'"):
        queue.assert_never_more_than(2, limit="stripe")


SPAN = """
UPDATE inturn.finished_jobs SET started_at = timestamptz '2031-01-01 Z' + {} * interval '1 s',
    finished_at = timestamptz '2031-01-01 Z' + {} * interval '1 s'
"""


def test_attempts_that_the_database_has_recorded_are_looked_at(
    app: App, queue: Queue, dsn: str
) -> None:
    charge(app, "ann", "bob", "eve")
    app.run_worker(wait=False, install_signal_handlers=False)  # another process would do as well
    assert queue.runs == []
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(SPAN.format("id", "(id + 1)"))
        queue.assert_never_more_than(1, limit="stripe")
        connection.execute(SPAN.format("id", "(id + 1.05)"))
        # A claim may begin while an end is being stored, and start the next job.
        queue.assert_never_more_than(1, limit="stripe")
        connection.execute(SPAN.format("id", "(id + 1.5)"))
        queue.assert_never_more_than(2, limit="stripe")
        with pytest.raises(AssertionError, match=r"2 jobs ran(.|\n)*job 1 (.|\n)*job 2 "):
            queue.assert_never_more_than(1, limit="stripe")
        connection.execute(SPAN.format("1", "9"))
        with pytest.raises(AssertionError, match="3 jobs ran"):
            queue.assert_never_more_than(2, limit="stripe")


def test_an_attempt_that_failed_counts_until_it_failed(app: App, queue: Queue, dsn: str) -> None:
    charge(app, "ann", "bob")
    app.run_worker(wait=False, install_signal_handlers=False)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(SPAN.format("10 * id", "(10 * id + 1)"))
        connection.execute("""
            UPDATE inturn.finished_jobs SET errors =
                '[{"started_at": "2031-01-01T00:00:05+00:00", "at": "2031-01-01T00:00:10.5+00:00"}]'
            WHERE id = 2
        """)
    with pytest.raises(AssertionError, match="2 jobs ran"):
        queue.assert_never_more_than(1, limit="stripe")


def test_a_pattern_stands_for_each_of_its_keys_by_itself(app: App, queue: Queue) -> None:
    app.limits.set("customer:*", concurrency=1)
    charge(app, "1", "2", limit="customer:ann")
    charge(app, "3", limit="customer:bob")
    queue.drain()
    queue.runs[2] = queue.runs[2]._replace(started=queue.runs[0].started, ended=queue.runs[1].ended)
    queue.assert_never_more_than(1, limit="customer:*")
    queue.assert_never_more_than(1, limit="customer:ann")
    queue.runs[1] = queue.runs[1]._replace(started=queue.runs[0].started)
    with pytest.raises(AssertionError) as caught:
        queue.assert_never_more_than(1, limit="customer:*")
    assert 'the limit "customer:ann", 2 jobs' in message(caught)
    assert "bob" not in message(caught)


def test_a_limit_that_no_job_has_proves_nothing(app: App, queue: Queue) -> None:
    charge(app, "ann")
    with pytest.raises(AssertionError, match=r'"stripe" has run, so this proves nothing.*none'):
        queue.assert_never_more_than(1, limit="stripe")
    queue.drain()
    with pytest.raises(AssertionError, match=r'"strip" has run.*these limits: \[\'stripe\'\]'):
        queue.assert_never_more_than(1, limit="strip")


@pytest.mark.parametrize("n", [0, -1, True, 1.5, "2"])
def test_a_number_that_makes_no_sense_is_refused(queue: Queue, n: Any) -> None:
    with pytest.raises(BadArgument) as refused:
        queue.assert_never_more_than(n, limit="stripe")
    assert refused.value.argument == "n"
