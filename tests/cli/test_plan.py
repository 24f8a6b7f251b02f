"""`queue migrate --plan` and `queue schema downgrade`."""

import psycopg
import pytest

from inturn import App, sql
from tests.cli.conftest import Answer, Run, defer, statuses
from tests.conftest import Query
from tests.roles import LOGINS, as_login, grant_roles
from tests.snapshot import snapshot


def tables(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
            "WHERE nspname = 'inturn' ORDER BY 1"
        )
        return [str(name) for (name,) in rows]


def test_a_plan_names_every_step_and_takes_none(run: Run, empty_dsn: str) -> None:
    planned = run("migrate", "--plan", "--dsn", empty_dsn)
    assert planned.returncode == 0, planned.stderr
    lines = planned.stdout.splitlines()
    assert lines[0] == f"schema inturn: revision none -> {sql.revision()}"
    assert lines[1:3] == [
        "  create the schema inturn",
        "  run 0001.up.sql: Jobs, lanes, workers, history.",
    ]
    assert lines[-1].startswith("  create or replace the functions and views (")
    assert tables(empty_dsn) == []
    done = run("migrate", "--dsn", empty_dsn).stdout
    scripts = lines[-1].partition("(")[2].partition(" ")[0]
    assert f"{scripts} functions and views applied" in done
    again = run("migrate", "--plan", "--dsn", empty_dsn)
    assert again.stdout == f"schema inturn: revision {sql.revision()}, nothing to do\n"


@pytest.mark.fresh_database
def test_a_plan_says_that_only_functions_are_replaced(run: Run, dsn: str, query: Query) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE inturn.applied_code SET checksum = 'other'")
    lines = run("migrate", "--plan", "--dsn", dsn).stdout.splitlines()
    assert len(lines) == 2
    assert "create or replace the functions and views" in lines[1]
    assert query("SELECT checksum FROM applied_code") == [("other",)]


@pytest.mark.fresh_database
def test_a_plan_waits_for_no_migration_and_needs_no_more_than_to_look(run: Run, dsn: str) -> None:
    grant_roles(dsn)
    with psycopg.connect(dsn) as busy:
        busy.execute("SELECT pg_advisory_xact_lock(hashtextextended('inturn migrate inturn', 0))")
        busy.execute("LOCK TABLE inturn.jobs")
        planned = run("migrate", "--plan", "--dsn", as_login(dsn, LOGINS["monitor"]))
        assert planned.returncode == 0, planned.stderr
        busy.rollback()


@pytest.mark.fresh_database
def test_a_plan_of_an_older_version_is_refused_as_its_migration_is(run: Run, dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE inturn.schema_version SET version_num = '9999'")
        connection.execute("UPDATE inturn.applied_code SET checksum = 'other'")
    for words in (["migrate"], ["migrate", "--plan"], ["schema", "downgrade", "--yes"]):
        refused = run(*words, "--dsn", dsn)
        assert refused.returncode == 11, words
        assert "newer than this version knows" in refused.stderr


def test_a_downgrade_is_asked_for_and_says_what_it_does(
    run: Run, answer: Answer, dsn: str, query: Query
) -> None:
    before = snapshot(dsn)
    planned = run("schema", "downgrade", "--plan", "--dsn", dsn)
    assert planned.returncode == 0, planned.stderr
    assert "drop the functions and views" in planned.stdout
    refused = run("schema", "downgrade", "--dsn", dsn)
    assert refused.returncode == 2
    assert f"queue schema downgrade --dsn {dsn} --yes" in refused.stderr.replace("'", "")
    declined = answer("n", "schema", "downgrade")
    assert declined.returncode == 6
    assert snapshot(dsn) == before


@pytest.mark.fresh_database
def test_a_downgrade_at_the_first_revision_keeps_every_job(
    run: Run, dsn: str, query: Query
) -> None:
    assert run("migrate", "--dsn", dsn).returncode == 0  # the days of the history
    before = snapshot(dsn)
    defer(dsn, "t")
    done = run("schema", "downgrade", "--yes", "--dsn", dsn)
    assert done.returncode == 0, done.stderr
    assert "run: queue migrate" in done.stderr
    assert query("SELECT count(*) FROM pg_proc WHERE pronamespace = 'inturn'::regnamespace") == [
        (0,)
    ]
    assert run("schema", "status", "--dsn", dsn).returncode == 11
    again = run("schema", "downgrade", "--yes", "--dsn", dsn)
    assert "nothing to do" in again.stdout
    assert run("migrate", "--dsn", dsn).returncode == 0
    assert snapshot(dsn) == before
    assert statuses(dsn) == ["todo"]
    with App(dsn).open() as app:
        assert app.check_connection()


def test_a_revision_that_is_not_there_is_named(run: Run, dsn: str) -> None:
    for wrong in ("base", "9999", "one"):
        refused = run("schema", "downgrade", "--to", wrong, "--yes", "--dsn", dsn)
        assert refused.returncode == 2
        assert "Choose one of: 0001" in refused.stderr


@pytest.mark.fresh_database
def test_a_downgrade_names_your_views_that_go_with_ours(run: Run, dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE VIEW public.waiting AS SELECT * FROM inturn.queue_status")
        connection.execute("CREATE VIEW public.longest AS SELECT * FROM public.waiting")
        connection.execute("CREATE VIEW public.stays AS SELECT id FROM inturn.jobs")
    planned = run("schema", "downgrade", "--plan", "--dsn", dsn).stdout
    assert "drop your view waiting" in planned
    assert "drop your view longest" in planned
    assert "stays" not in planned
    assert run("schema", "downgrade", "--yes", "--dsn", dsn).returncode == 0
    with psycopg.connect(dsn) as connection:
        left = connection.execute("SELECT viewname FROM pg_views WHERE schemaname = 'public'")
        assert left.fetchall() == [("stays",)]


def test_a_database_without_the_queue_has_nothing_to_go_back_from(run: Run, empty_dsn: str) -> None:
    refused = run("schema", "downgrade", "--yes", "--dsn", empty_dsn)
    assert refused.returncode == 11
    assert "has no tables of inturn" in refused.stderr
