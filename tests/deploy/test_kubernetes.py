"""The manifests for Kubernetes: valid by its schemas, and in step with our command line.

KEDA's query runs on a real server. Kinds that are not of Kubernetes itself have no schema here, so
the fields that they need are compared one by one.
"""

from pathlib import Path
from typing import Any

import kubernetes_validate
import psycopg
import pytest
import yaml

from inturn.cli.commands.web import USERS
from inturn.health import checks
from inturn.operations.changes.jobs import COUNTED
from inturn.worker.worker import ABORT_SECONDS, LEAVE_SECONDS
from tests.cli.conftest import engine as engine
from tests.cli.engine import Engine
from tests.deploy.command_line import parse
from tests.deploy.dockerfile import ROOT
from tests.deploy.dockerfile import parse as parse_dockerfile
from tests.deploy.promtool import DEPLOY
from tests.deploy.test_compose import HEALTH
from tests.roles import LOGINS, as_login, grant_roles
from tests.sql.test_listing_cost import WAIT

FOLDER = DEPLOY / "kubernetes"
FINAL = parse_dockerfile((ROOT / "Dockerfile").read_text(encoding="utf-8"))[-1]
Manifest = dict[str, Any]


def load(file: Path) -> list[Manifest]:
    return list(yaml.safe_load_all(file.read_text(encoding="utf-8")))


ALL = [each for file in sorted(FOLDER.glob("*.yaml")) for each in load(file)]
CUSTOM = {"ScaledObject", "TriggerAuthentication", "PodMonitor"}
OF_KUBERNETES = [each for each in ALL if each["kind"] not in CUSTOM]
WITH_PODS = [each for each in ALL if "template" in each.get("spec", {})]
VERSIONS = ("1.30", kubernetes_validate.latest_version())


def name(manifest: Manifest) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def find(wanted: str) -> Manifest:
    (found,) = [each for each in ALL if name(each) == wanted]
    return found


def pod(manifest: Manifest) -> Manifest:
    found = manifest["spec"]["template"]["spec"]
    assert isinstance(found, dict)
    return found


def container(manifest: Manifest) -> Manifest:
    (found,) = pod(manifest)["containers"]
    assert isinstance(found, dict)
    return found


def options(manifest: Manifest) -> dict[str, Any]:
    return parse(container(manifest)["args"], {})[1]


# ------------------------------------------------------------------ as Kubernetes reads them


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", OF_KUBERNETES, ids=name)
def test_kubernetes_knows_every_field(manifest: Manifest, version: str) -> None:
    checked = kubernetes_validate.validate(manifest, version, strict=True)
    assert version.startswith(checked)


