"""What `queue metrics` says of a queue that was brought to a state by hand."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from threading import Timer

import psycopg
import pytest

from inturn.database.connectors import PsycopgConnector
from inturn.metrics.catalogue import DATABASE, MOST_QUEUES
from inturn.metrics.database import STATES, DatabaseMetrics
from inturn.metrics.exposition import make_route
from tests.cli.engine import Engine
from tests.lossy import faulty
from tests.metrics.scrape import Samples
from tests.roles import LOGINS, as_login, grant_roles

NOON = "2030-01-01 12:00:00+00"
LATER = "2030-01-01 12:10:00+00"


@pytest.fixture
def engine(dsn: str) -> Iterator[Engine]:
    with closing(Engine(dsn)) as engine:
        engine.at(NOON)
        yield engine


def look(dsn: str) -> Samples:
    """Look once, with a new collector."""
    with closing(DatabaseMetrics(PsycopgConnector(dsn))) as metrics:
        return read(metrics)


def read(metrics: DatabaseMetrics) -> Samples:
    return Samples(make_route(metrics)["/metrics"]("").body.decode())


def test_jobs_are_counted_by_queue_and_state_and_runnable_ones_apart(
    engine: Engine, dsn: str
) -> None:
    engine.sign_on()
    for lock in ("held", "held", "held", "free", "free", None):
        engine.defer("t", lock)
    engine.claim()
    engine.defer("t", delay="1 hour")
    engine.defer("t", queue="mail")
    found = look(dsn)
    default = found.by("inturn_jobs", "state", queue="default")
    # One job of the free lane and the one without a lock; two behind the running one, one in the
    # free lane.
    assert default == {"doing": 1, "runnable": 2, "blocked": 3, "scheduled": 1}
    assert found.by("inturn_jobs", "state", queue="mail") == {"runnable": 1}
    assert found["inturn_lanes_runnable"] == 3
    assert found.by("inturn_queue_served", "queue") == {"default": 1}
    assert found.of("inturn_jobs_capped") == 0


def test_jobs_that_wait_for_a_limit_or_for_others_are_counted_apart(
    engine: Engine, dsn: str
) -> None:
    engine.query("SELECT set_limit('api', 1)")
    engine.sign_on()
    first = engine.defer("t")
    engine.claim()
    for _ in range(3):
        engine.query("SELECT defer('t', limit_key => 'api')")
    engine.query("SELECT defer('t', after => ARRAY[%s::bigint])", first)
    engine.query("SELECT id FROM claim((SELECT id FROM workers), NULL, 5)")
    states = look(dsn).by("inturn_jobs", "state", queue="default")
    assert states == {"doing": 1, "claimed": 1, "limited": 2, "pending": 1}


def test_ages_are_those_of_the_oldest_job_that_could_start_and_of_the_oldest_that_waits(
    engine: Engine, dsn: str
) -> None:
    engine.sign_on()
    engine.query("SELECT pause_lane('stopped')")
    engine.defer("t", "stopped")
    for _ in range(3):
        engine.defer("t", "stopped")
    engine.at("2030-01-01 12:04:00+00")
    engine.defer("t")
    engine.at(LATER)
    found = look(dsn)
    assert found.of("inturn_oldest_runnable_age_seconds", queue="default") == 360
    assert found.of("inturn_oldest_waiting_age_seconds", queue="default") == 600
    assert found.of("inturn_lane_max_head_wait_seconds", queue="default") == 600
    assert found.of("inturn_lane_max_depth", queue="default") == 4


def test_a_queue_without_lanes_has_its_oldest_free_job(engine: Engine, dsn: str) -> None:
    engine.defer("t")
    engine.at(LATER)
    found = look(dsn)
    assert found.of("inturn_oldest_waiting_age_seconds", queue="default") == 600
    assert found.of("inturn_lane_max_depth", queue="default") == 0
    assert found.of("inturn_queue_served", queue="default") == 0


def test_lanes_are_counted_by_state_and_those_of_a_silent_worker_are_stalled(
    engine: Engine, dsn: str
) -> None:
    engine.sign_on()
    for lock, on_failure in (("halts", "halt"), ("retries", "continue"), ("runs", "continue")):
        engine.defer("t", lock, on_failure=on_failure)
    engine.fail(engine.claim(), None, "boom")
    engine.fail(engine.claim(), "1 hour", "boom")
    engine.claim()
    engine.query("SELECT pause_lane('paused')")
    engine.query("SELECT pause_lane('over', p_until => clock() + interval '1 minute')")
    now = look(dsn).by("inturn_lanes", "state")
    assert now == {"held": 1, "halted": 1, "retrying": 1, "paused": 2}
    engine.at(LATER)
    later = look(dsn).by("inturn_lanes", "state")
    assert later == {"stalled": 1, "halted": 1, "retrying": 1, "paused": 1}


def test_a_pause_of_a_queue_has_an_age_and_one_of_all_queues_a_name_of_its_own(
    engine: Engine, dsn: str
) -> None:
    assert look(dsn).by("inturn_queue_paused_seconds", "queue") == {}
    engine.query("SELECT pause_queue('mail', NULL, clock() + interval '1 hour')")
    engine.at(LATER)
    engine.query("SELECT pause_queue(NULL)")
    engine.at("2030-01-01 12:30:00+00")
    engine.query("SELECT pause_queue('mail', NULL, clock() + interval '1 day')")  # still the same
    ages = look(dsn).by("inturn_queue_paused_seconds", "queue")
    assert ages == {"*": 20 * 60, "mail": 30 * 60}
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        engine.query("SELECT pause_queue('*')")
    engine.query("SELECT resume_queue(NULL)")
    engine.at("2030-02-01 12:00:00+00")
    assert look(dsn).by("inturn_queue_paused_seconds", "queue") == {}


def test_a_pause_of_a_task_has_an_age(engine: Engine, dsn: str) -> None:
    assert look(dsn).by("inturn_task_paused_seconds", "task") == {}
    engine.query("SELECT pause_task('mail', NULL, clock() + interval '1 hour')")
    engine.at("2030-01-01 12:30:00+00")
    engine.query("SELECT pause_task('mail', NULL, clock() + interval '1 day')")  # still the same
    assert look(dsn).by("inturn_task_paused_seconds", "task") == {"mail": 30 * 60}
    engine.query("SELECT resume_task('mail')")
    assert look(dsn).by("inturn_task_paused_seconds", "task") == {}


def test_workers_are_counted_by_state(engine: Engine, dsn: str) -> None:
    assert look(dsn).by("inturn_workers", "state") == {}
    engine.sign_on()
    assert look(dsn).by("inturn_workers", "state") == {"live": 1}
    engine.query("SELECT heartbeat(id, '2 minutes') FROM workers")
    assert look(dsn).by("inturn_workers", "state") == {"blocked": 1}
    engine.query("SELECT heartbeat(id, p_stopping => true) FROM workers")
    assert look(dsn).by("inturn_workers", "state") == {"stopping": 1}
    engine.at(LATER)
    assert look(dsn).by("inturn_workers", "state") == {"late": 1}


def test_a_schedule_is_late_if_it_is_in_the_code_of_a_live_worker_and_its_job_was_not_deferred(
    engine: Engine, dsn: str
) -> None:
    """One that was removed from the code is not late for good, even if its task is still there."""
    engine.query(
        "SELECT register_schedules('{report,report}', '{daily,removed}', '{* * * * *,* * * * *}',"
        " '{UTC,UTC}')"
    )
    engine.at("2030-01-01 12:05:00+00")
    register = "SELECT register_worker('w', 'host', 7, NULL, 1, '{report}', %s)"
    engine.query(register, ["report:daily"])
    assert look(dsn).by("inturn_schedule_lag_seconds", "schedule") == {"report:daily": 240}
    engine.query("UPDATE schedules SET last_instant = '2030-01-01 12:05:00+00'")
    assert look(dsn).by("inturn_schedule_lag_seconds", "schedule") == {}
    assert look(dsn).by("inturn_schedule_ahead_seconds", "schedule") == {}


def test_a_schedule_in_a_time_zone_that_only_its_worker_knows_hides_no_other_metric(
    engine: Engine, dsn: str
) -> None:
    engine.query(
        "SELECT register_schedules('{here,there}', '{\"\",\"\"}', '{* * * * *,* * * * *}',"
        " '{UTC,Mars/Olympus}')"
    )
    engine.at("2030-01-01 12:05:00+00")
    engine.query("SELECT register_worker('w', 'host', 7, NULL, 1, NULL, '{here,there}')")
    found = look(dsn)
    assert found.by("inturn_schedule_lag_seconds", "schedule") == {"here": 240}
    assert found["inturn_exporter_errors_total"] == 0
    assert found["inturn_notify_queue_usage_ratio"] < 1  # it comes last


def test_a_schedule_that_a_wrong_clock_has_set_ahead_says_for_how_long_it_stands_still(
    engine: Engine, dsn: str
) -> None:
    engine.at("2030-01-01 12:00:00+00")
    engine.query("SELECT register_schedules('{report}', '{\"\"}', '{* * * * *}', '{UTC}')")
    engine.query("SELECT register_worker('w', 'host', 7, NULL, 1, '{report}', '{report}')")
    for last, ahead in (
        ("2030-01-01 14:00:00+00", {"report": 7200}),
        ("2030-01-03 14:00:00+00", {}),  # no worker minds it
    ):
        engine.query("UPDATE schedules SET last_instant = %s", last)
        assert look(dsn).by("inturn_schedule_ahead_seconds", "schedule") == ahead


def test_queues_beyond_a_number_share_a_series(engine: Engine, dsn: str) -> None:
    engine.query(
        "INSERT INTO jobs (created_at, status, task, queue) "
        "SELECT clock(), 'todo', 't', 'queue ' || n FROM generate_series(1, %s) AS n",
        MOST_QUEUES + 20,
    )
    found = look(dsn).by("inturn_jobs", "queue", state="runnable")
    assert len(found) == MOST_QUEUES + 1
    assert found["_other"] == 20


def test_counting_that_stopped_early_says_so(engine: Engine, dsn: str) -> None:
    engine.query(
        "INSERT INTO jobs (created_at, status, task, queue) "
        "SELECT clock(), 'todo', 't', 'full' FROM generate_series(1, 1001)"
    )
    found = look(dsn)
    assert found.by("inturn_jobs_capped", "queue") == {"full": 1}
    assert found.of("inturn_jobs", queue="full", state="runnable") == 1000
    engine.query(
        "INSERT INTO lanes (lock, since, stopped, stopped_at, stopped_by) "
        "SELECT 'lane ' || n, clock(), 'paused', clock(), 'me' FROM generate_series(1, 10001) AS n"
    )
    found = look(dsn)
    assert found.of("inturn_lanes", state="paused") == 10000
    assert found.of("inturn_lanes_capped", state="paused") == 1
    assert found.of("inturn_lanes_capped", state="halted") == 0


def test_every_state_of_queue_status_is_a_state_of_the_metric(engine: Engine) -> None:
    """A column that is neither a state nor one of the others would be left out silently."""
    columns = {
        name
        for (name,) in engine.query(
            "SELECT attname::text FROM pg_attribute "
            "WHERE attrelid = 'queue_status'::regclass AND attnum > 0"
        )
    }
    others = {"queue", "runnable_since", "workers", "more", "oldest_id"}
    assert columns - others == set(STATES)
    assert columns >= others


def test_a_database_that_is_away_is_down_and_leaves_no_old_numbers(dsn: str) -> None:
    with (
        faulty(dsn) as (proxy, address),
        closing(DatabaseMetrics(PsycopgConnector(address))) as metrics,
    ):
        assert read(metrics)["inturn_database_up"] == 1
        proxy.refuse()
        proxy.reset()
        metrics._found_at -= 3600
        away = read(metrics)
        assert away["inturn_database_up"] == 0
        assert away["inturn_exporter_errors_total"] == 1
        assert "inturn_lanes_runnable" not in away.text
        proxy.heal()
        metrics._found_at -= 3600
        back = read(metrics)
        assert (back["inturn_database_up"], back["inturn_exporter_errors_total"]) == (1, 1)


def test_scrapes_within_some_seconds_share_one_look(
    engine: Engine, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.metrics.database.FRESH_SECONDS", 600.0)
    with closing(DatabaseMetrics(PsycopgConnector(dsn))) as metrics:
        assert read(metrics)["inturn_lanes_runnable"] == 0
        engine.defer("t")
        assert read(metrics)["inturn_lanes_runnable"] == 0
        metrics._found_at -= 3600
        assert read(metrics)["inturn_lanes_runnable"] == 1


@pytest.mark.fresh_database
def test_a_schema_that_does_not_fit_is_reported_and_nothing_else_is_read(
    engine: Engine, dsn: str
) -> None:
    fits = look(dsn)
    assert fits["inturn_schema_fits"] == 1
    assert fits["inturn_schema_version"] == fits["inturn_schema_expected_version"] == 1
    engine.query("UPDATE schema_version SET version_num = '0007'")
    engine.query("UPDATE applied_code SET checksum = 'another'")
    other = look(dsn)
    assert (other["inturn_schema_fits"], other["inturn_schema_version"]) == (0, 7)
    assert other["inturn_database_up"] == 1
    assert "inturn_lanes_runnable" not in other.text


def test_an_empty_database_has_version_0(empty_dsn: str) -> None:
    found = look(empty_dsn)
    assert (found["inturn_database_up"], found["inturn_schema_version"]) == (1, 0)
    assert found["inturn_schema_fits"] == 0


def test_a_transaction_that_is_open_for_long_shows(dsn: str) -> None:
    assert look(dsn)["inturn_oldest_transaction_age_seconds"] == 0
    with psycopg.connect(dsn) as connection:
        connection.execute("SELECT 1")
        assert look(dsn)["inturn_oldest_transaction_age_seconds"] > 0


@pytest.mark.fresh_database
def test_a_monitor_reads_everything_and_the_look_changes_nothing(engine: Engine, dsn: str) -> None:
    grant_roles(dsn)
    engine.defer("t", "lane")
    found = look(as_login(dsn, LOGINS["monitor"]))
    assert found["inturn_exporter_errors_total"] == 0
    assert found.of("inturn_jobs", state="runnable") == 1
    names = {family.name for family in found.families}
    assert {metric.name.removesuffix("_total") for metric in DATABASE} - names == set()


def test_a_time_that_python_does_not_know_is_an_error_of_the_exporter(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "INSERT INTO inturn.pauses (kind, name, paused_at, until, paused_by) "
            "VALUES ('queue', 'mail', now(), 'infinity', 'eve')"
        )
    found = look(dsn)
    assert found["inturn_exporter_errors_total"] == 1
    assert found["inturn_database_up"] == 1


@pytest.mark.landing
def test_a_look_that_takes_too_long_is_given_up(dsn: str) -> None:
    """Somebody who locks the tables keeps the collector waiting for five seconds and no longer."""
    with psycopg.connect(dsn) as connection:
        connection.execute("LOCK TABLE inturn.jobs")
        rescue = Timer(30, connection.close)  # only keeps a failing test from hanging
        rescue.start()
        found = look(dsn)
        rescue.cancel()
    assert found["inturn_exporter_errors_total"] == 1
    assert found["inturn_database_up"] == 1
    assert timedelta(seconds=found["inturn_exporter_scrape_seconds"]) < timedelta(seconds=20)
