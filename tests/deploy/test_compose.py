"""docker-compose.yml: valid by the specification's schema, and each of its commands is one of ours.

There is no container engine here, so nothing is started. What the services run is tested elsewhere.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from inturn.cli.commands.web import USERS
from tests.cli.calling import invoke
from tests.deploy.command_line import flag_of, parse
from tests.deploy.dockerfile import ROOT, exec_form
from tests.deploy.dockerfile import parse as parse_dockerfile
from tests.deploy.promtool import DEPLOY, promtool

HEALTH = "/-/health"  # tests/web/test_mounting.py asks it
FILE = ROOT / "docker-compose.yml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: each for name, each in SERVICES.items() if each["image"] == "inturn"}
FINAL = parse_dockerfile((ROOT / "Dockerfile").read_text(encoding="utf-8"))[-1]
PROMETHEUS: dict[str, Any] = yaml.safe_load(
    (DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")
)


@pytest.mark.landing
def test_it_is_valid_by_the_schema_of_compose() -> None:
    done = check(FILE)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.landing
def test_the_schema_would_refuse_a_mistake(tmp_path: Path) -> None:
    bad = tmp_path / "docker-compose.yml"
    bad.write_text(FILE.read_text(encoding="utf-8").replace("stop_grace_period", "stop_grace"))
    done = check(bad)
    assert done.returncode != 0
    assert "stop_grace" in done.stdout


@pytest.mark.parametrize("name", OURS)
def test_a_command_is_one_of_ours_and_its_variables_are_read(name: str) -> None:
    service = OURS[name]
    words = service["command"]
    assert isinstance(words, list)  # without a shell
    command, _ = parse(words, service["environment"])
    assert command == name
    for variable in service["environment"]:
        if variable.startswith("INTURN_WORKER_"):
            assert flag_of(variable), variable


def test_nothing_starts_before_the_schema_is_there() -> None:
    assert OURS["migrate"]["restart"] == "no"  # it ends
    assert OURS["migrate"]["depends_on"]["postgres"]["condition"] == "service_healthy"
    rest = OURS.keys() - {"migrate"}
    assert rest == {"worker", "metrics", "web"}
    for name in rest:
        condition = OURS[name]["depends_on"]["migrate"]["condition"]
        assert condition == "service_completed_successfully"


def test_a_worker_has_time_to_end_what_it_runs() -> None:
    from inturn.worker.worker import ABORT_SECONDS, LEAVE_SECONDS

    service = OURS["worker"]
    grace = parse(service["command"], service["environment"])[1]["shutdown_graceful_timeout"]
    period = service["stop_grace_period"]
    assert period.endswith("s")
    assert int(period[:-1]) > grace + ABORT_SECONDS + LEAVE_SECONDS


def test_a_service_is_asked_for_its_health_if_it_stays() -> None:
    variables = dict(pair.split("=", 1) for rest in FINAL.of("ENV") for pair in rest.split())
    assert OURS["migrate"]["healthcheck"] == {"disable": True}
    # The image's own check, which finds the worker if nothing here moves it.
    assert "healthcheck" not in OURS["worker"]
    assert "INTURN_WORKER_HEALTH_PORT" not in OURS["worker"]["environment"]
    served = parse(OURS["worker"]["command"], variables)[1]["health_port"]
    assert parse(exec_form(FINAL.last("HEALTHCHECK"))[1:], variables)[1]["port"] == served
    port = parse(OURS["metrics"]["command"], {})[1]["port"]
    assert f":{port}/metrics" in " ".join(OURS["metrics"]["healthcheck"]["test"])
    port = parse(OURS["web"]["command"], {})[1]["port"]
    assert f":{port}{HEALTH}" in " ".join(OURS["web"]["healthcheck"]["test"])


def test_a_service_cannot_do_more_than_it_needs() -> None:
    for name, service in OURS.items():
        assert service["cap_drop"] == ["ALL"]
        assert service["read_only"] is True
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert not service.get("ports") or name == "web"
        assert "user" not in service  # the image's, which is not root


def test_only_this_machine_reaches_the_ports() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == 5
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_image_has_a_version() -> None:
    for service in SERVICES.values():
        image = service["image"]
        _, _, tag = image.partition(":")
        assert image == "inturn" or tag.lstrip("v")[0].isdigit(), image


def test_monitoring_is_there_only_if_you_ask_for_it() -> None:
    asked = {name for name, each in SERVICES.items() if each.get("profiles") == ["monitoring"]}
    assert asked == {"metrics", "prometheus", "grafana"}
    rest = SERVICES.keys() - asked - {"web"}
    assert not [name for name in rest if "profiles" in SERVICES[name]]


def test_the_dashboard_asks_for_a_password_and_is_there_only_if_you_ask_for_it() -> None:
    service = OURS["web"]
    assert service["profiles"] == ["web"]
    port = parse(service["command"], {})[1]["port"]
    assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert service["environment"][USERS] == f"${{{USERS}:-}}"  # yours, and none that others know
    done = invoke(*service["command"], env={USERS: ""})
    assert done.returncode == 2
    assert USERS in done.stderr


def test_every_volume_is_declared_or_a_file_of_ours() -> None:
    for name, service in SERVICES.items():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            if source.startswith("."):
                assert (ROOT / source).exists(), (name, source)
                assert volume.endswith(":ro"), volume
            else:
                assert source in COMPOSE["volumes"], (name, source)


# ------------------------------------------------------------------ Prometheus and Grafana


@pytest.mark.landing  # needs promtool, which a newcomer may lack
def test_prometheus_takes_its_configuration_and_the_rules() -> None:
    done = promtool("check", "config", "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 rule files found" in done.stdout
    assert "rules found" in done.stdout


def test_prometheus_asks_the_ports_that_are_served() -> None:
    jobs = {job["job_name"]: job for job in PROMETHEUS["scrape_configs"]}
    metrics = parse(OURS["metrics"]["command"], {})[1]
    worker = parse(OURS["worker"]["command"], {})[1]
    assert jobs["inturn"]["static_configs"] == [{"targets": [f"metrics:{metrics['port']}"]}]
    (found,) = jobs["inturn-workers"]["dns_sd_configs"]
    assert found["names"] == ["worker"]
    assert found["port"] == worker["metrics_port"]
    for each in (metrics, worker):
        assert each["bind"] == "0.0.0.0"  # noqa: S104 (the network of these containers)
    source, target, _ = SERVICES["prometheus"]["volumes"][0].split(":")
    assert (source, target) == ("./deploy/prometheus", "/etc/prometheus")


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    mounted = {
        volume.split(":")[1]: ROOT / volume.split(":")[0]
        for volume in SERVICES["grafana"]["volumes"]
        if volume.startswith(".")
    }
    folder = mounted["/etc/grafana/provisioning"]
    (source,) = read(folder / "datasources" / "prometheus.yml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert source["type"] == "prometheus"
    assert source["isDefault"] is True  # the dashboard lets you choose, and begins with this one
    (provider,) = read(folder / "dashboards" / "inturn.yml")["providers"]
    assert provider["type"] == "file"
    dashboards = provider["options"]["path"]
    assert mounted[f"{dashboards}/inturn.json"] == DEPLOY / "grafana" / "inturn.json"


def read(file: Path) -> Any:
    found = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert found["apiVersion"] == 1
    return found


def check(file: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("check-jsonschema")
    if not program.exists():
        pytest.fail("check-jsonschema is not installed. Run: pip install check-jsonschema")
    words = [str(program), "--builtin-schema", "vendor.compose-spec", str(file)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
