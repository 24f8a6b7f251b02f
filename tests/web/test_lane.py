"""Lane: its strip, its past, and how far its past is searched."""

import re
from datetime import date, timedelta
from itertools import pairwise

from starlette.testclient import TestClient

from inturn import App, RetryStrategy
from tests.conftest import Query

FOREIGN = """
INSERT INTO finished_jobs (id, created_at, finished_at, status, on_retry, on_failure, priority,
    attempts, queue, task, lock, args, errors, fence)
SELECT nextval('jobs_id_seq'), now(), now(), 'succeeded', 'hold', 'halt', 0, 1, 'default', 't',
    'other', '{}', '[]', 0
FROM generate_series(1, %s)
RETURNING 1
"""


def find_strip(page: str) -> list[tuple[str, int]]:
    """Return the classes and the id of each job of the strip."""
    begin = page.index('<ol class="strip"')
    strip = page[begin : page.index("</ol>", begin)]
    found = re.findall(r'<li class="([^"]*)"><a href="/jobs/(\d+)">', strip)
    return [(" ".join(sorted(kind.split())), int(id)) for kind, id in found]


def test_the_strip_marks_the_job_that_holds_its_lane_until_its_retry(
    client: TestClient, app: App
) -> None:
    @app.task(name="charge", retry=RetryStrategy(max_attempts=3, wait=3600))
    def charge() -> None:
        raise ValueError

    ids = [charge.configure(lock="a", on_retry="hold").defer() for _ in range(3)]
    app.run_worker()
    assert find_strip(client.get("/lane?lock=a").text) == [
        ("now scheduled", ids[0]),
        ("blocked", ids[1]),
        ("blocked", ids[2]),
    ]


def test_the_error_of_the_job_that_a_lane_waits_for_is_on_its_page(
    client: TestClient, app: App
) -> None:
    def fail() -> None:
        raise ValueError("no <paper>")

    app.task(name="print", on_failure="halt")(fail)
    app.task(name="fax", on_retry="hold", retry=RetryStrategy(max_attempts=3, wait=3600))(fail)
    for task in ("print", "fax"):
        ids = [app.configure_task(task, lock=task).defer() for _ in range(2)]
        assert 'id="failure"' not in client.get(f"/lane?lock={task}").text
        app.run_worker()
        page = client.get(f"/lane?lock={task}").text
        begin = page.index('<section class="panel failure" id="failure">')
        box = page[begin : page.index("</section>", begin)]
        assert f'<a href="/jobs/{ids[0]}">' in box
        assert ('<details class="attempt" open>' in box) == (task == "print")
        assert "Traceback (most recent call last)" in box
        assert "in fail\n" in box
        assert "ValueError: no &lt;paper&gt;" in box


def test_the_strip_marks_the_job_that_goes_next(client: TestClient, app: App) -> None:
    ids = [app.configure_task("shop.pay", lock="a").defer() for _ in range(2)]
    kinds = [("now todo", ids[0]), ("blocked", ids[1])]
    assert find_strip(client.get("/lane?lock=a").text) == kinds


def test_the_past_says_how_far_it_was_searched(client: TestClient, app: App, query: Query) -> None:
    @app.task(name="send")
    def send() -> None:
        pass

    job = send.configure(lock="a b").defer()
    app.run_worker()
    query(FOREIGN, 9_999)
    page = client.get("/lane", params={"lock": "a b"}).text
    assert find_strip(page) == [("succeeded", job)]
    assert "Only the newest" not in page, "all jobs were searched"
    query(FOREIGN, 1)
    send.configure(lock="a b", schedule_in={"hours": 1}).defer()
    app.lanes.pause("a b")
    page = client.get("/lane", params={"lock": "a b"}).text
    assert "No job of this lane is among the newest 10,000 ended jobs" in page
    assert "queue jobs list --lock &#39;a b&#39; --search 100000" in page
    send.configure(lock="c").defer()
    app.run_worker()
    page = client.get("/lane", params={"lock": "c"}).text
    assert "Only the newest 10,000 ended jobs of all lanes were searched" in page


def test_a_past_that_fills_the_page_needs_no_further_search(
    client: TestClient, query: Query
) -> None:
    query(FOREIGN, 10_001)
    page = client.get("/lane", params={"lock": "other"}).text
    assert len(find_strip(page)) == 20
    assert "were searched" not in page


def test_the_pace_is_that_of_the_list_and_says_what_is_left_only_of_a_lane_that_moves(
    client: TestClient, app: App
) -> None:
    @app.task(name="send")
    def send() -> None:
        pass

    send.configure(lock="a").batch_defer(*[{}] * 6)
    app.run_worker()
    send.configure(lock="a").batch_defer(*[{}] * 3)
    moving = client.get("/lane?lock=a").text
    assert "The last 6 runs, all within a minute, about 30s for all waiting jobs" in moving
    app.lanes.pause("a")
    assert "The last 6 runs, all within a minute</figcaption>" in client.get("/lane?lock=a").text


def test_one_run_is_no_picture_and_no_time_stands_there_twice(client: TestClient, app: App) -> None:
    @app.task(name="send")
    def send() -> None:
        pass

    send.configure(lock="a").defer()
    app.run_worker()
    page = client.get("/lane?lock=a").text
    assert "<figcaption>" not in page
    assert "Nothing has run" not in page
    send.configure(lock="a").defer()
    app.run_worker()
    times = find_times(client)
    assert len(times) == len(set(times)) > 0


def test_runs_of_several_weeks_have_dates_below(client: TestClient, app: App, query: Query) -> None:
    app.task(name="send")(lambda: None)
    ids = app.configure_task("send", lock="a").batch_defer({}, {})
    app.run_worker()
    longer = "UPDATE finished_jobs SET started_at = started_at - interval '28 days' WHERE id = %s"
    query(f"{longer} RETURNING 1", ids[0])
    days = [date.fromisoformat(text) for text in find_times(client)]
    assert {later - day for day, later in pairwise(days)} == {timedelta(days=7)}
    assert len(days) == 4


def find_times(client: TestClient) -> list[str]:
    """Return the times below the picture of a lane."""
    page = client.get("/lane?lock=a").text
    [below] = re.findall('<p class="ticks" aria-hidden="true">(.*?)</p>', page)
    return re.findall("<time [^>]*>(.*?)</time>", below)
