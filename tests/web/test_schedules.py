"""Schedules: in words, with the next times."""

from datetime import UTC, datetime, timedelta

from starlette.testclient import TestClient

from inturn.operations.engine.schedules import StoredSchedule
from inturn.web.pages.schedules import AHEAD_OF_TIME, NO_WORKER, make_line
from tests.conftest import Query
from tests.web.operated import REGISTER

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def make(cron: str, last: datetime | None = None, tz: str = "UTC") -> StoredSchedule:
    return StoredSchedule("report", "", cron, tz, NOW, last, None)


def test_an_empty_page_says_how_to_declare_one(client: TestClient) -> None:
    assert "@app.periodic" in client.get("/schedules").text


def test_a_schedule_is_told_in_words_with_its_next_times_and_last_job(
    client: TestClient, query: Query
) -> None:
    query(REGISTER, "web-1", "host", 1, None, 4, [], ["report:eu"])
    query(
        "INSERT INTO schedules VALUES ('report', 'eu', '30 8 * * MON-FRI', 'Europe/Berlin', "
        "clock(), clock() - interval '1 h', 4711) RETURNING 1"
    )
    page = client.get("/schedules").text
    assert "At 08:30 on Monday through Friday" in page
    assert "Europe/Berlin" in page
    assert 'href="/jobs/4711"' in page
    assert page.count(" UTC</li>") == 3
    assert NO_WORKER not in page


def test_a_schedule_that_no_live_worker_has_says_so(client: TestClient, query: Query) -> None:
    query("INSERT INTO schedules VALUES ('old', '', '@daily', 'UTC', clock()) RETURNING 1")
    page = client.get("/schedules").text
    assert NO_WORKER in page
    assert "At 00:00 every day" in page


def test_notes_name_what_keeps_a_schedule() -> None:
    assert make_line(make("@hourly"), True, NOW).note is None
    never = make_line(make("0 0 30 2 *"), True, NOW)
    assert (never.words, never.next) == ("Never", [])
    late = make_line(make("@hourly", NOW + timedelta(hours=1)), True, NOW)
    assert late.note == AHEAD_OF_TIME
    assert late.next[0] == NOW + timedelta(hours=2), "it stands still until then"
    ignored = make_line(make("@hourly", NOW + timedelta(days=2)), True, NOW)
    assert (ignored.note, ignored.next[0]) == (None, NOW + timedelta(hours=1)), "it goes on at once"
    unreadable = make_line(make("every day"), True, NOW)
    assert "every day" in (unreadable.note or "")
    assert unreadable.next == []
    assert "Mars" in (make_line(make("@daily", tz="Mars/Base"), True, NOW).note or "")


def test_next_times_follow_the_zone() -> None:
    line = make_line(make("0 9 * * *", tz="Asia/Tokyo"), True, NOW)
    assert line.next[0] == datetime(2030, 1, 2, 0, 0, tzinfo=UTC)
    assert len(line.next) == 4