def test_kubernetes_would_refuse_an_unknown_field() -> None:
    manifest = find("Deployment inturn-worker")
    pod_spec = pod(manifest) | {"terminationGraceSeconds": 90}
    wrong = manifest | {"spec": manifest["spec"] | {"template": {"spec": pod_spec}}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def test_everything_that_is_needed_is_there() -> None:
    assert {name(each) for each in ALL} == {
        "Deployment inturn-metrics",
        "Deployment inturn-web",
        "Deployment inturn-worker",
        "Job inturn-migrate",
        "PodDisruptionBudget inturn-worker",
        "PodMonitor inturn",
        "ScaledObject inturn-worker",
        "Secret inturn-database",
        "Secret inturn-web",
        "Service inturn-web",
        "TriggerAuthentication inturn-monitor",
    }


# ------------------------------------------------------------------ as our command line reads them


@pytest.mark.parametrize("manifest", WITH_PODS, ids=name)
def test_a_container_runs_a_command_of_ours(manifest: Manifest) -> None:
    command, _ = parse(container(manifest)["args"], {})
    assert command == manifest["metadata"]["labels"]["app.kubernetes.io/component"]
    assert "command" not in container(manifest)  # the image's entry, which is no shell


@pytest.mark.parametrize("manifest", WITH_PODS, ids=name)
def test_a_container_can_do_little_and_is_not_root(manifest: Manifest) -> None:
    spec = pod(manifest)
    own = container(manifest)["securityContext"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    assert own["allowPrivilegeEscalation"] is False
    assert own["readOnlyRootFilesystem"] is True
    assert own["capabilities"] == {"drop": ["ALL"]}
    user = spec["securityContext"].get("runAsUser")
    assert user in (None, int(FINAL.last("USER").split(":")[0]))
    limits = container(manifest)["resources"]["limits"]
    assert set(limits) == {"memory"}


@pytest.mark.parametrize("manifest", WITH_PODS, ids=name)
def test_a_password_comes_from_the_secret(manifest: Manifest) -> None:
    keys = find("Secret inturn-database")["stringData"]
    variables = {each["name"]: each for each in container(manifest)["env"]}
    assert "value" not in variables["INTURN_DSN"]
    reference = variables["INTURN_DSN"]["valueFrom"]["secretKeyRef"]
    assert reference["name"] == "inturn-database"
    assert reference["key"] in keys
    assert not [dsn for dsn in keys.values() if "@" in dsn and ":" in dsn.split("//")[1]]


@pytest.mark.parametrize("manifest", WITH_PODS, ids=name)
def test_ports_have_the_names_and_numbers_of_the_options(manifest: Manifest) -> None:
    given = options(manifest)
    ports = {each["name"]: each["containerPort"] for each in container(manifest).get("ports", [])}
    named = "http" if name(manifest) == "Deployment inturn-web" else "metrics"
    served = {
        "health": given.get("health_port"),
        named: given.get("metrics_port") or given.get("port"),
    }
    assert ports == {each: port for each, port in served.items() if port is not None}
    if ports:
        assert given["bind"] == "0.0.0.0"  # noqa: S104 (or the kubelet reaches nothing)


@pytest.mark.parametrize(
    ("probe", "path"),
    [
        ("startupProbe", checks.STARTUP),
        ("livenessProbe", checks.LIVE),
        ("readinessProbe", checks.READY),
    ],
)
def test_a_probe_asks_what_the_worker_answers(probe: str, path: str) -> None:
    asked = container(find("Deployment inturn-worker"))[probe]["httpGet"]
    assert asked == {"path": path, "port": "health"}


def test_the_dashboard_asks_for_a_password_and_answers_its_probes() -> None:
    web = find("Deployment inturn-web")
    variables = {each["name"]: each for each in container(web)["env"]}
    reference = variables[USERS]["valueFrom"]["secretKeyRef"]
    assert reference["key"] in find(f"Secret {reference['name']}")["stringData"]
    assert not {"--insecure-no-auth"} & set(container(web)["args"])
    for probe in ("livenessProbe", "readinessProbe"):
        assert container(web)[probe]["httpGet"] == {"path": HEALTH, "port": "http"}
    service = find("Service inturn-web")["spec"]
    assert service["selector"] == web["spec"]["template"]["metadata"]["labels"]
    assert "type" not in service  # inside the cluster only
    assert [port["targetPort"] for port in service["ports"]] == ["http"]


def test_the_start_may_last_as_long_as_the_worker_waits_for_its_database() -> None:
    worker = find("Deployment inturn-worker")
    probe = container(worker)["startupProbe"]
    assert probe["failureThreshold"] * probe["periodSeconds"] > options(worker)["db_grace"]


def test_a_worker_has_time_to_end_what_it_runs() -> None:
    worker = find("Deployment inturn-worker")
    limit = options(worker)["shutdown_graceful_timeout"] + ABORT_SECONDS + LEAVE_SECONDS
    assert pod(worker)["terminationGracePeriodSeconds"] > limit


def test_a_new_version_starts_before_the_old_one_stops() -> None:
    rolling = find("Deployment inturn-worker")["spec"]["strategy"]["rollingUpdate"]
    assert rolling["maxUnavailable"] == 0


def test_what_selects_pods_finds_them() -> None:
    workers = find("Deployment inturn-worker")["spec"]["template"]["metadata"]["labels"]
    metrics = find("Deployment inturn-metrics")["spec"]["template"]["metadata"]["labels"]
    for manifest in (find("Deployment inturn-worker"), find("PodDisruptionBudget inturn-worker")):
        assert manifest["spec"]["selector"]["matchLabels"].items() <= workers.items()
        assert not manifest["spec"]["selector"]["matchLabels"].items() <= metrics.items()
    monitor = find("PodMonitor inturn")["spec"]
    (expression,) = monitor["selector"]["matchExpressions"]
    for labels in (workers, metrics):
        assert monitor["selector"]["matchLabels"].items() <= labels.items()
        assert labels[expression["key"]] in expression["values"]
    (endpoint,) = monitor["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint["path"]) == ("metrics", "/metrics")


def test_a_failed_migration_is_tried_again_and_then_given_up() -> None:
    job = find("Job inturn-migrate")["spec"]
    assert job["backoffLimit"] > 0
    assert job["activeDeadlineSeconds"] > 0
    assert job["template"]["spec"]["restartPolicy"] == "Never"


# ------------------------------------------------------------------ KEDA


def test_keda_scales_the_workers_of_the_queues_that_it_counts() -> None:
    scaled = find("ScaledObject inturn-worker")["spec"]
    worker = find("Deployment inturn-worker")
    assert scaled["scaleTargetRef"] == {"name": "inturn-worker"}
    assert "replicas" not in worker["spec"]  # or `kubectl apply` would undo what KEDA did
    assert scaled["minReplicaCount"] >= 1
    (trigger,) = scaled["triggers"]
    assert trigger["type"] == "postgresql"
    assert set(trigger["metadata"]) == {"query", "targetQueryValue"}
    assert int(trigger["metadata"]["targetQueryValue"]) == options(worker)["concurrency"]
    (queues,) = options(worker)["queues"]
    named = ", ".join(f"'{queue}'" for queue in queues.split(","))
    assert f"queue IN ({named})" in trigger["metadata"]["query"]
    known = find(f"TriggerAuthentication {trigger['authenticationRef']['name']}")
    (parameter,) = known["spec"]["secretTargetRef"]
    assert parameter["parameter"] == "connection"
    assert parameter["key"] in find("Secret inturn-database")["stringData"]


def query() -> bytes:
    (trigger,) = find("ScaledObject inturn-worker")["spec"]["triggers"]
    return str(trigger["metadata"]["query"]).encode()


def ask_as_keda(dsn: str) -> float:
    """Return what KEDA reads: one row with one number, as a login that may only look."""
    grant_roles(dsn)
    with psycopg.connect(as_login(dsn, LOGINS["monitor"])) as connection:
        ((number,),) = connection.execute(query()).fetchall()
    return float(number)


@pytest.mark.fresh_database
def test_the_query_is_zero_if_there_is_nothing_to_do(dsn: str) -> None:
    assert ask_as_keda(dsn) == 0


@pytest.mark.fresh_database
def test_the_query_counts_what_more_workers_would_start(engine: Engine, dsn: str) -> None:
    engine.sign_on()
    for _ in range(3):
        engine.defer("free")
    for lock in ("a", "b"):
        for _ in range(5):
            engine.defer("in a lane", lock)
    assert ask_as_keda(dsn) == 3 + 2
    engine.claim()  # what a worker has is not lost from the sum, or KEDA would stop that worker
    assert ask_as_keda(dsn) == 3 + 2


@pytest.mark.fresh_database
def test_the_query_does_not_count_what_more_workers_could_not_start(
    engine: Engine, dsn: str
) -> None:
    engine.sign_on()
    engine.query("SELECT pause_lane('paused')")
    engine.defer("paused", "paused")
    engine.defer("later", delay="1 hour")
    engine.defer("elsewhere", queue="mail")
    assert ask_as_keda(dsn) == 0
    engine.defer("fails", "halted", on_failure="halt")
    engine.defer("waits", "halted")
    assert ask_as_keda(dsn) == 1
    engine.fail(engine.claim(), None, "boom")
    assert ask_as_keda(dsn) == 0


def test_the_cost_of_the_query_does_not_grow_with_the_backlog(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        connection.execute(WAIT, [3 * COUNTED])
        before = pages(connection)
        connection.execute(WAIT, [9 * COUNTED])
        assert pages(connection) < 1.5 * before + 20


def pages(connection: psycopg.Connection[Any]) -> int:
    connection.execute("VACUUM ANALYZE jobs, lanes")
    row = connection.execute(b"EXPLAIN (ANALYZE, BUFFERS, FORMAT json) " + query()).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
