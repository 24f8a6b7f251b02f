"""System: versions, tables, the findings of the doctor, and the audit."""

import psycopg
from starlette.testclient import TestClient

from inturn import App, sql
from inturn.doctor.checks import examine
from inturn.web import Access, create_app
from inturn.web.reading import Reading
from tests.conftest import Query
from tests.verify.broken import break_a_lane, run_nightly


def test_a_new_queue_shows_versions_and_tables(client: TestClient) -> None:
    page = client.get("/system").text
    assert f"inturn, revision {sql.revision()}" in page
    assert '<th scope="row" data-label="Table">finished_jobs</th>' in page, "days are one table"
    assert "finished_jobs_default" not in page
    assert "No changes yet" in page


def test_the_findings_are_those_of_the_doctor(client: TestClient, app: App) -> None:
    job = app.configure_task("mail.send", queue="mail").defer()
    reading = Reading(app.connector)
    with reading.open() as reader:
        expected = [each.check for each in examine(reader)]
    reading.close()
    page = client.get("/system/checks").text
    assert len(expected) > 15
    for check in expected:
        assert f'<th scope="row" data-label="Check" class="whole">{check}</th>' in page
    assert "no live worker, but jobs are waiting" in page
    assert f'<a href="/jobs/{job}">job {job}</a> in queue mail' in page
    assert page.index("<span>fail</span>") < page.index("<span>ok</span>")
    assert "no live worker, but jobs are waiting" in client.get("/system").text


def test_what_the_schedule_verified_last_is_shown(
    client: TestClient, app: App, query: Query
) -> None:
    assert "<dt>Verified</dt>" not in client.get("/system").text
    run_nightly(app, query)
    assert "no violation in 1 job, " in client.get("/system").text
    break_a_lane(query)
    query("DELETE FROM schedules RETURNING 1")
    run_nightly(app, query)
    page = client.get("/system").text
    assert "1 violation</span>" in page
    assert " in 4 jobs, " in page


def test_the_checks_do_not_follow_changes_by_themselves(client: TestClient) -> None:
    assert "data-still" in client.get("/system/checks").text
    assert "data-still" not in client.get("/system").text


def test_the_oldest_transaction_is_shown(client: TestClient, dsn: str) -> None:
    with psycopg.connect(dsn, application_name="forgotten shell") as connection:
        connection.execute("SELECT 1")
        page = client.get("/system").text
        assert "forgotten shell" in page
        assert f'data-label="Process">{connection.info.backend_pid}<' in page


def test_changes_name_who_did_what_and_go_on_with_older_ones(
    client: TestClient, app: App, query: Query
) -> None:
    for number in range(51):
        app.lanes.pause(f"order:{number:02}", reason="bank is down", by="eve")
    app.queues.pause("mail", by="ben")
    page = client.get("/system/changes").text
    assert page.count('data-label="Who"') == 50
    assert "queue <span" in page
    assert 'href="/lane?lock=order%3A50"' in page
    [(oldest,)] = query("SELECT id FROM lane_audit ORDER BY id DESC LIMIT 1 OFFSET 49")
    assert f'href="/system/changes?before={oldest}"' in page
    older = client.get("/system/changes", params={"before": oldest}).text
    assert "order:00" in older
    assert "order:01" in older
    assert older.count('data-label="Who"') == 2
    assert "bank is down" in older
    assert "ben" in client.get("/system").text


def test_a_place_in_the_audit_that_is_no_number_means_the_newest(
    client: TestClient, app: App
) -> None:
    app.lanes.pause("order:1", by="eve")
    for before in ("x", "-1", "9" * 40, "\0", "²"):
        assert "order:1" in client.get("/system/changes", params={"before": before}).text
    assert "No older changes" in client.get("/system/changes", params={"before": "1"}).text


def test_a_database_that_was_never_migrated_is_named(empty_dsn: str) -> None:
    site = create_app(App(empty_dsn), authorize=lambda request: Access.FULL)
    with TestClient(site) as client:
        for path in ("/system", "/system/checks", "/queues", "/tasks", "/limits", "/batches"):
            answer = client.get(path)
            assert answer.status_code == 200
            assert "queue migrate" in answer.text
