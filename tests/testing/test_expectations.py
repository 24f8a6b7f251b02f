"""The assertions: a failure says how the most similar jobs differ."""

from datetime import UTC, datetime, timedelta
from textwrap import dedent

import psycopg
import pytest

from inturn import App, shared
from inturn.errors import BadArgument
from inturn.testing import Queue

NEW_YEAR = datetime(2031, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _tasks(app: App) -> None:
    app.task(name="mail", queue="mail")(lambda to, copies=(): None)
    app.task(name="bill")(lambda order: None)


def message(caught: pytest.ExceptionInfo[AssertionError]) -> str:
    return str(caught.value)


def text(expected: str) -> str:
    return dedent(expected).strip()


# ---------------------------------------------------------------- assert_enqueued


def test_it_finds_a_waiting_job_by_the_given_fields(app: App, queue: Queue) -> None:
    mail = app.tasks["mail"]
    queue.freeze(NEW_YEAR)
    first = mail.configure(lock="ann", priority=3).defer("ann", copies=("bob", "eve"))
    later = mail.configure(schedule_in={"minutes": 5}).defer(to="bob")
    [job] = queue.assert_enqueued(mail, args={"to": "ann"}, lock="ann", queue="mail", priority=3)
    assert job.id == first
    assert queue.assert_enqueued(mail, args={"copies": ("bob", "eve")}) == [job]
    [due] = queue.assert_enqueued("mail", lock=None, scheduled_at=NEW_YEAR + timedelta(minutes=5))
    assert due.id == later
    queue.assert_enqueued(mail, count=2)
    queue.assert_enqueued(
        mail.configure(queue="other"), count=2
    )  # the task counts, not what it was configured with
    queue.assert_enqueued("bill", count=0)
    queue.assert_enqueued()


def test_the_most_similar_job_comes_first_with_its_differences(app: App, queue: Queue) -> None:
    app.tasks["bill"].defer(order=7)
    app.tasks["mail"].configure(lock="bob").defer(to="bob", copies=["eve"])
    app.tasks["mail"].configure(lock="ann").defer(to="bob")
    with pytest.raises(AssertionError) as caught:
        queue.assert_enqueued("mail", args={"to": "ann", "copies": []}, lock="ann", queue="mail")
    assert message(caught) == text("""
        Expected a waiting job of mail(to='ann', copies=[]), lock 'ann', queue 'mail', found none.
        The most similar jobs:
          job 3 mail(to='bob'), lock "ann", todo
              to: 'bob', not 'ann'
              copies: not given, not []
          job 2 mail(to='bob', copies=['eve']), lock "bob", todo
              lock: 'bob', not 'ann'
              to: 'bob', not 'ann'
              copies: ['eve'], not []
          job 1 bill(order=7), todo
              task: 'bill', not 'mail'
              lock: None, not 'ann'
              queue: 'default', not 'mail'
              to: not given, not 'ann'
              copies: not given, not []
    """)


def test_the_fields_of_an_object_are_shown_in_the_order_of_the_test(app: App, queue: Queue) -> None:
    app.tasks["bill"].defer(order={"number": 1, "at": {"street": "Main", "no": 2}, "id": 5})
    wanted = {"number": 2, "at": {"street": "Main", "no": 3}}
    with pytest.raises(AssertionError) as caught:
        queue.assert_enqueued("bill", args={"order": wanted})
    assert message(caught).splitlines()[-1].strip() == (
        "order: {'number': 1, 'at': {'street': 'Main', 'no': 2}, 'id': 5}, "
        "not {'number': 2, 'at': {'street': 'Main', 'no': 3}}"
    )


def test_a_job_that_has_run_already_is_named(app: App, queue: Queue) -> None:
    app.tasks["bill"].defer(order=7)
    queue.drain()
    with pytest.raises(AssertionError) as caught:
        queue.assert_enqueued("bill", args={"order": 7})
    assert message(caught) == text("""
        Expected a waiting job of bill(order=7), found none.
        The most similar jobs:
          job 1 bill(order=7), succeeded
              it no longer waits: succeeded
    """)


def test_an_empty_queue_reminds_of_transactions(app: App, queue: Queue, dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        app.tasks["bill"].configure(connection=connection).defer(order=7)
        with pytest.raises(AssertionError) as caught:
            queue.assert_enqueued("bill")
        assert message(caught) == (
            "Expected a waiting job of bill, found none.\nNo job was ever enqueued in this database. "
            "If you defer a job with connection=, it exists only once that transaction has committed."
        )
        connection.commit()
    queue.assert_enqueued("bill")


def test_a_wrong_count_is_reported_with_the_jobs(app: App, queue: Queue) -> None:
    for number in range(7):
        app.tasks["bill"].defer(order=number)
    with pytest.raises(AssertionError) as caught:
        queue.assert_enqueued("bill", count=2)
    assert message(caught) == text("""
        Expected 2 waiting jobs of bill, found 7:
          job 1 bill(order=0), todo
          job 2 bill(order=1), todo
          job 3 bill(order=2), todo
          job 4 bill(order=3), todo
          job 5 bill(order=4), todo
          … and 2 more
    """)
    with pytest.raises(
        AssertionError,
        match=r"^Expected 2 waiting jobs of bill\(order=3\), found 1:\n(.|\n)*The most similar jobs:",
    ):
        queue.assert_enqueued("bill", args={"order": 3}, count=2)
    with pytest.raises(AssertionError, match=r"^Expected a waiting job of mail, found none\."):
        queue.assert_enqueued("mail", count=1)


def test_arguments_that_no_job_can_have_are_refused(queue: Queue) -> None:
    with pytest.raises(BadArgument, match="JSON cannot represent a set"):
        queue.assert_enqueued("bill", args={"order": {1}})


def test_arguments_are_compared_as_they_are_stored(queue: Queue) -> None:
    queue.app.configure_task("elsewhere").defer(order=NEW_YEAR)
    queue.assert_enqueued("elsewhere", args={"order": NEW_YEAR})


# ---------------------------------------------------------------- assert_not_enqueued


def test_unexpected_waiting_jobs_are_listed(app: App, queue: Queue) -> None:
    queue.assert_not_enqueued()
    app.tasks["bill"].configure(lock="o:7").defer(order=7)
    queue.assert_not_enqueued("mail")
    queue.assert_not_enqueued("bill", args={"order": 8})
    queue.assert_not_enqueued("bill", lock=None)
    queue.assert_not_enqueued("bill", queue="mail")
    for wanted in ({"task": "bill"}, {}, {"args": {"order": 7}, "lock": "o:7", "queue": "default"}):
        with pytest.raises(
            AssertionError,
            match=r"Expected no waiting job of (.|\n)*, found 1:(.|\n)*job 1 bill\(order=7\)",
        ):
            queue.assert_not_enqueued(**wanted)
    queue.drain()
    queue.assert_not_enqueued()


# ---------------------------------------------------------------- assert_lane_order


def test_the_order_of_a_lane_can_be_given_by_ids_tasks_or_arguments(app: App, queue: Queue) -> None:
    bill, mail = app.tasks["bill"], app.tasks["mail"]
    first = bill.configure(lock="lane").defer(order=1)
    mail.configure(lock="lane").defer(to="ann")
    bill.configure(lock="lane", priority=1).defer(order=3)
    bill.configure(lock="other").defer(order=4)
    queue.assert_lane_order("lane", [])
    queue.drain()
    queue.assert_lane_order("lane", [{"order": 3}, first, mail])
    with pytest.raises(AssertionError) as caught:
        queue.assert_lane_order("lane", [first, "mail", {"order": 3}, bill])
    assert message(caught) == text("""
        The lane "lane" did not run in the expected order:
             expected  |  ran
          ->  1  job 1  |  job 3 bill(order=3), lock "lane", succeeded
          ->  2  mail  |  job 1 bill(order=1), lock "lane", succeeded
          ->  3  (order=3)  |  job 2 mail(to='ann'), lock "lane", succeeded
          ->  4  bill  |  nothing
    """)


def test_jobs_of_a_lane_that_have_not_started_are_named(app: App, queue: Queue) -> None:
    app.tasks["bill"].configure(lock="lane").defer(order=1)
    app.tasks["bill"].configure(lock="lane", schedule_in={"hours": 1}).defer(order=2)
    queue.drain()
    with pytest.raises(
        AssertionError,
        match=r"->  2  \(order=2\)  \|  nothing\n  not started: job 2 bill\(order=2\)",
    ):
        queue.assert_lane_order("lane", [{"order": 1}, {"order": 2}])
    with pytest.raises(AssertionError, match=r"->  1  nothing  \|  job 1 bill"):
        queue.assert_lane_order("lane", [])


# ---------------------------------------------------------------- assert_never_overlaps


def test_jobs_of_a_lane_never_overlap(app: App, queue: Queue) -> None:
    for number in range(5):
        app.tasks["bill"].configure(lock="lane").defer(order=number)
    queue.drain(concurrency=4)
    queue.assert_never_overlaps("lane")
    with pytest.raises(
        AssertionError, match=r"No job with lock \"lone\" has run.*these locks: \['lane'\]"
    ):
        queue.assert_never_overlaps("lone")


def test_an_overlap_in_the_history_is_found(app: App, queue: Queue, dsn: str) -> None:
    app.tasks["bill"].configure(lock="lane").batch_defer({"order": 1}, {"order": 2}, {"order": 3})
    queue.drain()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("""
            UPDATE inturn.finished_jobs SET started_at = timestamptz '2031-01-01 Z' + id * interval '1 s',
                                            finished_at = timestamptz '2031-01-01 Z' + (id + 1) * interval '1 s'
        """)
        queue.assert_never_overlaps(
            "lane"
        )  # a job may start at the moment in which the one before ends
        connection.execute(
            "UPDATE inturn.finished_jobs SET finished_at = finished_at + interval '1 ms' "
            "WHERE id = 2"
        )
        queue.assert_never_overlaps("lane")  # a claim may begin while an end is being stored
        connection.execute(
            "UPDATE inturn.finished_jobs SET finished_at = finished_at + interval '100 ms' "
            "WHERE id = 2"
        )
    with pytest.raises(AssertionError) as caught:
        queue.assert_never_overlaps("lane")
    assert message(caught) == text("""
        Jobs of the lane "lane" ran at the same time:
          job 3 bill(order=3), lock "lane", succeeded started at 2031-01-01 00:00:03+00:00,
              before job 2 bill(order=2), lock "lane", succeeded ended (2031-01-01 00:00:03.101000+00:00)
    """)


@pytest.mark.fresh_database
def test_an_overlap_in_this_process_is_found_also_when_the_clock_stands_still(
    app: App, queue: Queue
) -> None:
    queue.freeze(NEW_YEAR)
    app.tasks["bill"].configure(lock="lane").batch_defer({"order": 1}, {"order": 2})
    queue.drain()
    queue.assert_never_overlaps("lane")
    queue.runs[1] = queue.runs[1]._replace(started=queue.runs[0].ended - 1)
    with pytest.raises(AssertionError, match=r"job 2 bill(.|\n)*before job 1 bill"):
        queue.assert_never_overlaps("lane")


def test_jobs_with_several_lanes_count_in_each_and_readers_may_overlap(
    app: App, queue: Queue, dsn: str
) -> None:
    bill = app.tasks["bill"]
    bill.configure(lock=["a", "b"]).defer(order=1)
    bill.configure(lock=[shared("b"), "c"]).defer(order=2)
    bill.configure(lock=shared("b")).defer(order=3)
    bill.configure(lock="b").defer(order=4)
    queue.drain(concurrency=4)
    queue.assert_lane_order("a", [{"order": 1}])
    queue.assert_lane_order("b", [{"order": 1}, {"order": 2}, {"order": 3}, {"order": 4}])
    queue.assert_never_overlaps("b")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "UPDATE inturn.finished_jobs SET started_at = timestamptz '2031-01-01 Z', "
            "finished_at = timestamptz '2031-01-02 Z' WHERE id IN (2, 3)"
        )
        connection.execute(
            "UPDATE inturn.finished_jobs SET started_at = timestamptz '2031-01-03 Z', "
            "finished_at = timestamptz '2031-01-04 Z' WHERE id = 4"
        )
        queue.assert_never_overlaps("b")  # two readers may
        connection.execute(
            "UPDATE inturn.finished_jobs SET started_at = timestamptz '2031-01-01 Z' WHERE id = 4"
        )
    with pytest.raises(AssertionError, match="before job 2") as caught:
        queue.assert_never_overlaps("b")
    assert 'lock "b", lock "c"' in message(caught)
