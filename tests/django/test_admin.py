"""The admin's actions, searches and pages, through its views."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection

from inturn import App, JobContext, shared

BOTH = ["view_job", "change_job", "view_finishedjob", "change_finishedjob"]


def work(app: App) -> None:
    app.run_worker(wait=False, install_signal_handlers=False)


@pytest.fixture
def statuses(app: App, store_dsn: str) -> Any:
    def read() -> list[tuple[int, str]]:
        with psycopg.connect(store_dsn) as connection:
            query = "SELECT id, status::text FROM inturn.all_jobs ORDER BY id"
            return [(id, status) for id, status in connection.execute(query)]

    return read


@pytest.fixture
def visitor(app: App, django: Any) -> Iterator[Any]:
    """Log in somebody of the staff, with only these permissions."""
    from django.contrib.auth.models import Permission, User
    from django.test import Client

    def log_in(*names: str) -> Any:
        user, _ = User.objects.get_or_create(username="vera", is_staff=True)
        user.user_permissions.set(
            Permission.objects.filter(content_type__app_label="inturn", codename__in=names)
        )
        assert user.user_permissions.count() == len(names)
        client = Client()
        client.force_login(user)
        return client

    yield log_in
    User.objects.filter(username="vera").delete()


def act(browser: Any, kind: str, action: str, *keys: object, confirmed: bool = True) -> Any:
    form = {"action": action, "_selected_action": [str(key) for key in keys]}
    if confirmed:
        form["confirmed"] = "yes"
    return browser.post(f"/admin/inturn/{kind}/", form, follow=True)


def read(page: Any) -> str:
    text: str = page.content.decode()
    return text


def test_an_action_asks_first(browser: Any, ship: Any, statuses: Any) -> None:
    one, two = ship.defer(order=1), ship.defer(order=2)
    asked = read(act(browser, "job", "cancel_jobs", one, two, confirmed=False))
    assert "Waiting jobs will never run" in asked
    assert f"<li>{one} store.tasks.ship</li>" in asked
    assert f'<input type="hidden" name="_selected_action" value="{two}">' in asked
    assert statuses() == [(one, "todo"), (two, "todo")]


def test_jobs_are_cancelled(browser: Any, ship: Any, statuses: Any) -> None:
    one, two = ship.defer(order=1), ship.defer(order=2)
    page = act(browser, "job", "cancel_jobs", one)
    assert "1 cancelled." in read(page)
    assert statuses() == [(one, "cancelled"), (two, "todo")]


def test_an_action_says_how_far_it_came_before_an_error(
    app: App, browser: Any, ship: Any, statuses: Any
) -> None:
    one, two, three = (ship.defer(order=number) for number in range(3))
    with psycopg.connect(app.connector.dsn) as locking:
        locking.execute("SELECT FROM inturn.jobs WHERE id = %s FOR UPDATE", [two])
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '50ms'")
        page = read(act(browser, "job", "cancel_jobs", three, two, one))
    assert "1 cancelled." in page
    assert "2 were not changed: The database is busy" in page
    assert [status for _, status in statuses()].count("cancelled") == 1


def test_a_running_job_is_not_cancelled_but_can_be_aborted(
    app: App, browser: Any, statuses: Any
) -> None:
    pages: list[str] = []

    @app.task(name="look")
    def look() -> None:
        pages.append(read(act(browser, "job", "cancel_jobs", job)))
        pages.append(read(act(browser, "job", "abort_jobs", job)))

    job = look.defer()
    work(app)
    assert "1 had changed meanwhile, or there was nothing to do." in pages[0]
    assert "1 cancelled or asked to end." in pages[1]


def test_jobs_are_filtered_by_the_statuses_that_people_see(browser: Any, ship: Any) -> None:
    first, second = (ship.configure(lock="a").defer(order=number) for number in (1, 2))
    for status, found in (("todo", {first}), ("blocked", {second}), ("claimed", set())):
        page = read(browser.get(f"/admin/inturn/job/?status={status}"))
        assert {job for job in (first, second) if f"/job/{job}/change/" in page} == found
        assert f'<td class="field-status">{status}</td>' in page or not found
    unknown = browser.get("/admin/inturn/job/?status=asleep")
    assert (unknown.status_code, unknown["location"]) == (302, "/admin/inturn/job/?e=1")


def test_a_scheduled_job_runs_now(app: App, browser: Any, ship: Any, statuses: Any) -> None:
    job = ship.configure(schedule_in={"hours": 1}).defer(order=1)
    assert "1 made ready to run." in read(act(browser, "job", "run_jobs_now", job))
    work(app)
    assert statuses() == [(job, "succeeded")]


def test_finished_jobs_are_retried(app: App, browser: Any, ship: Any, statuses: Any) -> None:
    job = ship.defer(order=1)
    app.job_manager.cancel_job_by_id(job)
    assert "1 put back into the queue." in read(act(browser, "finishedjob", "retry_jobs", job))
    assert statuses() == [(job, "todo")]


def test_lanes_are_paused_resumed_and_retried(app: App, browser: Any) -> None:
    @app.task(name="fail", on_failure="halt")
    def fail() -> None:
        raise ValueError("no such parcel")

    job = fail.configure(lock="a").defer()
    work(app)
    page = read(browser.get("/admin/inturn/lane/"))
    link = f"finishedjob/{job}/change/"
    assert f'<td class="field-failed"><a href="../{link}">{job}</a></td>' in page
    assert '<td class="field-error">ValueError: no such parcel</td>' in page
    page = read(browser.get(f"/admin/inturn/{link}"))
    assert "<p>attempt 1, " in page
    assert "<pre>Traceback (most recent call last):\n  File " in page
    assert "\\n" not in page, "a traceback has lines"
    assert "1 retried." in read(act(browser, "lane", "retry_heads", "a"))
    assert app.job_manager.get_job_status(job) == "todo"
    work(app)
    page = read(act(browser, "lane", "pause_lanes", "a"))
    assert "1 had changed meanwhile" in page  # it is halted, and a pause would forget why
    assert "1 resumed." in read(act(browser, "lane", "resume_lanes", "a"))
    assert app.lanes.show("a") is None
    with psycopg.connect(app.connector.dsn) as connection:
        query = "SELECT DISTINCT who FROM inturn.lane_audit WHERE lock = 'a' AND operation LIKE %s"
        assert connection.execute(query, ["r%"]).fetchall() == [("root",)]


def test_the_audit_names_the_user_of_the_admin(app: App, browser: Any, ship: Any) -> None:
    with psycopg.connect(app.connector.dsn, autocommit=True) as connection:
        connection.execute("DELETE FROM inturn.lane_audit")
        waiting, later = (
            ship.defer(order=1),
            ship.configure(schedule_in={"hours": 1}).defer(order=2),
        )
        act(browser, "job", "run_jobs_now", later)
        act(browser, "job", "cancel_jobs", waiting)
        act(browser, "job", "abort_jobs", later)
        act(browser, "finishedjob", "retry_jobs", waiting)
        closed, cancelled = app.batches.open("import"), app.batches.open("export")
        act(browser, "batch", "close_batches", closed)
        act(browser, "batch", "cancel_batches", cancelled)
        rows = connection.execute(
            "SELECT who, operation, coalesce(job_id, batch_id) FROM inturn.lane_audit ORDER BY id"
        ).fetchall()
    assert rows == [
        ("root", "retry-job", later),
        ("root", "cancel-job", waiting),
        ("root", "cancel-job", later),
        ("root", "retry-job", waiting),
        ("root", "close-batch", closed),
        ("root", "cancel-batch", cancelled),
    ]


def test_the_error_of_a_halted_lane_is_read_without_every_day_of_the_history(
    app: App, browser: Any, django: Any
) -> None:
    from django.test.utils import CaptureQueriesContext

    @app.task(name="fail_again", on_failure="halt")
    def fail() -> None:
        raise ValueError("no such parcel")

    fail.configure(lock="a").defer()
    work(app)
    days = [f"finished_jobs_old_{day}" for day in range(1, 4)]
    with psycopg.connect(app.connector.dsn, autocommit=True) as connection:
        for day, name in enumerate(days, 1):
            connection.execute(
                f"CREATE TABLE inturn.{name} PARTITION OF inturn.finished_jobs "
                f"FOR VALUES FROM ('2020-01-0{day}') TO ('2020-01-0{day + 1}')".encode()
            )
        try:
            with CaptureQueriesContext(django.connection) as captured:
                assert "no such parcel" in read(browser.get("/admin/inturn/lane/"))
            (query,) = [each["sql"] for each in captured if "finished_jobs" in each["sql"]]
            plan = "\n".join(row for (row,) in connection.execute(f"EXPLAIN {query}".encode()))
        finally:
            for name in days:
                connection.execute(f"DROP TABLE inturn.{name}".encode())
    assert "finished_jobs_" in plan
    assert [name for name in days if name in plan] == []


def test_the_admins_log_says_who_did_it(browser: Any, ship: Any) -> None:
    from django.contrib.admin.models import LogEntry

    LogEntry.objects.all().delete()
    job = ship.defer(order=1)
    act(browser, "job", "cancel_jobs", job)
    entry = LogEntry.objects.get()
    assert (entry.user.username, entry.object_id) == ("root", str(job))
    assert "Cancel the selected jobs" in entry.get_change_message()


def test_with_the_permission_to_view_there_are_no_actions(
    visitor: Any, ship: Any, statuses: Any
) -> None:
    job = ship.defer(order=1)
    viewer = visitor("view_job")
    page = read(viewer.get("/admin/inturn/job/"))
    assert "store.tasks.ship" in page
    assert "cancel_jobs" not in page
    act(viewer, "job", "cancel_jobs", job)
    assert statuses() == [(job, "todo")]


def test_with_the_permission_to_change_there_are(visitor: Any, ship: Any, statuses: Any) -> None:
    job = ship.defer(order=1)
    operator = visitor("change_job")
    assert "cancel_jobs" in read(operator.get("/admin/inturn/job/"))
    assert operator.get("/admin/inturn/finishedjob/").status_code == 403
    act(operator, "job", "cancel_jobs", job)
    assert statuses() == [(job, "cancelled")]
    assert act(operator, "finishedjob", "retry_jobs", job).status_code == 403
    assert statuses() == [(job, "cancelled")]


def test_without_a_permission_there_is_no_page(visitor: Any) -> None:
    stranger = visitor()
    for kind in ("job", "finishedjob", "batch", "lane", "worker", "schedule"):
        assert stranger.get(f"/admin/inturn/{kind}/").status_code == 403


def test_an_action_takes_no_more_rows_than_a_form_can_carry(
    browser: Any, ship: Any, statuses: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from inturn.django import actions

    monkeypatch.setattr(actions, "AT_MOST", 2)
    jobs = ship.batch_defer({"order": 1}, {"order": 2}, {"order": 3})
    form = {"action": "cancel_jobs", "_selected_action": [str(jobs[0])], "select_across": "1"}
    page = browser.post("/admin/inturn/job/", form | {"confirmed": "yes"}, follow=True)
    assert "Select at most 2 rows" in read(page)
    assert [status for _, status in statuses()] == ["todo"] * 3


def test_finished_jobs_are_found_by_lock_task_and_id(app: App, browser: Any, ship: Any) -> None:
    ship.configure(lock="customer:ann").defer(order=1)
    app.task(name="count")(lambda: {"total": 3}).configure(lock="7", queueing_lock="q").defer()
    work(app)

    def found(kind: str, text: str) -> list[int]:
        page = browser.get(f"/admin/inturn/{kind}/", {"q": text})
        return [row.pk for row in page.context["cl"].result_list]

    assert found("finishedjob", "customer:ann") == [1]
    assert found("finishedjob", "count") == [2]
    assert found("finishedjob", "q") == [2]
    assert found("finishedjob", " 1 ") == [1]
    assert found("finishedjob", "7") == [2]  # there is no job 7, but a lock
    assert found("finishedjob", "CUSTOMER:ANN") == []
    assert found("finishedjob", str(2**63)) == []
    assert found("finishedjob", "9" * 5000) == []
    ship.configure(lock="customer:bob").defer(order=1)
    assert found("job", "customer:bob") == found("job", "store.tasks.ship") == found("job", "3")
    assert found("job", "customer:bob") == [3]


def found(browser: Any, kind: str, **query: object) -> set[Any]:
    page = browser.get(f"/admin/inturn/{kind}/", query)
    return {row.pk for row in page.context["cl"].result_list}


def test_a_lane_and_a_schedule_are_found_by_all_of_their_words(
    app: App, browser: Any, django: Any
) -> None:
    locks = ('order 7 of "ann"', "order 7", '"7"')
    for lock in locks:
        app.lanes.pause(lock)
    assert [found(browser, "lane", q=f" {lock} ") for lock in locks] == [{lock} for lock in locks]
    assert found(browser, "lane", q="ORDER 7") == found(browser, "lane", q="7") == set()
    add = "INSERT INTO inturn.schedules (task, periodic_id, cron, tz, since) "
    with django.transaction.atomic():
        with django.connection.cursor() as cursor:
            cursor.execute(f"{add} VALUES ('nightly report', '', '@daily', 'UTC', now())")
        assert found(browser, "schedule", q="nightly report") == {"nightly report"}
        django.transaction.set_rollback(True)
    assert found(browser, "worker", q="what has no search") == set()


def test_jobs_are_found_by_any_of_their_locks_their_group_and_their_batch(
    app: App, browser: Any, ship: Any
) -> None:
    batch = app.batches.open("import")
    ship.configure(lock="customer:ann", group="tenant:1").defer(order=1)
    ship.configure(lock=[shared("catalogue"), "customer:bob"], group="tenant:7").defer(order=2)
    ship.configure(batch=batch).defer(order=3)
    for kind in ("job", "finishedjob"):
        assert found(browser, kind, q="customer:bob") == {2}
        assert found(browser, kind, q="catalogue") == {2}
        assert found(browser, kind, q="tenant:7") == {2}
        assert found(browser, kind, group_key="tenant:1") == {1}
        assert found(browser, kind, batch_id=batch) == {3}
        page = read(browser.get(f"/admin/inturn/{kind}/"))
        assert '<td class="field-all_locks">catalogue (shared), customer:bob</td>' in page
        assert f'<a href="?batch_id={batch}">{batch}</a>' in page
        work(app)


def test_a_live_job_shows_its_group_its_limit_its_expiry_and_how_far_it_is(
    app: App, browser: Any
) -> None:
    @app.task(name="tell", pass_context=True)
    def tell(context: JobContext) -> None:
        context.progress(3, 4, "three")
        context.snooze({"hours": 1})

    job = tell.configure(limit="stripe", group="tenant 7", expires_in={"days": 1}).defer()
    work(app)
    row = read(browser.get("/admin/inturn/job/"))
    assert '<td class="field-limit_key">stripe</td>' in row
    assert '<a href="?group_key=tenant+7">tenant 7</a>' in row
    assert '<td class="field-told">3 of 4: three</td>' in row
    assert '<td class="field-expires_at nowrap">-</td>' not in row
    assert "expires_at" in read(browser.get(f"/admin/inturn/job/{job}/change/"))


def test_batches_are_listed_closed_and_cancelled(
    app: App, browser: Any, ship: Any, statuses: Any
) -> None:
    opened = [app.batches.open(name) for name in ("import", "export")]
    jobs = [ship.configure(batch=batch).defer(order=1) for batch in opened]
    page = read(browser.get("/admin/inturn/batch/"))
    assert '<td class="field-state">open</td>' in page
    assert f'<a href="../job/?batch_id={opened[0]}">live</a>' in page
    assert found(browser, "batch", q="export") == {opened[1]}
    assert found(browser, "batch", q=opened[0]) == {opened[0]}
    assert browser.get(f"/admin/inturn/batch/{opened[0]}/change/").status_code == 200
    assert "1 closed." in read(act(browser, "batch", "close_batches", opened[0]))
    assert "1 had changed meanwhile" in read(act(browser, "batch", "close_batches", opened[0]))
    assert [app.batches.show(batch).state for batch in opened] == ["closed", "open"]  # type: ignore[union-attr]
    asked = read(act(browser, "batch", "cancel_batches", opened[1], confirmed=False))
    assert f"<li>{opened[1]} export</li>" in asked
    assert "1 cancelled." in read(act(browser, "batch", "cancel_batches", opened[1]))
    assert statuses() == [(jobs[0], "todo"), (jobs[1], "cancelled")]
    work(app)
    assert "1 had changed meanwhile" in read(act(browser, "batch", "cancel_batches", opened[0]))


def test_only_who_may_change_batches_has_their_actions(app: App, visitor: Any) -> None:
    batch = app.batches.open("import")
    viewer = visitor("view_batch")
    page = read(viewer.get("/admin/inturn/batch/"))
    assert "import" in page
    assert "close_batches" not in page
    act(viewer, "batch", "close_batches", batch)
    assert app.batches.show(batch).state == "open"  # type: ignore[union-attr]
    assert "close_batches" in read(
        visitor("view_batch", "change_batch").get("/admin/inturn/batch/")
    )


def test_results_and_errors_are_shown(app: App, browser: Any) -> None:
    app.task(name="count")(lambda: {"total": 3}).defer()

    @app.task(name="fail")
    def fail() -> None:
        raise ValueError("no such parcel")

    fail.defer()
    work(app)
    listed = read(browser.get("/admin/inturn/finishedjob/"))
    assert "{&#x27;total&#x27;: 3}" in listed
    assert "ValueError: no such parcel" in listed
    assert "total" in read(browser.get("/admin/inturn/finishedjob/1/change/"))
    assert "no such parcel" in read(browser.get("/admin/inturn/finishedjob/2/change/"))


def test_workers_and_schedules_have_pages(app: App, browser: Any, django: Any) -> None:
    pages: list[str] = []
    details: list[int] = []

    @app.periodic(cron="0 0 1 1 *", periodic_id="yearly")
    @app.periodic(cron="0 0 1 * *", periodic_id="monthly")
    @app.task(name="look")
    def look(timestamp: int = 0) -> None:
        from inturn.django.models import Worker

        pages.append(read(browser.get("/admin/inturn/worker/")))
        pages.append(read(browser.get("/admin/inturn/schedule/")))
        for address in (f"worker/{Worker.objects.get().pk}", "schedule/look"):
            details.append(browser.get(f"/admin/inturn/{address}/change/").status_code)

    look.defer()
    try:
        app.run_worker(wait=False, install_signal_handlers=False, name="ann-3")
    finally:
        with django.connection.cursor() as cursor:
            cursor.execute("DELETE FROM inturn.schedules")
    assert "ann-3" in pages[0]
    assert "yearly" in pages[1]
    assert "monthly" in pages[1]
    assert details == [200, 302]  # there is no page of a single schedule
