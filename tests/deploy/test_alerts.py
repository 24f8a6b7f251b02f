"""The alert rules: loaded by Prometheus's own tool, and fired by queues that are really stuck."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from inturn.cli import COMMANDS
from inturn.metrics.catalogue import METRICS
from tests.cli.engine import Engine
from tests.deploy.promtool import RULES, assert_firing, promtool
from tests.lossy import faulty
from tests.metrics.test_database import LATER, NOON, look

pytestmark = pytest.mark.landing

PAGE = Path(__file__).parents[2] / "docs" / "stuck-lane.md"
LATE = "2030-01-01 14:00:00+00"


@pytest.fixture
def engine(dsn: str) -> Iterator[Engine]:
    with closing(Engine(dsn)) as engine:
        engine.at(NOON)
        yield engine


def test_prometheus_loads_the_rules() -> None:
    done = promtool("check", "rules", RULES.name)
    assert done.returncode == 0, done.stderr
    assert f"{len(alerts())} rules found" in done.stdout


def test_each_rule_is_quiet_if_all_is_well_and_fires_if_not() -> None:
    done = promtool("test", "rules", "alerts_test.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    told = (RULES.parent / "alerts_test.yml").read_text(encoding="utf-8")
    assert set(re.findall(r'alertname="(\w+)"', told)) == alerts()


def test_the_rules_name_metrics_and_commands_that_there_are() -> None:
    text = RULES.read_text(encoding="utf-8")
    named = set(re.findall(r"\binturn_\w+", text))
    assert named
    assert named <= METRICS.keys()
    commands = re.findall(r"Run: queue (\w+)", text)
    assert len(commands) == len(alerts()) - 1  # the exporter that is silent is a command itself
    assert set(commands) <= set(COMMANDS)


def test_the_page_for_people_on_call_has_a_row_for_each_alert_and_each_alert_a_command() -> None:
    [group] = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    told = {
        rule["alert"]
        for rule in group["rules"]
        if rule["annotations"]["description"].partition("Run: ")[2]
    }
    page = PAGE.read_text(encoding="utf-8")
    listed = re.findall(r"^\* `(Inturn\w+)`: \S", page, re.MULTILINE)
    assert sorted(listed) == sorted(alerts())
    assert alerts() - told == {"InturnExporterSilent"}  # its row says what to do
    rows = page.partition("## If an alert")[0]
    seen = re.findall(r"^\* `Inturn\w+`: (`[a-z ]+`|\"[^\"]+\")", page, re.MULTILINE)
    assert len(seen) > len(told) / 2
    for words in seen:
        assert words.strip('"') in rows


def alerts() -> set[str]:
    return set(re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8")))


# ------------------------------------------------------------------ queues that are stuck


def test_a_queue_in_order_is_quiet(engine: Engine, dsn: str, tmp_path: Path) -> None:
    engine.sign_on()
    for _ in range(2):
        engine.defer("t", "lane")
    engine.claim()
    assert_firing(tmp_path, set(), look(dsn))


def test_a_halted_lane_is_named(engine: Engine, dsn: str, tmp_path: Path) -> None:
    engine.sign_on()
    engine.defer("t", "lane", on_failure="halt")
    engine.defer("t", "lane")
    engine.fail(engine.claim(), None, "boom")
    assert_firing(tmp_path, {"InturnLaneHalted"}, look(dsn))


def test_a_lane_whose_worker_is_silent_is_named(engine: Engine, dsn: str, tmp_path: Path) -> None:
    engine.sign_on()
    engine.defer("t", "lane")
    engine.claim()
    engine.at(LATER)
    assert_firing(tmp_path, {"InturnLaneStalled", "InturnWorkerSilent"}, look(dsn))


def test_a_lane_in_a_queue_that_nobody_serves_is_named(
    engine: Engine, dsn: str, tmp_path: Path
) -> None:
    engine.sign_on()
    engine.defer("t", "lane", queue="mail")
    assert_firing(tmp_path, {"InturnQueueUnserved"}, look(dsn))


def test_a_job_that_nobody_starts_is_named(engine: Engine, dsn: str, tmp_path: Path) -> None:
    engine.sign_on()
    engine.defer("t", "lane")
    engine.at("2030-01-01 12:30:00+00")
    engine.heartbeat()
    assert_firing(tmp_path, {"InturnJobsWaitTooLong"}, look(dsn))


def test_a_lane_that_is_paused_for_long_while_jobs_wait_is_named(
    engine: Engine, dsn: str, tmp_path: Path
) -> None:
    engine.sign_on()
    engine.query("SELECT pause_lane('lane')")
    engine.defer("t", "lane")
    engine.at(LATE)
    engine.heartbeat()
    assert_firing(tmp_path, {"InturnLaneWaitsTooLong"}, look(dsn))


@pytest.mark.parametrize("queue", ["default", None])
def test_a_queue_that_is_paused_for_long_is_named(
    queue: str | None, engine: Engine, dsn: str, tmp_path: Path
) -> None:
    engine.sign_on()
    engine.query("SELECT pause_queue(%s)", queue)
    engine.defer("t")
    engine.at(LATE)
    engine.heartbeat()
    assert_firing(tmp_path, {"InturnQueuePaused"}, look(dsn))


def test_a_lane_that_waits_behind_a_retry_for_long_is_named(
    engine: Engine, dsn: str, tmp_path: Path
) -> None:
    engine.sign_on()
    for _ in range(2):
        engine.defer("t", "lane")
    engine.fail(engine.claim(), "1 day", "boom")
    engine.at(LATE)
    engine.heartbeat()
    assert_firing(tmp_path, {"InturnLaneWaitsTooLong"}, look(dsn))


def test_a_worker_whose_event_loop_stands_still_is_named(
    engine: Engine, dsn: str, tmp_path: Path
) -> None:
    engine.sign_on()
    engine.query("SELECT heartbeat(id, '2 minutes') FROM workers")
    assert_firing(tmp_path, {"InturnEventLoopBlocked"}, look(dsn))


def test_a_database_that_is_away_is_named_and_nothing_else(dsn: str, tmp_path: Path) -> None:
    with faulty(dsn) as (proxy, address):
        proxy.refuse()
        away = look(address)
    assert_firing(tmp_path, {"InturnDatabaseAway"}, away)


@pytest.mark.fresh_database
def test_a_schema_that_does_not_fit_is_named(engine: Engine, dsn: str, tmp_path: Path) -> None:
    engine.query("UPDATE applied_code SET checksum = 'another'")
    assert_firing(tmp_path, {"InturnSchemaMismatch"}, look(dsn))
